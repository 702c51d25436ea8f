"""End-to-end demo on simulated data: simulate a log, split it, recommend, evaluate."""
