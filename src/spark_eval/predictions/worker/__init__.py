"""Code of the executors for predictions: exact sums by cell, and scores in order; numpy and pyarrow only."""
