"""Evaluations in this process: whole processes from a cold start, seconds of the clock and of CPU.

Usage: python -m benchmarks.local [ROWS ...]    (by default 1,000,000 and 10,000,000 rows of ranks)

Each size is measured as pandas frames, as plain Parquet files, and as such files with users of text; reading
the frames is part of it.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LENGTH = 50
CALL = """
import sys
import pandas as pd
from spark_eval import evaluate
folder, kind = sys.argv[1:]
given = [f"{folder}/{name}{'-text' * (kind == 'text')}.parquet" for name in ("lists", "truth")]
given = [pd.read_parquet(path) for path in given] if kind == "pandas" else given
metrics = ["precision", "recall", "map", "mrr", "ndcg", "hit_rate"]
result = evaluate(*given, model="als", metrics=metrics, k=[1, 5, 10, 20, 50], engine="local")
print(len(result.per_user), "pyspark" in sys.modules)
"""


def write(folder: Path, n_rows: int) -> None:
    """Write lists of 50 ranks in no order, and truth of 10 items per user; both also with users of text."""
    draw, n_users = np.random.default_rng(1), n_rows // LENGTH
    order = draw.permutation(n_rows)
    lists = {"user": order // LENGTH, "item": draw.integers(0, 20_000, n_rows), "rank": order % LENGTH + 1}
    truth = {"user": np.repeat(np.arange(n_users), 10), "item": draw.integers(0, 20_000, 10 * n_users)}
    names = pa.array([f"user-{user:010}" for user in range(n_users)])
    for name, columns in (("lists", lists), ("truth", truth)):
        rows = pa.table(columns)
        pq.write_table(rows, folder / f"{name}.parquet")
        pq.write_table(rows.set_column(0, "user", names.take(rows["user"])), folder / f"{name}-text.parquet")


def main() -> None:
    """Measure each size and kind once, in a process of its own."""
    sizes = list(map(int, sys.argv[1:])) or [1_000_000, 10_000_000]
    print("rows        kind     wall s   CPU s   peak MiB so far")
    for n_rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), n_rows)
            for kind in ("pandas", "parquet", "text"):
                before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                subprocess.run([sys.executable, "-c", CALL, folder, kind], check=True, stdout=subprocess.PIPE)
                wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                print(f"{n_rows:<11,} {kind:<8} {wall:6.2f} {cpu:7.2f} {after.ru_maxrss / 1024:9.0f}")


if __name__ == "__main__":
    main()
