"""Helpers for any Spark session: Spark Connect, parallelism, released resources, settings.

PySpark is imported when a function needs it.
"""

import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from spark_eval.errors import ConfigError

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

# A FutureWarning of PySpark 4.3 with pandas 3, wherever it looks for pandas: when a session starts, and in
# ``mapInArrow``, which converts nothing to pandas.
PANDAS_WARNING: Final = "PySpark does not yet fully support pandas"


def is_remote(of: "DataFrame | SparkSession | None") -> bool:
    """Return True for Spark Connect, whose classes are not imported: they need grpc. False for None."""
    return type(of).__module__.startswith("pyspark.sql.connect.")


def tasks_at_once(spark: "SparkSession") -> int:
    """Return the number of tasks that run in parallel."""
    return TASKS_OF_REMOTE if is_remote(spark) else spark.sparkContext.defaultParallelism


def heap_of_task(spark: "SparkSession") -> tuple[int, int]:
    """Return the bytes of a JVM's heap that a task may use, and the number of tasks that run in parallel.

    An executor that does not say how many tasks it runs at once is taken to run all of them.
    """
    n_tasks, java = tasks_at_once(spark), spark.sparkContext._jsc.sc()
    if java.isLocal():
        view: Any = spark
        return view._jvm.java.lang.Runtime.getRuntime().maxMemory() // n_tasks, n_tasks
    conf = spark.sparkContext.getConf()
    cores, cpus = conf.get("spark.executor.cores"), int(conf.get("spark.task.cpus", "1"))
    at_once = n_tasks if cores is None else max(1, int(cores) // cpus)
    return (java.executorMemory() << 20) // at_once, n_tasks


def refuse_remote(of: "DataFrame | SparkSession", what: str, instead: str) -> None:
    """Raise ConfigError CONNECT_UNSUPPORTED for a session of Spark Connect, or a frame of one."""
    if is_remote(of):
        raise unsupported_remotely(what, instead)


def unsupported_remotely(what: str, instead: str) -> ConfigError:
    """Return the error of what no session of Spark Connect can do; ``instead`` is what it can."""
    message = f"{what}; over Spark Connect {instead}, or start a process without SPARK_REMOTE"
    return ConfigError("CONNECT_UNSUPPORTED", message)


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


@contextmanager
def silent_about_pandas() -> Iterator[None]:
    """Hide PySpark's warning of pandas 3: rows travel as Arrow; texts of functions stay texts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", PANDAS_WARNING, FutureWarning)
        yield
