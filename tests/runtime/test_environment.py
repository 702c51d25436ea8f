"""What must not be there: archives on the workers' path."""

import gc
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from spark_eval.runtime import daemon

LISTEN = "0A"
# 127.0.0.1, also within IPv6, and ::1, as the kernel writes them.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_archives_of_an_installed_pyspark_are_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    own = [str(package / "python" / "lib" / "pyspark.zip"), str(package / "jars" / "spark-core.jar")]
    others = ["", "/opt/spark/python/lib/pyspark.zip", str(tmp_path / "mine.zip"), str(package.parent)]
    monkeypatch.setattr(sys, "path", own + others)
    assert daemon.archives() == own
    # Without the files these archives are all there is.
    (package / "__init__.py").unlink()
    assert daemon.archives() == []


@pytest.mark.skipif(sys.platform != "linux", reason="the daemon of our own is for Linux")
def test_workers_read_no_archives_and_search_nothing_loaded_for_garbage(spark: SparkSession) -> None:
    def told(_: Iterable[int]) -> list[tuple[list[str], str, int]]:
        return [(sys.path, pyspark.__file__, gc.get_freeze_count())]

    [(path, package, n_frozen)] = spark.sparkContext.parallelize([0], 1).mapPartitions(told).collect()
    assert package == pyspark.__file__
    assert not [entry for entry in path if entry.endswith((".jar", "pyspark.zip"))]
    assert n_frozen > 10_000


def listening_below(parent: int) -> set[str]:
    """The addresses, as the kernel writes them, at which a process and all its children listen."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    family = {parent}
    while more := {child for child, above in parents.items() if above in family} - family:
        family |= more
    sockets = set()
    for process in family:
        for link in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):
                sockets.add(str(link.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_local_session_listens_on_loopback_only(spark: SparkSession) -> None:
    assert spark.sparkContext.parallelize([1], 1).map(abs).collect() == [1]  # with a Python worker
    found = listening_below(os.getpid())
    assert found
    assert found <= LOOPBACK
