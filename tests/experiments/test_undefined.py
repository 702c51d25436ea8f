"""Units without a value are counted in every row, not only in that of all units."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pytest

from spark_eval import evaluate_experiments

START: Final = pd.Timestamp("2024-05-01T00:00:00Z")
HOUR: Final = pd.Timedelta(hours=1)
DAY: Final = pd.Timedelta(days=1)
HOME: Final[dict[str, Any]] = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1, "b": 1},
    "period": ["2024-05-01", "2024-05-06"],
    "by": ["country", "day", "hour"],
}
METRICS: Final[list[dict[str, Any]]] = [
    {
        "name": "ctr",
        "kind": "mean_of_ratios",
        "numerator": {"kind": "click"},
        "denominator": {"kind": "view"},
    },
    {"name": "back", "kind": "retention", "of": {"kind": "view"}, "day": 2},
]
Key = tuple[str, str, str, str]


def tables(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    random = np.random.default_rng(seed)
    users = np.arange(80)
    exposures = pd.DataFrame({"user": users, "variant": random.choice(["a", "b"], 80)})
    exposures["country"] = random.choice(["DE", "FR", "IT"], 80)
    exposures["timestamp"] = START + random.integers(0, 4 * 24, 80) * HOUR
    events = pd.DataFrame(
        {"user": random.choice(users[:60], 150), "kind": random.choice(["view", "click"], 150)}
    )
    events["page"] = random.choice(["x", "y"], 150)
    events["timestamp"] = START + random.integers(0, 5 * 24, 150) * HOUR
    return exposures, events


def expected(exposures: pd.DataFrame, events: pd.DataFrame) -> dict[Key, tuple[int, int]]:
    """Numbers of units with and without a value by metric, segment, value and arm: by loops over users."""
    counts: dict[Key, tuple[int, int]] = {}
    exposed = exposures.set_index("user")
    used = events[events.timestamp >= events.user.map(exposed.timestamp)]
    views = used[used.kind == "view"]
    first_day = views.user.map(exposed.timestamp).dt.normalize() + DAY
    whole = views[(views.timestamp >= first_day) & (views.timestamp < START + 5 * DAY)]

    def note(metric: str, by: str, value: str, members: pd.DataFrame, defined: set[int]) -> None:
        for arm, own in members.groupby("variant"):
            n = sum(user in defined for user in own.index)
            counts[metric, by, value, str(arm)] = n, len(own) - n

    over = set(exposed[exposed.timestamp + 3 * DAY <= START + 5 * DAY].index)
    for metric, defined in (("ctr", set(views.user)), ("back", over)):
        note(metric, "all", "all", exposed, defined)
        for country, own in exposed.groupby("country"):
            note(metric, "country", str(country), own, defined)
    for day in sorted(set(used.timestamp.dt.normalize())):
        known = exposed[exposed.timestamp < day + DAY]
        note("ctr", "day", f"{day:%Y-%m-%d}", known, set(views[views.timestamp.dt.normalize() == day].user))
    for hour in range(24):
        note("ctr", "hour", f"{hour:02}", exposed, set(whole[whole.timestamp.dt.hour == hour].user))
    for page in "xy":
        note("ctr", "page", page, exposed, set(views[views.page == page].user))
    return counts


@pytest.mark.parametrize("seed", range(4))
def test_units_without_a_value_are_counted_in_every_row(seed: int) -> None:
    exposures, events = tables(seed)
    found = evaluate_experiments(
        exposures, events, METRICS, HOME, slices=["page"], engine="local", cuped=False
    )
    counts = expected(exposures, events)
    rows = [row for row in found.experiment_rows if row.method == "raw"]
    shown = set()
    for row in rows:
        key = (row.metric, row.segment, row.segment_value)
        shown.add(row.segment)
        assert (row.n_control, row.undefined_control) == counts[*key, "a"], key
        assert (row.n_treatment, row.undefined_treatment) == counts[*key, "b"], key
    assert shown == {"all", "country", "day", "hour", "page"}
