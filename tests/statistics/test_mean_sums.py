"""Sums in integers of one amount per user: the same estimates as sums of fractions, to the bit."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.statistics.differences import UNMEASURED, MeanSums, RatioSums, estimate_of

BITS = 60
# Amounts as integers: usual ones, none, and one that is the same for all users.
EQUAL = st.integers(-9, 9).map(lambda one: [one] * 4)
AMOUNTS = st.lists(st.integers(-(2**BITS), 2**BITS), max_size=6) | EQUAL


def sums_of(amounts: list[int]) -> MeanSums:
    return MeanSums(len(amounts), sum(amounts), sum(one * one for one in amounts), BITS)


@given(AMOUNTS)
def test_an_estimate_is_that_of_fractions(amounts: list[int]) -> None:
    values, n = [Fraction(one, 2**BITS) for one in amounts], len(amounts)
    found = sums_of(amounts).estimate
    if not n:
        assert found == UNMEASURED
        return
    total, squares = sum(values, Fraction()), sum((one * one for one in values), Fraction())
    assert found == estimate_of(total / n, squares - total * total / n, n, squares)


@given(AMOUNTS, AMOUNTS)
def test_what_is_left_has_the_sums_of_the_other_users(some: list[int], others: list[int]) -> None:
    assert sums_of(some + others) - sums_of(others) == sums_of(some)


@pytest.mark.parametrize("amount", [0.0, 0.25])
def test_a_combination_is_that_of_a_ratio_with_weights_of_1(amount: float) -> None:
    sums, n = sums_of([2**BITS, 2**59, -(2**58)]), Fraction(3)
    total = Fraction(5, 4)
    ratio = RatioSums(3, [total, n], [[Fraction(21, 16), total], [total, n]])
    assert sums.combination(Fraction(2), amount=amount) == ratio.combination(Fraction(2), amount=amount)
