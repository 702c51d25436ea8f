"""``spark-eval evaluate`` in this process, published: whole programs from a cold start, by layout of rows.

Usage: python -m benchmarks.published [SIZE] [CASE ...]    (by default M, and all cases)

Each program runs once, with the clock and the CPU and memory of its process. ``ten`` is a table of ten rows.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.data import SIZES, ensure

CASES: Final[dict[str, dict[str, Any]]] = {
    "ten": {},
    "ranks, together": {},
    "ranks, by rank": {"layout": "by_rank"},
    "ranks, in no order": {"layout": "anywhere"},
    "ranks, by item": {"layout": "by_item"},
    "scores, together": {"scored": True, "ties": True},
    "scores, in no order": {"scored": True, "ties": True, "layout": "anywhere"},
    "text ids, in no order": {"ids": "string", "layout": "anywhere"},
    "four models, graded": {"models": 4, "graded": True},
}
EVALUATE: Final = {
    "k": [1, 5, 10, 20, 50],
    "metrics": ["precision", "recall", "map", "mrr", "ndcg", "hit_rate"],
}
DATA: Final = Path(tempfile.gettempdir(), "spark-eval-benchmarks")
PROGRAM: Final = "from spark_eval.cli.commands import main; main()"


def write_ten(folder: Path) -> Path:
    """Write ten rows of lists, and truth; return the folder."""
    for name in ("recommendations", "truth"):
        (folder / name).mkdir()
    lists = {"user": [n // 3 for n in range(10)], "item": range(10), "rank": [n % 3 + 1 for n in range(10)]}
    pq.write_table(pa.table(lists), folder / "recommendations" / "0.parquet")
    pq.write_table(pa.table({"user": [0, 1, 2], "item": [1, 5, 9]}), folder / "truth" / "0.parquet")
    return folder


def measure(case: str, size: str, home: Path) -> tuple[float, float, float]:
    """Run the program on a case; return seconds of the clock, of CPU, and the most MiB in memory."""
    ten = home / "ten"
    ten.mkdir()
    dataset = replace(SIZES[size], **CASES[case])
    # In a process of its own, because the program would inherit the peak of memory.
    with ProcessPoolExecutor(1, get_context("spawn")) as aside:
        folder = write_ten(ten) if case == "ten" else aside.submit(ensure, dataset, DATA).result()
    model = None if dataset.models > 1 else "als"
    config = {
        "output": {"path": str(home / "out")},
        "recommendations": {"path": str(folder / "recommendations"), "model": model},
        "truth": {"path": str(folder / "truth")},
        "evaluate": EVALUATE,
    }
    (home / "config.yaml").write_text(yaml.safe_dump(config))
    given = ["evaluate", "--config", str(home / "config.yaml"), "--engine", "local"]
    start = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *given], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{case}: exit code {process.returncode}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Print a line per case."""
    size, *cases = sys.argv[1:] or ["M"]
    print(f"{'rows of ' + size:<24} wall s   CPU s  peak MiB")
    for case in cases or CASES:
        with tempfile.TemporaryDirectory() as home:
            wall, cpu, peak = measure(case, size, Path(home))
        print(f"{case:<24} {wall:6.2f} {cpu:7.2f} {peak:9.0f}", flush=True)


if __name__ == "__main__":
    main()
