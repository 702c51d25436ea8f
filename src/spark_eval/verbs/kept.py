"""What is computed once and read again."""

from contextlib import ExitStack
from typing import TypeVar

from pyspark import RDD, StorageLevel

Value = TypeVar("Value")


def keep(rows: RDD[Value], kept: ExitStack) -> RDD[Value]:
    """In memory or on disk, until ``kept`` is closed."""
    kept.callback(rows.unpersist)
    return rows.persist(StorageLevel.MEMORY_AND_DISK)
