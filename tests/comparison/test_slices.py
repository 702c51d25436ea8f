"""Slices of users: the sums, tests and roles of each, against a second computation slice by slice."""

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.comparison.plain_pairs import plain_clusters

from spark_eval import compare, evaluate_predictions
from spark_eval.comparison.compare import Comparison
from spark_eval.comparison.worker import slices as slices_of_workers
from spark_eval.errors import ConfigError, DataError
from spark_eval.runners import user_buckets
from spark_eval.statistics.significance import adjusted

pytestmark = pytest.mark.usefixtures("engine_of_users")
# Differences of four users of each country and device.
WORKED: Final = {
    ("SE", "tv"): (-0.4, -0.3, -0.5, -0.2),
    ("SE", "web"): (0.1, 0.0, 0.2, -0.1),
    ("NO", "tv"): (0.1, 0.0, -0.1, 0.1),
    ("NO", "web"): (0.2, 0.0, 0.1, 0.1),
}
# Of these four times: n, difference, std_error, p, adjusted p, contribution, p of the rest.
EXPECTED: Final = {
    "SE": (32, -0.15, 0.041153, 0.000969286, 0.00290786, -0.075, 2.04119e-05),
    "NO": (32, 0.0625, 0.015391, 0.000308491, 0.00123397, 0.03125, 2.04119e-05),
    "tv": (32, -0.1625, 0.038034, 0.000170363, 0.000912513, -0.08125, 1.03866e-06),
    "web": (32, 0.075, 0.017390, 0.000152085, 0.000912513, 0.0375, 1.03866e-06),
    "SE tv": (16, -0.35, 0.028868, 3.75413e-09, 3.0033e-08, -0.0875, 9.69137e-12),
    "SE web": (16, 0.05, 0.028868, 0.103771, 0.207542, 0.0125, 0.00522879),
    "NO tv": (16, 0.025, 0.021409, 0.261135, 0.261135, 0.00625, 0.0225509),
    "NO web": (16, 0.1, 0.018257, 6.37181e-05, 0.000446027, 0.025, 1.23459e-06),
}
NUMBERS: Final = ("n_users", "difference", "std_error", "p_value", "p_adjusted", "contribution", "p_rest")
ATTRIBUTES: Final = ("country", "device", "age")


def worked(times: int, **options: Any) -> Comparison:
    """The worked example, each user several times."""
    rows = [(*of, one) for of, many in WORKED.items() for one in many] * times
    table = pd.DataFrame(rows, columns=["country", "device", "d"]).rename_axis("user").reset_index()
    old = table.drop(columns="d").assign(ndcg_at_10=0.5)
    new = table.drop(columns="d").assign(ndcg_at_10=0.5 + table["d"])
    slices = {"of": ["country", "device"], "min_users": 2, **options}
    return compare(new, old, model="new", baseline_model="old", slices=slices)


def by_values(found: Comparison) -> dict[str, Any]:
    """Rows of slices by their values."""
    return {" ".join(row.values): row for row in found.slice_rows}


def test_worked_example() -> None:
    rows = by_values(worked(4))
    assert rows.keys() == EXPECTED.keys()
    for name, expected in EXPECTED.items():
        found = [getattr(rows[name], column) for column in NUMBERS]
        assert found == pytest.approx(expected, rel=5e-6, abs=5e-7)
        assert rows[name].family_size == 8
    roles = {name: (str(row.role), row.by) for name, row in rows.items() if row.verdict == "loses"}
    assert roles == {
        "SE": ("explained_by", "country=SE, device=tv"),
        "tv": ("explained_by", "country=SE, device=tv"),
        "SE tv": ("own", None),
    }
    wins = {name for name, row in rows.items() if row.verdict == "wins"}
    assert wins == {"NO", "web", "NO web"}


def test_sixteen_users_show_nothing() -> None:
    rows = by_values(worked(1))
    assert {row.verdict for row in rows.values()} == {"open"}
    assert rows["SE tv"].p_value == pytest.approx(0.0123076, rel=1e-5)
    assert rows["SE tv"].p_adjusted == pytest.approx(0.0984604, rel=1e-5)


def test_small_slices_and_their_users_are_counted() -> None:
    rows = [("SE", "tv")] * 6 + [("SE", "web")] * 2 + [("NO", "web")] * 3
    old = pd.DataFrame(rows, columns=["country", "device"]).assign(user=range(11), ndcg_at_10=0.5)
    new = old.assign(ndcg_at_10=np.arange(11) / 11)
    slices = {"of": ["country", "device"], "min_users": 6}
    found = compare(new, old, model="new", baseline_model="old", slices=slices)
    assert {" ".join(row.values) for row in found.slice_rows} == {"SE", "tv", "SE tv"}
    counts = {(one.source, one.outcome): one.rows for one in found.entries}
    assert [counts["slices", name] for name in ("in", "used", "dropped")] == [7, 3, 4]
    assert [counts["rows in slices", name] for name in ("in", "used", "dropped")] == [11, 8, 3]
    assert {one.reason for one in found.entries if one.outcome == "dropped"} == {"below_min_users"}


def test_slices_that_are_small_in_one_bucket_are_summed_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(2)
    old = pd.DataFrame({"user": range(200), "ndcg_at_10": 0.5})
    old = old.assign(country=draw.choice(list("abcdef"), 200), device=draw.choice(list("uvwxyz"), 200))
    new = old.assign(ndcg_at_10=draw.random(200))
    options: dict[str, Any] = {"model": "new", "baseline_model": "old"}
    options["slices"] = {"of": ["country", "device"], "min_users": 4}
    whole = compare(new, old, **options)
    monkeypatch.setattr(user_buckets, "USERS_AT_ONCE", 9)
    parts = compare(new, old, **options)
    assert parts.slice_rows == whole.slice_rows
    assert len(whole.slice_rows) > 30


def users_of(n: int, *, seed: int, n_requests: int = 1) -> pd.DataFrame:
    """Users, or their requests, with attributes; some have none, one is called null."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"user": np.repeat(np.arange(n), n_requests)})
    table["country"] = draw.choice(["SE", "NO", "null"], n)[table["user"]]
    table["device"] = draw.choice(["tv", "web", "app"], len(table))
    table["age"] = np.array(["old", "young", None])[draw.integers(0, 3, n)][table["user"]]
    if n_requests > 1:
        table["request"] = [f"{user}-{index}" for index, user in enumerate(table["user"])]
    return table


def with_values(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The users with values of metrics, which some lack; some users are missing."""
    draw = np.random.default_rng(seed)
    table = table.assign(
        ndcg_at_10=np.round(draw.random(len(table)), 3),
        ap_at_10=draw.integers(0, 5, len(table)) * 10.0 ** draw.integers(-9, 2, len(table)),
    )
    table.loc[draw.random(len(table)) < 0.1, "ap_at_10"] = np.nan
    return table[draw.random(len(table)) < 0.9].sample(frac=1, random_state=seed)


def masks(both: pd.DataFrame, cross: int) -> Iterator[tuple[dict[str, str], pd.Series]]:
    """Each slice, with the mask of its rows."""
    texts = both[[*ATTRIBUTES]].fillna("(missing)")
    for depth in range(1, cross + 1):
        for names in combinations(ATTRIBUTES, depth):
            for values in product(*(sorted(texts[name].unique()) for name in names)):
                if depth == 1 or "(missing)" not in values:
                    yield dict(zip(names, values, strict=True)), (texts[[*names]] == values).all(axis=1)


def joined(old: pd.DataFrame, new: pd.DataFrame, column: str) -> pd.DataFrame:
    """Rows of both models that have a value, with the candidate's attributes."""
    keys = [name for name in ("user", "request") if name in old.columns]
    both = new.merge(old[[*keys, column]], on=keys, suffixes=("_b", "_a"))
    return both.rename(columns={f"{column}_a": "a", f"{column}_b": "b"}).dropna(subset=["a", "b"])


def rows_by_slice(found: Comparison, metric: str) -> Mapping[tuple[tuple[str, str], ...], Any]:
    """Rows of a metric by slice."""
    return {
        tuple(zip(row.attributes, row.values, strict=True)): row
        for row in found.slice_rows
        if row.metric == metric
    }


@pytest.mark.parametrize("seed", range(3))
def test_each_slice_is_tested_as_a_loop_over_slices_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_buckets, "USERS_AT_ONCE", 70)
    table = users_of(300, seed=seed)
    old, new = with_values(table, seed + 10), with_values(table, seed + 20)
    slices = {"of": ATTRIBUTES, "cross": 3, "min_users": 5, "correction": "bh"}
    found = compare(new, old, model="new", baseline_model="old", slices=slices)
    for metric, column in (("ndcg", "ndcg_at_10"), ("map", "ap_at_10")):
        rows = rows_by_slice(found, metric)
        both, common = joined(old, new, column), joined(old, new, "ndcg_at_10")
        expected = {}
        n_common = {tuple(of.items()): int(one.sum()) for of, one in masks(common, 3)}
        for cell, mask in masks(both, 3):
            if n_common[tuple(cell.items())] < 5:
                continue
            d = (both["b"] - both["a"])[mask]
            rest = (both["b"] - both["a"])[~mask]
            t = stats.ttest_1samp(d, 0)
            row = rows[tuple(cell.items())]
            interval = t.confidence_interval(0.95)
            assert [row.n_users, row.difference] == [len(d), pytest.approx(d.mean(), rel=1e-11)]
            assert [row.statistic, row.p_value] == pytest.approx([t.statistic, t.pvalue], rel=1e-9)
            assert [row.ci_low, row.ci_high] == pytest.approx([*interval], rel=1e-9)
            assert row.contribution == pytest.approx(d.sum() / len(both), rel=1e-11)
            assert row.rest_difference == pytest.approx(d.mean() - rest.mean(), rel=1e-11)
            p_rest = stats.ttest_ind(d, rest, equal_var=False).pvalue
            assert row.p_rest == pytest.approx(p_rest, rel=1e-9)
            expected[tuple(cell.items())] = t.pvalue
        assert expected.keys() == rows.keys()
        p_adjusted = adjusted([*expected.values()], "bh")
        assert [rows[cell].p_adjusted for cell in expected] == pytest.approx(p_adjusted, rel=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_users_are_clusters_of_their_requests(seed: int) -> None:
    table = users_of(60, seed=seed, n_requests=5)
    old, new = with_values(table, seed + 10), with_values(table, seed + 20)
    slices = {"of": ATTRIBUTES, "cross": 2, "min_users": 2}
    found = compare(new, old, model="new", baseline_model="old", slices=slices, weight="requests")
    rows, both = rows_by_slice(found, "ndcg"), joined(old, new, "ndcg_at_10")
    for cell, mask in masks(both, 2):
        if both[mask]["user"].nunique() < 2:
            continue
        row, expected = rows[tuple(cell.items())], plain_clusters(both[mask])
        estimate, rest = expected.estimate, plain_clusters(both[~mask]).estimate
        assert (row.n_users, row.difference) == (expected.n, pytest.approx(float(estimate.value or 0)))
        assert row.std_error == pytest.approx(estimate.std_error)
        assert row.rest_difference == pytest.approx(float((estimate.value or 0) - (rest.value or 0)))
        errors = [float(one.std_error or 0) ** 2 for one in (estimate, rest)]
        sizes = [expected.n, both[~mask]["user"].nunique()]
        freedom = sum(errors) ** 2 / sum(e**2 / (n - 1) for e, n in zip(errors, sizes, strict=True))
        p_rest = 2 * stats.t.sf(abs(row.rest_difference) / sum(errors) ** 0.5, freedom)
        assert row.p_rest == pytest.approx(p_rest)


def test_users_count_once_with_the_means_of_their_requests() -> None:
    table = users_of(60, seed=1, n_requests=5)
    old, new = with_values(table, 11), with_values(table, 21)
    slices = {"of": ATTRIBUTES, "cross": 2, "min_users": 2}
    found = compare(new, old, model="new", baseline_model="old", slices=slices, weight="users")
    rows, both = rows_by_slice(found, "ndcg"), joined(old, new, "ndcg_at_10")
    for cell, mask in masks(both, 2):
        d, rest = ((part["b"] - part["a"]).groupby(part["user"]).mean() for part in (both[mask], both[~mask]))
        if len(d) < 2:
            continue
        row, t = rows[tuple(cell.items())], stats.ttest_1samp(d, 0)
        assert [row.n_users, row.difference] == [len(d), pytest.approx(d.mean())]
        assert row.p_value == pytest.approx(t.pvalue)
        assert row.p_rest == pytest.approx(stats.ttest_ind(d, rest, equal_var=False).pvalue)


def test_weighted_means_are_ratios_of_each_slice() -> None:
    table = users_of(200, seed=4)
    draw = np.random.default_rng(4)
    sides = []
    for _ in range(2):
        side = with_values(table, 4).drop(columns=["ap_at_10", "ndcg_at_10"])
        side["auc_at_5"], side["auc_impressions_at_5"] = draw.random((2, len(side)))
        sides.append(side)
    options: dict[str, Any] = {"metrics": ["gauc_by_impressions"], "segments": ["country", "device"]}
    slices = {"of": ["country", "device"], "min_users": 2, "cross": 1}
    found = compare(sides[1], sides[0], model="new", baseline_model="old", slices=slices, **options)
    expected = {row.segment_value: row for row in found.rows if row.segment != "all"}
    assert len(found.slice_rows) == len(expected) == 6
    for row in found.slice_rows:
        [value] = row.values
        assert row.difference == expected[value].difference
        assert row.std_error == pytest.approx(expected[value].std_error, rel=1e-12)
        assert row.p_value == pytest.approx(expected[value].p_value, rel=1e-12)


def told_apart(means: Mapping[tuple[str, str], float], n: int = 50) -> dict[str, Any]:
    """Rows of slices where each crossing has n users with this mean."""
    noise = np.linspace(-0.01, 0.01, n)
    rows = [(*cell, mean + one) for cell, mean in means.items() for one in noise]
    old = pd.DataFrame(rows, columns=["country", "device", "ndcg_at_10"]).rename_axis("user").reset_index()
    slices = {"of": ["country", "device"], "min_users": 2}
    new = old.rename(columns={"ndcg_at_10": "d"}).assign(ndcg_at_10=lambda one: 0.5 + one["d"])
    found = compare(
        new.drop(columns="d"), old.assign(ndcg_at_10=0.5), model="b", baseline_model="a", slices=slices
    )
    return by_values(found)


def test_crossings_that_lose_alike_are_part_of_the_wider_slice() -> None:
    cells = {("SE", "tv"): -0.1, ("SE", "web"): -0.1, ("NO", "tv"): 0.1, ("NO", "web"): 0.1}
    rows = told_apart(cells)
    assert {name: row.role for name, row in rows.items() if row.role} == {
        "SE": "own",
        "SE tv": "part_of",
        "SE web": "part_of",
    }
    assert rows["SE tv"].by == "country=SE"


def test_a_worse_crossing_stands_beside_the_wider_slice() -> None:
    cells = {("SE", "tv"): -0.3, ("SE", "web"): -0.1, ("NO", "tv"): 0.4, ("NO", "web"): 0.1}
    roles = {name: row.role for name, row in told_apart(cells).items() if row.role}
    assert roles == {"SE": "own", "SE tv": "own", "SE web": "part_of"}


def test_a_rest_without_spread_that_does_not_fall_explains_the_wider_slice() -> None:
    noise = np.linspace(-0.01, 0.01, 50)
    cells = {("SE", "tv"): noise - 0.3, ("SE", "web"): 0 * noise + 0.1, ("NO", "tv"): noise + 0.4}
    rows = [(*cell, one) for cell, values in cells.items() for one in values]
    table = pd.DataFrame(rows, columns=["country", "device", "d"]).rename_axis("user").reset_index()
    old = table.drop(columns="d").assign(ndcg_at_10=0.5)
    new = old.assign(ndcg_at_10=0.5 + table["d"])
    slices = {"of": ["country", "device"], "min_users": 2}
    found = by_values(compare(new, old, model="b", baseline_model="a", slices=slices))
    assert (found["SE"].role, found["SE"].by) == ("explained_by", "country=SE, device=tv")


def test_what_explains_a_slice_is_found_before_what_it_is_a_part_of() -> None:
    noise = np.linspace(-0.01, 0.01, 50)
    cells = {("tv", "old"): noise - 0.1, ("web", "old"): noise - 0.1, ("web", "young"): noise - 0.1}
    rows = [("SE", *cell, one) for cell, values in cells.items() for one in values]
    rows += [("SE", "tv", "young", -0.3), ("SE", "tv", "young", 0.1)]
    rows += [("NO", *cell, one + 0.4) for cell in cells for one in noise]
    table = pd.DataFrame(rows, columns=["country", "device", "age", "d"]).rename_axis("user").reset_index()
    old = table.drop(columns="d").assign(ndcg_at_10=0.5)
    new = old.assign(ndcg_at_10=0.5 + table["d"])
    slices = {"of": ["country", "device", "age"], "cross": 3, "min_users": 2}
    found = by_values(compare(new, old, model="b", baseline_model="a", slices=slices))
    assert (found["SE"].role, found["SE web"].role) == ("own", "part_of")
    assert (found["SE tv"].role, found["SE tv"].by) == ("explained_by", "country=SE, device=tv, age=old")


def test_lower_values_are_wins_of_a_metric_whose_lower_values_are_better() -> None:
    table = pd.DataFrame({"user": range(40), "country": ["SE", "NO"] * 20})
    old = table.assign(calibration_kl_at_10=5.0)
    new = table.assign(calibration_kl_at_10=5.0 + np.linspace(0.9, 1.1, 40))
    slices = {"of": "country", "min_users": 2}
    assert {
        row.verdict for row in compare(new, old, model="b", baseline_model="a", slices=slices).slice_rows
    } == {"loses"}


@pytest.mark.parametrize(
    ("slices", "code"),
    [
        ({"of": ["city"]}, "UNKNOWN_SEGMENT"),
        ({"of": []}, "EMPTY_COMPARISON"),
        ({"cross": 2}, "EMPTY_COMPARISON"),
        ({"of": ["country"], "cross": 4}, "OUT_OF_RANGE"),
        ({"of": ["country"], "min_users": 1}, "OUT_OF_RANGE"),
        ({"of": ["country"], "correction": "none"}, "INVALID_CHOICE"),
        ({"of": ["country"], "min_user": 5}, "UNKNOWN_CONFIG_KEY"),
        ({"of": ["fold"]}, "UNKNOWN_SEGMENT"),
    ],
)
def test_bad_slices_are_refused(slices: dict[str, Any], code: str) -> None:
    table = users_of(20, seed=1).assign(ndcg_at_10=0.5)
    with pytest.raises(ConfigError, match=code):
        compare(table, table.copy(), model="b", baseline_model="a", slices=slices)


@pytest.mark.parametrize("at_once", [1 << 17, 500])
def test_an_attribute_of_ids_is_refused(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_buckets, "USERS_AT_ONCE", at_once)
    table = pd.DataFrame({"user": range(1001), "city": range(1001), "ndcg_at_10": 0.5})
    with pytest.raises(DataError, match="TOO_MANY_SEGMENTS"):
        compare(table, table.copy(), model="b", baseline_model="a", slices={"of": ["city"]})


def test_too_many_slices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_of_workers, "MOST_SLICES", 5)
    with pytest.raises(DataError, match="TOO_MANY_SLICES"):
        worked(1)


def test_values_of_predictions_have_no_slices() -> None:
    rows = pd.DataFrame({"user": range(8), "label": [0, 1] * 4, "country": ["SE", "NO", "NO", "SE"] * 2})
    of_models = [rows.assign(model=name, score=np.linspace(0, 1, 8) ** n) for n, name in ((1, "a"), (2, "b"))]
    options: dict[str, Any] = {"metrics": ["brier"], "intervals": "user", "segments": ["country"]}
    found = evaluate_predictions(pd.concat(of_models), "binary", **options)
    with pytest.raises(ConfigError, match="NOT_OF_PREDICTIONS"):
        compare(found, slices={"of": ["country"]})


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("weight", [None, "requests", "users"])
def test_both_engines_have_the_same_bits(weight: str | None) -> None:
    table = users_of(60, seed=3, n_requests=1 if weight is None else 3)
    old, new = with_values(table, 13), with_values(table, 23)
    slices = {"of": ATTRIBUTES, "cross": 2, "min_users": 10}
    options: dict[str, Any] = {"model": "b", "baseline_model": "a", "slices": slices, "weight": weight}
    local, of_spark = (compare(new, old, engine=name, **options) for name in ("local", "spark"))
    assert local.slice_rows == of_spark.slice_rows
    assert len(local.slice_rows) >= 20
    assert sorted(map(str, local.entries)) == sorted(map(str, of_spark.entries))
    assert of_spark.to_spark("slices").count() == len(local.slice_rows)


def gated(max_drop: float, times: int = 4, share: float = 1, **gate: Any) -> Any:
    """The row of a gate of every slice of the worked example; the baseline has a share of the users."""
    rows = [(*of, one) for of, many in WORKED.items() for one in many] * times
    table = pd.DataFrame(rows, columns=["country", "device", "d"]).rename_axis("user").reset_index()
    new = table.assign(ndcg_at_10=0.5 + table["d"]).drop(columns="d")
    gates = [{"metric": "ndcg@10", "every_slice": True, "max_drop": max_drop, **gate}]
    options: dict[str, Any] = {"slices": {"of": ["country", "device"], "min_users": 2}, "gates": gates}
    old = table.assign(ndcg_at_10=0.5).drop(columns="d")[-round(share * len(table)) :]
    [row] = compare(new, old, model="new", baseline_model="old", **options).gate_rows
    return row


def test_a_gate_of_every_slice_names_the_worst_one() -> None:
    row = gated(0.05)
    d = np.array([*WORKED["SE", "tv"]] * 4)
    p = stats.ttest_1samp(d, -0.05, alternative="less").pvalue
    assert (row.segment, row.segment_value) == ("slices", "country=SE, device=tv")
    assert (row.decision, row.passed, row.n_users) == ("worse", False, 16)
    assert row.p_worse == pytest.approx(8 * p)
    assert row.difference == pytest.approx(-0.35)
    assert row.reason.startswith("2 of 8 tested slices")


def test_a_gate_of_every_slice_passes_where_nothing_is_certain() -> None:
    assert gated(0.3, times=1).passed
    assert gated(0.3, times=1).reason.startswith("none of 8 tested slices")


def test_a_gate_of_every_slice_needs_users_in_common() -> None:
    with pytest.raises(DataError, match=r"POPULATIONS_DIFFER.*0\.5000 of all users are in both"):
        gated(0.05, share=0.5)
    assert gated(0.05, share=0.5, min_common=0.4).decision == "worse"


@pytest.mark.parametrize(
    "gate",
    [
        {"mode": "non_inferior"},
        {"mode": "observed"},
        {"drop": "relative"},
        {"segment": "country"},
        {"pairing": "none"},
    ],
)
def test_a_gate_of_every_slice_refuses_other_ways(gate: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"INVALID_GATE.*every_slice"):
        gated(0.05, **gate)


def test_a_gate_of_every_slice_needs_slices() -> None:
    table = users_of(20, seed=1).assign(ndcg_at_10=0.5)
    gates = [{"metric": "ndcg@10", "every_slice": True, "max_drop": 0.05}]
    with pytest.raises(ConfigError, match=r"INVALID_GATE.*slices"):
        compare(table, table.copy(), model="b", baseline_model="a", gates=gates)


def test_a_report_has_a_chapter_on_where_it_is_worse() -> None:
    plot = worked(4).plot("slices")
    assert plot.title == "Where it is worse"
    assert all(text in plot.page for text in ("country=SE, device=tv", "By country and device"))


def test_what_people_see_names_the_slice_that_stands() -> None:
    text = "\n".join(map(str, worked(4).shown()))
    assert "country=SE, device=tv" in text
    assert "3 of 8 slices of 2 users and more: new certainly loses" in text
    assert "country=SE " not in text
    assert "3 of 8 slices of 2 users and more: new certainly loses" in repr(worked(4))
    nothing = "\n".join(map(str, worked(1).shown()))
    assert "in none of 8 slices of 2 users and more new certainly loses against old in ndcg@10" in nothing
