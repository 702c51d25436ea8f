"""Before a cluster reads any data: do its workers have the driver's Python, libraries and code?

One that differs fails late and under another name, or not at all: releases of numpy round differently, and an
older package on the workers' path computes what it always did.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pyspark.sql import SparkSession

from spark_eval.errors import EnvironmentFault
from spark_eval.runtime import events
from spark_eval.runtime.connect import refuse_remote
from spark_eval.runtime.versions import LIBRARIES, code_version, versions

# local, local[2], and not local-cluster[2,1,1024].
LOCAL: Final = re.compile(r"local(\[|$)")
CODE: Final = "spark_eval"
# A message tells no more than this: workers mostly differ in the same way.
MOST_TOLD: Final = 5


def check_workers(spark: SparkSession) -> None:
    """Ask a task per slot what it runs on, and tell; in local mode the workers have the driver's own Python.

    Raises
    ------
    EnvironmentFault
        ``WORKER_ENV_MISMATCH``, saying which host has what. Spark itself refuses another Python.
    ConfigError
        CONNECT_UNSUPPORTED in a session of Spark Connect.
    """
    refuse_remote(spark, "a verb")
    context = spark.sparkContext
    if LOCAL.match(context.master or ""):
        return
    n_slots = context.defaultParallelism
    told = set(context.parallelize(range(n_slots), n_slots).mapPartitions(reporter()).collect())
    ours = versions() | {CODE: code_version()}
    faults = sorted(
        f"{host} has {name} {version} for {ours[name]}"
        for host, name, version in told
        if release(version) != release(ours[name])
    )
    if faults:
        more = f" and {len(faults) - MOST_TOLD} more" if len(faults) > MOST_TOLD else ""
        raise EnvironmentFault(
            "WORKER_ENV_MISMATCH",
            f"workers differ from the driver: {'; '.join(faults[:MOST_TOLD])}{more}; give them the driver's "
            "environment (PYSPARK_PYTHON, --archives) and the same --py-files dist/spark_eval.zip",
        )
    hosts = sorted({host for host, *_ in told})
    found = sorted({f"{name} {version}" for _, name, version in told if name != CODE})
    events.say("workers", f"workers on {', '.join(hosts[:MOST_TOLD])}: {', '.join(found)}", hosts=hosts)


def reporter() -> Callable[[Iterable[int]], Iterator[tuple[str, str, str]]]:
    """What a worker says of itself: host, name and version, or why it has none.

    The inner function travels whole: a worker that lacks this package could not import it.
    """

    def report(_: Iterable[int]) -> Iterator[tuple[str, str, str]]:
        import platform
        import socket
        import sys
        from importlib import import_module

        for name in (*LIBRARIES, CODE):
            try:
                module = import_module(f"{CODE}.versions" if name == CODE else name)
                version = module.code_version() if name == CODE else module.__version__
            except Exception as error:
                version = f"none ({error})"
            yield socket.gethostname(), name, version
        yield socket.gethostname(), "python", f"{platform.python_version()} at {sys.executable}"

    return report


def release(version: str) -> list[str]:
    """What must be equal of a version: all but the number of the bug-fix release."""
    return version.split(".")[:2]
