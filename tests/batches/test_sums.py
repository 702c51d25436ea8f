"""Exact sums against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from spark_eval.batches.ids import in_one_piece
from spark_eval.batches.sums import added, sums
from spark_eval.stats.intervals import LARGEST, from_limbs

RANDOM = np.random.default_rng(3)
NAN = float("nan")
VALUES = {
    "unit": RANDOM.random(900),
    "holes": np.where(RANDOM.random(900) < 0.3, NAN, RANDOM.random(900)),
    "large": RANDOM.random(900) * 2.0**30,
}
SUMMED = {name: (name,) for name in VALUES} | {"unit * large": ("unit", "large")}
COUNTRIES = RANDOM.integers(0, 3, 900)


def half_even(value: float) -> Fraction:
    return Fraction(round(Fraction(value) * 2**60), 2**60)


@pytest.mark.parametrize(("n_parts", "most_users"), [(1, 1 << 20), (7, 1 << 20), (2, 100)])
def test_sums_are_those_of_fractions_however_the_users_are_parted(
    n_parts: int, most_users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_eval.batches.sums.MOST_USERS", most_users)
    parts = []
    for places in np.array_split(RANDOM.permutation(900), n_parts):
        segments = {"country": (COUNTRIES[places], ["ch", "de", "fr"])}
        parts.append(sums({name: values[places] for name, values in VALUES.items()}, SUMMED, segments))
    rows = {(row["segment_value"], row["column"]): row for row in added(parts, list(SUMMED))}
    assert len(rows) == 4 * len(SUMMED)
    for (segment, name), row in rows.items():
        value = np.prod([VALUES[factor] for factor in SUMMED[name]], axis=0)
        country = {"ch": 0, "de": 1, "fr": 2}.get(segment)
        chosen = value if country is None else value[country == COUNTRIES]
        defined = chosen[~np.isnan(chosen)]
        assert (row["n_users"], row["n_defined"]) == (len(chosen), len(defined))
        assert from_limbs(row["total"]) == sum(map(half_even, defined))
        assert from_limbs(row["squares"]) == sum(map(half_even, defined * defined))


def test_values_beyond_the_limbs_show_in_the_maximum() -> None:
    [row] = added([sums({"a": np.array([1.0, LARGEST * 4])}, {"a": ("a",)}, {})], ["a"])
    assert row["max"] == LARGEST * 4


def test_one_dictionary_serves_all_parts() -> None:
    part = sums({"a": np.ones(2)}, {"a": ("a",)}, {})
    assert in_one_piece([part, part]).num_rows == 2


def test_sums_of_millions_of_users_stay_exact() -> None:
    # The lowest limb of each is 2^32 - 1: four million of them outgrow the 53 bits of a double.
    value, n_users = (2**32 - 1) * 2.0**-60, (1 << 22) + 3
    ones = {"one": (np.zeros(n_users, dtype=np.int64), ["x"])}
    rows = list(added([sums({"a": np.full(n_users, value)}, {"a": ("a",)}, ones)], ["a"]))
    assert [from_limbs(row["total"]) for row in rows] == [n_users * Fraction(value)] * 2
