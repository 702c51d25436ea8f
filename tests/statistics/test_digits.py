"""Exact sums of doubles and of their squares, against fractions."""

from collections.abc import Sequence
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.statistics.exact import (
    BLOCK,
    DIGIT_BITS,
    LIMB_BITS,
    POINT_BITS,
    ExactSums,
    Floats,
    Groups,
    Ints,
    digit_runs,
    integer_of_limbs,
    normalize_limbs,
)

doubles = st.floats(allow_nan=False, allow_infinity=False)
near = st.integers(-1074, 1023).flatmap(
    lambda power: st.lists(
        st.floats(1, 2, exclude_max=True).map(lambda size: float(np.ldexp(size, power))), min_size=2
    )
)


def summed(values: Floats, codes: Ints, n_groups: int) -> list[tuple[Fraction, Fraction]]:
    """The sum and the sum of squares of all, and of each group; of all without groups, if there are none."""
    found = ExactSums.of(values, Groups([(codes, n_groups)] if n_groups else []))
    pairs = []
    for cell in range(1 + n_groups):
        total, squares = (
            integer_of_limbs(
                {limb: int(amounts[cell]) for limb, amounts in normalize_limbs(places).items()}, point_bits
            )
            for places, point_bits in ((found.total, POINT_BITS), (found.squares, 2 * POINT_BITS))
        )
        pairs.append((total, squares))
    return pairs


def by_fractions(values: Sequence[float]) -> tuple[Fraction, Fraction]:
    exact = list(map(Fraction, values))
    return sum(exact, Fraction()), sum((one * one for one in exact), Fraction())


@given(
    st.one_of(st.lists(doubles, max_size=30), st.lists(st.floats(0, 1), max_size=30), near),
    st.randoms(use_true_random=False),
)
def test_sums_are_those_of_fractions_whatever_the_sizes(numbers: list[float], random: Random) -> None:
    codes = [random.randint(0, 2) for _ in numbers]
    groups = [[one for one, code in zip(numbers, codes, strict=True) if code == group] for group in range(3)]
    values, of_all = np.array(numbers, dtype=np.float64), by_fractions(numbers)
    assert summed(values, np.array(codes, dtype=np.int64), 3) == [of_all, *map(by_fractions, groups)]
    assert summed(values, np.zeros(0, dtype=np.int64), 0) == [of_all]


# A value whose digits are as large as digits can be, and as many.
HALF = 2.0 ** (DIGIT_BITS - 1)
EXTREMES = {
    "below 1": float(np.nextafter(1, 0)),
    "largest digits": (HALF - 0.5 - 2.0**-DIGIT_BITS / 2) * 2.0**-POINT_BITS,
    "largest double": np.finfo(np.float64).max,
    "least double": 5e-324,
    **{f"all bits, 2^-{power}": (2.0**53 - 1) * 2.0**-power for power in range(41, 61)},
}


@pytest.mark.parametrize("value", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("n_groups", [0, 1])
@pytest.mark.parametrize("n_zeros", [0, 1])
def test_blocks_of_the_largest_digits_are_exact(value: float, n_zeros: int, n_groups: int) -> None:
    """Blocks of one value are summed in a shorter way; with a zero first they are not."""
    n = BLOCK + 3
    values = np.full(n + n_zeros, value)
    values[:n_zeros] = 0
    [total, *_] = summed(values, np.zeros(len(values), dtype=np.int64), n_groups)
    assert total == (n * Fraction(value), n * Fraction(value) ** 2)


def test_a_value_has_no_more_than_four_digits_in_a_row() -> None:
    random = np.random.default_rng(5)
    for value in np.ldexp(random.random(3000) + 1, random.integers(-1074, 1023, 3000)):
        for _, digits in digit_runs(np.array([value])):
            places = np.flatnonzero([digit[0] for digit in digits])
            assert places.max() - places.min() < 4
            assert max(abs(digit[0]) for digit in digits) <= HALF


def test_sums_of_many_blocks_fit_integers_of_64_bits() -> None:
    """The limbs of the most values of the largest digits that one call may be given, and of none."""
    full = {place: np.array([(1 << 62) + place, 0, -5]) for place in range(-7, 3)}
    found = normalize_limbs(full)
    for cell in range(3):
        expected = sum(
            Fraction(int(amounts[cell])) * Fraction(2) ** (DIGIT_BITS * place)
            for place, amounts in full.items()
        )
        assert integer_of_limbs({limb: int(amounts[cell]) for limb, amounts in found.items()}, 0) == expected
    assert max(abs(amounts).max() for amounts in found.values()) < 1 << LIMB_BITS
    assert not normalize_limbs({})
    assert integer_of_limbs({}, 0) == 0
