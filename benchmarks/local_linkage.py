"""Linkage in this process: whole processes from a cold start, CPU seconds and memory.

Usage: python -m benchmarks.local_linkage [RECORDS PAIRS [text]]    (by default 10,000,000 of each)

``clusters`` compares two clusterings of the records; a tenth of the records is one cluster of each. ``pairs``
compares listed pairs with the true clusters, ``blocking`` measures as many candidates of the clusters, and
``both`` does both. ``text`` writes the ids as text.
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
folder, predicted, candidates = sys.argv[1:]
path = lambda name: f"{folder}/{name}.parquet"
found = evaluate_linkage(path(predicted), path("true"), candidates=path(candidates) if candidates else None)
used = resource.getrusage(resource.RUSAGE_SELF)
assert "pyspark" not in sys.modules
print(len(found.rows), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
# The predicted links and the candidates of each kind.
KINDS = {
    "clusters": ("clusters", ""),
    "pairs": ("pairs", ""),
    "blocking": ("clusters", "candidates"),
    "both": ("pairs", "candidates"),
}
# Pairs that are drawn and written at once.
BLOCK = 10_000_000


def write(folder: Path, n_records: int, n_pairs: int, *, is_text: bool) -> None:
    """Write clusterings that agree on most records, and pairs of which most are near each other."""
    draw = np.random.default_rng(1)

    def ids(records: np.typing.NDArray[np.int64]) -> pa.Array:
        if not is_text:
            return pa.array(records)
        return pa.array(np.char.add("customer-", records.astype("U10")), pa.string())

    records = draw.permutation(n_records)
    true = np.where(records < n_records // 10, -1, records // 3)
    predicted = np.where(draw.random(n_records) < 0.9, true, records // 2)
    for name, clusters in (("true", true), ("clusters", predicted)):
        pq.write_table(pa.table({"record": ids(records), "cluster": clusters}), folder / f"{name}.parquet")
    kind = pa.string() if is_text else pa.int64()
    # The more pairs, the farther their records are apart, so that most pairs are there once.
    farthest = 4 * max(n_pairs // n_records, 1)
    for name in ("pairs", "candidates"):
        with pq.ParquetWriter(folder / f"{name}.parquet", pa.schema({"a": kind, "b": kind})) as file:
            for start in range(0, n_pairs, BLOCK):
                a = draw.integers(0, n_records, min(BLOCK, n_pairs - start))
                b = np.minimum(a + draw.integers(1, farthest, len(a)), n_records - 1)
                file.write_table(pa.table({"a": ids(a), "b": ids(b)}))


def main() -> None:
    """Measure each kind once, in a process of its own."""
    n_records, n_pairs = map(int, sys.argv[1:3] or (10_000_000, 10_000_000))
    print("kind      records       pairs         wall s   CPU s   peak MiB")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n_records, n_pairs, is_text="text" in sys.argv[3:])
        for kind, tables in KINDS.items():
            start = time.monotonic()
            command = [sys.executable, "-c", CALL, folder, *tables]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            _, cpu, peak = map(float, done.stdout.split())
            wall = time.monotonic() - start
            print(
                f"{kind:<9} {n_records:<13,} {n_pairs:<12,} {wall:7.1f} {cpu:7.1f} {peak:10.0f}", flush=True
            )


if __name__ == "__main__":
    main()
