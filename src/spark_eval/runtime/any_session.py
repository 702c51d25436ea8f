"""Helpers for any Spark session: Spark Connect, parallelism, persisted frames, settings.

PySpark is imported when a function needs it.
"""

import logging
import sys
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Final

from spark_eval.errors import ConfigError
from spark_eval.runtime import events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Opens the session on first use.
OpenSession = Callable[[], "SparkSession"]
# Assumed parallelism of a remote session, which does not report it.
TASKS_OF_REMOTE: Final = 8
# Timestamp type of files that Spark writes: the one of files written by executors; Spark's default is INT96.
TIMESTAMP_TYPE: Final = "spark.sql.parquet.outputTimestampType"
MICROSECONDS: Final = "TIMESTAMP_MICROS"
# Spark can read timestamps in nanoseconds only as integers.
NANOS_AS_LONG: Final = "spark.sql.legacy.parquet.nanosAsLong"
# Error conditions of servers that do not persist frames (Databricks serverless), by their first characters.
REFUSES_TO_PERSIST: Final = ("[NOT_SUPPORTED_WITH_SERVERLESS]", "[CACHE_REQUIRES_NEWER_CLIENT")


def is_remote(of: "DataFrame | SparkSession") -> bool:
    """Return True for Spark Connect; its classes are not imported, because they need grpc."""
    return type(of).__module__.startswith("pyspark.sql.connect.")


def tasks_at_once(spark: "SparkSession") -> int:
    """Return the number of tasks that run in parallel."""
    return TASKS_OF_REMOTE if is_remote(spark) else spark.sparkContext.defaultParallelism


def refuse_remote(of: "DataFrame | SparkSession", what: str) -> None:
    """Raise ConfigError CONNECT_UNSUPPORTED for a session of Spark Connect, or a frame of one."""
    if is_remote(of):
        message = f"{what} does not work with Spark Connect; run it in a process of its own"
        raise ConfigError("CONNECT_UNSUPPORTED", f"{message}, without SPARK_REMOTE: python or spark-submit")


def persist(rows: "DataFrame", resources: ExitStack) -> "DataFrame":
    """Persist rows until ``resources`` closes; return the persisted frame, to be used from then on.

    Spark answers any plan from a persisted one that looks the same, even if files were rewritten in between.
    So the persisted plan has a filter that no other plan has. It removes nothing, and Spark drops it.

    If the server refuses to persist, log a warning; the rows are then recomputed at every use.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    rows = rows.where(F.lit(uuid.uuid4().hex).isNotNull())
    try:
        rows.persist()
    except PySparkException as error:
        if not any(condition in str(error) for condition in REFUSES_TO_PERSIST):
            raise
        message = "this server does not persist frames: frames used twice are computed twice"
        events.say("not_persisted", message, logging.WARNING)
        return rows
    resources.callback(rows.unpersist)
    return rows


def release_with(result: object, resources: ExitStack) -> None:
    """Close ``resources`` when the result is garbage collected; they must not refer to the result."""
    weakref.finalize(result, release_aside, resources).atexit = False


def release_aside(resources: ExitStack) -> None:
    """Close ``resources`` in a new thread: garbage collection may interrupt a call of the JVM."""

    def release() -> None:
        if "pyspark" not in sys.modules:
            return  # frames are held there alone
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with suppress(PySparkException, Py4JError, OSError):  # the session may have ended
            resources.close()

    Thread(target=release, name="spark-eval release", daemon=True).start()


@contextmanager
def setting(spark: "SparkSession", name: str, value: str) -> Iterator[None]:
    """Set a setting of a session; restore the previous value at the end."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
