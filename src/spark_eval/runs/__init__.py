"""Runs of the verbs: the config, the records of the verbs, and their runner."""
