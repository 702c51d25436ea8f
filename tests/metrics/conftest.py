"""Hypothesis on a shared machine: no example fails for being slow, and a third of the usual number do."""

from hypothesis import settings

settings.register_profile("metrics", deadline=None, max_examples=35)
settings.load_profile("metrics")
