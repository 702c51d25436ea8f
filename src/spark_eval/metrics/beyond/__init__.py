"""Metrics beyond accuracy: what lists hold beside hits, against the catalogue and the users' histories."""
