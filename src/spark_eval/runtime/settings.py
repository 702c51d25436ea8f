"""Settings of a session that Spark takes from nowhere else, set for as long as a step needs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

# Moments of the files that Spark writes: as the workers write them, where Spark's default is INT96.
TIMESTAMP_TYPE: Final = "spark.sql.parquet.outputTimestampType"
MICROSECONDS: Final = "TIMESTAMP_MICROS"
# Spark reads no moment in nanoseconds but as a number.
NANOS_AS_LONG: Final = "spark.sql.legacy.parquet.nanosAsLong"


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a setting of a session, and put it back as it was."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
