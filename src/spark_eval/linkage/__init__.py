"""Linkage of records: pairs and clusters against the truth, blocking, and samples of pairs for review."""
