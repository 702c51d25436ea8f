"""Predictions through Spark: columns and faults, and the numbers of the path without it."""

from html import unescape
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from frames import settings
from local import crowd, measure
from opened import opened
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval import evaluate_predictions
from spark_eval.errors import ConfigError, DataError
from spark_eval.predictions.evaluate import measure_predictions
from spark_eval.predictions.plan import make_prediction_plan
from spark_eval.runners.quarantine import quarantined
from spark_eval.runners.rows import SparkRows
from spark_eval.runtime.spark_errors import named_spark_error

pytestmark = pytest.mark.usefixtures("engine_of_users")
NAN, INFINITE = float("nan"), float("inf")
OPTIONS: dict[str, Any] = {
    "metrics": ["auc", "auprc", "gauc", "log_loss", "f1", "ece"],
    "segments": ["country"],
    "curves": True,
    "choose": {"flags": [40], "recall": [0.9]},
    "intervals": "user",
}


def faults_of(frame: DataFrame, task: str, **options: Any) -> list[str | None]:
    plan = make_prediction_plan(task, **options)
    judged = opened(frame, plan, "m").judged
    assert judged.columns[:2] == frame.columns[:2]
    return [row["fault"] for row in judged.result().collect()]


def test_faults_of_binary_rows(spark: SparkSession) -> None:
    rows = [
        (1, 0.5, 1.0),
        (None, 0.5, 1.0),
        (2, 0.5, 1.0),
        (1, None, 1.0),
        (1, NAN, 1.0),
        (1, -0.1, 1.0),
        (1, 1.0, None),
        (0, 0.0, -1.0),
        (0, 0.0, NAN),
        (0, 0.0, 2.0**30),
    ]
    frame = spark.createDataFrame(rows, "label int, score double, weight double").coalesce(1)
    codes = [None, "NULL_LABEL", "UNKNOWN_CLASS", "NULL_SCORE", "SCORE_NOT_FINITE", "NOT_A_PROBABILITY"]
    codes += ["NULL_WEIGHT", "WEIGHT_OUT_OF_RANGE", "WEIGHT_OUT_OF_RANGE", None]
    assert faults_of(frame, "binary") == codes
    raw = [None if code == "NOT_A_PROBABILITY" else code for code in codes]
    assert faults_of(frame, "binary", scores="raw", metrics=["auc"]) == raw


LOGITS: Final = {"label": [0, 0, 1, 1], "score": [-3.0, 0.25, 0.75, 2.0]}


def test_logits_are_refused_with_the_way_out() -> None:
    logits = pd.DataFrame(LOGITS)
    with pytest.raises(DataError) as raised:
        evaluate_predictions(logits, "binary", model="m")
    assert raised.value.code == "QUARANTINE_SHARE"
    for part in (
        "2 of 4 rows",
        "2 NOT_A_PROBABILITY",
        "predictions.max_quarantined, now 0.01",
        "scores: raw",
    ):
        assert part in raised.value.message
    with pytest.raises(DataError, match=r"EMPTY_PREDICTIONS.*NOT_A_PROBABILITY.*scores: raw"):
        evaluate_predictions(logits.assign(score=9.0), "binary", model="m", max_quarantined=1)
    raw = evaluate_predictions(logits, "binary", model="m", scores="raw")
    assert "could not be used" not in f"{raw!r} {raw._repr_html_()}"
    told = "2 rows could not be used (50 % of predictions of model 'm': 2 NOT_A_PROBABILITY)"
    half = evaluate_predictions(logits, "binary", model="m", max_quarantined=0.5)
    assert told in repr(half)
    assert told in unescape(half._repr_html_())


@pytest.mark.parametrize(("n_rows", "is_taken"), [(99, False), (100, True)])
def test_one_row_in_a_hundred_may_be_unusable(n_rows: int, is_taken: bool) -> None:
    rows = pd.DataFrame({"label": [0, 1] * (n_rows // 2) + [1] * (n_rows % 2), "score": [0.25] * n_rows})
    rows.loc[0, "score"] = 1.5
    if is_taken:
        assert "1 rows could not be used (1 % of" in repr(evaluate_predictions(rows, "binary", model="m"))
    else:
        with pytest.raises(DataError, match="QUARANTINE_SHARE"):
            evaluate_predictions(rows, "binary", model="m")


def test_a_broken_model_is_refused_though_another_has_many_valid_rows() -> None:
    rows = pd.DataFrame({"label": [0, 1] * 100, "score": 0.25, "model": ["good"] * 196 + ["broken"] * 4})
    rows.loc[199, "score"] = 1.5
    with pytest.raises(DataError, match=r"QUARANTINE_SHARE.*model 'broken': 1 of 4 rows"):
        evaluate_predictions(rows, "binary")


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_one(share: float) -> None:
    with pytest.raises(ConfigError, match="OUT_OF_RANGE"):
        evaluate_predictions(pd.DataFrame(LOGITS), "binary", model="m", max_quarantined=share)


def test_faults_of_a_regression(spark: SparkSession) -> None:
    rows = [(1.0, 2.0), (None, 1.0), (INFINITE, 1.0), (1.0, NAN), (1.0, None)]
    frame = spark.createDataFrame(rows, "label double, score float").coalesce(1)
    codes = [None, "NULL_LABEL", "LABEL_NOT_FINITE", "SCORE_NOT_FINITE", "NULL_SCORE"]
    assert faults_of(frame, "regression") == codes


def test_faults_of_arrays_of_probabilities(spark: SparkSession) -> None:
    rows = [
        ("a", [0.5, 0.5]),
        ("c", [0.5, 0.5]),
        ("a", None),
        ("a", [0.5, None]),
        ("a", [1.0]),
        ("a", [0.5, 0.5, 0.0]),
        ("a", [0.5, 0.49]),
        ("a", [1.5, -0.5]),
    ]
    frame = spark.createDataFrame(rows, "label string, score array<double>").coalesce(1)
    expected = [
        None,
        "UNKNOWN_CLASS",
        "NULL_SCORE",
        "NULL_SCORE",
        *["NO_DISTRIBUTION"] * 3,
        "NOT_A_PROBABILITY",
    ]
    assert faults_of(frame, "multiclass", classes=["a", "b"]) == expected


def test_faults_of_predicted_classes(spark: SparkSession) -> None:
    rows = [("a", "b"), ("a", None), ("a", "c"), (None, "a")]
    frame = spark.createDataFrame(rows, "label string, score string").coalesce(1)
    expected = [None, "NULL_SCORE", "UNKNOWN_CLASS", "NULL_LABEL"]
    assert faults_of(frame, "multiclass", scores="class", classes=["a", "b"]) == expected


@pytest.mark.parametrize(
    ("query", "options", "code"),
    [
        ("SELECT 'x' AS label, 0.5D AS score", {}, "CLASS_TYPE_MISMATCH"),
        ("SELECT 1 AS label, 0.5D AS score", {"positive": "yes", "negative": "no"}, "CLASS_TYPE_MISMATCH"),
        ("SELECT array(1) AS label, 0.5D AS score", {}, "CLASS_TYPE_MISMATCH"),
        ("SELECT 1 AS label, 'x' AS score", {}, "SCORE_NOT_NUMERIC"),
        ("SELECT 1 AS label", {}, "MISSING_COLUMN"),
        ("SELECT 1 AS label, 0.5D AS score, 'x' AS weight", {}, "WEIGHT_NOT_NUMERIC"),
        ("SELECT 1 AS label, 0.5D AS score, 1.5D AS user", {"metrics": ["gauc"]}, "ID_IS_FLOAT"),
        ("SELECT 1 AS label, 0.5D AS score", {"task": "multiclass", "classes": [0, 1]}, "NOT_AN_ARRAY"),
        ("SELECT 'x' AS label, 0.5D AS score", {"task": "regression"}, "LABEL_NOT_NUMERIC"),
    ],
)
def test_columns_of_the_wrong_type_are_refused(
    spark: SparkSession, query: str, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(DataError) as raised:
        evaluate_predictions(spark.sql(query), **{"task": "binary", "model": "m", **options})
    assert raised.value.code == code


def test_booleans_are_the_classes_1_and_0(spark: SparkSession) -> None:
    frame = spark.sql("SELECT true AS label, 0.9D AS score UNION ALL SELECT false, 0.1D")
    found = evaluate_predictions(frame, "binary", model="m", metrics=["auc"])
    assert found.metrics["value"].tolist() == [1.0]


def test_squares_beyond_doubles_are_refused(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1e200D AS label, -1e200D AS score")
    with pytest.raises(Exception, match="METRIC_OVERFLOW") as raised:
        evaluate_predictions(frame, "regression", model="m")
    assert named_spark_error(raised.value).code == "METRIC_OVERFLOW"


@pytest.mark.parametrize("partitions", [1, 4])
def test_segments_of_too_many_values_are_refused(spark: SparkSession, partitions: int) -> None:
    frame = spark.range(0, 1_001, 1, partitions).selectExpr(
        "int(id % 2) AS label", "0.5D AS score", "id AS city"
    )
    with pytest.raises(Exception, match="TOO_MANY_SEGMENTS") as raised:
        evaluate_predictions(frame, "binary", model="m", metrics=["log_loss"], segments=["city"])
    assert named_spark_error(raised.value).code == "TOO_MANY_SEGMENTS"


def test_rows_of_a_model_named_by_option_are_shown_where_too_many_are_quarantined(
    spark: SparkSession,
) -> None:
    frame = spark.sql("SELECT 1 AS label, 0.5D AS score UNION ALL SELECT 0, 2.0D UNION ALL SELECT 0, 0.1D")
    predictions = opened(frame, make_prediction_plan("binary", metrics=["auc"]), "m")
    with pytest.raises(DataError, match="1 of 3 rows are quarantined") as raised:
        measure_predictions(predictions, {"predictions": 0.1})
    assert raised.value.code == "QUARANTINE_SHARE"
    assert '"score":2.0' in str(raised.value)


@pytest.mark.parametrize("item", ["make_ym_interval(1)", "map('a', 1)", "X'00'", "NULL"])
def test_rows_may_have_further_columns(spark: SparkSession, item: str) -> None:
    frame = spark.sql(f"SELECT 1 AS label, 0.5D AS score, {item} AS item")
    judged = opened(frame, make_prediction_plan("binary", metrics=["auc"]), "m").judged
    bad = SparkRows(judged.result().withColumn("fault", F.lit("NULL_ID")))
    [row] = quarantined("predictions", bad).result().collect()
    [theirs] = frame.select(F.to_json(F.struct("*", F.lit("NULL_ID").alias("fault")))).collect()
    assert row["row"] == theirs[0]


def test_intervals_by_user_need_users() -> None:
    with pytest.raises(DataError, match=r"MISSING_COLUMN.*user"):
        evaluate_predictions(pd.DataFrame(LOGITS), "binary", model="m", scores="raw", intervals="user")
    with pytest.raises(ConfigError, match=r"INVALID_CHOICE.*predictions\.intervals"):
        evaluate_predictions(pd.DataFrame(LOGITS), "binary", model="m", scores="raw", intervals="users")


def test_a_single_pass_over_the_rows(spark: SparkSession, persisted: list[Any]) -> None:
    frame = spark.createDataFrame([(1, 0.5), (0, 0.2)], "label int, score double")
    evaluate_predictions(frame, "binary", model="m", metrics=["log_loss"])
    assert persisted == []
    evaluate_predictions(frame, "binary", model="m", metrics=["auc"])
    assert len(persisted) == 2
    assert not any(rows.is_cached for rows in persisted)


@pytest.mark.parametrize(
    ("partitions", "adaptive"), [pytest.param(1, "true", marks=pytest.mark.slow), (5, "false")]
)
def test_the_numbers_are_those_without_spark_to_the_last_bit(
    spark: SparkSession, partitions: int, adaptive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = crowd(3)
    expected = measure(rows, **OPTIONS)
    # Also the ranges are many.
    monkeypatch.setattr("spark_eval.predictions.evaluate.SCORES_PER_RANGE", 6)
    monkeypatch.setattr("spark_eval.runners.spread.ROWS_PER_BUCKET", 100)
    table = pd.DataFrame({name.replace("segment_0", "country"): values for name, values in rows.items()})
    shuffled = table.sample(frac=1, random_state=np.random.RandomState(partitions))
    conf = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.execution.arrow.maxRecordsPerBatch": "64"}
    with settings(spark, conf):
        frame = spark.createDataFrame(shuffled).repartition(partitions)
        found = evaluate_predictions(frame, "binary", model="m", **OPTIONS)
    for name in ("metrics", "thresholds", "curves"):
        assert found.to_arrow(name).to_pylist() == getattr(expected, name)


# Label, score and weight of rows whose best scores weigh nothing: both labels, one, several scores; and one
# in the middle.
WEIGHTLESS = {
    "a positive": [(1, 0.9, 0.0), (1, 0.8, 1.0), (0, 0.7, 1.0), (1, 0.6, 2.0)],
    "a positive, then a negative": [(1, 0.9, 0.0), (0, 0.8, 1.0), (1, 0.7, 1.0)],
    "a negative": [(0, 0.9, 0.0), (0, 0.8, 1.0), (1, 0.7, 1.0)],
    "several": [(1, 0.9, 0.0), (0, 0.9, 0.0), (1, 0.85, 0.0), (1, 0.8, 1.0), (0, 0.7, 3.0)],
    "the middle": [(0, 0.9, 1.0), (1, 0.8, 0.0), (1, 0.7, 1.0), (0, 0.6, 0.5)],
}


def test_areas_under_preset_spark_are_those_of_spark_where_the_best_scores_weigh_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(case, *row) for case, known in WEIGHTLESS.items() for row in known]
    frame = spark.createDataFrame(rows, "model string, label int, score double, weight double").coalesce(1)
    evaluator = BinaryClassificationEvaluator(
        rawPredictionCol="score", weightCol="weight", numBins=0, metricName="areaUnderPR"
    )
    theirs = {case: evaluator.evaluate(frame.where(F.col("model") == case)) for case in WEIGHTLESS}
    table = frame.toPandas()
    for scores_per_range in (1_000, 1):
        monkeypatch.setattr("spark_eval.predictions.evaluate.SCORES_PER_RANGE", scores_per_range)
        found = evaluate_predictions(table, "binary", metrics=["auprc"], conventions="spark", engine="local")
        ours = {row.model: row.value for row in found.metric_rows}
        assert ours == pytest.approx(theirs, rel=1e-12)
