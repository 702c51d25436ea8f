"""One evaluation, one hash, over the whole grid of what must not matter."""

import hashlib
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from frames import settings
from pyarrow.dataset import dataset, partitioning
from pyspark.sql import DataFrame, SparkSession

from spark_eval import evaluate

PARTITIONS, SHUFFLES, ADAPTIVE, SEEDS = (1, 2, 3, 7, 16), (1, 4), ("true", "false"), (None, 1)
READERS = ("workers", "spark", "local")
MODELS = pa.schema({"model": pa.string()})
N_USERS, N_ITEMS, LIST_LENGTH = 24, 40, 12


def inputs() -> dict[str, pd.DataFrame]:
    """Tables in which an order could show: ties, repeats, relevances whose sums depend on their order."""
    draw = np.random.default_rng(11)
    lists = [
        pd.DataFrame(
            {
                "model": model,
                "user": user,
                "item": draw.integers(0, N_ITEMS, LIST_LENGTH),
                "score": draw.integers(0, 4, LIST_LENGTH) / 3,
            }
        )
        for model in ("als", "knn", "популярное")
        for user in draw.permutation(N_USERS)[: N_USERS - 3]
    ]
    n_rows = 8 * N_USERS
    truth = {"user": draw.integers(2, N_USERS + 2, n_rows), "item": draw.integers(0, N_ITEMS, n_rows)}
    # 0.1 + 1e16 - 1e16 is one of many sums here that depend on the order.
    relevance = draw.random(n_rows) * 10.0 ** draw.integers(-8, 9, n_rows)
    learnt = {"user": draw.integers(0, N_USERS, n_rows), "item": draw.integers(0, N_ITEMS - 5, n_rows)}
    users = {"user": np.arange(N_USERS), "country": draw.choice(["at", "be", "cz"], N_USERS)}
    return {
        "lists": pd.concat(lists, ignore_index=True),
        "truth": pd.DataFrame({**truth, "relevance": relevance}),
        "train": pd.DataFrame(learnt),
        "users": pd.DataFrame(users),
    }


def laid_out(spark: SparkSession, rows: pd.DataFrame, n: int, seed: int | None) -> DataFrame:
    """The rows in ``n`` partitions, in their order, list after list, or anywhere by chance."""
    if seed is not None:
        rows = rows.sample(frac=1.0, random_state=seed)
    line = np.arange(len(rows))
    placed = rows.assign(place=line * n // len(rows), line=line)
    frame = spark.createDataFrame(placed).repartitionByRange(n, "place").sortWithinPartitions("line")
    return frame.drop("place", "line").persist()


def read_by(reader: str, frames: Mapping[str, DataFrame], folder: Path) -> dict[str, Any]:
    """The same rows, as Spark has them, or as plain files, which the workers read, or this process."""
    if reader == "spark":
        return dict(frames)
    for name, frame in frames.items():
        frame.write.mode("overwrite").parquet(str(folder / name))
    if reader == "local":
        return {name: folder / name for name in frames}
    return {name: frame.sparkSession.read.parquet(str(folder / name)) for name, frame in frames.items()}


def digest(rows: pd.DataFrame) -> str:
    """A hash of the rows in one order, doubles by their bits."""
    lines = [
        "|".join(value.hex() if isinstance(value, float) else str(value) for value in row)
        for row in rows[sorted(rows.columns)].itertuples(index=False)
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def hashes(frames: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Of what an evaluation gives, ``per_user`` as it lies in its files."""
    result = evaluate(
        frames["lists"],
        frames["truth"],
        train=frames["train"],
        users=frames["users"],
        segments=["country", "known"],
        metrics=["map", "dcg", "gauc@all", "ndcg(tie_order=worst)"],
        k=[5],
        conventions={"truth_duplicates": "sum"},
        folder=str(folder),
        engine="local" if isinstance(frames["truth"], Path) else "spark",
    )
    try:
        # By Arrow: missing text is None in pandas 2, and NaN in pandas 3.
        per_user = dataset(folder, partitioning=partitioning(flavor="hive", schema=MODELS)).to_table()
        tables = [per_user, *map(result.to_arrow, ("metrics", "accounting"))]
        return tuple(digest(pd.DataFrame(table.to_pylist(), dtype=object)) for table in tables)
    finally:
        result.unpersist()


@pytest.mark.slow
def test_one_hash_of_the_values(
    spark: SparkSession, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Whoever reads the tables; `make test-versions` compares it between releases of Spark and libraries."""
    frames = {name: laid_out(spark, rows, 2, None) for name, rows in inputs().items()}
    found = {hashes(read_by(reader, frames, tmp_path / "tables"), tmp_path / reader) for reader in READERS}
    assert len(found) == 1
    per_user, metrics, _ = found.pop()
    record_property("values", digest(pd.DataFrame({"table": [per_user, metrics]}))[:16])


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)  # minutes alone, half an hour beside ten other sessions
def test_one_hash_over_the_grid(spark: SparkSession, tmp_path: Path) -> None:
    tables, seen, n_runs = inputs(), set[tuple[str, ...]](), 0
    for n, shuffles, adaptive, seed in product(PARTITIONS, SHUFFLES, ADAPTIVE, SEEDS):
        conf = {"spark.sql.shuffle.partitions": str(shuffles), "spark.sql.adaptive.enabled": adaptive}
        with settings(spark, conf):
            frames = {name: laid_out(spark, rows, n, seed) for name, rows in tables.items()}
            for reader in READERS:
                given = read_by(reader, frames, tmp_path / f"tables-{n_runs}")
                seen.add(hashes(given, tmp_path / str(n_runs)))
                n_runs += 1
            for frame in frames.values():
                frame.unpersist()
    print(f"{n_runs} evaluations, {len(seen)} hash: {', '.join(part[:16] for part in min(seen))}")
    assert len(seen) == 1
