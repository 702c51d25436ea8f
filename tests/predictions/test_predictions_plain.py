"""Predictions that the workers read themselves give what Spark's reader gives, faults and all."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opened import opened
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.predictions.evaluate import Predictions, measure_predictions
from spark_eval.predictions.plan import make_prediction_plan
from spark_eval.predictions.task import PredictionPlan
from spark_eval.predictions.worker.batches import RowReader

SCHEMA = "name string, label int, score double, user bigint, weight double, cv int, country string, age int"
COLUMNS = {"model": "name", "fold": "cv"}
OPTIONS: dict[str, Any] = {"segments": ["country", "age"], "curves": True, "choose": {"flags": [9]}}


def rows_of(n_rows: int) -> list[tuple[Any, ...]]:
    source = random.Random(5)
    return [
        (
            *("ab"[place % 2], source.randrange(2), source.randrange(21) / 20, source.randrange(6)),
            *(source.randrange(1, 4) / 2, source.randrange(3), source.choice(["NL", "", None]), place % 2),
        )
        for place in range(n_rows)
    ]


def rows_of_all(found: Predictions) -> list[Any]:
    return [found.metric_rows, found.curve_rows, found.threshold_rows, list(found.entries)]


def both_ways(
    frame: DataFrame, folder: Path, plan: PredictionPlan, columns: dict[str, str]
) -> tuple[Any, Any]:
    frame.write.parquet(str(folder))
    stored = frame.sparkSession.read.parquet(str(folder))
    plain = opened(stored, plan, None, columns)
    by_spark = opened(stored.where(F.lit(True) | F.col("name").isNull()), plan, None, columns)
    assert plain.rows.n_rows is not None
    assert plain.rows.n_rows == frame.count()
    assert by_spark.rows.n_rows is None
    return rows_of_all(measure_predictions(plain)), rows_of_all(measure_predictions(by_spark))


def test_valid_rows_of_plain_files_give_the_numbers_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(rows_of(300), SCHEMA).repartition(3)
    plan = make_prediction_plan("binary", metrics=["auc", "gauc", "log_loss", "f1", "rmse", "ece"], **OPTIONS)

    plain, by_spark = both_ways(frame, tmp_path / "rows", plan, COLUMNS)

    assert plain == by_spark
    assert {row[3] for row in plain[0]} == {"all", "country", "age", "fold", "folds"}


def test_rows_with_faults_are_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    faulty = [("a", None, 0.5, 1, 1.0, 0, "NL", 1), ("b", 1, float("nan"), 1, 1.0, 0, "NL", 1)]
    frame = spark.createDataFrame(rows_of(40) + faulty, SCHEMA).coalesce(1)
    plan = make_prediction_plan("binary", metrics=["auc", "accuracy"])

    plain, by_spark = both_ways(frame, tmp_path / "rows", plan, COLUMNS)

    assert plain == by_spark
    assert {entry[3] for entry in plain[3]} == {None, "NULL_LABEL", "SCORE_NOT_FINITE"}


@pytest.mark.parametrize(
    ("task", "options", "change", "value", "code"),
    [
        ("binary", {}, "label", None, "NULL_LABEL"),
        ("binary", {}, "label", 2.0, "UNKNOWN_CLASS"),
        ("binary", {}, "label", float("nan"), "UNKNOWN_CLASS"),
        ("binary", {"negative": "no", "positive": "yes"}, "label", "maybe", "UNKNOWN_CLASS"),
        ("binary", {"negative": "no", "positive": "yes"}, "label", None, "NULL_LABEL"),
        ("binary", {}, "score", None, "NULL_SCORE"),
        ("binary", {}, "score", 1.1, "NOT_A_PROBABILITY"),
        ("binary", {}, "score", -0.1, "NOT_A_PROBABILITY"),
        ("binary", {}, "score", float("nan"), "SCORE_NOT_FINITE"),
        ("binary", {"scores": "raw"}, "score", float("inf"), "SCORE_NOT_FINITE"),
        ("regression", {}, "label", float("-inf"), "LABEL_NOT_FINITE"),
        ("regression", {}, "score", None, "NULL_SCORE"),
        ("binary", {}, "weight", -1.0, "WEIGHT_OUT_OF_RANGE"),
        ("binary", {}, "weight", None, "NULL_WEIGHT"),
        ("binary", {}, "weight", float("nan"), "WEIGHT_OUT_OF_RANGE"),
        ("binary", {}, "model", None, "NULL_MODEL"),
        ("binary", {"metrics": ["gauc"]}, "user", None, "NULL_ID"),
        ("binary", {"segments": ["fold_"]}, "segment_0", None, "NULL_ID"),
    ],
)
def test_any_fault_of_a_row_is_seen(
    task: str, options: dict[str, Any], change: str, value: Any, code: str
) -> None:
    plan = make_prediction_plan(task, **options)
    if options.get("segments"):
        plan = replace(plan, segments=("fold",))
    labels = ["yes", "no"] if "positive" in options else [1.0, 0.0]
    columns: dict[str, list[Any]] = {"label": labels, "score": [0.5, 1.0], "weight": [1.0, 0.0]}
    columns |= {"model": ["a", "b"], "user": [1, 2], "segment_0": [0, 1]}
    reader = RowReader(plan, None)

    assert reader.error_codes(pa.table(columns)).to_pylist() == [None, None]

    columns[change][1] = value
    assert reader.error_codes(pa.table(columns)).to_pylist() == [None, code]


def test_what_arrow_writes_otherwise_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame(rows_of(4), SCHEMA).write.parquet(str(tmp_path / "rows"))
    stored = spark.read.parquet(str(tmp_path / "rows"))

    by_number = make_prediction_plan("binary", segments=["score"])
    of_classes = make_prediction_plan("multiclass", classes=[0, 1], scores="class")

    assert opened(stored, make_prediction_plan("binary"), "m").rows.n_rows is not None
    assert opened(stored, by_number, "m").rows.n_rows is None
    assert opened(stored, of_classes, "m", {"score": "label"}).rows.n_rows is not None
