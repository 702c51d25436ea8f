"""Metrics of predictions: rows of a label and a score. Pure numpy kernels over exact sums; no Spark here."""
