"""Every ranking metric, under every convention and order of ties, of random tables against the slow oracle.

One evaluation measures them all: lists of given ranks with gaps, of scores that tie, of repeated items; users
without truth or without a list; rows that lie list by list, or scattered over the partitions.
"""

import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import oracle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from choices import ACCURACY, every_convention
from oracle import Id, Recommendation, Relevance, Rules
from pyspark.sql import DataFrame, SparkSession

from spark_eval import evaluate
from spark_eval.evaluation.plan import make_plan
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import MetricValue

N_ITEMS, LONGEST, LAST_RANK = 9, 7, 14
# Few enough of a list tie for the oracle to try all their orders.
MOST_TIED = 3
MODELS = ("als", "bpr")
CUTOFFS: Final = (1, 3, 10, None)
# Metrics that know more of items than who finds them relevant have tests of their own.
OF_RELEVANCE: Final = [name for name, metric in RANKING.items() if not metric.knows_items]


class Table(NamedTuple):
    """How recommendations come: in which order, where the rows of a list lie, and who reads them."""

    order: str
    where: str
    read: str

    def __str__(self) -> str:
        return ", ".join(self)


EVERY = [Table(*form) for form in product(("rank", "score"), ("together", "scattered"), ("files", "spark"))]
# One of each order and each place, and one of each reader with each of these.
FEW = [EVERY[0], EVERY[3], EVERY[6]]


def values_of(name: str, cutoffs: Sequence[int | None]) -> list[MetricValue]:
    """A metric under each of its conventions, at these cutoffs."""
    metric = RANKING[name]
    return [
        MetricValue(
            metric,
            tuple((convention, getattr(conventions, convention)) for convention in metric.conventions),
            k,
        )
        for conventions, k in product(every_convention(name), cutoffs)
    ]


def every_value(chance: random.Random) -> list[MetricValue]:
    """Every metric under every convention, each at one cutoff."""
    return [chance.choice(values_of(name, [k])) for name in ACCURACY for k in CUTOFFS] + [
        value for name in ACCURACY for value in values_of(name, [chance.choice(CUTOFFS)])
    ]


def draw(table: Table, n_users: int, chance: random.Random) -> tuple[list[Recommendation], list[Relevance]]:
    """Random rows; lists of given ranks have gaps, those of scores have ties, both repeat items."""
    truth, recommendations = [], []
    for user in range(n_users):
        for _ in range(chance.choice([0, 1, 2, 4, 7])):
            relevance = chance.choice([0.0, 0.5, 1.0, 2.0, 3.0])
            truth.append(Relevance(user, chance.randrange(N_ITEMS), relevance, 0))
        for model in MODELS:
            n_rows = chance.randrange(LONGEST + 1)
            ranks, scores = range(1, LAST_RANK + 1), [0.5, 1, 2, 4] * MOST_TIED
            places = chance.sample(ranks if table.order == "rank" else scores, n_rows)
            rows = [Recommendation(model, user, chance.randrange(N_ITEMS), place) for place in places]
            recommendations += rows + rows[: chance.random() < 0.1]
    if table.where == "scattered":
        chance.shuffle(recommendations)
    return recommendations, truth


def frame_of(
    spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: pa.Schema, folder: Path | None
) -> DataFrame:
    """The rows, read as plain Parquet from this folder, or through Spark."""
    columns = zip(*rows, strict=True)
    arrow = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    if folder is None:
        # More than one partition, each with rows that follow one another.
        return spark.createDataFrame(arrow)
    folder.mkdir()
    size = -(-len(rows) // 3)
    for start in range(0, len(rows), size):
        pq.write_table(arrow.slice(start, size), folder / f"{start:06}.parquet")
    return spark.read.parquet(str(folder))


def differences(
    spark: SparkSession, table: Table, values: Sequence[MetricValue], n_users: int, folder: Path
) -> dict[tuple[str | None, Id, str], tuple[float | None, float]]:
    """Where the evaluation of random rows and the oracle differ: what the one gives, and the other."""
    recommendations, truth = draw(table, n_users, random.Random(EVERY.index(table)))
    place = {"rank": pa.int32(), "score": pa.float64()}[table.order]
    rows = pa.schema({"model": pa.string(), "user": pa.int64(), "item": pa.int64(), table.order: place})
    judged = pa.schema(
        {"user": pa.int64(), "item": pa.int64(), "relevance": pa.float64(), "timestamp": pa.int64()}
    )
    is_plain = table.read == "files"
    frames = [
        frame_of(spark, recommendations, rows, folder / "recommendations" if is_plain else None),
        frame_of(spark, truth, judged, folder / "truth" if is_plain else None),
    ]
    texts = [str(value) for value in values]
    evaluation = evaluate(*frames, metrics=texts, k=1, no_truth="zero")
    per_user = {(row["model"], row["user"]): row for row in evaluation.per_user.toArrow().to_pylist()}
    evaluation.unpersist()
    plan = make_plan(metrics=texts, k=1, no_truth="zero")
    expected = oracle.evaluate(
        recommendations, truth, Rules(plan.conventions, plan.metrics, table.order == "score")
    )
    assert per_user.keys() == expected.keys()
    return {
        (*key, column): (per_user[key][column], value)
        for key, columns in expected.items()
        for column, value in columns.items()
        if oracle.number(per_user[key][column]) != pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("table", FEW, ids=str)
def test_every_metric_under_every_convention(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    values = every_value(random.Random(EVERY.index(table)))
    assert differences(spark, table, values, 40, tmp_path) == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("table", EVERY, ids=str)
def test_every_metric_under_every_convention_at_every_cutoff(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    values = [value for name in ACCURACY for value in values_of(name, CUTOFFS)]
    assert differences(spark, table, values, 150, tmp_path) == {}
