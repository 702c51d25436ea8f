"""Train/test splits: rules, cuts, labels of rows, and leakage checks; no pyspark."""
