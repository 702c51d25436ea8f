"""Code of the executors: from rows to lists and metrics; numpy and pyarrow only."""
