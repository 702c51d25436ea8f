"""Days summed by user, and merged: the same bits as one run over all events."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_eval import evaluate_experiments, sum_user_days
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.evaluate import Experiments

START: Final = pd.Timestamp("2024-03-29T00:00:00", tz="Europe/Berlin")
HOUR: Final = pd.Timedelta(hours=1)
# The clock changes on 2024-03-31 in Berlin. The second experiment ends within a day.
EXPERIMENTS: Final[list[dict[str, Any]]] = [
    {
        "name": "home",
        "control": "a",
        "variants": {"a": 1, "b": 1},
        "period": ["2024-03-29", "2024-04-03"],
        "window": "50h",
        "by": ["hour", "day"],
    },
    {
        "name": "search",
        "control": "a",
        "variants": {"a": 1, "b": 1},
        "period": ["2024-03-30", "2024-04-02T07:30"],
        "assignment": {"salt": "s", "ranges": {"a": [0, 5000], "b": [5000, 10000]}},
    },
]
METRICS: Final[list[dict[str, Any]]] = [
    {"name": "money", "kind": "mean", "of": {"kind": "buy", "value": "sum", "cap": 9}, "decimals": 2},
    {"name": "whole", "kind": "mean", "of": {"kind": "buy", "value": "sum"}},
    {"name": "bought", "kind": "mean", "of": {"kind": "buy", "value": "any"}},
    {
        "name": "ctr",
        "kind": "ratio",
        "numerator": {"kind": "click", "value": "count"},
        "denominator": {"kind": "view", "value": "count"},
    },
    {
        "name": "ctr_user",
        "kind": "mean_of_ratios",
        "numerator": {
            "kind": "click",
            "value": "count",
            "where": [{"column": "page", "op": "==", "value": "top"}],
        },
        "denominator": {"kind": "view", "value": "count"},
    },
    {"name": "back", "kind": "retention", "of": {"kind": "view"}, "day": 1},
]
OPTIONS: Final[dict[str, Any]] = {
    "timezone": "Europe/Berlin",
    "pre_days": 2,
    "slices": ["page"],
    "novelty_days": 2,
    "bots": {"pre_events": 430},
    "max_crossover": 1.0,
    "engine": "local",
}
N_USERS: Final = 12


def log(random: np.random.Generator, n_events: int) -> tuple[list[Any], list[Any]]:
    """Exposures of some users, and events so dense that most hours and sides of a boundary have several."""
    users, quarters = random.integers(1, N_USERS, 16), random.integers(0, 4 * 96, 16)
    # A user who is shown both variants is left out: few are.
    arms = np.where(random.random(16) < 0.1, "a", np.where(users % 2, "a", "b"))
    exposures = [
        (user, START + quarter * HOUR / 4, arm)
        for user, quarter, arm in zip(users, quarters, arms, strict=True)
    ]
    events = zip(
        random.integers(1, N_USERS + 1, n_events),
        START + pd.to_timedelta(random.integers(-2 * 96, 6 * 96, n_events) * 15, unit="min"),
        random.choice(["buy", "click", "view"], n_events),
        random.choice([0.25, 0.5, 2.5, 7.0], n_events),
        random.choice(np.array(["top", "side", None], dtype=object), n_events),
        strict=True,
    )
    return exposures, list(events)


def frames(exposures: list[Any], events: list[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    shown = pd.DataFrame(exposures, columns=["user", "timestamp", "variant"])
    # Only home has logged variants: that of search is the hash.
    shown = pd.concat([shown.assign(experiment="home"), shown.assign(experiment="search")])
    columns = ["user", "timestamp", "kind", "value", "page"]
    return shown, pd.DataFrame(events, columns=columns).astype({"user": int, "value": float})


def numbers_of(found: Experiments) -> tuple[Any, ...]:
    return found.experiment_rows, found.check_rows, found.decision_rows, found.entries


def test_days_merge_to_the_bits_of_one_run() -> None:
    check_merged_days(3, 8_000)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_days_of_any_log_merge_to_the_bits_of_one_run(seed: int) -> None:
    check_merged_days(seed, 20_000)


def check_merged_days(seed: int, n_events: int) -> None:
    random = np.random.default_rng(seed)
    shown, happened = frames(*log(random, n_events))
    local = happened["timestamp"].dt.strftime("%Y-%m-%d")
    # Later exposures are not known yet.
    days = [
        sum_user_days(until(shown, day), happened, METRICS, EXPERIMENTS, day=day, **OPTIONS).to_arrow()
        for day in set(local)
    ]
    merged = pa.concat_tables(days)
    assert merged.num_rows < len(happened)
    mixed = merged.take(random.permutation(merged.num_rows))
    found, whole = (
        numbers_of(evaluate_experiments(shown, one, METRICS, EXPERIMENTS, **OPTIONS))
        for one in (mixed, happened)
    )
    assert found == whole


def until(shown: pd.DataFrame, day: str) -> pd.DataFrame:
    """Exposures up to the end of a day; all of them if there is none."""
    known = shown[shown["timestamp"].dt.tz_convert("Europe/Berlin").dt.strftime("%Y-%m-%d") <= day]
    return known if len(known) else shown


def one_day(**change: Any) -> pa.Table:
    shown, happened = frames(*SMALL)
    return sum_user_days(shown, happened, METRICS, EXPERIMENTS, **{**OPTIONS, **change}).to_arrow()


SMALL: Final = (
    [(1, START, "a"), (2, START, "b")],
    [
        (1, START + HOUR, "buy", 0.25, "top"),
        (1, START + HOUR, "buy", 2.5, "top"),
        (2, START, "view", 1, None),
    ],
)


def test_a_row_has_the_events_of_an_hour_and_their_sums() -> None:
    rows = sorted(one_day().to_pylist(), key=lambda row: row["user"])
    assert [(row["user"], row["day"], row["kind"], row["page"]) for row in rows] == [
        (1, "2024-03-29", "buy", "top"),
        (2, "2024-03-29", "view", None),
    ]
    assert [(row["n_events"], row["sum_0"], row["sum_2"]) for row in rows] == [(2, 2, 275), (1, 1, 100)]


def test_days_of_another_config_and_days_twice_are_refused() -> None:
    shown, _ = frames(*SMALL)
    day = one_day()
    evaluate_experiments(shown, day, METRICS, EXPERIMENTS, **OPTIONS)
    for rows, message in (
        (pa.concat_tables([day, day]), "2 rows of user_days are of a day that is there twice"),
        (one_day(timezone="UTC"), "2 rows of user_days are of another config"),
    ):
        with pytest.raises(DataError, match=message):
            evaluate_experiments(shown, rows, METRICS, EXPERIMENTS, **OPTIONS)
    with pytest.raises(DataError, match="INVALID_USER_DAYS"):
        sum_user_days(shown, day, METRICS, EXPERIMENTS, **OPTIONS)
    with pytest.raises(ConfigError, match="2024-05-01"):
        one_day(day="May")


def test_events_of_other_days_are_counted() -> None:
    shown, happened = frames(*SMALL)
    found = sum_user_days(shown, happened, METRICS, EXPERIMENTS, day="2024-03-30", **OPTIONS)
    counted = {(one.source, one.outcome, one.reason): one.rows for one in found.entries}
    assert counted == {
        ("exposures", "in", None): 4,
        ("exposures", "used", None): 4,
        ("events", "in", None): 3,
        ("events", "dropped", "outside_period"): 3,
    }
    assert isinstance(found.rows, pd.DataFrame)
    assert not len(found.rows)
