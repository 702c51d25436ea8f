"""Units coarser than the user: shares of what was summed, tests that hold for them, days of any ids."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pytest

from spark_eval import evaluate_experiments, sum_user_days
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.evaluate import Experiments

NOON: Final = pd.Timestamp("2024-05-02T12:00:00Z")
DAY: Final = pd.Timedelta(days=1)
HOME: Final[dict[str, Any]] = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1, "b": 1},
    "period": ["2024-05-01", "2024-05-09"],
    "unit": "household",
}
ANY: Final[dict[str, Any]] = {"name": "any", "kind": "mean", "of": {"kind": "buy", "value": "any"}}
BACK: Final[dict[str, Any]] = {"name": "back", "kind": "retention", "of": {"kind": "buy"}, "day": 1}
COUNT: Final[dict[str, Any]] = {"name": "count", "kind": "mean", "of": {"kind": "buy", "value": "count"}}


def tables(seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Households of one to five users in two countries, who buy on some of seven days, on two pages."""
    random = np.random.default_rng(seed)
    of_users = np.repeat(np.arange(60), random.integers(1, 6, 60))
    users = np.arange(len(of_users))
    exposures = pd.DataFrame({"user": users, "household": of_users, "timestamp": NOON})
    exposures["variant"] = np.where(of_users % 2, "b", "a")
    exposures["country"] = np.where(of_users % 3, "DE", "FR")
    buyers = random.choice(users, 70)
    events = pd.DataFrame({"user": buyers, "kind": "buy", "page": random.choice(["x", "y"], 70)})
    events["timestamp"] = NOON + random.integers(-3, 6, 70) * DAY + pd.Timedelta(hours=1)
    return exposures, events.merge(exposures[["user", "household"]], on="user")


def run(metrics: list[dict[str, Any]], **options: Any) -> Experiments:
    return evaluate_experiments(*tables(), metrics, HOME, engine="local", **options)


def shares(events: pd.DataFrame, exposures: pd.DataFrame) -> dict[str, float]:
    """Share of the households of each arm with one of these events."""
    households = exposures.drop_duplicates("household")
    has = households.household.isin(events.household)
    return {str(arm): float(own.mean()) for arm, own in has.groupby(households.variant)}


def by_text(rows: pd.DataFrame, labels: "pd.Series[str]") -> list[tuple[str, pd.DataFrame]]:
    return [(str(label), own) for label, own in rows.groupby(labels)]


def test_a_share_is_of_the_units_that_were_summed() -> None:
    """Over all units, in segments, slices and days, and late minus early; by pandas as a second way."""
    exposures, events = tables()
    used = events[events.timestamp >= NOON]
    options = {"by": ["country", "day"], "slices": ["page"], "novelty_days": 4}
    found = run([ANY, BACK, COUNT], **options)
    expected = {("any", "all", "all"): shares(used, exposures)}
    next_day = used[(used.timestamp >= NOON + DAY) & (used.timestamp < NOON + 2 * DAY)]
    expected["back", "all", "all"] = shares(next_day, exposures)
    for country, own in by_text(exposures, exposures.country):
        expected["any", "country", country] = shares(used, own)
        expected["back", "country", country] = shares(next_day, own)
    for page, own in by_text(used, used.page):
        expected["any", "page", page] = shares(own, exposures)
    for day, own in by_text(used, used.timestamp.dt.strftime("%Y-%m-%d")):
        expected["any", "day", day] = shares(own, exposures)
    days = (used.timestamp - NOON) // DAY
    for day, own in by_text(used[days < 4], days[days < 4].map("{:03}".format)):
        expected["any", "day_since_exposure", day] = shares(own, exposures)
    early, late = (shares(used[days.isin(half)], exposures) for half in ((0, 1), (2, 3)))
    expected["any", "novelty", "all"] = {arm: late[arm] - early[arm] for arm in "ab"}
    buyers = used.merge(exposures[["user", "variant"]], on="user")
    n_users, n_bought = (one.groupby("variant").size() for one in (exposures, buyers))
    expected["count", "all", "all"] = {arm: float(n_bought[arm] / n_users[arm]) for arm in "ab"}
    rows = {
        (row.metric, row.segment, row.segment_value): row
        for row in found.experiment_rows
        if row.method in ("raw", "novelty")
    }
    assert {key for key in rows if key[0] != "count"} | {("count", "all", "all")} == set(expected)
    for key, of_arms in expected.items():
        values = (rows[key].control_value, rows[key].treatment_value)
        assert values == pytest.approx((of_arms["a"], of_arms["b"])), key
    # Shares have the standard error of households, each 0 or 1.
    share, n = expected["any", "all", "all"]["a"], rows["any", "all", "all"].n_control
    assert rows["any", "all", "all"].control_se == pytest.approx((share * (1 - share) / (n - 1)) ** 0.5)
    assert {metric: row.conventions.split("; ")[-1] for (metric, *_), row in rows.items()} == {
        "any": "of units",
        "back": "of units",
        "count": "of users",
    }


def test_an_adjusted_share_is_that_of_least_squares() -> None:
    exposures, events = tables()
    [row] = [row for row in run([ANY]).experiment_rows if row.method == "cuped"]
    of = exposures.drop_duplicates("household")
    start = NOON.normalize()
    y = of.household.isin(events[events.timestamp >= NOON].household).to_numpy(float)
    x = of.household.isin(events[events.timestamp < start].household).to_numpy(float)
    theta = np.cov(y, x)[0, 1] / x.var(ddof=1)
    adjusted = y - theta * (x - x.mean())
    means = pd.Series(adjusted).groupby(of.variant.to_numpy()).mean()
    assert (row.control_value, row.treatment_value) == pytest.approx((means["a"], means["b"]))


@pytest.mark.parametrize("metric", [ANY, BACK])
@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("call", [evaluate_experiments, sum_user_days])
def test_pooled_shares_of_users_are_refused_of_coarser_units(
    metric: dict[str, Any], is_mapped: bool, call: Any
) -> None:
    exposures, events = tables()
    pooled = [{**metric, "test": "z_pooled"}]
    home = {**HOME, "unit": None} if is_mapped else HOME
    names = {"exposure_columns": {"unit": "household"}} if is_mapped else {}
    with pytest.raises(ConfigError, match=r"INVALID_EXPERIMENT.*metric .*: test: z_pooled.*unit") as caught:
        call(exposures, events, pooled, home, engine="local", **names)
    assert "test: welch" in str(caught.value)
    evaluate_experiments(exposures, events, pooled, {**HOME, "unit": "user"}, engine="local")


TYPES: Final[dict[str, Any]] = {
    "text": lambda ids: ids.astype(str),
    "long": lambda ids: ids.astype(np.int64),
    "int": lambda ids: ids.astype(np.int32),
}


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("users", TYPES)
@pytest.mark.parametrize("units", TYPES)
def test_days_of_units_are_read_back_whatever_the_types(users: str, units: str, is_mapped: bool) -> None:
    exposures, events = (
        table.assign(user=TYPES[users](table.user), household=TYPES[units](table.household))
        for table in tables()
    )
    check_days(exposures, events, is_mapped, "local")


def check_days(exposures: Any, events: Any, is_mapped: bool, engine: str) -> None:
    home = {**HOME, "unit": None} if is_mapped else HOME
    names = {"exposure_columns": {"unit": "household"}, "event_columns": {"unit": "household"}}
    options: dict[str, Any] = {"engine": engine, **(names if is_mapped else {})}
    whole = evaluate_experiments(exposures, events, [ANY, BACK, COUNT], home, **options)
    days = sum_user_days(exposures, events, [ANY, BACK, COUNT], home, **options)
    # A row is of a unit: no user has it.
    assert "user" not in days.rows.columns
    again = evaluate_experiments(exposures, days.rows, [ANY, BACK, COUNT], home, **options)
    assert again.experiment_rows == whole.experiment_rows
    assert again.check_rows == whole.check_rows


@pytest.mark.spark
def test_days_of_units_are_read_back_on_spark() -> None:
    exposures, events = (table.assign(user=table.user.astype(str)) for table in tables())
    check_days(exposures, events, False, "spark")


def test_units_of_two_types_are_refused() -> None:
    exposures, events = tables()
    events = events.assign(household=events.household.astype(str))
    with pytest.raises(DataError, match=r"ID_TYPE_MISMATCH.*unit is"):
        evaluate_experiments(exposures, events, [ANY], HOME, engine="local")
