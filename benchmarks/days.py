"""Windows and histories: whole processes from a cold start, seconds of the clock and of CPU.

Usage: python -m benchmarks.days FOLDER [RUNS [DAYS USERS]]    (by default 365 runs, 28 days, a million users)

``history`` reads runs of 300 rows, of 12 models and 25 metrics, and writes a page. ``window`` merges days of
one model with three means, one of them weighted; ``read`` reads the same columns of the same files by Arrow.
Runs are made once and kept in the folder.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.arrow.user_files import file_name
from spark_eval.evaluation.plan import Plan, make_plan
from spark_eval.evaluation.summary import METRICS, SUMS, SumRow, metric_rows, sum_rows
from spark_eval.evaluation.worker.lists import merge_sums, sums
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.results.driver_tables import write_small
from spark_eval.schema import VERSION, Table
from spark_eval.statistics.exact import Floats

FIRST = date(2024, 1, 1)
N_MODELS = 12
N_BUCKETS = 16
OF_HISTORY: dict[str, Any] = {
    "metrics": ["ndcg", "map", "mrr", "recall", "precision"],
    "k": [1, 5, 10, 20, 50],
}
OF_WINDOW: dict[str, Any] = {"metrics": ["ndcg", "fcp"], "k": [10]}
READ = """
import sys
import pyarrow.parquet as pq
from pathlib import Path
columns = sys.argv[2].split(",")
files = sorted(Path(sys.argv[1], "per_user").rglob("*.parquet"))
print(sum(len(pq.ParquetFile(path).read(columns, use_threads=False)) for path in files))
"""

WINDOW = """
import sys
from spark_eval import window
path, first, last = sys.argv[1:]
print(window(path, first=first, last=last).metric_rows)
"""


def publish(
    root: Path,
    run_id: str,
    plan: Plan,
    asked: dict[str, Any],
    rows: Sequence[SumRow],
    users: pa.Table | None = None,
) -> None:
    """Publish the tables of a run; ``users`` are those of one model."""
    models = sorted({row.model for row in rows})
    entries = [Entry("users", model, line, None, 1, 1) for model in models for line in ("in", "used")]
    tables: dict[Table, tuple[Sequence[Any], str]] = {
        Table.METRICS: (metric_rows(rows), METRICS),
        Table.SUMS: (rows, SUMS),
        Table.ACCOUNTING: (entries, ACCOUNTING),
    }
    with Attempt(LocalStore(root), run_id, "evaluate") as attempt:
        for table, (of_table, schema) in tables.items():
            folder = Path(attempt.staged(table))
            write_small(of_table, schema, folder, by_model=table != Table.ACCOUNTING)
        n_rows: dict[str, int] = {table: len(of_table) for table, (of_table, _) in tables.items()}
        if users is not None:
            folder = Path(attempt.staged(Table.PER_USER), f"model={models[0]}")
            folder.mkdir(parents=True)
            size = -(-len(users) // N_BUCKETS)
            for bucket in range(N_BUCKETS):
                part = users.slice(bucket * size, size)
                pq.write_table(part, folder / file_name(bucket, N_BUCKETS), write_page_checksum=True)
            n_rows[Table.PER_USER] = len(users)
        facts = {
            "config": {"evaluate": asked},
            "fingerprint": run_id,
            "versions": {"spark_eval": VERSION},
            "conventions": plan.stamp,
            "models": models,
            "truth_digest": "0",
            "summary": {},
        }
        attempt.publish(n_rows, facts)


def sums_of(columns: dict[str, Floats], plan: Plan, models: Sequence[str]) -> list[SumRow]:
    """Return the rows of ``sums``; every model has an equal share of the users."""
    n_users = len(columns[plan.columns[0]])
    code = np.arange(n_users) * len(models) // n_users
    return sum_rows(
        merge_sums([sums(columns, plan.summed, (code, models), {})], list(plan.summed)),
        models,
        plan.metrics,
        plan.stamp,
    )


def make_history(root: Path, n_runs: int) -> None:
    """Publish runs of 300 rows, one a day."""
    plan, draw = make_plan(**OF_HISTORY), np.random.default_rng(1)
    models = [f"model {number:02}" for number in range(N_MODELS)]
    for day in range(n_runs):
        columns = {name: draw.random(120) for name in plan.columns}
        run_id = (FIRST + timedelta(days=day)).isoformat()
        publish(root, run_id, plan, OF_HISTORY, sums_of(columns, plan, models))


def make_window(root: Path, n_days: int, n_users: int) -> None:
    """Publish days of the same users; one in ten has no pair to order, and so no value of ``fcp``."""
    plan, draw = make_plan(**OF_WINDOW), np.random.default_rng(2)
    for day in range(n_days):
        pairs = draw.integers(0, 10, n_users).astype(np.float64)
        columns = {
            "ndcg_at_10": draw.integers(0, 1000, n_users) / 999,
            "fcp_at_10": np.where(pairs > 0, draw.integers(0, 8, n_users) / 7, np.nan),
            "fcp_pairs_at_10": pairs,
        }
        values = {name: pa.array(one, from_pandas=True) for name, one in columns.items()}
        users = pa.table({"user": np.arange(n_users), "n_relevant": np.full(n_users, 10), **values})
        run_id = (FIRST + timedelta(days=day)).isoformat()
        publish(root, run_id, plan, OF_WINDOW, sums_of(columns, plan, ["als"]), users)


def measure(name: str, command: Sequence[str]) -> None:
    """Run a process and print its seconds and its peak memory."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    if status:
        raise SystemExit(f"{name} ended with {status}")
    cpu = used.ru_utime + used.ru_stime
    print(f"{name:<8} {wall:7.1f} {cpu:7.1f} {used.ru_maxrss / 1024:10.0f}", flush=True)


def main() -> None:
    """Make the runs where they are missing, then measure each command once."""
    folder = Path(sys.argv[1])
    n_runs, n_days, n_users = map(int, (sys.argv[2:] + ["365", "28", "1000000"][len(sys.argv[2:]) :]))
    history, window = folder / f"history-{n_runs}", folder / f"window-{n_days}-{n_users}"
    if not history.exists():
        make_history(history, n_runs)
    if not window.exists():
        make_window(window, n_days, n_users)
    program, page = str(Path(sys.executable).with_name("spark-eval")), str(folder / "history.html")
    last = FIRST + timedelta(days=n_days - 1)
    columns = ",".join(["user", *make_plan(**OF_WINDOW).columns])
    print("command   wall s   CPU s   peak MiB")
    measure("history", [program, "history", "--path", str(history), "--page", page])
    measure("read", [sys.executable, "-c", READ, str(window), columns])
    measure("window", [sys.executable, "-c", WINDOW, str(window), str(FIRST), str(last)])


if __name__ == "__main__":
    main()
