"""Linkage in this process: whole processes from a cold start, CPU seconds and memory.

Usage: python -m benchmarks.local_linkage [RECORDS PAIRS]    (by default 10,000,000 of each)

``clusters`` compares two clusterings of the records; a tenth of the records is one cluster of each. ``pairs``
compares listed pairs with the true clusters, and measures blocking on as many candidates.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CALL = """
import resource, sys
from spark_eval import evaluate_linkage
folder, kind = sys.argv[1:]
path = lambda name: f"{folder}/{name}.parquet"
candidates = path("candidates") if kind == "pairs" else None
found = evaluate_linkage(path(kind), path("true"), candidates=candidates)
used = resource.getrusage(resource.RUSAGE_SELF)
assert "pyspark" not in sys.modules
print(len(found.rows), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def write(folder: Path, n_records: int, n_pairs: int) -> None:
    """Write clusterings that agree on most records, and pairs of which most are near each other."""
    draw = np.random.default_rng(1)
    records = draw.permutation(n_records)
    true = np.where(records < n_records // 10, -1, records // 3)
    predicted = np.where(draw.random(n_records) < 0.9, true, records // 2)
    for name, clusters in (("true", true), ("clusters", predicted)):
        pq.write_table(pa.table({"record": records, "cluster": clusters}), folder / f"{name}.parquet")
    for name in ("pairs", "candidates"):
        a = draw.integers(0, n_records, n_pairs)
        b = np.minimum(a + draw.integers(1, 4, n_pairs), n_records - 1)
        pq.write_table(pa.table({"a": a, "b": b}), folder / f"{name}.parquet")


def main() -> None:
    """Measure each kind once, in a process of its own."""
    n_records, n_pairs = map(int, sys.argv[1:] or (10_000_000, 10_000_000))
    print("kind      records       pairs         wall s   CPU s   peak MiB")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n_records, n_pairs)
        for kind in ("clusters", "pairs"):
            start = time.monotonic()
            command = [sys.executable, "-c", CALL, folder, kind]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            _, cpu, peak = map(float, done.stdout.split())
            wall = time.monotonic() - start
            print(
                f"{kind:<9} {n_records:<13,} {n_pairs:<12,} {wall:7.1f} {cpu:7.1f} {peak:10.0f}", flush=True
            )


if __name__ == "__main__":
    main()
