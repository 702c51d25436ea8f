"""A session, whoever started it: whether it is remote, its tasks at once, what it keeps, its settings."""

import logging
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.errors import ConfigError
from spark_eval.runtime import events

# Opens the session when it is first asked for.
OpenSession = Callable[[], SparkSession]
# Of a remote session nobody can ask how many tasks run at once.
TASKS_OF_REMOTE: Final = 8
# Moments of the files that Spark writes: as the workers write them, where Spark's default is INT96.
TIMESTAMP_TYPE: Final = "spark.sql.parquet.outputTimestampType"
MICROSECONDS: Final = "TIMESTAMP_MICROS"
# Spark reads no moment in nanoseconds but as a number.
NANOS_AS_LONG: Final = "spark.sql.legacy.parquet.nanosAsLong"
# How a server says that it persists no frame: conditions of Databricks serverless, by their beginnings.
REFUSES_TO_PERSIST: Final = ("[NOT_SUPPORTED_WITH_SERVERLESS]", "[CACHE_REQUIRES_NEWER_CLIENT")


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


def kept(rows: DataFrame, held: ExitStack) -> DataFrame:
    """Return the rows, which are kept, once they are computed, until ``held`` ends: use what is returned.

    Spark takes any plan for a persisted one that looks the same, though files were rewritten in between. So
    what is persisted has a filter that no other plan has; it removes nothing, and Spark drops it.

    Where the server refuses to persist, a warning says so and the rows are computed anew at every use.
    """
    rows = rows.where(F.lit(uuid.uuid4().hex).isNotNull())
    try:
        rows.persist()
    except PySparkException as error:
        if not any(condition in str(error) for condition in REFUSES_TO_PERSIST):
            raise
        message = "this server does not persist frames: what is used twice is computed twice"
        events.say("not_persisted", message, logging.WARNING)
        return rows
    held.callback(rows.unpersist)
    return rows


def release_with(result: object, held: ExitStack) -> None:
    """End ``held`` once nobody has the result any more; it must not refer to the result itself."""
    weakref.finalize(result, release_aside, held).atexit = False


def release_aside(held: ExitStack) -> None:
    """End ``held`` in a thread of its own: objects may be collected amid a call of the JVM's."""

    def release() -> None:
        with suppress(PySparkException, Py4JError, OSError):  # the session may have ended
            held.close()

    Thread(target=release, name="spark-eval release", daemon=True).start()


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
