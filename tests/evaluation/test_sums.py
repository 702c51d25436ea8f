"""Sums over users and segments against fractions."""

from fractions import Fraction
from operator import mul

import numpy as np
import pytest

from spark_eval.evaluation.worker.lists import ColumnSums, Group, SegmentCell, SegmentTotals, merge_sums, sums

RANDOM = np.random.default_rng(3)
NAN = float("nan")
VALUES = {
    "unit": RANDOM.random(900),
    "holes": np.where(RANDOM.random(900) < 0.3, NAN, RANDOM.random(900)),
    "large": RANDOM.random(900) * 2.0**30,
    "tiny": RANDOM.random(900) * 1e-300,
}
SUMMED = {name: (name,) for name in VALUES} | {"unit * large": ("unit", "large")}
COUNTRIES = RANDOM.integers(0, 3, 900)


def one_model(n_users: int) -> Group:
    return np.zeros(n_users, dtype=np.int64), ["als"]


def flat(totals: dict[SegmentCell, dict[str, ColumnSums]]) -> dict[tuple[str, str], ColumnSums]:
    """Sums of the one model by value of the segment and name."""
    return {(cell[2], name): row for cell, by_name in totals.items() for name, row in by_name.items()}


@pytest.mark.parametrize(("n_parts", "most_users"), [(1, 1 << 20), (7, 1 << 20), (2, 100)])
def test_sums_are_those_of_fractions_however_the_users_are_parted(
    n_parts: int, most_users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_eval.evaluation.worker.lists.MOST_SUMMED", most_users)
    parts = []
    for places in np.array_split(RANDOM.permutation(900), n_parts):
        segments = {"country": (COUNTRIES[places], ["ch", "de", "fr"])}
        values = {name: values[places] for name, values in VALUES.items()}
        parts.append(sums(values, SUMMED, one_model(len(places)), segments))
    rows = flat(merge_sums(parts, list(SUMMED)))
    assert len(rows) == 4 * len(SUMMED)
    for (segment, name), row in rows.items():
        value = np.prod([VALUES[factor] for factor in SUMMED[name]], axis=0)
        country = {"ch": 0, "de": 1, "fr": 2}.get(segment)
        chosen = value if country is None else value[country == COUNTRIES]
        exact = [Fraction(one) for one in chosen[~np.isnan(chosen)].tolist()]
        assert row[:3] == (len(chosen), len(exact), 0)
        assert row.total == sum(exact)
        assert row.squares == sum(one * one for one in exact)
        if len(SUMMED[name]) > 1:
            weights = VALUES[SUMMED[name][-1]]
            weights = (weights if country is None else weights[country == COUNTRIES])[~np.isnan(chosen)]
            assert row.products == sum(map(mul, exact, map(Fraction, weights.tolist())))


def test_values_beyond_doubles_are_counted() -> None:
    segments = {"country": (np.array([0, 1, 1]), ["ch", "de"])}
    values = {"a": np.array([1.0, float("inf"), NAN])}
    part = sums(values, {"a": ("a",)}, one_model(3), segments)
    rows = {value: row for (value, _), row in flat(merge_sums([part], ["a"])).items()}
    counts = {name: row[:3] for name, row in rows.items()}
    assert counts == {"all": (3, 2, 1), "ch": (1, 1, 0), "de": (2, 1, 1)}
    assert [rows[name].total for name in ("all", "ch", "de")] == [1, 1, 0]


def test_what_only_some_parts_have_adds_to_nothing() -> None:
    """Limbs of large values, then a segment's value that only others have."""
    parts = [
        sums({"a": np.array([value])}, {"a": ("a",)}, one_model(1), {"x": (np.zeros(1, np.int64), [name])})
        for value, name in ((2.0**60, "y"), (1.0, "z"))
    ]
    for some in (parts, parts[::-1]):
        totals = {value: row.total for (value, _), row in flat(merge_sums(some, ["a"])).items()}
        assert totals == {"all": 2**60 + 1, "y": 2**60, "z": 1}


def test_a_null_segment_and_the_text_that_names_it_are_merged() -> None:
    """Users of the value "(missing)", and those without one."""
    segments = {"x": (np.array([0, 1]), ["(missing)"] * 2)}
    part = sums({"a": np.array([1.0, 2.0])}, {"a": ("a",)}, one_model(2), segments)

    def missing(parts: list[SegmentTotals]) -> list[tuple[int, Fraction]]:
        rows = merge_sums(parts, ["a"]).items()
        return [(row["a"].n_users, row["a"].total) for (_, segment, _), row in rows if segment == "x"]

    assert missing([part]) == [(2, Fraction(3))]
    assert missing([SegmentTotals.together([part, part], (1,)), part]) == [(6, Fraction(9))]


def test_sums_of_millions_of_users_stay_exact() -> None:
    # Digits that are as large as they can be: a million of them outgrow the 53 bits of a double.
    value, n_users = (2.0**19 - 1) * 2.0**-18, (1 << 22) + 3
    ones = {"one": (np.zeros(n_users, dtype=np.int64), ["x"])}
    part = sums({"a": np.full(n_users, value)}, {"a": ("a",)}, one_model(n_users), ones)
    rows = flat(merge_sums([part], ["a"])).values()
    assert [row.total for row in rows] == [n_users * Fraction(value)] * 2
    assert [row.squares for row in rows] == [n_users * Fraction(value) ** 2] * 2


def test_no_users_have_no_sums() -> None:
    segments = {"x": (np.empty(0, dtype=np.int64), ["y"])}
    part = sums({"a": np.empty(0)}, {"a": ("a",)}, one_model(0), segments)
    assert (part.sums, merge_sums([part, part], ["a"])) == ({}, {})


def test_sums_of_several_models_are_those_of_each_alone() -> None:
    model = RANDOM.integers(0, 3, 900)
    model = np.sort(np.where(model == 1, 0, model))  # nobody is in the mean of the second one
    names = ["als", "bpr", "pop"]
    together = sums(VALUES, SUMMED, (model, names), {"country": (COUNTRIES, ["ch", "de", "fr"])})
    alone = [
        sums(
            {name: values[model == place] for name, values in VALUES.items()},
            SUMMED,
            (np.zeros(int((model == place).sum()), dtype=np.int64), [names[place]]),
            {"country": (COUNTRIES[model == place], ["ch", "de", "fr"])},
        )
        for place in (0, 2)
    ]
    assert merge_sums([together], list(SUMMED)) == merge_sums(alone, list(SUMMED))
