"""Spark Connect: a remote session and its frames have no JVM on this side."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_eval.errors import ConfigError

# Of a remote session nobody can ask how many tasks run at once.
TASKS_OF_REMOTE: Final = 8


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
