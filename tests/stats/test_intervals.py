"""Means and intervals from sums of integer limbs, against the standard library."""

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_eval.stats.intervals import LIMB_BITS, UNIT_BITS, Summary, from_limbs, sample_variance, summarise


def limbs_of(value: float) -> list[int]:
    """The three limbs of a value, the lowest rounded half to even; as Spark splits it."""
    units = round(Fraction(value) * 2**UNIT_BITS)
    low, rest = units % 2**LIMB_BITS, units >> LIMB_BITS
    return [low, rest % 2**LIMB_BITS, rest >> LIMB_BITS]


def summed(values: Sequence[float]) -> Fraction:
    """What Spark hands over: each limb summed by itself."""
    return from_limbs([sum(column) for column in zip(*map(limbs_of, values), strict=True)])


def summary_of(values: Sequence[float]) -> Summary:
    return summarise(summed(values), summed([value * value for value in values]), len(values))


@pytest.mark.parametrize(
    ("limbs", "number"),
    [
        ([1, 0, 0], Fraction(1, 2**60)),
        ([0, 1, 0], Fraction(1, 2**28)),
        ([0, 0, 1], Fraction(16)),
        ([2**32, 2**32 - 1, 0], Fraction(16)),
        ([0, 0, 0], Fraction(0)),
        ([3 * 2**59, 0, 0], Fraction(3, 2)),
    ],
)
def test_limbs_are_places_of_32_bits(limbs: list[int], number: Fraction) -> None:
    assert from_limbs(limbs) == number


@settings(deadline=None)
@given(st.lists(st.floats(2**-8, 1e6), min_size=1))
def test_limbs_give_the_exact_sum(values: list[float]) -> None:
    # Doubles of 2^-8 and more are whole units.
    assert summed(values) == sum(map(Fraction, values))


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1), st.randoms(use_true_random=False))
def test_the_mean_is_rounded_once_in_any_order(values: list[float], order: Random) -> None:
    mean = summary_of(values).value
    assert mean == pytest.approx(statistics.fmean(values), rel=1e-15, abs=2**-61)
    order.shuffle(values)
    assert summary_of(values).value == mean


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=2))
def test_std_error_is_that_of_the_standard_library(values: list[float]) -> None:
    # Squares of 53 bits cannot show a spread below 2^-26 of the values' size, nor units one below 2^-30.
    size = math.hypot(*values)
    expected = statistics.stdev(map(Fraction, values)) / math.sqrt(len(values))
    assert summary_of(values).std_error == pytest.approx(expected, rel=1e-6, abs=2**-24 * size + 2**-28)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_std_error_at_every_scale(scale: float) -> None:
    values = [scale * number for number in (1, 2, 4, 8)]
    expected = statistics.stdev(values) / 2
    assert summary_of(values).std_error == pytest.approx(expected, rel=1e-5)


@settings(deadline=None)
@given(st.floats(0, 1e6), st.integers(2, 1000))
def test_equal_values_have_no_spread(value: float, n: int) -> None:
    total, total_of_squares = (n * from_limbs(limbs_of(one)) for one in (value, value * value))
    assert sample_variance(total, total_of_squares, n) == 0


@pytest.mark.parametrize("lost", [Fraction(0), Fraction(1, 2**60), Fraction(1)])
def test_variance_is_never_negative(lost: Fraction) -> None:
    assert sample_variance(Fraction(3), Fraction(3) - lost, 3) == 0


def test_interval_of_zeros_and_ones() -> None:
    # Nine hits of ten: s^2 = (9 - 81/10) / 9 = 1/10, std_error = 1/10.
    summary = summary_of([1.0] * 9 + [0.0])
    assert summary.value == 0.9
    assert summary.std_error == pytest.approx(0.1, rel=1e-15)
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
