"""Benchmarks of spark-eval, peers and lower bounds (floors); see README.md."""
