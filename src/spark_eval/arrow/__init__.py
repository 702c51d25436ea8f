"""Columns and files in the executors, by numpy and pyarrow: hashes, codes, Parquet."""
