"""Predictions that the workers read themselves give what Spark's reading gives; faults are left to Spark."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.pointwise.batches import Reading
from spark_eval.pointwise.options import make_plan
from spark_eval.pointwise.task import Plan
from spark_eval.pointwise.valid import SoundReading, Unsound
from spark_eval.verbs.predictions import PredictionMetrics, measure_predictions, read_predictions

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


def told(found: PredictionMetrics) -> list[Any]:
    return [found.metric_rows, found.curve_rows, found.threshold_rows, found.entries]


def both_ways(frame: DataFrame, folder: Path, plan: Plan, columns: dict[str, str]) -> tuple[Any, Any]:
    frame.write.parquet(str(folder))
    stored = frame.sparkSession.read.parquet(str(folder))
    plain = read_predictions(stored, columns, None, plan)
    by_spark = read_predictions(stored.where(F.lit(True) | F.col("name").isNull()), columns, None, plan)
    assert plain.files is not None
    assert plain.files.n_rows == frame.count()
    assert by_spark.files is None
    return told(measure_predictions(plain)), told(measure_predictions(by_spark))


def test_sound_rows_of_plain_files_give_the_numbers_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(rows_of(300), SCHEMA).repartition(3)
    plan = make_plan("binary", metrics=["auc", "gauc", "log_loss", "f1", "rmse", "ece"], **OPTIONS)

    plain, by_spark = both_ways(frame, tmp_path / "rows", plan, COLUMNS)

    assert plain == by_spark
    assert {row[3] for row in plain[0]} == {"all", "country", "age", "fold", "folds"}


def test_rows_with_faults_are_told_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    faulty = [("a", None, 0.5, 1, 1.0, 0, "NL", 1), ("b", 1, float("nan"), 1, 1.0, 0, "NL", 1)]
    frame = spark.createDataFrame(rows_of(40) + faulty, SCHEMA).coalesce(1)
    plan = make_plan("binary", metrics=["auc", "accuracy"])

    plain, by_spark = both_ways(frame, tmp_path / "rows", plan, COLUMNS)

    assert plain == by_spark
    assert {entry[3] for entry in plain[3]} == {None, "NULL_LABEL", "SCORE_NOT_FINITE"}


@pytest.mark.parametrize(
    ("task", "options", "change", "value"),
    [
        ("binary", {}, "label", None),
        ("binary", {}, "label", 2.0),
        ("binary", {}, "label", float("nan")),
        ("binary", {"negative": "no", "positive": "yes"}, "label", "maybe"),
        ("binary", {"negative": "no", "positive": "yes"}, "label", None),
        ("binary", {}, "score", None),
        ("binary", {}, "score", 1.1),
        ("binary", {}, "score", -0.1),
        ("binary", {}, "score", float("nan")),
        ("binary", {"scores": "raw"}, "score", float("inf")),
        ("regression", {}, "label", float("-inf")),
        ("regression", {}, "score", None),
        ("binary", {}, "weight", -1.0),
        ("binary", {}, "weight", None),
        ("binary", {}, "weight", float("nan")),
        ("binary", {}, "model", None),
        ("binary", {"metrics": ["gauc"]}, "user", None),
        ("binary", {"segments": ["fold_"]}, "fold", None),
    ],
)
def test_any_fault_of_a_row_is_seen(task: str, options: dict[str, Any], change: str, value: Any) -> None:
    plan = make_plan(task, **options)
    if options.get("segments"):
        plan = replace(plan, segments=("fold",))
    labels = ["yes", "no"] if "positive" in options else [1.0, 0.0]
    columns: dict[str, list[Any]] = {"label": labels, "score": [0.5, 1.0], "weight": [1.0, 0.0]}
    columns |= {"model": ["a", "b"], "user": [1, 2], "fold": [0, 1], "segment_0": [0, 1]}
    reading = SoundReading(Reading(plan, None, 1, has_weight=True))

    sound = reading.conformed(pa.RecordBatch.from_pydict(columns))
    assert sound["fault"].null_count == 2
    assert np.array_equal(sound["label"], [1.0, 0.0])

    columns[change][1] = value
    with pytest.raises(Unsound):
        reading.conformed(pa.RecordBatch.from_pydict(columns))


def test_what_arrow_writes_otherwise_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame(rows_of(4), SCHEMA).write.parquet(str(tmp_path / "rows"))
    stored = spark.read.parquet(str(tmp_path / "rows"))

    by_number = make_plan("binary", segments=["score"])
    of_classes = make_plan("multiclass", classes=[0, 1], scores="class")

    assert read_predictions(stored, None, "m", make_plan("binary")).files is not None
    assert read_predictions(stored, None, "m", by_number).files is None
    assert read_predictions(stored, {"score": "label"}, "m", of_classes).files is None
