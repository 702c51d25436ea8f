"""Pairwise comparison on the executors: aligned users, exact sums, ranks, resamples; no pyspark."""
