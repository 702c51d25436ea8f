"""Sums over users: exact, and the same bits however the rows lie."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from frames import settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.metrics import RANKING
from spark_eval.stats.intervals import from_limbs
from spark_eval.transforms.aggregate import limb_sums
from spark_eval.verbs.summary import metric_rows

AP, DCG = RANKING["ap"], RANKING["dcg"]
K = (5,)
N_USERS = 400


def per_user(spark: SparkSession, values: Sequence[float | None], column: str = "ap_at_5") -> DataFrame:
    rows = [("als", number, value) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, f"model string, user int, {column} double")


def summed(frame: DataFrame, metric: Any = AP) -> dict[str, Any]:
    return limb_sums(frame, [f"{metric.name}_at_5"]).collect()[0].asDict()


def summary(frame: DataFrame, metric: Any = AP) -> tuple[Any, ...]:
    """value, std_error, ci_low, ci_high, n_users, n_undefined."""
    (row,) = metric_rows([summed(frame, metric)], ["als"], [metric], K, "default")
    return row[5:11]


@pytest.fixture(scope="module")
def values() -> list[float]:
    """Doubles whose sum in row order depends on that order."""
    source = random.Random(17)
    return [source.random() ** 9 for _ in range(N_USERS)]


def test_a_sum_of_doubles_would_depend_on_the_order(values: list[float]) -> None:
    assert sum(values) != sum(sorted(values))


@pytest.mark.parametrize(("metric", "scale"), [(AP, 1.0), (DCG, 1e6)], ids=["bounded", "unbounded"])
def test_limbs_hold_the_exact_sum(
    spark: SparkSession, values: list[float], metric: Any, scale: float
) -> None:
    scaled = [value * scale for value in values]
    name = f"{metric.name}_at_5"
    limbs = summed(per_user(spark, scaled, name), metric)["total"]
    exact = sum(map(Fraction, scaled))
    assert abs(from_limbs(limbs) - exact) <= Fraction(N_USERS, 2**61)
    assert float(from_limbs(limbs)) == pytest.approx(math.fsum(scaled), rel=1e-15)


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
    assert limb_sums(per_user(spark, []), ["ap_at_5"]).collect() == []
    (row,) = metric_rows([], ["als"], [AP], K, "default")
    assert row == ("als", "map", 5, "all", "all", None, None, None, None, 0, 0, "default")


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


@pytest.mark.parametrize(
    "values",
    [[1e10], [1e200, 1.0], [float("inf")], [float("nan")], [3e9, 1.0, 2.0**33]],
    ids=["squares", "squares beyond a double", "infinite", "not a number", "one of many"],
)
def test_values_that_outgrow_their_limbs_are_refused(spark: SparkSession, values: list[float]) -> None:
    with pytest.raises(DataError) as raised:
        summary(per_user(spark, values, "dcg_at_5"), DCG)
    assert raised.value.code == "METRIC_OVERFLOW"


def test_sums_that_outgrow_their_limbs_are_refused(spark: SparkSession) -> None:
    # The top limb of a square of 2^66 holds 2^62 units; twice that is too much.
    with pytest.raises(DataError) as raised:
        summary(per_user(spark, [2.0**32.99] * 3, "dcg_at_5"), DCG)
    assert raised.value.code == "METRIC_OVERFLOW"


def test_large_values_that_fit_are_exact(spark: SparkSession) -> None:
    assert summary(per_user(spark, [2.0**32, 2.0**31], "dcg_at_5"), DCG)[0] == 2.0**30 * 3


def test_models_are_summed_apart(spark: SparkSession) -> None:
    frame = per_user(spark, [0.25, 0.5]).withColumn("model", F.concat(F.lit("m"), F.col("user")))
    rows = metric_rows(
        [row.asDict() for row in limb_sums(frame, ["ap_at_5"]).collect()], ["m1", "m0"], [AP], K, "default"
    )
    assert [(row[0], row[5]) for row in rows] == [("m0", 0.25), ("m1", 0.5)]
