"""DataFrame to DataFrame, one verb a file; ``measure`` is the door to Python."""
