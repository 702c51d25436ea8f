"""Sums of doubles at places are exact, whatever their order and size."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval.statistics import exact
from spark_eval.statistics.exact import (
    DigitSums,
    GroupSums,
    add,
    counts,
    digits_of_sums,
    exact_sums,
    integers_of_sums,
    sum_of_terms,
    sums_by_group,
    sums_of_runs,
    two_product,
    unusual,
)

RANDOM = np.random.default_rng(2)
SIZES = {
    "unit": RANDOM.random(500),
    "signs": RANDOM.standard_normal(500),
    "all sizes": RANDOM.standard_normal(500) * 2.0 ** RANDOM.integers(-1000, 1000, 500),
    "least": np.array([5e-324, -5e-324, 5e-324, 2.0**-1022]),
    "largest": np.array([1.7976931348623157e308] * 4),
    "zeros": np.zeros(3),
    "none": np.empty(0),
    "many": RANDOM.random(20_000),
}


@pytest.mark.parametrize("name", SIZES)
def test_sums_are_those_of_fractions(name: str) -> None:
    values = SIZES[name]
    places = RANDOM.integers(0, 3, len(values))
    for step in (1, -1):
        sums = integers_of_sums(exact_sums(values[::step], places[::step], 3))
        for place in range(3):
            assert sums[place] == sum(map(Fraction, values[places == place].tolist()), Fraction(0))


@pytest.mark.parametrize("name", SIZES)
def test_sums_of_runs_are_rounded_once(name: str) -> None:
    values = SIZES[name] / (2.0**100 if name == "all sizes" else 8)  # sums are finite
    starts = np.array(
        [0, *range(2, len(values), 67), *range(50, len(values), 67)][: len(values)], dtype=np.int64
    )
    starts.sort()
    runs = np.split(values, starts[1:]) if len(values) else []
    assert sums_of_runs(values, starts).tolist() == [float(sum(map(Fraction, run.tolist()))) for run in runs]


def test_sums_of_parts_add_to_the_sum_of_all() -> None:
    parts: DigitSums = {}
    for values in np.split(SIZES["all sizes"], 5):
        for place, amounts in exact_sums(values).items():
            add(parts, place, amounts)
    assert integers_of_sums(parts) == integers_of_sums(exact_sums(SIZES["all sizes"]))


def test_nothing_is_zero_and_counts_are_sums_of_ones() -> None:
    assert integers_of_sums(exact_sums(SIZES["none"])) == [0]
    places = np.array([0, 2, 2])
    assert (
        integers_of_sums(counts(places, 3))
        == integers_of_sums(exact_sums(np.ones(3), places, 3))
        == [1, 0, 2]
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="too large"):
        exact_sums(np.array([1.0, value]))


def test_products_have_no_rest_that_is_lost() -> None:
    one, other = RANDOM.standard_normal((2, 300)) * 1e9
    product, rest = two_product(one, other)
    for values in zip(one.tolist(), other.tolist(), product.tolist(), rest.tolist(), strict=True):
        a, b, found, lost = map(Fraction, values)
        assert a * b == found + lost


@given(
    values=st.lists(
        st.floats(0, 2.0**19) | st.sampled_from([0.0, 1 / 3, 2.0**-20, 1 - 2.0**-53]), max_size=200
    ),
    seed=st.integers(0, 99),
)
def test_limbs_are_the_same_by_halves_and_by_digits(values: list[float], seed: int) -> None:
    numbers = np.array(values, dtype=np.float64)
    groups = np.random.default_rng(seed).integers(0, 7, len(numbers))
    known = int(np.bincount(groups, minlength=7).max())
    by_halves, by_digits = GroupSums(7, known), GroupSums(7)
    for sums in (by_halves, by_digits):
        sums.add(numbers, groups)
        assert sum_of_terms(sums.terms(slice(None))) == sum(map(Fraction, values), Fraction())
    assert {limb: amounts.tolist() for limb, amounts in by_halves.limbs.items()} == {
        limb: amounts.tolist() for limb, amounts in by_digits.limbs.items()
    }


def test_usual_values_are_no_smaller_and_no_larger_than_halves_can_hold() -> None:
    assert not len(unusual(np.array([0.0, 2.0**-20, 1.0, 2.0**19])))
    for one in (2.0**-21, 2.0**20, -1.0, 5e-324):
        assert unusual(np.array([0.5, one, 0.0])).tolist() == [1]


def test_sums_of_groups_have_the_same_bits_by_halves_and_by_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values of all sizes, of which only some fit halves."""
    values = np.exp(RANDOM.normal(-6, 9, 600))
    groups = RANDOM.integers(0, 200, 600)
    found = sums_by_group(values, groups, 200)
    monkeypatch.setattr(exact, "MOST_HALVES", 0)
    assert sums_by_group(values, groups, 200).tobytes() == found.tobytes()


@given(st.lists(st.integers().map(lambda one: Fraction(one, 2**70)) | st.floats(-1e300, 1e300).map(Fraction)))
def test_sums_come_back_from_their_digits(numbers: list[Fraction]) -> None:
    assert integers_of_sums(digits_of_sums(numbers)) == numbers


@pytest.mark.parametrize("name", ["unit", "signs", "zeros", "many"])
def test_sums_of_groups_are_those_of_fractions_whatever_their_sign(name: str) -> None:
    values = SIZES[name]
    groups = RANDOM.integers(0, 100, len(values))
    found = sums_by_group(values, groups, 100)
    for group in range(100):
        expected = float(sum(map(Fraction, values[groups == group].tolist()), Fraction()))
        assert found[group] == pytest.approx(expected, rel=1e-15, abs=0)
    assert (sums_by_group(-values, groups, 100) == -found).all()
