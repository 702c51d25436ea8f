"""Cost of the start: `spark-eval evaluate` of ten rows, from Parquet or CSV, and a bare program.

``python -m benchmarks.start [REPETITIONS] [spark | local]``: whole processes that take turns.
The bare one of Spark starts the session of the command line and runs one job with one Python worker; that of
this process imports numpy, pandas and pyarrow. CPU time is that of the process and all its descendants,
including a JVM and workers that outlive it. Ratios are medians of those of the turns. Linux only.
"""

import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

PR_SET_CHILD_SUBREAPER: Final = 36
BARE_ON_SPARK: Final = """
from spark_eval import get_session

spark = get_session("bare", "local[2]")
rows = spark.range(1, numPartitions=1).mapInArrow(lambda batches: batches, "id long").collect()
assert [row.id for row in rows] == [0]
spark.stop()
"""
# The bare program of each engine.
BARE: Final = {"spark": BARE_ON_SPARK, "local": "import numpy, pandas, pyarrow"}
CONFIG: Final = """
output: {path: out}
spark: {master: "local[2]"}
recommendations: {path: lists.FORMAT, format: FORMAT, options: OPTIONS, model: ten}
truth: {path: truth.FORMAT, format: FORMAT, options: OPTIONS}
"""
# As most programs write CSV; quotes leave a file to Spark.
UNQUOTED: Final = csv.WriteOptions(quoting_style="none", quoting_header="none")
# Formats, and Spark's options to read them.
OPTIONS: Final = {"parquet": "{}", "csv": "{header: true}"}


@dataclass(frozen=True)
class Cost:
    """Seconds of a whole process, or their ratios to those of another."""

    cpu: float
    wall: float


def write_tables(folder: Path) -> None:
    """Write ten rows of recommendations, truth that they hit, and a config, in each format."""
    lists = pa.table({"user": [n // 5 for n in range(10)], "item": range(10), "rank": [1, 2, 3, 4, 5] * 2})
    for name, table in {"lists": lists, "truth": pa.table({"user": [0, 1], "item": [0, 7]})}.items():
        pq.write_table(table, folder / f"{name}.parquet")
        csv.write_csv(table, folder / f"{name}.csv", UNQUOTED)
    for kind, options in OPTIONS.items():
        (folder / f"{kind}.yaml").write_text(CONFIG.replace("FORMAT", kind).replace("OPTIONS", options))


def cost_of(command: list[str], folder: Path) -> Cost:
    """Measure a command until all its processes have ended; raise CalledProcessError if it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    wall = perf_counter() - start
    while has_children():
        os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)


def has_children() -> bool:
    """Return True if this process still has children, including adopted ones."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that their CPU seconds count here."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def main(repetitions: int, engine: str) -> None:
    """Print a line per program: medians, range of CPU seconds, ratios to the bare program of its turn."""
    adopt_orphans()
    program = str(Path(sys.executable).parent / "spark-eval")
    costs: dict[str, list[Cost]] = {"bare": [], **{kind: [] for kind in OPTIONS}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        for number in range(repetitions):
            costs["bare"].append(cost_of([sys.executable, "-c", BARE[engine]], folder))
            for kind in OPTIONS:
                options = ["--config", f"{kind}.yaml", "--engine", engine, "--run-id", f"{kind}-{number}"]
                costs[kind].append(cost_of([program, "evaluate", *options], folder))
    print("| program | CPU s | least | most | wall s | CPU / bare | wall / bare |\n|" + "---|" * 7)
    for name, measured in costs.items():
        cpu, middle = sorted(cost.cpu for cost in measured), median_of(measured)
        turns = [
            Cost(one.cpu / bare.cpu, one.wall / bare.wall)
            for one, bare in zip(measured, costs["bare"], strict=True)
        ]
        ratio = median_of(turns)
        ratios = f"{ratio.cpu:.2f} | {ratio.wall:.2f}"
        print(f"| {name} | {middle.cpu:.1f} | {cpu[0]:.1f} | {cpu[-1]:.1f} | {middle.wall:.1f} | {ratios} |")


def median_of(costs: Sequence[Cost]) -> Cost:
    """Return the medians of CPU and wall seconds."""
    return Cost(*(statistics.median(getattr(cost, name) for cost in costs) for name in ("cpu", "wall")))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3, sys.argv[2] if sys.argv[2:] else "spark")
