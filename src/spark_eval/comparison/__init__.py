"""Paired comparison of models: plan, sides, tests, gates and result."""
