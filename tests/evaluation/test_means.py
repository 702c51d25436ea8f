"""From sums over users to rows of ``metrics``: means rounded once, errors, segments, what is refused."""

import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spark_eval.errors import DataError
from spark_eval.evaluation.summary import SumRow, merge_sum_rows, metric_rows, sum_rows
from spark_eval.evaluation.worker.lists import merge_sums, sums
from spark_eval.kernels.columns import sum_of_columns
from spark_eval.kernels.values import MetricValue, parse_metric

AP, DCG, FCP = (parse_metric(text)[0] for text in ("ap@5", "dcg@5", "fcp@5"))
NAN = float("nan")
SOURCE = random.Random(17)
# Doubles whose sum in row order depends on that order.
VALUES = [SOURCE.random() ** 9 for _ in range(400)]
# Of each user the values of the metric's columns, and of segments.
User = tuple[Sequence[float], Mapping[str, str]]


def rows_of(models: Mapping[str, Sequence[User]], metric: MetricValue = AP) -> list[dict[str, Any]]:
    """Rows of the table ``metrics``."""
    return [row._asdict() for row in metric_rows(sums_of(models, metric))]


def sums_of(models: Mapping[str, Sequence[User]], metric: MetricValue = AP) -> list[SumRow]:
    """Rows of the table ``sums``."""
    parts = []
    for model, users in models.items():
        measured = {
            column: np.array([values[place] for values, _ in users], dtype=np.float64)
            for place, column in enumerate(metric.columns)
        }
        segments = {}
        for name in users[0][1] if users else ():
            known = sorted({facts[name] for _, facts in users})
            segments[name] = (np.array([known.index(facts[name]) for _, facts in users]), known)
        parts.append(
            sums(measured, sum_of_columns([metric]), (np.zeros(len(users), np.int64), [model]), segments)
        )
    return sum_rows(merge_sums(parts, list(sum_of_columns([metric]))), list(models), [metric], "")


def summary(values: Sequence[float], metric: MetricValue = AP) -> tuple[Any, ...]:
    """value, std_error, ci_low, ci_high, n_users, n_undefined."""
    (row,) = rows_of({"als": [([value], {}) for value in values]}, metric)
    return tuple(row.values())[5:11]


@pytest.mark.parametrize(("metric", "scale"), [(AP, 1.0), (DCG, 1e6)], ids=["bounded", "unbounded"])
def test_the_mean_is_rounded_once(metric: MetricValue, scale: float) -> None:
    scaled = [value * scale for value in VALUES]
    assert sum(scaled) != sum(sorted(scaled))
    assert summary(scaled, metric)[0] == float(sum(map(Fraction, scaled)) / len(scaled))


def test_mean_and_error_are_those_of_the_values() -> None:
    mean = math.fsum(VALUES) / len(VALUES)
    variance = math.fsum((value - mean) ** 2 for value in VALUES) / (len(VALUES) - 1)
    found = summary(VALUES)
    assert found[:2] == pytest.approx((mean, math.sqrt(variance / len(VALUES))), rel=1e-12)
    assert found[4:] == (len(VALUES), 0)
    assert summary([2.0**1000, 2.0**999], DCG)[:2] == (2.0**998 * 3, 2.0**998)


def test_undefined_values_are_left_out_and_counted() -> None:
    found = summary([0.5, NAN, 1.0])
    assert (found[0], *found[4:]) == (0.75, 2, 1)


def test_a_model_without_users_has_a_row_of_nulls() -> None:
    (row,) = rows_of({"als": []})
    assert tuple(row.values())[:11] == ("als", "map", 5, "all", "all", None, None, None, None, 0, 0)


def test_the_micro_average_weighs_users_by_their_pairs() -> None:
    # Of 2 pairs 1, of 8 pairs 6; of no pair nothing.
    macro, micro = rows_of({"als": [([0.5, 2.0], {}), ([0.75, 8.0], {}), ([NAN, 0.0], {})]}, FCP)
    assert (macro["metric"], macro["value"], macro["n_users"], macro["n_undefined"]) == ("fcp", 0.625, 2, 1)
    assert (micro["metric"], micro["value"]) == ("fcp_micro", 0.7)
    # They add (1 - 0.7 * 2) / 10 and (6 - 0.7 * 8) / 10.
    assert micro["std_error"] == pytest.approx(math.sqrt(2 * (0.04**2 + 0.04**2)), rel=1e-14)
    assert micro["ci_low"] == pytest.approx(0.7 - 1.959964 * micro["std_error"], rel=1e-6)


def test_a_weighted_mean_of_equal_values_has_no_error() -> None:
    users: list[User] = [([1 / 3, weight], {}) for weight in (1.0, 3.0, 7.0, 1e6)]
    _, micro = rows_of({"als": users}, FCP)
    assert (micro["value"], micro["std_error"]) == (1 / 3, 0.0)
    _, alone = rows_of({"als": users[:1]}, FCP)
    assert (alone["value"], alone["std_error"], alone["ci_low"]) == (1 / 3, None, None)


def test_sums_of_before_have_no_error_of_weighted_means() -> None:
    [_, now] = sums_of({"als": [([0.5, 2.0], {}), ([0.75, 8.0], {})]}, FCP)
    [row] = metric_rows([now._replace(squares=None, products=None, weight_squares=None)])
    assert (row.value, row.std_error, row.n_users) == (0.7, None, 2)


def test_every_value_of_a_segment_has_a_mean_of_its_users() -> None:
    def user(value: float, letter: str, number: str) -> User:
        return [value], {"value": letter, "a.b": number}

    rows = rows_of(
        {
            "bpr": [user(0.5, "y", "1")],
            "als": [
                user(0.25, "x", "1"),
                user(0.5, "x", "(missing)"),
                user(1.0, "(missing)", "1"),
                user(NAN, "y", "(missing)"),
            ],
        }
    )
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


def test_values_that_no_double_holds_are_refused_also_in_one_segment() -> None:
    users: list[User] = [
        ([float("inf")], {"value": "x"}),
        ([0.5], {"value": "y"}),
        ([NAN], {"value": "z"}),
    ]
    with pytest.raises(DataError) as raised:
        rows_of({"als": users}, DCG)
    assert raised.value.code == "METRIC_OVERFLOW"
    # The users of z, all undefined, are no overflow.
    assert [row["value"] for row in rows_of({"als": users[1:]})] == [0.5, 0.5, None]


def test_sums_of_two_halves_of_the_users_add_to_those_of_the_whole() -> None:
    """Bit for bit, and so do the metrics that follow from them; weighted means and segments, too."""
    users: list[User] = [
        ([value if number % 7 else NAN, float(number % 5)], {"value": "xyz"[number % 3]})
        for number, value in enumerate(VALUES)
    ]
    whole = sums_of({"als": users, "bpr": users[:50]}, FCP)
    halves = sums_of({"als": users[::2]}, FCP) + sums_of({"als": users[1::2], "bpr": users[:50]}, FCP)
    assert sorted(merge_sum_rows(halves), key=str) == sorted(whole, key=str)
    assert sorted(metric_rows(merge_sum_rows(halves)), key=str) == sorted(metric_rows(whole), key=str)
    assert {row.metric for row in whole} == {"fcp", "fcp_micro"}


def test_sums_have_the_exact_sum_of_values_and_of_squares() -> None:
    [row] = sums_of({"als": [([0.1], {}), ([2.0**-300], {}), ([3e7], {})]})
    values = [Fraction(0.1), Fraction(2.0**-300), Fraction(3e7)]
    assert row.total.isdigit()
    assert row.sums == [sum(values), sum(value * value for value in values), None, None, None]
    assert (row.n_users, row.n_defined, row.unit) == (3, 3, -300)
