"""Spark Connect: a remote session and its frames have neither a JVM nor RDDs on this side."""

from pyspark.sql import DataFrame, SparkSession

from spark_eval.errors import ConfigError


def is_remote(of: DataFrame | SparkSession) -> bool:
    """Whether this is one of Spark Connect; its classes are not imported, for they need grpc."""
    return type(of).__module__.startswith("pyspark.sql.connect.")


def refuse_remote(of: DataFrame | SparkSession, what: str) -> None:
    """Raise ConfigError CONNECT_UNSUPPORTED for a session of Spark Connect, or a frame of one."""
    if is_remote(of):
        message = f"{what} cannot go through Spark Connect, which has no RDDs; run it in a process of its own"
        raise ConfigError("CONNECT_UNSUPPORTED", f"{message}, without SPARK_REMOTE: python or spark-submit")
