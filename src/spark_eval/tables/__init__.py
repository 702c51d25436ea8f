"""Tables on the driver: frames and paths, columns and types, plain Parquet files, results in a catalog."""
