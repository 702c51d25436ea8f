"""Linkage of many records: CPU seconds and memory, each measurement beside reading the same files.

Usage: python -m benchmarks.linkage [RECORDS PAIRS] [text] [spark] [KIND ...], by default 10,000,000 of each

``clusters`` compares two clusterings of the records; a tenth of the records is one cluster of each. ``pairs``
compares listed pairs with the true clusters, ``blocking`` measures as many candidates of the clusters, and
``both`` does both. ``text`` writes the ids as text. In this process it is the whole process from a cold
start; with ``spark`` what a session of local[2] takes once it has started, and the memory at the end.
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
import os, resource, sys
import pyarrow.parquet as pq
from benchmarks.processes import usage
from spark_eval import evaluate_linkage, get_session
engine, what, *paths = sys.argv[1:]
before = 0.0
if engine == "spark":
    spark = get_session("linkage", "local[2]")
    spark.range(1).count()
    before = usage(os.getpid()).cpu
if what == "linkage":
    candidates = paths[2] if paths[2:] else None
    evaluate_linkage(paths[0], paths[1], candidates=candidates, engine=engine)
for path in paths if what == "read" else ():
    if engine == "spark":
        spark.read.parquet(path).write.format("noop").mode("overwrite").save()
    else:
        for batch in pq.ParquetFile(path).iter_batches():
            pass
after, peak = usage(os.getpid()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(after.cpu - before, after.resident / 2**20 if engine == "spark" else peak)
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


def measured(engine: str, what: str, paths: list[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and MiB of a process that reads the files, or measures the links."""
    start = time.monotonic()
    command = [sys.executable, "-c", CALL, engine, what, *paths]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    cpu, memory = map(float, done.stdout.split())
    return time.monotonic() - start, cpu, memory


def main() -> None:
    """Measure each kind once, in processes of its own."""
    n_records, n_pairs = [int(word) for word in sys.argv[1:] if word.isdigit()] or (10_000_000, 10_000_000)
    engine = "spark" if "spark" in sys.argv else "local"
    chosen = [kind for kind in KINDS if kind in sys.argv] or list(KINDS)
    print(f"{n_records:,} records, {n_pairs:,} pairs, {engine}")
    print("kind      what       wall s   CPU s        MiB")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n_records, n_pairs, is_text="text" in sys.argv)
        for kind in chosen:
            predicted, candidates = KINDS[kind]
            names = [predicted, "true", *([candidates] if candidates else [])]
            for what in ("read", "linkage"):
                wall, cpu, memory = measured(engine, what, [f"{folder}/{name}.parquet" for name in names])
                print(f"{kind:<9} {what:<9} {wall:7.1f} {cpu:7.1f} {memory:10.0f}", flush=True)


if __name__ == "__main__":
    main()
