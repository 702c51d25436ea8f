"""Paired comparison of models: options, sums of pairs, tests and gates; independent of Spark."""
