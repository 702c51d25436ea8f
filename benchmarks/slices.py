"""Cost of slices in a comparison: CPU seconds of whole processes with slices and without, in turn.

Usage: python -m benchmarks.slices [USERS [ROUNDS]]    (by default 1,000,000 users, 5 rounds)

Two models' tables of users in files by bucket, as ``evaluate`` writes them: six metrics, four users of five
without a difference, and ten attributes of 2 to 5 values. ``slices`` are these attributes crossed by two. The
hash is that of the table ``slices``: a faster computation must keep it.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.codes import bucket_of, hashes_of
from spark_eval.arrow.user_files import file_name

N_BUCKETS = 8
METRICS = ["ndcg_at_5", "ndcg_at_10", "precision_at_5", "precision_at_10", "recall_at_5", "recall_at_10"]
N_VALUES = {f"attribute_{number}": 2 + number % 4 for number in range(10)}
CALL = """
import hashlib, sys
from spark_eval import compare
slices = {{"of": {attributes}, "cross": 2}} if sys.argv[2] == "slices" else None
found = compare(sys.argv[1], engine="local", slices=slices)
table = found.slices.to_csv(float_format="%.17g") if slices else ""
print(len(found.slices) if slices else 0, hashlib.sha256(table.encode()).hexdigest()[:16])
"""


def write(folder: Path, n_users: int) -> None:
    """Write the tables of two models, by bucket of users."""
    draw, users = np.random.default_rng(1), pa.array(np.arange(n_users))
    buckets = bucket_of(hashes_of(users), N_BUCKETS)
    attributes = {
        name: pa.array(draw.integers(0, n_values, n_users)).cast(pa.string())
        for name, n_values in N_VALUES.items()
    }
    values = {name: draw.integers(0, 1000, n_users) / 999 for name in METRICS}
    for model in ("als", "knn"):
        table = pa.table({"user": users, "n_relevant": np.full(n_users, 10), **attributes, **values})
        (folder / f"model={model}").mkdir()
        for bucket in range(N_BUCKETS):
            rows = table.filter(pa.array(buckets == bucket))
            path = folder / f"model={model}" / file_name(bucket, N_BUCKETS)
            pq.write_table(rows, path, write_page_checksum=True)
        changed = draw.random(n_users) < 0.2
        values = {
            name: np.where(changed, draw.integers(0, 1000, n_users) / 999, of_metric)
            for name, of_metric in values.items()
        }


def main() -> None:
    """Measure comparisons with slices and without in turn, each in a process of its own."""
    given = list(map(int, sys.argv[1:]))
    n_users, n_rounds = given + [1_000_000, 5][len(given) :]
    seconds: dict[str, list[float]] = {"without": [], "slices": []}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n_users)
        call = CALL.format(attributes=list(N_VALUES))
        for _ in range(n_rounds):
            for name, of_name in seconds.items():
                before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                command = [sys.executable, "-c", call, folder, name]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
                of_name.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                print(f"{name:<8} {wall:6.2f} s {of_name[-1]:6.2f} CPU s  rows, hash: {done.stdout.strip()}")
    without, with_slices = (median(of_name) for of_name in seconds.values())
    ratio = with_slices / without
    print(f"median CPU s: without {without:.2f}, with slices {with_slices:.2f}, {ratio:.2f} x")


if __name__ == "__main__":
    main()
