"""Gaps between groups of users: worked numbers, a slow second computation, coverage, and bad input."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_eval import evaluate, segment_gaps
from spark_eval.errors import DataError
from spark_eval.evaluation.summary import SUMS, SumRow
from spark_eval.monitoring.gaps import gap_rows
from spark_eval.results.driver_tables import arrow_table
from spark_eval.statistics.exact import Floats

DEVICES = {"phone": range(5), "tv": range(5, 9), "web": range(9, 12)}
MISSES = (0, 3, 6, 9)
FRAMES: dict[str, Any] = {
    "recommendations": pd.DataFrame(
        {"user": range(12), "item": [9 if user in MISSES else 1 for user in range(12)], "rank": 1}
    ),
    "truth": pd.DataFrame({"user": range(12), "item": 1}),
    "users": pd.DataFrame(
        [(user, device) for device, users in DEVICES.items() for user in users], columns=["user", "device"]
    ),
}
ASKED: Any = {"model": "m", "metrics": "recall", "k": 1, "segments": ["device"]}


def test_worked_gaps() -> None:
    rows = segment_gaps(evaluate(**FRAMES, **ASKED, engine="local").sums).to_pylist()
    found = {(row["gap"], row["segment_value"]): row for row in rows}
    # 3 of 5, 3 of 4, 2 of 3; and 5 of 7, 5 of 8, 6 of 9 outside of them.
    largest = found["largest - smallest", "tv"]
    assert largest["other_value"] == "phone"
    assert largest["difference"] == pytest.approx(3 / 4 - 3 / 5)
    # Variances of the means: 3/5 2/5 / 4, and 3/4 1/4 / 3.
    assert largest["std_error"] == pytest.approx(math.sqrt(0.06 + 0.0625))
    assert (largest["ci_low"], largest["n_groups"]) == (0, 3)
    rest = found["group - rest", "phone"]
    assert rest["other_value"] == "(rest)"
    assert (rest["n_users"], rest["n_other"]) == (5, 7)
    assert rest["difference"] == pytest.approx(3 / 5 - 5 / 7)
    error = math.sqrt(0.06 + 5 / 7 * 2 / 7 / 6)
    margin = NormalDist().inv_cdf(1 - 0.05 / 6) * error
    assert rest["std_error"] == pytest.approx(error)
    assert (rest["ci_low"], rest["ci_high"]) == pytest.approx(
        (rest["difference"] - margin, rest["difference"] + margin)
    )


def test_the_sums_of_spark_have_the_same_gaps(spark: SparkSession) -> None:
    frames: dict[str, Any] = {
        name: spark.createDataFrame(frame).repartition(3) for name, frame in FRAMES.items()
    }
    there = evaluate(**frames, **ASKED, engine="spark")
    here = segment_gaps(evaluate(**FRAMES, **ASKED, engine="local").sums)
    assert segment_gaps(there.to_spark("sums")).to_pylist() == here.to_pylist()
    there.unpersist()


def sum_rows_of(groups: Mapping[str, Sequence[float] | Floats]) -> list[SumRow]:
    """The sums of a mean over these values, of everybody and of each group."""
    everybody = [value for values in groups.values() for value in values]
    rows = []
    for segment, name, values in (
        ("all", "all", everybody),
        *(("device", name, list(values)) for name, values in groups.items()),
    ):
        exact = [Fraction(float(value)) for value in values]
        sums = (sum(exact, Fraction()), sum((one**2 for one in exact), Fraction()), None, None, None)
        rows.append(SumRow.of(("m", "ndcg", 10, segment, name, "default"), len(exact), len(exact), sums))
    return rows


def test_gaps_are_those_of_loops_over_all_pairs() -> None:
    source = np.random.default_rng(4)
    groups = {name: source.random(n) for name, n in (("a", 20), ("b", 35), ("c", 12), ("d", 50))}
    largest, *rest = gap_rows(sum_rows_of(groups))
    margin = NormalDist().inv_cdf(1 - 0.05 / 12)
    lows, highs = [], []
    for one in groups.values():
        for other in groups.values():
            if one is not other:
                apart = one.mean() - other.mean()
                error = math.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
                lows.append(apart - margin * error)
                highs.append(apart + margin * error)
    means = {name: values.mean() for name, values in groups.items()}
    assert largest.difference == pytest.approx(max(means.values()) - min(means.values()))
    assert (largest.ci_low, largest.ci_high) == pytest.approx((max(0, *lows), max(highs)))
    for row in rest:
        others = np.concatenate([values for name, values in groups.items() if name != row.segment_value])
        own = groups[row.segment_value]
        assert row.difference == pytest.approx(own.mean() - others.mean())
        error = math.sqrt(own.var(ddof=1) / len(own) + others.var(ddof=1) / len(others))
        assert row.std_error == pytest.approx(error)


def test_intervals_hold_the_true_gaps_together() -> None:
    source = np.random.default_rng(9)
    true = np.array([0.5, 0.5, 0.45, 0.4])
    sizes = (40, 60, 80, 50)
    n_range = n_rest = 0
    n_trials = 300
    for _ in range(n_trials):
        drawn = [source.random(n) < share for n, share in zip(sizes, true, strict=True)]
        largest, *rest = gap_rows(sum_rows_of(dict(zip("abcd", drawn, strict=True))))
        assert largest.ci_low is not None
        assert largest.ci_high is not None
        n_range += largest.ci_low <= 0.1 <= largest.ci_high
        is_right = True
        for index, row in enumerate(rest):
            others = [other for other in range(4) if other != index]
            mean = sum(sizes[other] * true[other] for other in others) / sum(sizes[other] for other in others)
            assert row.ci_low is not None
            assert row.ci_high is not None
            is_right &= bool(row.ci_low <= true[index] - mean <= row.ci_high)
        n_rest += is_right
    assert n_range / n_trials >= 0.93
    assert n_rest / n_trials >= 0.93


def test_groups_of_one_user_have_no_interval_and_single_groups_no_gap() -> None:
    largest, *rest = gap_rows(sum_rows_of({"a": [0.25], "b": [0.5, 0.75]}))
    assert (largest.difference, largest.std_error, largest.ci_low) == (0.375, None, None)
    assert [row.difference for row in rest] == [-0.375, 0.375]
    assert list(gap_rows(sum_rows_of({"a": [0.25, 0.5]}))) == []
    assert list(gap_rows(sum_rows_of({"a": [0.25, 0.5], "b": []}))) == []


def test_sums_of_several_runs_and_of_requests_are_refused() -> None:
    rows = sum_rows_of({"a": [0.25, 0.5], "b": [0.5, 0.75]})
    with pytest.raises(DataError, match="sums of one run") as error:
        segment_gaps(arrow_table([*rows, *rows], SUMS))
    assert error.value.code == "INVALID_SUMS"
    with pytest.raises(DataError, match="lists by request") as error:
        segment_gaps(arrow_table([row._replace(n_requests=9, n_requests_defined=9) for row in rows], SUMS))
    assert error.value.code == "INVALID_SUMS"
    with pytest.raises(DataError) as error:
        segment_gaps(pa.table({"model": ["m"]}))
    assert error.value.code == "MISSING_COLUMN"
