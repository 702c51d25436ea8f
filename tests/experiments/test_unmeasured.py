"""Metrics that measure nothing: their rows say why, and no guardrail or gate of them passes."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pytest

from spark_eval import evaluate_experiments
from spark_eval.errors import ConfigError
from spark_eval.experiments.evaluate import Experiments

NOON: Final = pd.Timestamp("2024-05-02T12:00:00Z")
N_USERS: Final = 400
HOME: Final[dict[str, Any]] = {
    "name": "home",
    "control": "c",
    "variants": {"c": 1, "t": 1},
    "period": ["2024-05-01", "2024-05-08"],
}
# The treatment is certainly better in this one.
WATCH: Final[dict[str, Any]] = {"name": "watch", "kind": "mean", "of": {"kind": "watch"}}
WON: Final = "watch won: +41.7 % (38.9 to 44.6)"
HARMED: Final = "guard rose by more than .01: +.065 (.034 to .096)"


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Users who watch more in the treatment, and complain more: .5 % against 7 %; events of other kinds."""
    users = np.arange(N_USERS)
    treated = users % 2 == 1
    exposures = pd.DataFrame({"user": users, "variant": np.where(treated, "t", "c"), "timestamp": NOON})
    harmed = np.concatenate([users[treated][:14], users[~treated][:1]])
    events = [
        pd.DataFrame({"user": users, "kind": "watch", "value": 10.0 + users // 2 % 5 + 5 * treated}),
        pd.DataFrame({"user": harmed, "kind": "complaint", "value": 1.0}),
        pd.DataFrame({"user": users, "kind": "tiny", "value": 0.4 - 0.1 * treated}),
        pd.DataFrame({"user": users, "kind": "nought", "value": 0.0}),
        pd.DataFrame({"user": np.repeat(users, 2), "kind": "refund", "value": [1.0, -1.0] * N_USERS}),
        pd.DataFrame({"user": users[-2:], "kind": "last", "value": 1.0}),
        pd.DataFrame({"user": users, "kind": "view", "value": 1.0 + users % 3}),
    ]
    return exposures, pd.concat(events).assign(timestamp=NOON, page="home")


def mean(of: dict[str, Any], **change: Any) -> dict[str, Any]:
    return {"kind": "mean", "of": of, **change}


def share(kind: str, numerator: dict[str, Any], denominator: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "numerator": numerator, "denominator": denominator}


ELSEWHERE: Final = [{"column": "page", "op": "==", "value": "elsewhere"}]
VIEWS: Final = {"kind": "view"}
NOTHING: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "sum": (mean({"kind": "complaints"}), "no event of kind 'complaints'"),
    "count": (mean({"kind": "complaints", "value": "count"}), "no event of kind 'complaints'"),
    "any": (mean({"kind": "complaints", "value": "any"}), "no event of kind 'complaints'"),
    "pooled": (
        mean({"kind": "complaints", "value": "any"}, test="z_pooled"),
        "no event of kind 'complaints'",
    ),
    "where": (
        mean({"kind": "complaint", "where": ELSEWHERE}),
        "no event of kind 'complaint' meets its conditions",
    ),
    "retention": (
        {"kind": "retention", "of": {"kind": "complaints"}, "day": 0},
        "no event of kind 'complaints'",
    ),
    "other day": (
        {"kind": "retention", "of": {"kind": "complaint"}, "day": 1},
        "no event of kind 'complaint' on day 1 after the exposure",
    ),
    "ratio": (share("ratio", {"kind": "complaints"}, VIEWS), "no event of kind 'complaints'"),
    "per what": (share("ratio", VIEWS, {"kind": "complaints"}), "no event of kind 'complaints'"),
    "of users": (share("mean_of_ratios", {"kind": "complaints"}, VIEWS), "no event of kind 'complaints'"),
    "per what of users": (
        share("mean_of_ratios", VIEWS, {"kind": "complaints"}),
        "no event of kind 'complaints'",
    ),
    "winsorised": (
        mean({"kind": "complaint", "winsorise": 0.95}),
        "capped at 0: fewer than 5 % of the units have a value",
    ),
    "winsorised less": (
        mean({"kind": "complaint", "value": "count", "winsorise": 0.92}),
        "capped at 0: fewer than 8 % of the units have a value",
    ),
    "winsorised ratio": (
        share("ratio", {"kind": "complaint", "winsorise": 0.95}, VIEWS),
        "capped at 0: fewer than 5 % of the units have a value",
    ),
    "per winsorised": (
        share("ratio", VIEWS, {"kind": "complaint", "winsorise": 0.95}),
        "capped at 0: fewer than 5 % of the units have a value",
    ),
    "per winsorised of users": (
        share("mean_of_ratios", VIEWS, {"kind": "complaint", "winsorise": 0.95}),
        "capped at 0: fewer than 5 % of the units have a value",
    ),
    "of other users": (
        share("mean_of_ratios", {"kind": "complaint", "value": "count"}, {"kind": "last"}),
        "the sum of kind 'complaint' is 0 for every unit whose value is defined",
    ),
    "rounded": (mean({"kind": "tiny"}), "the sum of kind 'tiny' is 0 for every unit, at decimals: 0"),
    "nought": (
        mean({"kind": "nought"}, decimals=2),
        "the sum of kind 'nought' is 0 for every unit, at decimals: 2",
    ),
    "cancelled": (
        mean({"kind": "refund"}, signed=True),
        "the sum of kind 'refund' is 0 for every unit, at decimals: 0",
    ),
}


def run(metrics: list[dict[str, Any]], **options: Any) -> Experiments:
    return evaluate_experiments(*tables(), metrics, HOME, engine="local", **options)


def decided(found: Experiments) -> tuple[str, str]:
    [row] = found.decision_rows
    return row.decision, row.reason


@pytest.mark.parametrize("name", NOTHING)
def test_a_guardrail_that_measures_nothing_is_not_met(name: str) -> None:
    metric, reason = NOTHING[name]
    guard = {**metric, "name": "guard", "direction": "lower", "role": "guardrail", "margin": 0.01}
    found = run([WATCH, guard])
    assert decided(found) == ("blocked", f"guard is unknown: {reason}; {WON}")
    rows = [row for row in found.experiment_rows if row.metric == "guard"]
    assert {(row.p_value, row.reason) for row in rows} == {(None, reason)}


@pytest.mark.parametrize("name", NOTHING)
def test_a_goal_that_measures_nothing_says_so(name: str) -> None:
    metric, reason = NOTHING[name]
    assert decided(run([{**metric, "name": "goal"}])) == ("undecided", reason)


@pytest.mark.parametrize("mode", ["non_inferior", "certain_drop"])
@pytest.mark.parametrize("name", NOTHING)
def test_a_gate_that_measures_nothing_does_not_pass(name: str, mode: str) -> None:
    metric, reason = NOTHING[name]
    gates = [{"experiment": "home", "metric": "info", "max_drop": 0.01, "mode": mode}]
    found = run([WATCH, {**metric, "name": "info", "role": "info"}], gates=gates)
    assert decided(found) == ("blocked", f"gate: info is unknown: {reason}; {WON}")


def test_a_guardrail_that_measures_something_decides_as_before() -> None:
    guard = {"name": "guard", "direction": "lower", "role": "guardrail", "margin": 0.01}
    # Equal for all: nothing is worse. Winsorised at a quantile above 0, or not at all: worse.
    assert decided(run([WATCH, mean({"kind": "view", "value": "any"}, **guard)]))[0] == "win"
    for of in ({"kind": "complaint"}, {"kind": "complaint", "winsorise": 0.99}):
        assert decided(run([WATCH, mean(of, **guard)])) == ("blocked", f"{HARMED}; {WON}")
    # Events in a third arm only: neither of the others has any, which is a measurement.
    exposures, events = tables()
    exposures.loc[exposures.user >= N_USERS // 2, "variant"] = "late"
    home = {**HOME, "variants": {"c": 1, "t": 1, "late": 2}}
    some = events[(events.kind == "watch") | (events.user >= N_USERS // 2)]
    some = pd.concat([some, some[:1].assign(user=N_USERS - 1, kind="rare", value=1.0)])
    metrics = [WATCH, mean({"kind": "rare"}, **guard)]
    rows = evaluate_experiments(exposures, some, metrics, home, engine="local").decision_rows
    assert [row.decision for row in rows if row.treatment == "t"] == ["win"]


@pytest.mark.parametrize(
    ("of", "decimals"),
    [
        ({"kind": "tiny", "cap": 0.4}, 0),
        ({"kind": "tiny", "cap": 0.004}, 2),
        ({"kind": "view", "value": "count", "cap": 0.5}, 3),
        ({"kind": "view", "value": "any", "cap": 0.2}, 0),
    ],
)
def test_a_cap_that_is_rounded_to_0_is_refused(of: dict[str, Any], decimals: int) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.0\.of: cap: .* which rounds to 0"):
        run([mean(of, name="capped", decimals=decimals)])


def test_undefined_values_have_their_reason() -> None:
    """An arm has units, but its denominator is 0; or none of them has a value yet; or there is none."""
    exposures, events = tables()
    some = events[~((events.kind == "view") & (events.user % 2 == 1))]
    late = {"name": "late", "kind": "retention", "of": {"kind": "view"}, "day": 30}
    metrics = [
        {**share("ratio", {"kind": "complaint"}, VIEWS), "name": "ratio"},
        {**share("mean_of_ratios", {"kind": "complaint"}, VIEWS), "name": "of users"},
        late,
    ]
    home = {**HOME, "variants": {"c": 1, "t": 1, "nobody": 1}}
    found = evaluate_experiments(exposures, some, metrics, home, engine="local", cuped=False)
    reasons = {
        (row.metric, row.treatment): (row.n_treatment, row.undefined_treatment, row.reason)
        for row in found.experiment_rows
    }
    assert reasons == {
        ("ratio", "t"): (200, 0, "the denominator of an arm is 0"),
        ("of users", "t"): (0, 200, "an arm without a unit whose value is defined"),
        ("late", "t"): (0, 200, "an arm without a unit whose value is defined"),
        **{(name, "nobody"): (0, 0, "an arm without units") for name in ("ratio", "of users", "late")},
    }
