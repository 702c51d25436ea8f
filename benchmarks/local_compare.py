"""Comparisons in this process: whole processes from a cold start, seconds of the clock and of CPU.

Usage: python -m benchmarks.local_compare [USERS [COLUMNS]]    (by default 1,000,000 users and 30 columns)

Two models' tables of users are compared by the test t: in files by bucket as ``evaluate`` writes them, and in
one file. The same files are only read, all columns by Arrow, with this package imported (``read``) or not
(``arrow``).
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

from spark_eval.arrow.codes import bucket_of, hashes_of
from spark_eval.arrow.user_files import file_name

N_BUCKETS = 8
READ = """
import sys
{imports}
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from concurrent.futures import ThreadPoolExecutor
files = ds.dataset(sys.argv[1]).files
with ThreadPoolExecutor() as threads:
    print(sum(map(len, threads.map(pq.read_table, files))))
"""
CALLS = {
    "arrow": READ.format(imports=""),
    "read": READ.format(imports="import spark_eval.comparison.compare"),
    "compare": """
import sys
from spark_eval import compare
print(len(compare(sys.argv[1], engine="local").rows), "pyspark" in sys.modules)
""",
}


def write(folder: Path, n_users: int, n_columns: int) -> None:
    """Write the tables of two models, by bucket of users and as one file."""
    draw, users = np.random.default_rng(1), pa.array(np.arange(n_users))
    buckets, whole = bucket_of(hashes_of(users), N_BUCKETS), []
    for model in ("als", "knn"):
        values = {f"ndcg_at_{k}": draw.integers(0, 1000, n_users) / 999 for k in range(1, n_columns + 1)}
        table = pa.table({"user": users, "n_relevant": np.full(n_users, 10), **values})
        of_model = folder / "by_bucket" / f"model={model}"
        of_model.mkdir(parents=True)
        for bucket in range(N_BUCKETS):
            rows = table.filter(pa.array(buckets == bucket))
            pq.write_table(rows, of_model / file_name(bucket, N_BUCKETS), write_page_checksum=True)
        whole.append(table.append_column("model", pa.repeat(model, n_users)))
    (folder / "one_file").mkdir()
    pq.write_table(pa.concat_tables(whole), folder / "one_file" / "users.parquet")


def main() -> None:
    """Measure each call and layout once, in a process of its own."""
    given = list(map(int, sys.argv[1:]))
    n_users, n_columns = given + [1_000_000, 30][len(given) :]
    print("tables     process  wall s   CPU s   peak MiB so far")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n_users, n_columns)
        for layout in ("by_bucket", "one_file"):
            for name, call in CALLS.items():
                before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                command = [sys.executable, "-c", call, f"{folder}/{layout}"]
                subprocess.run(command, check=True, stdout=subprocess.PIPE)
                wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                print(f"{layout:<10} {name:<8} {wall:6.2f} {cpu:7.2f} {after.ru_maxrss / 1024:9.0f}")


if __name__ == "__main__":
    main()
