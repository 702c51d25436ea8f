"""The same bits however tables lie and whoever reads them: plain files by the workers, others by Spark.

That the numbers are right is shown without Spark, in ``tests/evaluation``, and on files in ``test_fuzz``.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.result import Evaluation

N_USERS, N_ITEMS, LONGEST = 60, 30, 12
METRICS = ("ndcg", "map", "precision", "map(tie_order=worst)@3")
OF_HITS = ("ndcg", "mrr", "precision")
# The type of ids, the column that orders lists, and the rules.
CASES: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "scores": ("bigint", "score double", {"metrics": METRICS, "no_truth": "zero"}),
    "decimal scores, ties by hash": (
        "string",
        "score decimal(20, 3)",
        {"metrics": METRICS, "conventions": {"ties": "hash", "truth_duplicates": "last"}, "threshold": 2.0},
    ),
    "ranks": ("string", "rank int", {"metrics": OF_HITS, "no_recommendations": "drop"}),
    "ranks under full checks": ("int", "rank bigint", {"metrics": OF_HITS, "checks": "full"}),
}


def tables_of(
    spark: SparkSession, kind: str, order: str, chance: random.Random
) -> tuple[DataFrame, DataFrame]:
    """Lists and truth with repeats, gaps, ties and rows that cannot be used; list by list."""

    def identity(number: int) -> Any:
        known = f"é{number}" if kind == "string" else number - 7
        return None if chance.random() < 0.02 else known

    lists, truth = [], []
    for user in range(N_USERS):
        for _ in range(chance.randrange(LONGEST) if chance.random() < 0.85 else 0):
            relevance = chance.choice([0.5, 1.0, 2.0, 4.0, None])
            truth.append(
                (identity(user), identity(chance.randrange(N_ITEMS)), relevance, chance.randrange(5))
            )
        for model in ("als", "bpr"):
            for rank in chance.sample(range(1, LONGEST + 4), chance.randrange(LONGEST)):
                place = rank if order.startswith("rank") else chance.randrange(-3, 4)
                lists.append((model, identity(user), identity(chance.randrange(N_ITEMS)), place))
    of_lists = spark.createDataFrame(lists, f"model string, user {kind}, item {kind}, place int")
    name, _, of_order = order.partition(" ")
    columns = ("model", "user", "item", f"cast(place as {of_order}) as {name}")
    schema = f"user {kind}, item {kind}, relevance double, timestamp bigint"
    return of_lists.selectExpr(*columns), spark.createDataFrame(truth, schema)


def everything(evaluation: Evaluation) -> list[Any]:
    """Users, means and ledger."""
    per_user = evaluation.per_user.select(*sorted(evaluation.per_user.columns))
    found = [
        sorted(map(tuple, per_user.collect()), key=str),
        sorted(evaluation.metric_rows, key=str),
        sorted(evaluation.entries, key=str),
    ]
    evaluation.unpersist()
    return found


# Each type of ranks as a frame or as files, under one of the checks; the other combinations repeat them.
RANK_TYPES = ("double", "float", "decimal(9, 0)", "decimal(9, 2)")


@pytest.mark.parametrize(
    ("checks", "kinds"),
    [
        ("hits", {"double": "files", "float": "frame"}),
        ("full", {"decimal(9, 0)": "frame"}),
        *(
            pytest.param(checks, dict.fromkeys(RANK_TYPES, way), marks=pytest.mark.exhaustive)
            for checks in ("hits", "full")
            for way in ("frame", "files")
        ),
    ],
)
def test_ranks_of_whole_doubles_give_the_bits_of_integers(
    spark: SparkSession, tmp_path: Path, checks: str, kinds: dict[str, str]
) -> None:
    lists, truth = tables_of(spark, "int", "rank int", random.Random(checks))
    rules: dict[str, Any] = {"metrics": OF_HITS, "k": [3, 10], "checks": checks}
    of_integers = everything(evaluate(lists, truth, **rules))
    for kind, way in kinds.items():
        given = lists.withColumn("rank", F.col("rank").cast(kind))
        if way == "files":
            given.coalesce(1).write.parquet(str(tmp_path / kind))
            given = spark.read.parquet(str(tmp_path / kind))
        assert everything(evaluate(given, truth, **rules)) == of_integers, kind
    if checks == "hits":
        pandas = lists.toPandas().astype({"user": "Int64", "item": "Int64", "rank": float})
        assert everything(evaluate(pandas, truth, **rules)) == of_integers


# Each type of ids, order and check is in one of both; of the others one is slow.
MARKS = {"scores": pytest.mark.exhaustive, "ranks": pytest.mark.slow}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, [])) for name in CASES])
def test_the_same_bits_from_files_and_from_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind, order, rules = CASES[name]
    tables = tables_of(spark, kind, order, random.Random(name))

    def measured(frames: Sequence[DataFrame], **more: Any) -> list[Any]:
        return everything(evaluate(frames[0], frames[1], timestamp_unit="s", k=[3, 10], **rules, **more))

    through_spark = measured([frame.repartition(5) for frame in tables])
    for place, frame in enumerate(tables):
        frame.coalesce(1).write.option("maxRecordsPerFile", 200).parquet(str(tmp_path / str(place)))
    plain = [spark.read.parquet(str(tmp_path / str(place))) for place in range(len(tables))]
    assert measured(plain) == through_spark
    # Many buckets of few rows; the users are written on the way.
    monkeypatch.setattr("spark_eval.evaluation.exchange.ROWS_PER_BUCKET", 200)
    assert measured(plain, folder=str(tmp_path / "per_user")) == through_spark
