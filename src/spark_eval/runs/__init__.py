"""Runs of the verbs: from the sources of a config to published tables."""
