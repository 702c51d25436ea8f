"""Experiments in this process, each number against pandas and SciPy; and the same bits on Spark."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from spark_eval import evaluate_experiments, sum_user_days
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.analysis import failure_of
from spark_eval.experiments.evaluate import Experiments

START: Final = pd.Timestamp("2024-05-01T00:00:00Z")
HOUR: Final = pd.Timedelta(hours=1)
PERIOD: Final = ["2024-05-01", "2024-05-08"]
HOME: Final[dict[str, Any]] = {"name": "home", "control": "a", "variants": {"a": 1, "b": 1}, "period": PERIOD}
CLICKS: Final[dict[str, Any]] = {"name": "clicks", "kind": "mean", "of": {"kind": "click"}}
CTR: Final[dict[str, Any]] = {
    "name": "ctr",
    "kind": "ratio",
    "numerator": {"kind": "click"},
    "denominator": {"kind": "view"},
}


def log(n_users: int = 200, seed: int = 7, effect: float = 0.5) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Exposures and events of users of a and b, with a past, a surface and a country."""
    random = np.random.default_rng(seed)
    users = np.arange(n_users)
    arm, rate = users % 2, random.gamma(4, 1, n_users)
    exposures = pd.DataFrame(
        {
            "user": users,
            "variant": np.where(arm, "b", "a"),
            "timestamp": START + random.integers(0, 48, n_users) * HOUR,
            "country": random.choice(["DE", "FR"], n_users),
            "household": users // 3 * 2 + arm,
        }
    )
    rows = []
    for day in range(-14, 7):
        lift = effect * arm if day >= 0 else 0
        n_views = random.poisson(2 * rate)
        n_clicks = random.poisson(rate * (1 + lift) / 2)
        for kind, numbers in (("view", n_views), ("click", n_clicks), ("watch", n_clicks)):
            of_users = np.repeat(users, numbers)
            hours = random.integers(0, 24, len(of_users))
            seconds = random.integers(1, 100, len(of_users)) / 4
            rows.append(
                pd.DataFrame(
                    {
                        "user": of_users,
                        "kind": kind,
                        "timestamp": START + pd.Timedelta(days=day) + hours * HOUR,
                        "value": seconds if kind == "watch" else 1.0,
                        "surface": random.choice(["home", "search"], len(of_users)),
                    }
                )
            )
    return exposures, pd.concat(rows, ignore_index=True)


def run(
    tables: tuple[pd.DataFrame, pd.DataFrame],
    metrics: list[dict[str, Any]],
    change: dict[str, Any] | None = None,
    **options: Any,
) -> Experiments:
    return evaluate_experiments(*tables, metrics, {**HOME, **(change or {})}, engine="local", **options)


def rows_of(found: Experiments, **equal: Any) -> list[dict[str, Any]]:
    rows = [row._asdict() for row in found.experiment_rows]
    return [row for row in rows if all(row[name] == value for name, value in equal.items())]


def only(found: Experiments, **equal: Any) -> dict[str, Any]:
    [row] = rows_of(found, **equal)
    return row


def used(tables: tuple[pd.DataFrame, pd.DataFrame]) -> pd.DataFrame:
    """The events of the period with the arm, the first exposure and the country of their users."""
    exposures, events = tables
    joined = events.merge(exposures.rename(columns={"timestamp": "exposed"}), on="user")
    end = START + pd.Timedelta(days=7)
    return joined[(joined.timestamp >= joined.exposed) & (joined.timestamp < end)]


def per_user(tables: tuple[pd.DataFrame, pd.DataFrame], events: pd.DataFrame) -> pd.DataFrame:
    """The number of clicks and views of all exposed users."""
    counts = events.groupby(["user", "kind"]).size().unstack(fill_value=0)
    users = tables[0].set_index("user")[["variant", "country"]]
    return users.join(counts.reindex(users.index, fill_value=0)).fillna(0)


TABLES: Final = log()


def test_values_are_those_of_pandas_and_scipy() -> None:
    found = run(TABLES, [CLICKS, CTR])
    users = per_user(TABLES, used(TABLES))
    a, b = (users[users.variant == arm] for arm in "ab")
    row = only(found, metric="clicks", method="raw")
    theirs = stats.ttest_ind(b.click, a.click, equal_var=False)
    assert (row["n_control"], row["n_treatment"]) == (100, 100)
    assert (row["statistic"], row["df"], row["p_value"]) == pytest.approx(
        (theirs.statistic, theirs.df, theirs.pvalue)
    )
    ratio = only(found, metric="ctr", method="raw")
    assert ratio["difference"] == pytest.approx(
        b.click.sum() / b.view.sum() - a.click.sum() / a.view.sum(), rel=1e-12
    )
    cuped = only(found, metric="clicks", method="cuped")
    assert 0 < cuped["std_error"] < row["std_error"]
    assert [row.decision for row in found.decision_rows] == ["win"]


def test_the_pre_period_is_of_each_user() -> None:
    found = only(run(TABLES, [CLICKS]), method="cuped")
    exposures, events = TABLES
    joined = events[events.kind == "click"].merge(
        exposures.rename(columns={"timestamp": "exposed"}), on="user"
    )
    day = joined.exposed.dt.floor("D")
    past = joined[(joined.timestamp < day) & (joined.timestamp >= day - pd.Timedelta(days=14))]
    users = per_user(TABLES, used(TABLES))
    users["pre"] = past.groupby("user").size().reindex(users.index, fill_value=0)
    theta = np.cov(users.click, users.pre)[0, 1] / users.pre.var()
    adjusted = users.click - theta * (users.pre - users.pre.mean())
    a, b = (adjusted[users.variant == arm] for arm in "ab")
    assert found["difference"] == pytest.approx(b.mean() - a.mean())
    theirs = stats.ttest_ind(b, a, equal_var=False)
    assert (found["p_value"], found["df"]) == pytest.approx((theirs.pvalue, theirs.df))


def test_conditions_and_caps() -> None:
    where = [{"column": "surface", "op": "==", "value": "home"}]
    money = {"kind": "watch", "value": "sum", "where": where, "cap": 60.5}
    found = run(TABLES, [{"name": "watch", "kind": "mean", "of": money, "decimals": 2}], cuped=False)
    events = used(TABLES)
    chosen = events[(events.kind == "watch") & (events.surface == "home")]
    sums = chosen.groupby("user").value.sum().reindex(TABLES[0].user, fill_value=0).clip(upper=60.5)
    means = sums.groupby(TABLES[0].set_index("user").variant).mean()
    row = only(found)
    assert (row["control_value"], row["treatment_value"]) == pytest.approx((means["a"], means["b"]))
    assert 0 < (sums == 60.5).sum() < len(sums)
    wrong = {**money, "where": [{"column": "surface", "op": ">", "value": 3}]}
    with pytest.raises(ConfigError, match="'surface' is string, 3 is not"):
        run(TABLES, [{"name": "watch", "kind": "mean", "of": wrong}])
    with pytest.raises(DataError, match="no column 'place'"):
        run(TABLES, [{**CLICKS, "of": {"kind": "click", "where": [{**where[0], "column": "place"}]}}])


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("!=", 2, [1, 3]),
        ("<=", 2, [1, 2]),
        ("in", [1, 3], [1, 3]),
        ("between", [2, 3], [2, 3]),
        ("is_null", None, ["null"]),
        ("is_not_null", None, [1, 2, 3]),
    ],
)
def test_each_operator(op: str, value: Any, expected: list[Any]) -> None:
    exposures = pd.DataFrame({"user": [1, 2], "variant": ["a", "b"], "timestamp": START})
    positions = pd.array([1, 2, 3, None], dtype="Int64")
    events = pd.DataFrame({"user": 1, "kind": "click", "timestamp": START, "position": positions})
    condition = {"column": "position", "op": op, "value": value}
    found = run((exposures, events), [{**CLICKS, "of": {"kind": "click", "where": [condition]}}])
    assert only(found, method="raw")["control_value"] == len(expected)


def test_an_event_of_a_table_without_values_counts_1() -> None:
    exposures, events = TABLES
    of_clicks = only(run(TABLES, [CLICKS]), method="raw")
    assert only(run((exposures, events.drop(columns="value")), [CLICKS]), method="raw") == of_clicks
    counted = {**CLICKS, "of": {"kind": "click", "value": "count"}}
    assert only(run(TABLES, [counted]), method="raw") == of_clicks


def test_the_adjustment_says_theta_and_how_much_variance_it_removes() -> None:
    watched = {"name": "watched", "kind": "mean", "of": {"kind": "watch"}, "decimals": 2}
    found = run(TABLES, [watched, {**CLICKS, "cuped": False}])
    raw, cuped = only(found, metric="watched", method="raw"), only(found, method="cuped")
    exposures, events = TABLES
    joined = events.merge(exposures.rename(columns={"timestamp": "exposed"}), on="user")
    day = joined.exposed.dt.floor("D")
    before = joined[(joined.timestamp >= day - pd.Timedelta(days=14)) & (joined.timestamp < day)]
    y, x = (
        some[some.kind == "watch"].groupby("user").value.sum().reindex(range(200), fill_value=0)
        for some in (used(TABLES), before)
    )
    past = np.isin(np.arange(200), before.user)
    covariates = [x, past] if not past.all() else [x]
    fitted = np.linalg.lstsq(np.column_stack([np.ones(200), *covariates]), y)[0]
    assert cuped["theta"] == pytest.approx(fitted[1])
    removed = 1 - cuped["std_error"] ** 2 / raw["std_error"] ** 2
    assert cuped["variance_reduction"] == pytest.approx(removed)
    assert 0 < removed < 1
    assert raw["theta"] is raw["variance_reduction"] is None


def test_experiments_slice_by_their_own_columns_and_share_one_unit() -> None:
    other = {**HOME, "name": "other", "by": ["country"]}
    exposures, events = TABLES
    both = pd.concat([exposures.assign(experiment=name) for name in ("home", "other")])
    found = evaluate_experiments(
        both, events, [CTR], [HOME, {**other, "sequential": {"tau": 0.1}}], by=["hour"], engine="local"
    )
    slices = {(row["experiment"], row["segment"]) for row in rows_of(found)}
    assert slices == {("home", "all"), ("home", "hour"), ("other", "all"), ("other", "country")}
    assert {row["experiment"] for row in rows_of(found, method="sequential")} == {"other"}
    with pytest.raises(ConfigError, match="one unit; here household and user"):
        evaluate_experiments(both, events, [CTR], [HOME, {**other, "unit": "household"}], engine="local")


def test_households_are_units_and_means_are_over_their_users() -> None:
    exposures, events = TABLES
    events = events.merge(exposures[["user", "household"]], on="user")
    found = run((exposures, events), [CLICKS], {"unit": "household"}, cuped=False)
    theirs = {"unit": "household"}
    mapped = evaluate_experiments(
        *(exposures, events, [CLICKS], HOME),
        exposure_columns=theirs,
        event_columns=theirs,
        engine="local",
        cuped=False,
    )
    assert mapped.experiment_rows == found.experiment_rows
    # A household is exposed with the first of its users.
    first = exposures.assign(timestamp=exposures.groupby("household").timestamp.transform("min"))
    users = per_user(TABLES, used((first, TABLES[1]))).join(exposures.set_index("user").household)
    row = only(found)
    assert (row["n_control"], row["n_treatment"]) == tuple(users.groupby("variant").household.nunique())
    errors = []
    for arm, value in (("a", row["control_value"]), ("b", row["treatment_value"])):
        of_arm = users[users.variant == arm]
        assert value == pytest.approx(of_arm.click.mean())
        sums = of_arm.groupby("household").agg(x=("click", "sum"), m=("click", "size"))
        z = (sums.x - value * sums.m) / sums.m.mean()
        errors.append(z.std() / np.sqrt(len(z)))
    assert (row["control_se"], row["treatment_se"]) == pytest.approx(tuple(errors))
    with pytest.raises(ConfigError, match="exposures need it too"):
        evaluate_experiments(exposures, events, [CLICKS], HOME, event_columns=theirs, engine="local")


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_events_without_the_unit_have_that_of_their_users_exposures(engine: str) -> None:
    exposures, events = TABLES
    # Users 0 to 9 are not exposed; an event of each user is there twice.
    exposures = exposures[exposures.user > 9]
    events = pd.concat([events.assign(id=np.arange(len(events)).astype(str)), events.assign(id="0")])
    households = TABLES[0].set_index("user").household
    of_events = events.user.map(households).where(events.user > 9, 1000 + events.user)
    home = {**HOME, "unit": "household"}
    with_unit, found = (
        evaluate_experiments(exposures, rows, [CLICKS, CTR], home, engine=engine)
        for rows in (events.assign(household=of_events), events)
    )
    assert found.experiment_rows == with_unit.experiment_rows
    assert found.entries == with_unit.entries
    assert found.check_rows == with_unit.check_rows
    mapped = evaluate_experiments(
        *(exposures, events, [CLICKS, CTR], HOME), exposure_columns={"unit": "household"}, engine=engine
    )
    assert mapped.experiment_rows == found.experiment_rows
    moved = exposures.tail(1).assign(household=-1)
    with pytest.raises(DataError, match=r"SEVERAL_UNITS.* exposures: 1 users have several units"):
        evaluate_experiments(pd.concat([exposures, moved]), events, [CLICKS], home, engine=engine)


def test_days_of_units_need_the_unit_of_every_event() -> None:
    exposures, events = TABLES
    home = {**HOME, "unit": "household"}
    with pytest.raises(DataError, match=r"MISSING_COLUMN.*events: no column 'household' for days of users"):
        sum_user_days(exposures, events, [CLICKS], home, engine="local")
    events = events.merge(exposures[["user", "household"]], on="user")
    days = sum_user_days(exposures, events, [CLICKS], home, engine="local").rows
    found, whole = (
        evaluate_experiments(exposures, rows, [CLICKS], home, engine="local") for rows in (days, events)
    )
    assert found.experiment_rows == whole.experiment_rows


def test_weights_that_change_give_strata_and_no_pooled_value() -> None:
    exposures, events = TABLES
    late = exposures.timestamp >= START + pd.Timedelta(days=1)
    # From the second day on, two of three users of a go.
    kept = exposures[~late | (exposures.variant == "b") | (exposures.user % 3 == 0)]
    weights = [{"since": "2024-05-02", "variants": {"a": 1, "b": 3}}]
    tables = (kept, events)
    found = run(tables, [CLICKS], {"weights": weights}, cuped=False)
    users = per_user(tables, used(tables)).join(kept.set_index("user").timestamp)
    strata = users.groupby(users.timestamp >= START + pd.Timedelta(days=1))
    difference, variance = 0.0, 0.0
    for _, of_stratum in strata:
        a, b = (of_stratum[of_stratum.variant == arm].click for arm in "ab")
        weight = len(of_stratum) / len(users)
        difference += weight * (b.mean() - a.mean())
        variance += weight**2 * (a.var() / len(a) + b.var() / len(b))
    row = only(found)
    assert (row["difference"], row["std_error"]) == pytest.approx((difference, np.sqrt(variance)))
    assert (row["control_value"], row["treatment_value"], row["lift"]) == (None, None, None)
    [srm] = [row for row in found.check_rows if row.check == "srm"]
    assert srm.df == 2
    assert srm.passed
    [pooled] = [row for row in run(tables, [CLICKS]).check_rows if row.check == "srm"]
    assert pooled.p_value is not None
    assert srm.p_value is not None
    assert pooled.p_value < srm.p_value


def test_bots_are_left_out_by_id_or_by_their_past() -> None:
    exposures, events = TABLES
    past = events[(events.user == 3) & (events.timestamp < START)]
    events = pd.concat([events, *[past] * 20], ignore_index=True)
    bots = {"ids": [5, "6"], "pre_events": 400}
    found = run((exposures, events), [CLICKS], bots=bots)
    counts = {(e.source, e.model, e.outcome, e.reason): e.rows for e in found.entries}
    assert counts["users", "home", "dropped", "bot"] == 3
    assert counts["exposures", "home", "dropped", "bot"] == 3
    assert counts["users", "home", "used", None] == 197
    n_events = int(events.user.isin([3, 5, 6]).sum())
    outside = events.timestamp < START - pd.Timedelta(days=14)
    filtered = events.user.isin([3, 5, 6]) & (events.kind != "click")
    assert counts["events", "home", "dropped", "bot"] == n_events - int(
        (outside & events.user.isin([3, 5, 6]) & (events.kind == "click")).sum()
    ) - int(filtered.sum())
    assert [row.subject for row in found.check_rows if row.check == "srm"] == ["all", "with bots"]


def test_retention_is_of_users_whose_day_is_over() -> None:
    exposures = pd.DataFrame({"user": range(6), "variant": list("aaabbb"), "timestamp": START})
    exposures.loc[5, "timestamp"] = START + pd.Timedelta(days=6)  # its day 1 is not over
    events = pd.DataFrame(
        [(0, 1.0), (0, 1.5), (1, 0.9), (2, 2.0), (3, 1.99), (5, 6.5)], columns=["user", "days"]
    )
    events = events.assign(kind="visit", timestamp=START + pd.to_timedelta(events.days, unit="D"))
    retention = {"name": "d1", "kind": "retention", "of": {"kind": "visit"}, "day": 1}
    row = only(run((exposures, events.drop(columns="days")), [retention]), method="raw")
    assert (row["control_value"], row["treatment_value"]) == pytest.approx((1 / 3, 1 / 2))
    assert (row["n_treatment"], row["undefined_treatment"]) == (2, 1)
    with pytest.raises(ConfigError, match="beyond the window"):
        run((exposures, events), [retention], {"window": "1d"})


@pytest.mark.parametrize(
    ("gate", "decision"),
    [
        ({"max_drop": 0.05, "drop": "relative"}, "win"),
        ({"max_drop": 0, "mode": "certain_drop"}, "win"),
        ({"max_drop": 0, "metric": "views"}, "blocked"),
        ({"max_drop": 0, "metric": "views", "mode": "certain_drop"}, "win"),
        ({"max_drop": 0, "metric": "lower", "mode": "certain_drop"}, "blocked"),
    ],
)
def test_gates_decide_the_exit_code(gate: dict[str, Any], decision: str) -> None:
    views = {"name": "views", "kind": "mean", "of": {"kind": "view"}, "role": "info"}
    lower = {**CLICKS, "name": "lower", "direction": "lower", "role": "info"}
    gates = [{"experiment": "home", "metric": "clicks", **gate}]
    found = run(TABLES, [CLICKS, views, lower], gates=gates)
    [row] = found.decision_rows
    assert (row.decision, row.gate) == (decision, True)
    assert (failure_of(found.decision_rows) is None) == (decision == "win")
    assert len(rows_of(found, method="gate")) == 1


def test_an_experiment_without_a_gate_does_not_fail() -> None:
    lost = run(TABLES, [{**CLICKS, "direction": "lower"}])
    assert [row.decision for row in lost.decision_rows] == ["loss"]
    assert failure_of(lost.decision_rows) is None


def test_hours_days_segments_and_surfaces() -> None:
    found = run(TABLES, [CLICKS, CTR], by=["country", "hour", "day"], slices=["surface"])
    events = used(TABLES)
    users = per_user(TABLES, events)
    for country, of_country in users.groupby("country"):
        row = only(found, metric="clicks", segment="country", segment_value=country, method="raw")
        assert row["control_value"] == of_country[of_country.variant == "a"].click.mean()
    for surface, of_surface in events.groupby("surface"):
        row = only(found, metric="clicks", segment="surface", segment_value=surface, method="raw")
        b = per_user(TABLES, of_surface)[lambda users: users.variant == "b"]
        assert (row["treatment_value"], row["n_treatment"]) == (b.click.mean(), 100)
        assert row["treatment_se"] == pytest.approx(b.click.std() / 10)
        assert "descriptive" in row["conventions"]
        ratio = only(found, metric="ctr", segment="surface", segment_value=surface, method="raw")
        assert ratio["treatment_value"] == pytest.approx(b.click.sum() / b["view"].sum())
    # On the first day, users who are exposed on the second are not there yet.
    day = only(found, metric="clicks", segment="day", segment_value="2024-05-01", method="raw")
    early = TABLES[0][TABLES[0].timestamp < START + pd.Timedelta(days=1)]
    assert (day["n_control"], day["n_treatment"]) == tuple(early.groupby("variant").size())
    # An hour counts on whole days: from the day after the exposure on.
    after = events[events.timestamp >= events.exposed.dt.floor("D") + pd.Timedelta(days=1)]
    nine = per_user(TABLES, after[after.timestamp.dt.hour == 9])
    row = only(found, metric="clicks", segment="hour", segment_value="09", method="raw")
    assert row["control_value"] == nine[nine.variant == "a"].click.mean()
    of_hours = rows_of(found, metric="clicks", segment="hour")
    assert [row["method"] for row in of_hours] == ["raw"] * 24 + ["cochran_q", "gail_simon"]
    by_p = sorted(of_hours[:24], key=lambda row: row["p_value"])
    assert by_p[0]["p_adjusted"] == pytest.approx(min(1, 24 * by_p[0]["p_value"]))


def test_sequential_tests_decide_when_asked() -> None:
    found = run(TABLES, [CLICKS], sequential={"tau": 1.0})
    row, raw = only(found, method="sequential"), only(found, method="raw")
    v, d = raw["std_error"] ** 2, raw["difference"]
    factor = np.sqrt(v / (v + 1)) * np.exp(d**2 / (2 * v * (v + 1)))
    assert row["p_value"] == pytest.approx(1 / factor)
    assert row["p_value"] == row["p_adjusted"] > raw["p_value"]
    assert raw["p_adjusted"] is None
    assert "approximate" in row["conventions"]
    few = run(TABLES, [CLICKS], sequential={"tightest_at": 500, "min_users": 1000})
    assert only(few, method="sequential")["reason"] == "fewer than 1000 units in an arm"
    assert [row.decision for row in few.decision_rows] == ["undecided"]
    [srm] = [row for row in run(TABLES, [CLICKS], srm="sequential").check_rows if row.check == "srm"]
    assert srm.p_value == 1


def test_power_and_novelty() -> None:
    found = run(TABLES, [{**CLICKS, "effect": 1.0}], novelty_days=4)
    row = only(found, method="raw", segment="all")
    assert row["mde"] == pytest.approx((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * row["std_error"])
    sigma = (row["control_se"] ** 2 + row["treatment_se"] ** 2) * 100
    assert row["n_needed"] == np.ceil((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) ** 2 * sigma)
    events = used(TABLES)
    events = events[events.kind == "click"].assign(day=lambda e: (e.timestamp - e.exposed).dt.days)
    days = events.groupby(["user", "day"]).size().unstack(fill_value=0).reindex(range(200), fill_value=0)
    change = days[[2, 3]].sum(axis=1) - days[[0, 1]].sum(axis=1)
    theirs = stats.ttest_ind(change[1::2], change[::2], equal_var=False)
    row = only(found, method="novelty")
    assert (row["difference"], row["p_value"]) == pytest.approx(
        (change[1::2].mean() - change[::2].mean(), theirs.pvalue)
    )
    of_days = rows_of(found, segment="day_since_exposure")
    assert [row["control_value"] for row in of_days] == [days[day][::2].mean() for day in range(4)]


def test_several_experiments_share_a_scan() -> None:
    exposures, events = TABLES
    other = exposures.assign(variant=np.where(exposures.user % 4 < 2, "x", "y"), experiment="feed")
    both = pd.concat([exposures.assign(experiment="home"), other[other.user < 100]], ignore_index=True)
    feed = {"name": "feed", "control": "x", "variants": {"x": 1, "y": 1}, "period": PERIOD}
    found = evaluate_experiments(both, events, [CLICKS, CTR], [HOME, feed], engine="local")
    alone = run(TABLES, [CLICKS, CTR])
    assert rows_of(found, experiment="home") == rows_of(alone)
    of_feed = rows_of(found, experiment="feed", method="raw")
    assert [(row["n_control"], row["n_treatment"]) for row in of_feed] == [(50, 50)] * 2
    for name in ("home", "feed", None):
        counts: dict[str, int] = {}
        for entry in found.entries:
            if (entry.model, entry.source) == (name, "events"):
                counts["in" if entry.outcome == "in" else "out"] = (
                    counts.get("in" if entry.outcome == "in" else "out", 0) + entry.rows
                )
        assert counts["in"] == counts["out"]


def test_experiments_that_share_exposures_are_as_each_alone() -> None:
    """Whether they also share the period and the window, or not."""
    exposures, events = TABLES
    shown = exposures.drop(columns="variant")

    def hashed(name: str, **change: Any) -> dict[str, Any]:
        halves = {"salt": name, "ranges": {"a": [0, 5000], "b": [5000, 10000]}}
        sound = {"name": name, "control": "a", "variants": {"a": 1, "b": 1}, "period": PERIOD}
        return {**sound, "assignment": halves, **change}

    half = {"salt": "half", "ranges": {"a": [0, 2500], "b": [5000, 7500]}}
    experiments = [
        hashed("first"),
        hashed("second"),
        hashed("short", window="30h"),
        hashed("shorter", window="7h"),
        hashed("half", assignment=half),
        hashed("third"),
    ]
    options: dict[str, Any] = {"engine": "local", "by": ["hour"]}
    together = evaluate_experiments(shown, events, [CLICKS, CTR], experiments, **options)
    for one in experiments:
        alone = evaluate_experiments(shown, events, [CLICKS, CTR], one, **options)
        assert rows_of(together, experiment=one["name"]) == rows_of(alone)
        assert [entry for entry in together.entries if entry.model == one["name"]] == [
            entry for entry in alone.entries if entry.model == one["name"]
        ]
    windows = {
        row["experiment"]: row["treatment_value"]
        for row in rows_of(together, metric="clicks", segment="all", method="raw")
    }
    assert len(set(windows.values())) == len(windows)


def test_text_ids_segments_without_a_value_and_files(tmp_path: Any) -> None:
    exposures, events = TABLES
    tables = (
        exposures.assign(user="u" + exposures.user.astype(str)),
        events.assign(user="u" + events.user.astype(str)),
    )
    assert rows_of(run(tables, [CLICKS, CTR])) == rows_of(run(TABLES, [CLICKS, CTR]))
    paths = [tmp_path / name for name in ("exposures.parquet", "events.parquet")]
    for table, path in zip(tables, paths, strict=True):
        table.to_parquet(path, coerce_timestamps="us")
    options: dict[str, Any] = {"engine": "local", "by": ["country"], "slices": ["surface"]}
    of_files = evaluate_experiments(paths[0], paths[1], [CLICKS, CTR], HOME, **options)
    of_frames = evaluate_experiments(*tables, [CLICKS, CTR], HOME, **options)
    assert of_files.experiment_rows == of_frames.experiment_rows
    nobody = tables[0].assign(country=None)
    found = evaluate_experiments(nobody, tables[1], [CLICKS], HOME, engine="local", by=["country"])
    assert {row["segment_value"] for row in rows_of(found, segment="country")} == {"(missing)"}


def test_faults_of_rows_and_of_tables() -> None:
    exposures, events = TABLES
    events = events.astype({"user": "Int64"})
    events.loc[0, "user"] = None
    events.loc[1, "kind"] = None
    clicks = events.index[events.kind == "click"]
    events.loc[clicks[0], "value"] = np.inf
    events.loc[clicks[1], "value"] = -1.0
    events.loc[clicks[2], "timestamp"] = pd.NaT
    found = run((exposures, events), [CLICKS])
    faults = {entry.reason: entry.rows for entry in found.entries if entry.outcome == "quarantined"}
    assert faults == {
        "NULL_ID": 1,
        "NULL_KIND": 1,
        "VALUE_OUT_OF_RANGE": 1,
        "NEGATIVE_VALUE": 1,
        "NULL_TIMESTAMP": 1,
    }
    with pytest.raises(DataError, match=r"QUARANTINE_SHARE.*events: 5 of .* such as NULL"):
        run((exposures, events), [CLICKS], max_quarantined=0.0)
    with pytest.raises(DataError, match=r"UNKNOWN_VARIANT.*variants 'c'"):
        run((exposures.assign(variant="c"), events), [CLICKS])
    with pytest.raises(ConfigError, match="OUT_OF_RANGE"):
        run(TABLES, [CLICKS], max_quarantined=2)
    huge = {"name": "big", "kind": "mean", "of": {"kind": "click", "value": "sum"}, "decimals": 2}
    most = events.assign(value=float(2**53 // 100), user=exposures.user.iloc[0])
    with pytest.raises(DataError, match="METRIC_OVERFLOW"):
        run((exposures, pd.concat([most] * 3)), [huge], max_quarantined=1.0)


@pytest.mark.spark
def test_spark_finds_the_same_bits() -> None:
    exposures, events = TABLES
    ids = pd.Series(range(len(events))).astype(str)
    events = events.assign(id=ids.where(events.index % 5 > 0))
    options: dict[str, Any] = {
        "by": ["country", "hour", "day"],
        "slices": ["surface"],
        "timezone": "Europe/Berlin",
        "novelty_days": 3,
        "bots": {"pre_events": 400},
    }
    where = [{"column": "surface", "op": "!=", "value": "search"}]
    metrics = [CLICKS, CTR, {**CTR, "name": "users", "kind": "mean_of_ratios"}]
    metrics.append({"name": "watch", "kind": "mean", "of": {"kind": "watch", "where": where}})
    one, other = (
        evaluate_experiments(exposures, events, metrics, HOME, engine=engine, **options)
        for engine in ("local", "spark")
    )
    assert one.experiment_rows == other.experiment_rows
    assert one.check_rows == other.check_rows
    assert one.entries == other.entries


@pytest.mark.parametrize("mode", ["non_inferior", "certain_drop"])
@pytest.mark.parametrize(("n_clicks", "passes"), [(3, True), (2, True), (1, False)])
def test_a_gate_without_spread_is_decided_by_the_difference(mode: str, n_clicks: int, passes: bool) -> None:
    exposures = pd.DataFrame({"user": range(4), "variant": list("aabb"), "timestamp": START})
    users = [0, 1] * 3 + [2, 3] * n_clicks
    events = pd.DataFrame({"user": users, "kind": "click", "timestamp": START})
    gates = [{"experiment": "home", "metric": "clicks", "max_drop": 1, "mode": mode}]
    [row] = run((exposures, events), [CLICKS], gates=gates).decision_rows
    assert (row.decision != "blocked") == passes
