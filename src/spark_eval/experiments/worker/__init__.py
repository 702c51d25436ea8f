"""Code of the executors: sums of units in a bucket of users."""
