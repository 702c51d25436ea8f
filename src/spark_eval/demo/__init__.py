"""The whole path on embedded data: simulate a log, split it, recommend, evaluate."""
