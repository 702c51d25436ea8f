"""Split rules: the subset of each row in each fold; no pyspark."""
