"""Weighted means and folds in ``compare``: differences of ratios, and gates."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.comparison.compare import compare
from spark_eval.errors import SparkEvalError
from spark_eval.statistics.draws import flips, poisson_weights

VALUE, WEIGHT = "fcp_at_5", "fcp_pairs_at_5"


def made_up(n: int = 200, *, folds: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(7)
    parts = []
    for model, gain in (("a", 0.0), ("b", 0.1)):
        rows = pd.DataFrame({"user": np.repeat(np.arange(n), max(folds, 1))})
        rows["fold"] = np.arange(len(rows)) % max(folds, 1)
        rows[VALUE] = generator.random(len(rows)) * 0.4 + gain
        rows[WEIGHT] = generator.integers(1, 9, len(rows)).astype(np.float64)
        rows.loc[generator.random(len(rows)) < 0.1, [VALUE, WEIGHT]] = np.nan
        rows["country"] = ["at" if user % 3 else "be" for user in rows["user"]]
        parts.append(rows.assign(model=model))
    whole = pd.concat(parts, ignore_index=True)
    return whole if folds else whole.drop(columns="fold")


def common(table: pd.DataFrame) -> pd.DataFrame:
    keys = [name for name in ("user", "fold", "country") if name in table]
    sides = [table[table["model"] == model].drop(columns="model") for model in "ab"]
    return sides[0].merge(sides[1], on=keys, suffixes=("_a", "_b")).dropna()


def shares(rows: pd.DataFrame) -> pd.Series:
    """What each user adds to the difference of the two ratios."""
    added = pd.Series(0.0, rows.index)
    for side, sign in (("b", 1), ("a", -1)):
        value, weight = rows[f"{VALUE}_{side}"], rows[f"{WEIGHT}_{side}"]
        ratio = (value * weight).sum() / weight.sum()
        added += sign * weight * (value - ratio) / weight.sum()
    return added.groupby(rows["user"]).sum()


def ratio_of(rows: pd.DataFrame, side: str, times: Any = 1.0) -> Any:
    weight = rows[f"{WEIGHT}_{side}"].to_numpy()
    return (rows[f"{VALUE}_{side}"].to_numpy() * weight) @ times / (weight @ times)


@pytest.mark.parametrize("folds", [0, 3])
def test_weighted_means_differ_by_so_much(folds: int) -> None:
    table = made_up(folds=folds)
    tests = ["t", "bootstrap"]
    found = compare(
        table, tests=tests, segments="country", equivalence=0.1, resamples=50, seed=4, test_train_ratio=0.5
    )
    rows = [row for row in found.rows if row.metric == "fcp_micro" and row.segment in ("all", "country")]
    assert {(row.test, row.segment_value) for row in rows} == {
        (test, value) for test in (*tests, "tost") for value in ("all", "at", "be")
    }
    for row in rows:
        own = common(table)
        own = own if row.segment == "all" else own[own["country"] == row.segment_value]
        before, after = (ratio_of(own, side, np.ones(len(own))) for side in "ab")
        added = shares(own)
        error = np.sqrt(len(added) / (len(added) - 1) * (added**2).sum())
        assert (row.baseline_value, row.candidate_value) == pytest.approx((before, after), rel=1e-12)
        assert (row.difference, row.std_error) == pytest.approx((after - before, error), rel=1e-9)
        assert row.relative == pytest.approx(after / before - 1, rel=1e-9)
        assert (row.n_users, row.effect_size) == (len(own), None)
        gained = own[f"{VALUE}_b"] - own[f"{VALUE}_a"]
        assert (row.wins, row.losses) == ((gained > 0).sum(), (gained < 0).sum())
        if row.test == "t":
            assert row.statistic == pytest.approx((after - before) / error, rel=1e-9)
        if row.test == "bootstrap":
            hashes = id_hashes(pa.array(own["user"].to_numpy()), np.int64(4))
            drawn = poisson_weights(hashes, 50).astype(np.float64)
            expected = np.quantile(ratio_of(own, "b", drawn) - ratio_of(own, "a", drawn), [0.025, 0.975])
            assert (row.ci_low, row.ci_high) == pytest.approx(expected, abs=1e-8)
    if folds:
        of_folds = [row for row in found.rows if row.metric == "fcp_micro" and row.segment == "folds"]
        assert [row.test for row in of_folds] == ["t"]


def test_signs_of_many_users_are_flipped_by_user_over_folds() -> None:
    table = made_up(40, folds=3)
    found = compare(table, metrics="fcp@5", tests="randomization", segments="fold", resamples=300, seed=2)
    both = common(table)
    both["d"] = np.rint((both[f"{VALUE}_b"] - both[f"{VALUE}_a"]) * 2.0**40)
    assert {row.segment_value for row in found.rows} == {"all", "0", "1", "2"}
    for row in found.rows:
        own = both if row.segment == "all" else both[both["fold"] == int(row.segment_value)]
        signs = flips(id_hashes(pa.array(own["user"].to_numpy()), np.int64(3)), 300).astype(np.float64)
        sums = own["d"].to_numpy() @ signs
        count = (abs(sums) >= abs(own["d"].sum())).sum()
        assert row.p_value == (1 + count) / 301


@pytest.mark.parametrize("test", ["sign", "wilcoxon"])
def test_rows_of_folds_are_not_taken_for_users(test: str) -> None:
    with pytest.raises(SparkEvalError, match=rf"NOT_OVER_FOLDS.*{test} would"):
        compare(made_up(8, folds=2), metrics="fcp@5", tests=test)


def gate_of(**keys: Any) -> dict[str, Any]:
    return {"metric": "fcp@5", "model": "b", "against": {"model": "a"}, "max_drop": 0.01, **keys}


def test_gates_take_weighted_means() -> None:
    [row] = compare(made_up(), metrics="fcp@5", tests="sign", gates=[gate_of(metric="fcp_micro@5")]).gate_rows
    own = common(made_up())
    assert row.difference == pytest.approx(
        ratio_of(own, "b", np.ones(len(own))) - ratio_of(own, "a", np.ones(len(own))), rel=1e-9
    )
    assert (row.decision, row.metric, row.n_users) == ("not_worse", "fcp_micro", len(own))
    added = shares(own)
    error = np.sqrt(len(added) / (len(added) - 1) * (added**2).sum())
    half_width = ((row.bound_high or 0) - (row.bound_low or 0)) / 2
    assert half_width == pytest.approx(1.65 * error, rel=0.01)


@pytest.mark.parametrize("drop", ["absolute", "relative"])
def test_gates_over_folds_count_users_once(drop: str) -> None:
    table = made_up(folds=3)
    gates = [gate_of(drop=drop), gate_of(drop=drop, segment="fold")]
    pooled, *of_folds = compare(table, metrics="fcp@5", gates=gates, tests="bootstrap", resamples=9).gate_rows
    own = common(table)
    share = 1 - 0.01 if drop == "relative" else 1
    c = own[f"{VALUE}_b"] - share * own[f"{VALUE}_a"] + (0.01 if drop == "absolute" else 0)
    sums = (c - c.mean()).groupby(own["user"]).sum()
    error = np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / len(own)
    assert pooled.n_users == own["user"].nunique()
    assert ((pooled.bound_low or 0) + (pooled.bound_high or 0)) / 2 == pytest.approx(c.mean(), rel=1e-9)
    half_width = ((pooled.bound_high or 0) - (pooled.bound_low or 0)) / 2
    assert half_width == pytest.approx(1.6525 * error, rel=1e-3)
    assert [row.segment_value for row in of_folds] == ["0", "1", "2"]
    assert [row.n_users for row in of_folds] == own.groupby("fold").size().tolist()
