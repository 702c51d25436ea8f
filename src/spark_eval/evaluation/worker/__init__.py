"""Code of the executors: from rows to messages, lists and metrics; numpy and pyarrow only."""
