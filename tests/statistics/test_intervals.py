"""Means and intervals from exact sums, against the standard library."""

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.statistics.intervals import Summary, square_root, summarise

positive = st.floats(0, allow_infinity=False)


def summary_of(values: Sequence[float]) -> Summary:
    exact = list(map(Fraction, values))
    return summarise(sum(exact, Fraction()), sum((one * one for one in exact), Fraction()), len(values))


@given(st.lists(st.floats(0, 1e6), min_size=1), st.randoms(use_true_random=False))
def test_the_mean_is_rounded_once_in_any_order(values: list[float], order: Random) -> None:
    mean = summary_of(values).value
    assert mean == statistics.mean(values)
    order.shuffle(values)
    assert summary_of(values).value == mean


@given(st.one_of(st.lists(positive, min_size=2), st.lists(st.floats(1, 1 + 2**-48), min_size=2)))
def test_std_error_is_rounded_once(values: list[float]) -> None:
    exact = list(map(Fraction, values))
    variance = statistics.variance(exact) / len(values)
    # Of the double and its neighbours the nearest to the root: its error is at most half a step.
    error = summary_of(values).std_error
    assert error is not None
    low, high = (
        (Fraction(error) + Fraction(math.nextafter(error, towards))) / 2 for towards in (0.0, math.inf)
    )
    assert low**2 <= variance <= high**2


@given(positive.filter(lambda number: number < 1e150 and (number > 1e-150 or not number)))
def test_the_root_of_a_square_is_exact(number: float) -> None:
    assert square_root(Fraction(number) ** 2) == number


@given(st.floats(0, 1e308))
def test_the_root_is_that_of_the_standard_library(number: float) -> None:
    assert square_root(Fraction(number)) == math.sqrt(number)


@given(positive, st.integers(2, 1000))
def test_equal_values_have_no_spread(value: float, n: int) -> None:
    exact = Fraction(value)
    assert summarise(n * exact, n * exact * exact, n) == Summary(value, 0.0, value, value, n)


def test_interval_of_zeros_and_ones() -> None:
    # Nine hits of ten: s^2 = (9 - 81/10) / 9 = 1/10, std_error = 1/10.
    summary = summary_of([1.0] * 9 + [0.0])
    assert (summary.value, summary.std_error) == (0.9, 0.1)
    assert summary.ci_low == pytest.approx(0.9 - 0.1959963984540054)
    assert summary.ci_high == pytest.approx(0.9 + 0.1959963984540054)
    assert summary.n == 10


@pytest.mark.parametrize(("confidence", "z"), [(0.9, 1.644853627), (0.95, 1.959963985), (0.99, 2.575829304)])
def test_the_confidence_sets_the_width(confidence: float, z: float) -> None:
    summary = summarise(Fraction(1), Fraction(1), 2, confidence)
    assert summary.std_error == 0.5
    assert summary.ci_high == pytest.approx(0.5 + z / 2)


def test_the_mean_is_correctly_rounded() -> None:
    # Added as doubles, left to right, ten tenths make 0.9999999999999999.
    assert sum([0.1] * 10) / 10 != 0.1
    assert summary_of([0.1] * 10) == Summary(0.1, 0.0, 0.1, 0.1, 10)


def test_no_values_define_nothing() -> None:
    assert summarise(Fraction(0), Fraction(0), 0) == Summary(None, None, None, None, 0)


def test_one_value_has_a_mean_only() -> None:
    assert summarise(Fraction(1, 2), Fraction(1, 4), 1) == Summary(0.5, None, None, None, 1)


def test_a_remainder_decides_between_two_doubles() -> None:
    half_way = 1 + Fraction(1, 2**53)
    assert square_root(half_way**2) == 1.0
    assert square_root(half_way**2 + Fraction(1, 10**100)) == 1 + 2**-52
