"""Train/test splits: rules, cuts, labels of rows, leakage report and result."""
