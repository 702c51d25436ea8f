"""One number for what is relevant to whom, as Spark itself would add it up."""

from typing import Any

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


def sum_in_spark(rows: DataFrame) -> str:
    pairs = rows.groupBy("user", "item").agg(F.max("relevance").alias("relevance"))
    hashes = pairs.select(F.xxhash64("user", "item", "relevance").cast("decimal(20,0)").alias("hash"))
    [[total]] = hashes.agg(F.sum("hash")).collect()
    return str(int(total) % 2**64)


def digest_of(truth: DataFrame, **options: Any) -> str:
    lists = truth.select("user", "item", F.lit(1.0).alias("score")).distinct()
    return evaluate(lists, truth, model="m", metrics=["mrr"], k=[3], **options).truth_digest


@pytest.mark.parametrize(("kind", "rows"), [("long", ROWS), ("string", TEXTS)])
def test_spark_gives_the_same_of_ids_of_both_types(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, rows: list[tuple[Any, ...]]
) -> None:
    truth = spark.createDataFrame(rows, SCHEMA.format(kind))
    assert digest_of(truth) == sum_in_spark(truth.where("relevance > 0"))
    # However it lies, and of zeros of both signs.
    monkeypatch.setattr(checksums, "HASHED_AT_ONCE", 3)
    assert digest_of(truth.repartition(5), threshold=0.0) == sum_in_spark(truth)
    assert digest_of(truth.repartition(5), threshold=2.0) == sum_in_spark(truth.where("relevance >= 2"))


@pytest.mark.parametrize("change", ["user + 1000", "item + 1000", "relevance + 1"])
def test_another_pair_gives_another_number(spark: SparkSession, change: str) -> None:
    truth = spark.createDataFrame(ROWS, SCHEMA.format("long"))
    name = change.partition(" ")[0]
    changed = truth.withColumn(name, F.expr(f"if(user = 5 and item = 6, {change}, {name})"))
    assert digest_of(changed) != digest_of(truth)
