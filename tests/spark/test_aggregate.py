"""Sums over the users of a frame: exact, and the same bits however the rows lie."""

import math
import random
from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import pytest
from frames import settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.conventions import Checks, Conventions
from spark_eval.errors import DataError
from spark_eval.metrics import MetricValue, parse_metric
from spark_eval.plan import Plan
from spark_eval.verbs.evaluation import Evaluation
from spark_eval.verbs.summary import METRICS

AP, DCG, FCP = (parse_metric(text)[0] for text in ("ap@5", "dcg@5", "fcp@5"))
NAMES = [column.split()[0] for column in METRICS.split(", ")]
N_USERS = 400


def per_user(spark: SparkSession, values: Sequence[float | None], column: str = "ap_at_5") -> DataFrame:
    rows = [("als", number, value) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, f"model string, user int, {column} double")


def rows_of(
    frame: DataFrame, metric: MetricValue = AP, models: Sequence[str] = ("als",), segments: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Rows of the table ``metrics``."""
    plan = Plan([metric], Conventions(), Checks.HITS, segments)
    rows = Evaluation(frame, [], models, plan, ExitStack(), "").metric_rows
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def summary(frame: DataFrame, metric: MetricValue = AP) -> tuple[Any, ...]:
    """value, std_error, ci_low, ci_high, n_users, n_undefined."""
    (row,) = rows_of(frame, metric)
    return tuple(row.values())[5:11]


@pytest.fixture(scope="module")
def values() -> list[float]:
    """Doubles whose sum in row order depends on that order."""
    source = random.Random(17)
    return [source.random() ** 9 for _ in range(N_USERS)]


def test_a_sum_of_doubles_would_depend_on_the_order(values: list[float]) -> None:
    assert sum(values) != sum(sorted(values))


@pytest.mark.parametrize(("metric", "scale"), [(AP, 1.0), (DCG, 1e6)], ids=["bounded", "unbounded"])
def test_the_mean_is_rounded_once(
    spark: SparkSession, values: list[float], metric: MetricValue, scale: float
) -> None:
    scaled = [value * scale for value in values]
    exact = sum(map(Fraction, scaled)) / N_USERS
    assert summary(per_user(spark, scaled, metric.column), metric)[0] == float(exact)


def test_mean_and_error_are_those_of_the_values(spark: SparkSession, values: list[float]) -> None:
    mean = math.fsum(values) / N_USERS
    variance = math.fsum((value - mean) ** 2 for value in values) / (N_USERS - 1)
    found = summary(per_user(spark, values))
    assert found[:2] == pytest.approx((mean, math.sqrt(variance / N_USERS)), rel=1e-12)
    assert found[4:] == (N_USERS, 0)


def test_undefined_values_are_left_out_and_counted(spark: SparkSession) -> None:
    found = summary(per_user(spark, [0.5, None, 1.0]))
    assert (found[0], *found[4:]) == (0.75, 2, 1)


def test_a_model_without_users_has_a_row_of_nulls(spark: SparkSession) -> None:
    (row,) = rows_of(per_user(spark, []))
    assert tuple(row.values())[:-1] == ("als", "map", 5, "all", "all", None, None, None, None, 0, 0)


def test_the_same_bits_under_every_layout(spark: SparkSession, values: list[float]) -> None:
    shuffled = random.Random(5).sample(values, N_USERS)
    found = set()
    for adaptive, shuffles, partitions, rows in [
        ("true", "1", 1, values),
        ("true", "4", 2, shuffled),
        ("false", "1", 3, values),
        ("false", "4", 7, shuffled),
        ("true", "4", 16, values),
    ]:
        conf = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.shuffle.partitions": shuffles}
        with settings(spark, conf):
            found.add(summary(per_user(spark, rows).repartition(partitions)))
    assert len(found) == 1


def test_values_that_no_double_holds_are_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError) as raised:
        summary(per_user(spark, [1.0, float("inf")], "dcg_at_5"), DCG)
    assert raised.value.code == "METRIC_OVERFLOW"


def test_large_values_are_exact(spark: SparkSession) -> None:
    assert summary(per_user(spark, [2.0**1000, 2.0**999], "dcg_at_5"), DCG)[:2] == (2.0**998 * 3, 2.0**998)


def test_models_are_summed_apart(spark: SparkSession) -> None:
    frame = per_user(spark, [0.25, 0.5]).withColumn("model", F.concat(F.lit("m"), F.col("user")))
    rows = rows_of(frame, models=["m1", "m0"])
    assert [(row["model"], row["value"]) for row in rows] == [("m0", 0.25), ("m1", 0.5)]


def test_the_micro_average_weighs_users_by_their_pairs(spark: SparkSession) -> None:
    value, weight = FCP.columns
    # Of 2 pairs 1, of 8 pairs 6; of no pair nothing.
    users = [("als", 0.5, 2.0), ("als", 0.75, 8.0), ("als", None, 0.0)]
    frame = spark.createDataFrame(users, f"model string, {value} double, {weight} double")
    macro, micro = rows_of(frame, FCP)
    assert (macro["metric"], macro["value"], macro["n_users"], macro["n_undefined"]) == ("fcp", 0.625, 2, 1)
    assert (micro["metric"], micro["value"], micro["std_error"]) == ("fcp_micro", 0.7, None)


USERS = "model string, ap_at_5 double, value string, `a.b` int"


def test_every_value_of_a_segment_has_a_mean_of_its_users(spark: SparkSession) -> None:
    users = [
        ("als", 0.25, "x", 1),
        ("als", 0.5, "x", None),
        ("als", 1.0, None, 1),
        ("als", None, "y", None),
        ("bpr", 0.5, "y", 1),
    ]
    rows = rows_of(spark.createDataFrame(users, USERS), models=["als", "bpr"], segments=["value", "a.b"])
    keys = ("model", "segment", "segment_value", "value", "n_users", "n_undefined")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("als", "all", "all", 1.75 / 3, 3, 1),
        ("als", "a.b", "(missing)", 0.5, 1, 1),
        ("als", "a.b", "1", 0.625, 2, 0),
        ("als", "value", "(missing)", 1.0, 1, 0),
        ("als", "value", "x", 0.375, 2, 0),
        ("als", "value", "y", None, 0, 1),
        ("bpr", "all", "all", 0.5, 1, 0),
        ("bpr", "a.b", "1", 0.5, 1, 0),
        ("bpr", "value", "y", 0.5, 1, 0),
    ]


def test_an_overflow_in_one_segment_is_refused(spark: SparkSession) -> None:
    users = [("als", float("inf"), "x", 1), ("als", 0.5, "y", 1), ("als", None, "z", 1)]
    frame = spark.createDataFrame(users, USERS)
    with pytest.raises(DataError) as raised:
        rows_of(frame.withColumnRenamed("ap_at_5", "dcg_at_5"), DCG, segments=["value"])
    assert raised.value.code == "METRIC_OVERFLOW"
    # The users of z, all undefined, are no overflow.
    fine = rows_of(frame.where("value <> 'x'"), segments=["value"])
    assert [row["value"] for row in fine] == [0.5, 0.5, None]
