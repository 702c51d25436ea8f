"""One number for what is relevant to whom, as Spark itself would add it up."""

from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval import evaluate
from spark_eval.arrow import checksums

SCHEMA = "user {0}, item {0}, relevance double"
ROWS: list[tuple[Any, ...]] = [
    *((user, item, float(item % 4)) for user in range(-3, 40) for item in range(user, user + 5)),
    *[(1, 1, 2.5), (1, 1, 2.0), (2**62, -(2**62), 1e-300), (7, 8, 0.0), (7, 9, -0.0)],
]
TEXTS = [(f"u{user}", "ä" * (item % 50), relevance) for user, item, relevance in ROWS]


def sums_in_spark(rows: DataFrame, *relevant: str) -> list[str]:
    """The sum of the pairs that are relevant by each condition, in one job."""
    pairs = rows.groupBy("user", "item").agg(F.max("relevance").alias("relevance"))
    hashed = F.xxhash64("user", "item", "relevance").cast("decimal(20,0)")
    sums = (F.sum(F.when(F.expr(condition), F.col("hash"))) for condition in relevant)
    [totals] = pairs.select("relevance", hashed.alias("hash")).agg(*sums).collect()
    return [str(int(total) % 2**64) for total in totals]


def digest_of(truth: Any, **options: Any) -> str:
    lists = pd.DataFrame({"user": truth["user"], "item": truth["item"]}).drop_duplicates().assign(score=1.0)
    return evaluate(lists, truth, model="m", metrics=["mrr"], k=[3], engine="local", **options).truth_digest


@pytest.mark.parametrize(("kind", "rows"), [("long", ROWS), ("string", TEXTS)])
def test_spark_gives_the_same_of_ids_of_both_types(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, rows: list[tuple[Any, ...]]
) -> None:
    of_spark = spark.createDataFrame(rows, SCHEMA.format(kind))
    expected = sums_in_spark(of_spark, "relevance > 0", "true", "relevance >= 2")
    truth = pd.DataFrame(rows, columns=["user", "item", "relevance"])
    assert digest_of(truth) == expected[0]
    # However it lies, and of zeros of both signs.
    monkeypatch.setattr(checksums, "HASHED_AT_ONCE", 3)
    assert digest_of(truth[::-1], threshold=0.0) == expected[1]
    lists = of_spark.select("user", "item", F.lit(1.0).alias("score")).distinct()
    found = evaluate(lists, of_spark.repartition(5), model="m", metrics=["mrr"], k=[3], threshold=2.0)
    assert found.truth_digest == expected[2]


@pytest.mark.parametrize(("column", "step"), [("user", 1000), ("item", 1000), ("relevance", 1)])
def test_another_pair_gives_another_number(column: str, step: int) -> None:
    truth = pd.DataFrame(ROWS, columns=["user", "item", "relevance"])
    changed = truth.copy()
    changed.loc[(truth["user"] == 5) & (truth["item"] == 6), column] += step
    assert digest_of(changed) != digest_of(truth)
