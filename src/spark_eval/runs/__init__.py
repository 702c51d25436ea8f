"""One run of one verb: from the sources of a config to published tables."""
