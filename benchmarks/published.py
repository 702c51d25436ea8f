"""Evaluations in this process: whole programs from a cold start, by layout of the rows; and two peers.

Usage: python -m benchmarks.published [SIZE [REPETITIONS [CASE ...]]]    (by default M, once, all cases)

The programs take turns, repetition by repetition: ``spark-eval evaluate``, published, of each layout; DuckDB
by hand and RecTools; and ``evaluate`` of pandas frames of a million rows. A peer whose library
is missing is left out. Of each program the medians of seconds of the clock and of CPU, and the most memory
of the process. With all cases the table is written to ``results``, too.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks import table
from benchmarks.data import DEFAULT_FOLDER, SIZES, Dataset, ensure
from benchmarks.workload import Task, workload

CASES: Final[dict[str, dict[str, Any]]] = {
    "ranks, together": {},
    "ranks, by rank": {"layout": "by_rank"},
    "ranks, in no order": {"layout": "anywhere"},
    "ranks, by item": {"layout": "by_item"},
    "ranks, by hash of item": {"layout": "by_hash"},
    "ranks, lists in two files": {"layout": "halves"},
    "ranks, 3 % of users with 1,000 items": {"layout": "anywhere", "long": 0.03},
    "scores, together": {"scored": True, "ties": True},
    "scores, in no order": {"scored": True, "ties": True, "layout": "anywhere"},
    "text ids, in no order": {"ids": "string", "layout": "anywhere"},
    "four models, graded": {"models": 4, "graded": True},
}
TEN: Final = "ten rows"
FRAMES: Final = "pandas frames of 1 M rows"
# Contenders of ``benchmarks.run`` on the first case, and the libraries that they need.
PEERS: Final = {"duckdb": "duckdb", "rectools": "rectools"}
EVALUATE: Final = {
    "k": [1, 5, 10, 20, 50],
    "metrics": ["precision", "recall", "map", "mrr", "ndcg", "hit_rate"],
}
PROGRAM: Final = "from spark_eval.cli.commands import main; main()"
CALL: Final = f"""
import sys
import pandas as pd
from spark_eval import evaluate
frames = [pd.read_parquet(f"{{sys.argv[1]}}/{{name}}") for name in ("recommendations", "truth")]
evaluate(*frames, model="als", metrics={EVALUATE["metrics"]}, k={EVALUATE["k"]}, engine="local")
assert "pyspark" not in sys.modules
"""
HOME: Final = Path(__file__).parent


@dataclass
class Program:
    """Program that is measured; ``runs`` have its seconds of the clock and of CPU, and its MiB in memory."""

    name: str
    folder: Path
    is_several: bool = False
    runs: list[tuple[float, float, float]] = field(default_factory=list)

    def command(self, home: Path) -> list[str]:
        """Return the command; its config and output go to ``home``."""
        if self.name in PEERS:
            task = Task(workload("ranked", "M"), self.folder).to_json()
            return [sys.executable, "-m", "benchmarks.once", self.name, task, str(home)]
        if self.name == FRAMES:
            return [sys.executable, "-c", CALL, str(self.folder)]
        config = {
            "output": {"path": str(home / "out")},
            "recommendations": {
                "path": str(self.folder / "recommendations"),
                "model": None if self.is_several else "als",
            },
            "truth": {"path": str(self.folder / "truth")},
            "evaluate": EVALUATE,
        }
        (home / "config.yaml").write_text(yaml.safe_dump(config))
        given = ["evaluate", "--config", str(home / "config.yaml"), "--engine", "local"]
        return [sys.executable, "-c", PROGRAM, *given]

    def run(self) -> None:
        """Run it once; SystemExit if it fails."""
        with tempfile.TemporaryDirectory(dir=DEFAULT_FOLDER) as home:
            command, start = self.command(Path(home)), time.monotonic()
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{self.name}: exit code {process.returncode}")
        used = usage.ru_utime + usage.ru_stime
        self.runs.append((time.monotonic() - start, used, usage.ru_maxrss / 1024))

    def line(self) -> str:
        """Return the row of the table."""
        wall, cpu, peak = zip(*self.runs, strict=True)
        numbers = (f"{median(cpu):.1f}", f"{min(cpu):.1f} to {max(cpu):.1f}", f"{median(wall):.1f}")
        return f"| {' | '.join((self.name, *numbers, f'{max(peak):,.0f}'))} |"


def write_ten(folder: Path) -> Path:
    """Write ten rows of lists, and truth; return the folder."""
    for name in ("recommendations", "truth"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    lists = {"user": [n // 3 for n in range(10)], "item": range(10), "rank": [n % 3 + 1 for n in range(10)]}
    pq.write_table(pa.table(lists), folder / "recommendations" / "0.parquet")
    pq.write_table(pa.table({"user": [0, 1, 2], "item": [1, 5, 9]}), folder / "truth" / "0.parquet")
    return folder


def data_of(dataset: Dataset) -> Path:
    """Return the folder of a dataset, made in another process: a program would inherit its peak of memory."""
    with ProcessPoolExecutor(1, get_context("spawn")) as aside:
        return aside.submit(ensure, dataset, DEFAULT_FOLDER).result()


def programs(size: str, names: Sequence[str]) -> list[Program]:
    """Return the programs with these names, with their data."""
    found = [Program(TEN, write_ten(DEFAULT_FOLDER / "ten"))] if TEN in names else []
    found += [Program(FRAMES, data_of(SIZES["S"]))] if FRAMES in names else []
    found += [
        Program(name, data_of(replace(SIZES[size], **CASES[name])), "models" in CASES[name])
        for name in CASES
        if name in names
    ]
    peers = [name for name, library in PEERS.items() if name in names and find_spec(library)]
    return found + [Program(name, data_of(SIZES[size])) for name in peers]


def main() -> None:
    """Measure the programs, and print a row for each."""
    size, repetitions, *names = [*sys.argv[1:], "M", "1"][: max(2, len(sys.argv) - 1)]
    known = [TEN, FRAMES, *CASES, *PEERS]
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"unknown case {unknown[0]!r}; known: {'; '.join(known)}")
    before, measured = os.getloadavg()[0], programs(size, names or known)
    for _ in range(int(repetitions)):
        for program in measured:
            program.run()
            wall, cpu, peak = program.runs[-1]
            print(f"{program.name:<40} {wall:6.2f} s {cpu:6.2f} CPU s {peak:6.0f} MiB", file=sys.stderr)
    head = "| program | CPU s | least to most | wall s | peak MiB |\n|---|---|---|---|---|"
    text = "\n".join([head, *(program.line() for program in measured)])
    print(text)
    if names:
        return
    now = datetime.now(UTC)
    facts = {
        "date": now.isoformat(timespec="seconds"),
        "machine": table.machine(),
        "versions": table.versions(),
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "workload": f"lists of {size}, six metrics at five cutoffs; whole processes from a cold start",
        "command": f"python -m benchmarks.published {size} {repetitions}",
        "runs": {program.name: program.runs for program in measured},
    }
    table.write(HOME / "results", f"{now:%Y-%m-%d}-in-process-{size}", f"In process, {size}", facts, text)


if __name__ == "__main__":
    main()
