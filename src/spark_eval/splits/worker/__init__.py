"""Code of the executors for splits: label batches of rows, check buckets of users for leakage."""
