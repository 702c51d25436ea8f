"""Spark's daemon of Python workers, with what they all import loaded before it forks them."""

from pyspark.daemon import manager

import spark_eval.transforms.workers  # noqa: F401

if __name__ == "__main__":
    manager()
