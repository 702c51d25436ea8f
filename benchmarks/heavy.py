"""Giant users and many models, larger than a bucket: ``python -m benchmarks.heavy FOLDER``; see README.md.

Each case runs twice in one session with 1 GB of heap, from files with the same rows in a different order and
a different number of files; both results must be bit for bit equal. ``python -m benchmarks.heavy FOLDER
vectors`` does this with 2 GB and a table of a million items, each with a vector of 64 floats. Linux only.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.processes import usage
from spark_eval import evaluate, get_session

MEBIBYTE: Final = 1024**2
GIANT: Final = 3_000_000
Tables = tuple[pa.Table, ...]
N_VECTORS: Final = 1_000_000
DIMENSIONS: Final = 64


def crowd(random: np.random.Generator, n_models: int, n_users: int, length: int) -> Tables:
    """Return lists of some models for the same users, and their truth."""
    user = np.repeat(np.arange(n_users), length)
    lists = [
        pa.table(
            {
                "model": np.full(len(user), f"model_{number:03}"),
                "user": user,
                "item": np.concatenate([random.permutation(5_000)[:length] for _ in range(n_users)]),
                "rank": np.tile(np.arange(1, length + 1, dtype=np.int32), n_users),
            }
        )
        for number in range(n_models)
    ]
    truth = pa.table(
        {"user": np.repeat(np.arange(n_users), 5), "item": random.integers(0, 5_000, 5 * n_users)}
    )
    return pa.concat_tables(lists), truth.group_by(["user", "item"]).aggregate([])


def with_giant_truth(random: np.random.Generator) -> Tables:
    """Return tables of a thousand users, and one with 3 million relevant items."""
    lists, truth = crowd(random, 1, 1_000, 50)
    giant = pa.table({"user": np.zeros(GIANT, np.int64), "item": 10_000 + random.permutation(GIANT)})
    return lists, pa.concat_tables([truth, giant])


def with_giant_list(random: np.random.Generator) -> Tables:
    """Return tables of a thousand users, and one with a list of 3 million items."""
    lists, truth = crowd(random, 1, 1_000, 50)
    giant = pa.table(
        {
            "model": np.full(GIANT, "model_000"),
            "user": np.full(GIANT, 1_000_000),
            "item": random.permutation(GIANT),
            "rank": np.arange(1, GIANT + 1, dtype=np.int32),
        }
    )
    own = pa.table({"user": np.full(100, 1_000_000), "item": np.arange(100)})
    return pa.concat_tables([lists, giant]), pa.concat_tables([truth, own])


def with_vectors(random: np.random.Generator) -> Tables:
    """Return lists of 50 of a million items for 20,000 users, their truth, and a vector per item."""
    user = np.repeat(np.arange(20_000), 50)
    item = random.integers(0, N_VECTORS, len(user))
    lists = pa.table({"model": np.full(len(user), "m"), "user": user, "item": item})
    lists = lists.group_by(["model", "user", "item"]).aggregate([])
    lists = lists.append_column("score", pa.array(random.random(len(lists))))
    truth = pa.table({"user": user[::10], "item": item[::10]}).group_by(["user", "item"]).aggregate([])
    values = random.standard_normal((N_VECTORS, DIMENSIONS), dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), DIMENSIONS)
    items = pa.table({"item": np.arange(N_VECTORS), "vector": vectors.cast(pa.list_(pa.float32()))})
    return lists, truth, items


KINDS: Final = ("lists", "truth", "items")
Cases = Mapping[str, Callable[[np.random.Generator], Tables]]
CASES: Final[Cases] = {
    "a user with 3 million relevant items": with_giant_truth,
    "a list of 3 million items": with_giant_list,
    "300 models of 5,000 users, lists of 10": lambda random: crowd(random, 300, 5_000, 10),
}
OF_VECTORS: Final[Cases] = {"diversity by a million vectors of 64": with_vectors}


def written(table: pa.Table, folder: Path, n_files: int, random: np.random.Generator) -> str:
    """Write the rows in random order; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    order = random.permutation(len(table))
    for number, part in enumerate(np.array_split(order, n_files)):
        pq.write_table(table.take(pa.array(part)), folder / f"{number}.parquet")
    return str(folder)


@contextmanager
def watched() -> Iterator[list[int]]:
    """Sample the largest worker ten times a second; the yielded list has the peak in bytes."""
    ended, peaks = Event(), [0]

    def watch() -> None:
        while not ended.wait(0.1):
            peaks[0] = max(peaks[0], usage(os.getpid()).worker)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peaks
    finally:
        ended.set()
        watcher.join()


def measured(
    spark: SparkSession, lists: str, truth: str, items: str | None = None
) -> list[tuple[object, ...]]:
    """Return the means, and the number of rows of ``per_user`` with the sum of their hashes."""
    frames = (spark.read.parquet(lists), spark.read.parquet(truth))
    if items is None:
        result = evaluate(*frames)
    else:
        result = evaluate(*frames, items=spark.read.parquet(items), metrics=["ndcg", "ild"], k=[10, 50])
    names = ", ".join(f"`{name}`" for name in result.per_user.columns)
    digest = result.per_user.selectExpr(f"cast(xxhash64({names}) as decimal(20, 0)) as hash")
    by_name = result.to_spark("metrics").orderBy("model", "metric", "k")
    rows = [tuple(row) for row in by_name.collect()]
    rows += [tuple(row) for row in digest.selectExpr("count(*)", "sum(hash)").collect()]
    result.unpersist()
    return rows


def main(folder: Path, cases: Cases, memory: str) -> None:
    """Print a line per case; raise AssertionError if results differ."""
    spark = get_session("heavy", "local[2]", {"spark.driver.memory": memory})
    print("| case | CPU s | largest worker MiB | same bits |\n|---|---|---|---|")
    for number, (name, make) in enumerate(cases.items()):
        random = np.random.default_rng(number)
        tables = make(random)
        results, spent, peak = [], [], 0
        for n_files in (1, 7):
            home = folder / f"{number}-{n_files}"
            paths = [
                written(table, home / kind, n_files, random)
                for kind, table in zip(KINDS, tables, strict=False)
            ]
            before = usage(os.getpid()).cpu
            with watched() as peaks:
                results.append(measured(spark, *paths))
            spent.append(usage(os.getpid()).cpu - before)
            peak = max(peak, *peaks)
        assert results[0] == results[1], name
        seconds = " and ".join(f"{cpu:.1f}" for cpu in spent)
        print(f"| {name} | {seconds} | {peak / MEBIBYTE:.0f} | yes |", flush=True)


if __name__ == "__main__":
    if sys.argv[2:] == ["vectors"]:
        main(Path(sys.argv[1]), OF_VECTORS, "2g")
    else:
        main(Path(sys.argv[1]), CASES, "1g")
