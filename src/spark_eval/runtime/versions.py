"""Versions of Python, libraries and this package, on the driver and on the workers.

A worker with other versions fails late, with a misleading error, or not at all: releases of numpy round
differently, and an older package on the workers' path silently computes older results.
"""

import hashlib
import platform
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

from spark_eval.errors import SetupError
from spark_eval.names import summarize_names
from spark_eval.runtime import events
from spark_eval.runtime.any_session import is_remote, tasks_at_once
from spark_eval.schema import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIBRARIES: Final = ("pyspark", "pandas", "pyarrow", "numpy")
CODE: Final = "spark_eval"
# Matches local and local[2], but not local-cluster[2,1,1024].
LOCAL: Final = re.compile(r"local(\[|$)")


def versions() -> dict[str, str]:
    """Return the versions that results may depend on: Python, libraries and this package."""
    libraries = {name: version_of(name) for name in LIBRARIES}
    return libraries | {"python": platform.python_version(), CODE: VERSION}


def version_of(library: str) -> str:
    """Return the version of a library; one that is not in use is not imported for it."""
    if library not in sys.modules:
        with suppress(PackageNotFoundError):
            return version(library)
    return str(import_module(library).__version__)


@cache
def code_version() -> str:
    """Return a hash of the package's code, read once; it is the same for a folder and for a zip."""
    digest = hashlib.sha256()
    for source in sources_below(files(CODE)):
        digest.update(source)
    return digest.hexdigest()


def sources_below(folder: Traversable) -> Iterator[bytes]:
    """Yield the content of the Python files of a package, sorted by name."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from sources_below(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_bytes()


def check_workers(spark: "SparkSession") -> None:
    """Compare the versions of the workers, one task per slot, with the driver's; log hosts and versions.

    Local workers use the driver's Python and are not checked. Those of a Spark Connect server are given this
    package first. Raises SetupError WORKER_ENV_MISMATCH with the hosts that differ.
    """
    from pyspark.sql import functions as F

    if is_remote(spark):
        send_package(spark)
    elif LOCAL.match(spark.sparkContext.master or ""):
        return
    n_slots = tasks_at_once(spark)
    # Without Arrow: a worker that lacks it can still say so.
    report = F.udf(reporter(), "array<struct<host string, name string, version string>>", useArrow=False)
    rows = spark.range(0, n_slots, 1, n_slots).select(report("id")).collect()
    reports = {tuple(one) for (of_worker,) in rows for one in of_worker}
    ours = versions() | {CODE: code_version()}
    faults = sorted(
        f"{host} has {name} {version} for {ours[name]}"
        for host, name, version in reports
        if release(version) != release(ours[name])
    )
    if faults:
        raise SetupError(
            "WORKER_ENV_MISMATCH",
            f"workers differ from the driver: {summarize_names(faults, '; ')}; give them the driver's "
            "environment (PYSPARK_PYTHON, --archives) and the same --py-files dist/spark_eval.zip",
        )
    hosts = sorted({host for host, *_ in reports})
    theirs = sorted({f"{name} {version}" for _, name, version in reports if name != CODE})
    events.say("workers", f"workers on {summarize_names(hosts)}: {', '.join(theirs)}", hosts=hosts)


def send_package(spark: "SparkSession") -> None:
    """Give the code of this package to the workers of a Spark Connect server, for this session."""
    folder = Path(str(files(CODE)))
    with TemporaryDirectory() as home:
        # A session keeps the first file of a name.
        archive = Path(home, f"{CODE}-{code_version()[:16]}.zip")
        with ZipFile(archive, "w") as whole:
            for source in sorted(folder.rglob("*.py")):
                whole.write(source, source.relative_to(folder.parent))
        spark.addArtifacts(str(archive), pyfile=True)


def reporter() -> Callable[[int], list[tuple[str, str, str]]]:
    """Return the function that reports (host, name, version) of a worker, or why a version is missing.

    The inner function is pickled by value, so that it runs on a worker without this package.
    """

    def report(_: int) -> list[tuple[str, str, str]]:
        import platform
        import socket
        import sys
        from importlib import import_module

        host, reports = socket.gethostname(), []
        for name in (*LIBRARIES, CODE):
            try:
                is_ours = name == CODE
                module = import_module(f"{CODE}.runtime.versions" if is_ours else name)
                version = module.code_version() if is_ours else module.__version__
            except Exception as error:
                version = f"none ({error})"
            reports.append((host, name, version))
        return [*reports, (host, "python", f"{platform.python_version()} at {sys.executable}")]

    return report


def release(version: str) -> list[str]:
    """Return major and minor version, which must be equal."""
    return version.split(".")[:2]
