"""Weighted means and their differences, against doubles user by user and users left out in turn."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.statistics.differences import UNMEASURED, RatioSums
from spark_eval.statistics.exact import Floats

CLICKS, LISTS, MORE_CLICKS, MORE_LISTS = np.array(
    [[1, 0, 3, 2, 5, 1], [2, 4, 6, 2, 9, 3], [2, 0, 4, 2, 4, 3], [3, 4, 6, 2, 8, 5]], dtype=np.float64
)
BOTH = (CLICKS, LISTS, MORE_CLICKS, MORE_LISTS)


def sums_of(amounts: Sequence[Floats]) -> RatioSums:
    exact = [list(map(Fraction, one)) for one in amounts]
    products = [[Fraction(sum(map(Fraction.__mul__, one, other))) for other in exact] for one in exact]
    return RatioSums(len(amounts[0]), [Fraction(sum(one)) for one in exact], products)


def added(amounts: Sequence[Floats], factors: Sequence[float]) -> Floats:
    """What each user adds to a sum of ratios."""
    parts = zip(amounts[::2], amounts[1::2], factors, strict=True)
    return sum((f * (a - b * a.sum() / b.sum()) / b.sum() for a, b, f in parts), start=np.zeros(6))


@pytest.mark.parametrize("factors", [(-1, 1), (1, 0), (-0.95, 1)])
def test_errors_are_those_of_what_users_add(factors: tuple[float, float]) -> None:
    estimate = sums_of(BOTH).combination(*map(Fraction, factors), amount=0.25)
    e = added(BOTH, factors)
    ratios = [CLICKS.sum() / LISTS.sum(), MORE_CLICKS.sum() / MORE_LISTS.sum()]
    assert float(estimate.value or 0) == pytest.approx(np.dot(ratios, factors) + 0.25, rel=1e-14)
    assert estimate.std_error == pytest.approx(np.sqrt(6 / 5 * (e**2).sum()), rel=1e-12)
    assert estimate.freedom == 5


def test_errors_are_about_those_of_users_left_out_in_turn() -> None:
    generator = np.random.default_rng(2)
    lists = generator.integers(1, 20, 400).astype(np.float64)
    clicks = generator.binomial(lists.astype(int), generator.beta(2, 3, 400)).astype(np.float64)
    without = (clicks.sum() - clicks) / (lists.sum() - lists)
    jackknife = np.sqrt(399 / 400 * ((without - without.mean()) ** 2).sum())
    assert sums_of([clicks, lists]).combination(Fraction(1)).std_error == pytest.approx(jackknife, rel=0.01)


@given(st.floats(1e-6, 1), st.lists(st.integers(1, 10**6), min_size=2, max_size=30))
def test_equal_values_have_no_spread(value: float, weights: list[int]) -> None:
    amounts = [np.array([value * weight for weight in weights]), np.array(weights, dtype=np.float64)]
    assert sums_of(amounts).combination(Fraction(1)).variance == 0
    same = sums_of([*amounts, amounts[0][::-1], amounts[1][::-1]]).combination(Fraction(-1), Fraction(1))
    assert not same.value
    assert not same.variance


def test_equal_values_differ_by_nothing_whatever_they_weigh() -> None:
    # As doubles, a weight times 1/3 rounds otherwise for each weight.
    amounts = [
        one for weights in ([1.0, 3.0, 7.0], [5.0, 11.0, 13.0]) for one in (third(weights), np.array(weights))
    ]
    ratios = sums_of(amounts).ratios or []
    assert ratios[0] != ratios[1]
    estimate = sums_of(amounts).combination(Fraction(1), Fraction(-1))
    assert (estimate.value, estimate.variance) == (Fraction(0), Fraction(0))


def third(weights: list[float]) -> Floats:
    return np.array([1 / 3 * weight for weight in weights])


def test_equal_weights_give_the_error_of_the_mean() -> None:
    ones = np.ones(6)
    estimate = sums_of([CLICKS, ones]).combination(Fraction(1))
    assert estimate.std_error == pytest.approx(CLICKS.std(ddof=1) / np.sqrt(6), rel=1e-14)


def test_a_total_weight_of_zero_has_no_mean() -> None:
    nothing = sums_of([np.zeros(2), np.zeros(2)])
    assert (nothing.ratios, nothing.combination(Fraction(1))) == (None, UNMEASURED)
    assert sums_of([CLICKS[:1], LISTS[:1]]).combination(Fraction(1)).variance is None
