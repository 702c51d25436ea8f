"""A session, whoever started it: whether it is remote, how many tasks run at once, settings put back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_eval.errors import ConfigError

# Opens the session when it is first asked for.
OpenSession = Callable[[], SparkSession]
# Of a remote session nobody can ask how many tasks run at once.
TASKS_OF_REMOTE: Final = 8
# Moments of the files that Spark writes: as the workers write them, where Spark's default is INT96.
TIMESTAMP_TYPE: Final = "spark.sql.parquet.outputTimestampType"
MICROSECONDS: Final = "TIMESTAMP_MICROS"
# Spark reads no moment in nanoseconds but as a number.
NANOS_AS_LONG: Final = "spark.sql.legacy.parquet.nanosAsLong"


def is_remote(of: DataFrame | SparkSession) -> bool:
    """Return whether this is one of Spark Connect; its classes are not imported, for they need grpc."""
    return type(of).__module__.startswith("pyspark.sql.connect.")


def tasks_at_once(spark: SparkSession) -> int:
    """Return how many tasks run at once."""
    return TASKS_OF_REMOTE if is_remote(spark) else spark.sparkContext.defaultParallelism


def refuse_remote(of: DataFrame | SparkSession, what: str) -> None:
    """Raise ConfigError CONNECT_UNSUPPORTED for a session of Spark Connect, or a frame of one."""
    if is_remote(of):
        message = f"{what} cannot go through Spark Connect; run it in a process of its own"
        raise ConfigError("CONNECT_UNSUPPORTED", f"{message}, without SPARK_REMOTE: python or spark-submit")


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
