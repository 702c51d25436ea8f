"""Columns and files as the workers hold them, by numpy and pyarrow: hashes, messages, Parquet."""
