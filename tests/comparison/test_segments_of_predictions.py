"""Predictions compared and gated by segment and by fold: the same as predictions of these rows alone."""

import logging
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from spark_eval import compare, evaluate_predictions
from spark_eval.comparison.rows import ComparisonRow
from spark_eval.errors import ConfigError, DataError
from spark_eval.predictions.evaluate import Predictions
from spark_eval.results.driver_tables import to_arrow

METRICS: Final = ("auc", "log_loss", "precision", "rmse")
# Columns that depend on what else is compared.
OF_CALL: Final = {"segment", "segment_value", "p_adjusted", "family_size"}


@pytest.fixture(autouse=True)
def _engine(each_engine: str, request: pytest.FixtureRequest) -> None:
    if each_engine == "spark":
        request.getfixturevalue("spark")


def clicks(seed: int = 1, n: int = 900) -> pd.DataFrame:
    """Rows of users in countries and folds; a country of one class, and one of one user."""
    random = np.random.default_rng(seed)
    user = random.integers(0, 40, n)
    taste = 2 * random.standard_normal(40)[user]
    label = (random.random(n) < 1 / (1 + np.exp(-taste))).astype(int)
    country = random.choice(np.array(["DK", "NO", None], dtype=object), n)
    country[:30], label[:30] = "SE", 1
    country[30:40], user[30:40], label[30:40] = "IS", 3, [0, 1] * 5
    rows = pd.DataFrame({"user": user, "label": label, "country": country, "fold": random.integers(0, 3, n)})
    models = [
        rows.assign(model=model, score=np.round(1 / (1 + np.exp(-taste - random.normal(0, noise, n))), 2))
        for model, noise in (("A", 6.0), ("B", 0.5))
    ]
    return pd.concat(models, ignore_index=True)


def scored(rows: pd.DataFrame, **options: Any) -> Predictions:
    given = {"metrics": METRICS, "intervals": "user", "segments": ["country"]} | options
    return evaluate_predictions(rows, "binary", **given)


def shared(row: ComparisonRow) -> dict[str, Any]:
    return {name: value for name, value in row._asdict().items() if name not in OF_CALL}


def test_a_segment_is_compared_as_its_rows_alone() -> None:
    rows = clicks()
    found = compare(scored(rows), segments=["country", "fold"], tests=["t", "sign"], test_train_ratio=0.5)
    assert [row.segment_value for row in found.rows if row.metric == "auc" and row.test == "t"] == [
        *("all", "(missing)", "DK", "IS", "NO", "SE"),
        *("0", "1", "2", "mean"),
    ]
    for segment, value in product(("country", "fold"), ("(missing)", "DK", "IS", "NO", "SE", 0, 1, 2)):
        part = rows[rows[segment].fillna("(missing)") == value]
        if not len(part):
            continue
        alone = compare(scored(part.drop(columns="fold"), segments=[]), tests=["t", "sign"])
        mine = [row for row in found.rows if (row.segment, row.segment_value) == (segment, str(value))]
        measured = {row.metric for row in alone.rows}
        assert [shared(row) for row in mine if row.metric in measured] == list(map(shared, alone.rows))
        for row in (row for row in mine if row.metric not in measured):
            assert (row.metric, value, row.n_users, row.difference, row.p_value) == (
                *("auc", "SE", 0, None, None),
            )
            assert row.n_undefined == part["user"].nunique()


def test_auc_of_a_segment_is_of_pairs_within_it() -> None:
    rows = clicks(2)
    for row in compare(scored(rows), metrics=["auc"], segments=["country"]).rows[1:]:
        part = rows[rows["country"].fillna("(missing)") == row.segment_value]
        for model, value in (("A", row.baseline_value), ("B", row.candidate_value)):
            of_model = part[part["model"] == model]
            scores = [of_model["score"][of_model["label"] == label].to_numpy() for label in (0, 1)]
            won = np.sign(scores[1][:, None] - scores[0]) / 2 + 0.5
            assert value == (pytest.approx(won.mean(), rel=1e-12) if won.size else None)


def test_the_mean_over_folds_takes_their_overlap_into_account() -> None:
    found = compare(scored(clicks()), metrics=["log_loss"], segments=["fold"], test_train_ratio=0.5)
    folds = [row for row in found.rows if row.segment == "fold"]
    [over] = [row for row in found.rows if row.segment == "folds"]
    differences = [row.difference or 0.0 for row in folds]
    error = np.sqrt((1 / 3 + 0.5) * np.var(differences, ddof=1))
    assert (over.difference, over.std_error) == pytest.approx((np.mean(differences), error), rel=1e-9)
    assert over.p_value == pytest.approx(2 * stats.t.sf(abs(np.mean(differences)) / error, 2), rel=1e-9)
    for name in ("n_users", "wins", "ties", "losses"):
        assert getattr(over, name) == sum(getattr(row, name) for row in folds)


def test_without_a_ratio_the_mean_over_folds_is_left_out_aloud(caplog: pytest.LogCaptureFixture) -> None:
    found = compare(scored(clicks()), metrics=["auc"])
    assert [row.segment for row in found.rows] == ["all"]
    assert "the row over folds is left out" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        compare(scored(clicks().drop(columns="fold")), metrics=["auc"])
    assert "folds" not in caplog.text


def test_gates_of_segments() -> None:
    rows = clicks()
    both = scored(rows[rows["country"] != "SE"])
    gate = {"metric": "auc", "model": "B", "against": {"model": "A"}, "max_drop": 0.01, "min_users": 10}
    every = gate | {"segment": "country", "min_users": 1}
    one = gate | {"segment": "country", "segment_value": "DK"}
    worse = one | {"model": "A", "against": {"model": "B"}}
    found = compare(both, gates=[every, one, worse], segments=["country"], baseline_model="A")
    assert [(row.segment_value, row.decision, row.passed) for row in found.gate_rows] == [
        ("(missing)", "not_worse", True),
        ("DK", "not_worse", True),
        ("IS", "undecided", False),
        ("NO", "not_worse", True),
        ("DK", "not_worse", True),
        ("DK", "worse", False),
    ]
    by_value = {row.segment_value: row.difference for row in found.rows if row.metric == "auc"}
    assert found.gate_rows[4].difference == by_value["DK"] == -(found.gate_rows[5].difference or 0)
    with pytest.raises(DataError, match=r"TOO_FEW_USERS.*country 'SE'"):
        compare(scored(rows), gates=[every])
    with pytest.raises(DataError, match=r"TOO_FEW_USERS.*country 'GL'"):
        compare(both, gates=[gate | {"segment": "country", "segment_value": "GL"}])
    with pytest.raises(ConfigError, match=r"UNKNOWN_SEGMENT.*did you mean 'country'"):
        compare(both, gates=[gate | {"segment": "cuntry"}])


def test_segments_of_two_results_must_hold_the_same_rows() -> None:
    rows = clicks()
    first = rows[rows["model"] == "A"]
    old, new = scored(first), rows[rows["model"] == "B"].assign(model="A")
    moved = new.assign(country=np.where(new["user"] == 7, "NO", new["country"]))
    assert len(compare(scored(moved), old, metrics=["auc"]).rows) == 1
    with pytest.raises(DataError, match=r"ROWS_DIFFER.*A against A \(country "):
        compare(scored(moved), old, segments=["country"])
    with pytest.raises(ConfigError, match=r"UNKNOWN_SEGMENT.*country.*segments, baseline; allowed: fold"):
        compare(scored(new), scored(first, segments=[]), segments=["country"])
    with pytest.raises(ConfigError, match=r"UNKNOWN_SEGMENT.*fold.*segments, candidate; allowed: none"):
        compare(scored(new.drop(columns="fold"), segments=[]), old, segments=["fold"])
    with pytest.raises(DataError, match="FOLDS_DIFFER"):
        compare(scored(new.drop(columns="fold")), old)


def test_sums_of_users_by_segment_add_up_to_those_of_all_rows() -> None:
    rows = clicks()
    found = scored(rows)
    per_user = to_arrow(found.per_user).to_pandas()
    assert len(per_user) == found.n_per_user
    keys = ["model", "segment", "segment_value", "user"]
    assert not per_user.duplicated(keys).any()
    assert set(per_user["segment"]) == {"all", "country", "fold"}
    counts = per_user.pivot_table("rows", ["model", "user"], "segment", "sum")
    assert (counts.eq(counts["all"], axis=0)).all().all()
    counted = per_user[per_user["segment"] == "fold"].set_index(keys)["rows"]
    expected = rows.assign(segment="fold", segment_value=rows["fold"].astype(str)).groupby(keys).size()
    pd.testing.assert_series_equal(counted.sort_index(), expected, check_dtype=False, check_names=False)
    whole = to_arrow(scored(rows.drop(columns="fold"), segments=[]).per_user).to_pandas()
    mine = per_user[per_user["segment"] == "all"].drop(columns=["segment", "segment_value"])
    one, other = (of.sort_values(["model", "user"], ignore_index=True) for of in (mine, whole))
    pd.testing.assert_frame_equal(one, other, check_exact=True)
