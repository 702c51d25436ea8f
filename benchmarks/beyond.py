"""Cost of metrics beyond accuracy: ``python -m benchmarks.beyond [SIZE] [REPETITIONS] [ENGINE]``.

Inputs are lists and truth of SIZE (M by default), training interactions, and a table of items with groups,
twenty text features and a vector of 64 floats each. Programs take turns in one session with 1 GB of heap, or
in this process (ENGINE local). Each writes ``per_user``: six accuracy metrics at five cutoffs, alone or with
the metrics in the program's name. CPU seconds are those of driver, JVM and workers. Linux only.
"""

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import DEFAULT_FOLDER, SIZES, Dataset, ensure, zipf
from benchmarks.processes import usage
from spark_eval import evaluate, get_session

KS: Final = (1, 5, 10, 20, 50)
ACCURACY: Final = ("precision", "recall", "map", "mrr", "ndcg", "hit_rate")
TRAINED_PER_USER: Final = 10
DIMENSIONS: Final = 64
FEATURES: Final = 20
# Metrics in addition to accuracy, and the tables that they need.
PROGRAMS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "accuracy": ((), ()),
    "accuracy, with train": ((), ("train",)),
    "counts and popularity": (
        ("catalog_coverage", "gini_catalog", "entropy", "arp", "novelty"),
        ("train", "items"),
    ),
    "ild by vectors @10": (("ild@10",), ("items",)),
    "ild by text features @10": (("ild(distance=jaccard)@10",), ("items",)),
}


def write_facts(dataset: Dataset, folder: Path) -> None:
    """Write training interactions, distributed by Zipf's law as in the lists, and the attributes of items."""
    random = np.random.default_rng(dataset.seed)
    n_rows = dataset.users * TRAINED_PER_USER
    users = random.integers(1, dataset.users + 1, n_rows)
    train = pa.table({"user": users, "item": zipf(dataset.items, (n_rows,), random)})
    words = zipf(5_000, (dataset.items, FEATURES), random)
    items = pa.table(
        {
            "item": np.arange(1, dataset.items + 1),
            "groups": [[f"genre {word % 20}" for word in row[:2]] for row in words.tolist()],
            "features": [[f"word {word}" for word in row] for row in words.tolist()],
            "vector": list(random.normal(size=(dataset.items, DIMENSIONS)).astype(np.float32)),
        }
    )
    for name, table in (("train", train), ("items", items)):
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "part-0.parquet")


def main(size: str, repetitions: int, engine: str) -> None:
    """Print a line per program: medians over warm repetitions, and the ratio to accuracy alone."""
    is_local = engine == "local"
    dataset = SIZES[size]
    tables = ensure(dataset, DEFAULT_FOLDER)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_facts(dataset, folder)
        folders = {"recommendations": tables, "truth": tables, "train": folder, "items": folder}
        frames: dict[str, Any] = {name: str(parent / name) for name, parent in folders.items()}
        settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "4"}
        spark = None if is_local else get_session("beyond", "local[2]", settings)
        if spark is not None:
            frames = {name: spark.read.parquet(path) for name, path in frames.items()}
        costs: dict[str, list[tuple[float, float]]] = {}
        for number in range(1 + repetitions):
            for program, (metrics, needed) in PROGRAMS.items():
                if is_local and program.startswith("ild"):  # lists in files: Spark alone reads them
                    continue
                before, start = usage(os.getpid()).cpu, perf_counter()
                given: dict[str, Any] = {table: frames[table] for table in needed}
                result = evaluate(
                    frames["recommendations"],
                    frames["truth"],
                    model="m",
                    metrics=[*ACCURACY, *metrics],
                    k=KS,
                    folder=str(folder / "per_user"),
                    engine=engine,
                    **given,
                )
                rows = result.metric_rows
                result.unpersist()
                shutil.rmtree(folder / "per_user")
                cost = usage(os.getpid()).cpu - before, perf_counter() - start
                print(f"{program}: {number}, {cost[0]:.1f} CPU s, {len(rows)} rows", file=sys.stderr)
                if number:
                    costs.setdefault(program, []).append(cost)
        if spark is not None:
            spark.stop()
    print(f"{size}: {dataset.users:,} users x {dataset.length}, {dataset.items:,} items\n")
    print("| program | CPU s | least | most | wall s | / accuracy |\n|---|---|---|---|---|---|")
    alone = statistics.median(cpu for cpu, _ in costs["accuracy"])
    for program, measured in costs.items():
        cpu = sorted(cpu for cpu, _ in measured)
        median, wall = statistics.median(cpu), statistics.median(wall for _, wall in measured)
        print(
            f"| {program} | {median:.1f} | {cpu[0]:.1f} | {cpu[-1]:.1f} | {wall:.1f} | {median / alone:.2f} |"
        )


if __name__ == "__main__":
    given_size, given_repetitions, given_engine = [*sys.argv[1:], *("M", "3", "spark")[len(sys.argv) - 1 :]]
    main(given_size, int(given_repetitions), given_engine)
