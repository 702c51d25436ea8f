"""An evaluation with inputs and output on a store beside floor ii there: CPU seconds, bytes, requests.

Usage: python -m benchmarks.stores hdfs|s3|URI [SIZE [REPETITIONS]]    (by default M, three times)

``hdfs`` and ``s3`` start the servers of ``make test-stores`` on this machine; their CPU time stands apart.
A URI names a folder: of a running store, or of this machine. Programs take turns in one warm session.
"""

import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession
from tests.stores.conftest import CLIENT, S3, Hdfs
from tests.stores.jars import pinned

from benchmarks.contenders.spark import finish
from benchmarks.data import DEFAULT_FOLDER, SIZES, ensure
from benchmarks.processes import usage
from benchmarks.workload import Workload
from spark_eval import get_session
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.verbs import VERBS

# What is measured of one run of a program.
Row = dict[str, float]
TABLES: Final = ("recommendations", "truth")
# Requests to S3 by the names that S3A counts them under.
REQUESTS: Final = {
    "HEAD": "action_http_head_request",
    "GET": "action_http_get_request",
    "LIST": "object_list_request",
    "PUT": "object_put_request",
    "DELETE": "object_delete_request",
}


class Place(NamedTuple):
    """A folder on a store, settings of its client, and the ids of the processes that serve it here."""

    home: str
    settings: Mapping[str, str]
    servers: Sequence[int] = ()

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of this process with its JVM and workers, and those of the servers."""
        serving = sum(usage(pid).cpu for pid in self.servers)
        return usage(os.getpid()).cpu - serving, serving


@contextmanager
def store(name: str) -> Iterator[Place]:
    """Start the servers of a name, unless it is a URI."""
    with tempfile.TemporaryDirectory() as home:
        if name == "hdfs":
            hdfs = Hdfs(Path(home), [jar.path for jar in pinned("hdfs")])
            try:
                servers = [process.pid for process in hdfs.processes.values()]
                yield Place(f"{hdfs.uri}/tests/benchmark", CLIENT, servers)
            finally:
                hdfs.stop()
        elif name == "s3":
            s3 = S3(Path(home))
            try:
                bucket = f"http://127.0.0.1:{s3.port}/bucket"
                urllib.request.urlopen(urllib.request.Request(bucket, method="PUT"), timeout=30).close()
                yield Place("s3a://bucket/benchmark", s3.settings, [s3.process.pid])
            finally:
                s3.process.kill()
                s3.process.wait()
        else:
            yield Place(name, {})


class Counters:
    """Bytes and requests of the JVM's clients of Hadoop so far, by scheme."""

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark
        self.fs = java._jvm.org.apache.hadoop.fs.FileSystem

    def now(self, scheme: str) -> dict[str, int]:
        """Return bytes read and written; with requests, if the client counts them."""
        found = {"read": 0, "written": 0}
        for one in self.fs.getAllStatistics():
            if one.getScheme() == scheme:
                found["read"] += one.getBytesRead()
                found["written"] += one.getBytesWritten()
        of_scheme = self.fs.getGlobalStorageStatistics().get(scheme)
        if of_scheme is not None:
            counts = {name: of_scheme.getLong(key) for name, key in REQUESTS.items()}
            found |= {name: count for name, count in counts.items() if count is not None}
        return found


def copy(spark: SparkSession, tables: Path, home: str) -> None:
    """Copy both tables to the store."""
    java: Any = spark
    hadoop = java._jvm.org.apache.hadoop.fs
    for name in TABLES:
        goal = hadoop.Path(f"{home}/{name}")
        files = goal.getFileSystem(java._jsc.hadoopConfiguration())
        files.delete(goal, True)
        files.copyFromLocalFile(hadoop.Path((tables / name).as_uri()), goal)


def programs(spark: SparkSession, home: str, workload: Workload) -> dict[str, Callable[[int], None]]:
    """Return what is measured; each takes the number of its repetition."""

    def evaluate(number: int) -> None:
        tree: dict[str, Any] = {name: {"path": f"{home}/{name}"} for name in TABLES}
        tree["recommendations"]["model"] = "als"
        tree["engine"] = "spark"
        tree["output"] = {"path": f"{home}/out", "manifest": home.startswith("s3a:")}
        tree["evaluate"] = {"k": list(workload.ks), "metrics": workload.run_metrics}
        run_verb(
            VERBS["evaluate"], lambda: spark, parse_config(tree), f"r{os.getpid()}-{number}", replace=False
        )

    def floor(_: int) -> None:
        for name in TABLES:
            finish(spark.read.parquet(f"{home}/{name}").repartition(workload.partitions, "user"))

    return {"spark-eval evaluate, published": evaluate, "floor ii": floor}


def measure(spark: SparkSession, place: Place, workload: Workload, repetitions: int) -> dict[str, list[Row]]:
    """Run the programs in turns; return a row for each repetition but the first, which warms up."""
    counters, scheme = Counters(spark), place.home.partition(":")[0]
    rows: dict[str, list[Row]] = {}
    for number in range(1 + repetitions):
        for program, run in programs(spark, place.home, workload).items():
            before, start, (cpu, serving) = counters.now(scheme), time.monotonic(), place.cpu()
            run(number)
            ours, theirs = place.cpu()
            row: Row = {
                "CPU s": ours - cpu,
                "CPU s of servers": theirs - serving,
                "s": time.monotonic() - start,
            }
            row |= {key: value - before.get(key, 0) for key, value in counters.now(scheme).items()}
            if number:
                rows.setdefault(program, []).append(row)
    return rows


def main(name: str, size: str = "M", repetitions: str = "3") -> None:
    """Print a line for each program."""
    workload = Workload(SIZES[size])
    tables = ensure(workload.dataset, DEFAULT_FOLDER)
    jars = ":".join(str(jar.path) for jar in pinned("s3") if jar.is_there)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path '{jars}' pyspark-shell"
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(key, "testing")
    conf = {
        "spark.driver.memory": workload.memory,
        "spark.sql.shuffle.partitions": str(workload.partitions),
    }
    with store(name) as place:
        hadoop = {f"spark.hadoop.{key}": value for key, value in place.settings.items()}
        with get_session("stores", "local[2]", conf | hadoop) as spark:
            copy(spark, tables, place.home)
            rows = measure(spark, place, workload, int(repetitions))
    print(table(rows))


def table(rows: Mapping[str, list[Row]]) -> str:
    """Return the medians of each program as a table of Markdown, with the least and most CPU seconds."""
    [names, *_] = [list(found[0]) for found in rows.values()]
    lines = [["program", *names, "least", "most"], ["---"] * (len(names) + 3)]
    for program, found in rows.items():
        medians = [statistics.median(row[name] for row in found) for name in names]
        cpu = [row["CPU s"] for row in found]
        lines.append([program, *(f"{value:,.1f}" for value in (*medians, min(cpu), max(cpu)))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
