"""A/A experiments: how often tests reject where nothing differs, how often healthy ones are blocked."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from spark_eval import evaluate_experiments
from spark_eval.experiments.evaluate import Experiments
from spark_eval.experiments.inference import Contrast
from spark_eval.experiments.moments import adjusted_estimates
from spark_eval.experiments.worker.sums import moments_by_group

START: Final = pd.Timestamp("2024-05-01T00:00:00Z")
METRICS: Final[list[dict[str, Any]]] = [
    {"name": "watch", "kind": "mean", "of": {"kind": "watch", "value": "sum"}, "decimals": 2},
    {"name": "ctr", "kind": "ratio", "numerator": {"kind": "click"}, "denominator": {"kind": "view"}},
    {"name": "hides", "kind": "mean", "of": {"kind": "hide"}, "role": "guardrail", "margin": 5.0},
]


def log(n_users: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Users with 1 to 50 views of their own rate of clicks, a heavy-tailed watch time, and a past."""
    random = np.random.default_rng(seed)
    users = np.arange(n_users)
    rates, sizes = random.beta(2, 6, n_users), random.integers(1, 51, n_users)
    taste = random.lognormal(2, 0.7, n_users)
    parts = []
    for day in (-3, 1):
        n_views = np.maximum(1, random.poisson(sizes))
        clicks = random.binomial(n_views, rates)
        watch = taste * random.lognormal(0, 0.3, n_users)
        when = START + pd.Timedelta(days=day)
        for kind, owners, value in (
            ("view", np.repeat(users, n_views), 1.0),
            ("click", np.repeat(users, clicks), 1.0),
            ("hide", np.repeat(users, random.poisson(0.5, n_users)), 1.0),
            ("watch", users, watch),
        ):
            parts.append(pd.DataFrame({"user": owners, "kind": kind, "timestamp": when, "value": value}))
    return pd.DataFrame({"user": users, "timestamp": START}), pd.concat(parts, ignore_index=True)


def households(n_households: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Households of 1 to 50 users, who share a taste: its watch time and a rate of clicks, now and before."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 51, n_households)
    owners = np.repeat(np.arange(n_households), sizes)
    users, n_users = np.arange(len(owners)), len(owners)
    taste, rates = random.lognormal(2, 0.7, n_households), random.beta(2, 6, n_households)[owners]
    parts = []
    for day in (-3, 1):
        when = START + pd.Timedelta(days=day)
        n_views = 1 + random.poisson(3, n_users)
        mood = (taste * random.lognormal(0, 0.3, n_households))[owners]
        for kind, value in (
            ("view", n_views),
            ("click", random.binomial(n_views, rates)),
            ("watch", mood * random.lognormal(0, 0.3, n_users)),
        ):
            parts.append(pd.DataFrame({"user": users, "kind": kind, "timestamp": when, "value": value}))
    shown = pd.DataFrame({"user": users, "household": owners, "timestamp": START})
    events = pd.concat(parts, ignore_index=True)
    return shown, events.assign(household=owners[events.user])


def with_salts(
    n_experiments: int,
    tables: tuple[pd.DataFrame, pd.DataFrame],
    seed: int,
    metrics: list[dict[str, Any]] = METRICS,
    **change: Any,
) -> Experiments:
    """Experiments of the same users, each with a salt of its own; nothing differs between the arms."""
    halves = {"a": [0, 5000], "b": [5000, 10000]}
    experiments = [
        {
            "name": f"{seed}-{number}",
            "control": "a",
            "variants": {"a": 1, "b": 1},
            "period": ["2024-05-01", "2024-05-08"],
            "assignment": {"salt": f"{seed}-{number}", "ranges": halves},
            **change,
        }
        for number in range(n_experiments)
    ]
    return evaluate_experiments(*tables, metrics, experiments, engine="local")


def p_values(found: Experiments, metric: str, method: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    rows = [row for row in found.experiment_rows if (row.metric, row.method) == (metric, method)]
    return np.array([row.p_value for row in rows], dtype=float)


def check_rejections(found: Experiments, low: float, high: float) -> None:
    """Tests reject about 5 %, p-values are uniform, and healthy experiments are hardly ever blocked."""
    for metric in ("watch", "ctr"):
        for method in ("raw", "cuped"):
            of_test = p_values(found, metric, method)
            share = (of_test < 0.05).mean()
            assert low <= share <= high, (metric, method, share)
            assert stats.kstest(of_test, "uniform").pvalue > 0.001
    blocked = [row.decision == "blocked" for row in found.decision_rows]
    assert np.mean(blocked) <= 0.01


def test_hundred_salts_reject_about_one_in_twenty() -> None:
    check_rejections(with_salts(100, log(300, 1), 1), 0.0, 0.13)


@pytest.mark.exhaustive
def test_thousand_salts_reject_one_in_twenty() -> None:
    # Three standard deviations of a share of 1,000.
    check_rejections(with_salts(1000, log(2000, 2), 2), 0.03, 0.07)


def test_hundred_salts_of_households_reject_about_one_in_twenty() -> None:
    check_rejections(with_salts(100, households(120, 4), 4, METRICS[:2], unit="household"), 0.0, 0.13)


@pytest.mark.exhaustive
def test_thousand_salts_of_households_reject_one_in_twenty() -> None:
    check_rejections(with_salts(1000, households(400, 5), 5, METRICS[:2], unit="household"), 0.03, 0.07)


def simulated(n_experiments: int, n_users: int, seed: int) -> dict[str, float]:
    """Shares of A/A experiments, each with users of its own, that the tests reject at 5 %.

    Users have 1 to 50 views with a rate of clicks of their own, and a heavy-tailed watch time. The same sizes
    are those of households, whose users share a taste; in steady ones the past explains nearly all of it.
    """
    random = np.random.default_rng(seed)
    n, shape = n_experiments * n_users, (2, n_experiments * n_users)
    rates, sizes = random.beta(2, 6, n), random.integers(1, 51, n)
    views = np.maximum(1, random.poisson(sizes, shape))
    clicks = random.binomial(views, rates)
    taste = random.lognormal(2, 0.7, n)
    watch = (taste * random.lognormal(0, 0.3, shape) * 100).round().astype(np.int64)
    steady = (taste * random.lognormal(0, 0.04, shape) * 100).round().astype(np.int64)
    ones, groups = np.ones(n, dtype=np.int64), np.arange(n) % (2 * n_experiments)
    names = ("watch", "ctr", "household", "steady household")
    rejected = dict.fromkeys([*names, *(f"{name} cuped" for name in names)], 0)
    for name, (x, pre_x), (y, pre_y) in (
        ("watch", watch, (ones, ones)),
        ("ctr", clicks, views),
        ("household", watch * sizes, (sizes, sizes)),
        ("steady household", steady * sizes, (sizes, sizes)),
    ):
        moments = moments_by_group([ones, x, y, pre_x, pre_y, ones], groups, 2 * n_experiments)
        for control, treatment in zip(moments[::2], moments[1::2], strict=True):
            adjusted, _ = adjusted_estimates([control, treatment])
            for label, arms in (
                (name, [control.estimate(), treatment.estimate()]),
                (f"{name} cuped", adjusted),
            ):
                p_value = Contrast.of(arms[0], arms[1]).test(0.95).p_value
                rejected[label] += p_value is not None and p_value < 0.05
    return {name: count / n_experiments for name, count in rejected.items()}


@pytest.mark.exhaustive
def test_four_thousand_experiments_reject_one_in_twenty() -> None:
    shares = simulated(4000, 400, 11)
    assert all(0.04 <= share <= 0.06 for share in shares.values()), shares


def test_few_experiments_reject_about_one_in_twenty() -> None:
    shares = simulated(300, 100, 12)
    assert all(0.01 <= share <= 0.09 for share in shares.values()), shares


def looks(n_experiments: int, n_users: int) -> tuple[float, float]:
    """Shares of A/A experiments that a fixed and a sequential test reject at any of 14 looks."""
    fixed, sequential = np.zeros(n_experiments, dtype=bool), np.zeros(n_experiments, dtype=bool)
    exposures, events = log(n_users, 3)
    halves = {"a": [0, 5000], "b": [5000, 10000]}
    for look in range(1, 15):
        known = exposures.user < n_users * look // 14
        experiments = [
            {
                "name": str(number),
                "control": "a",
                "variants": {"a": 1, "b": 1},
                "period": ["2024-05-01", "2024-05-08"],
                "window": "6d",
                "assignment": {"salt": f"look {number}", "ranges": halves},
            }
            for number in range(n_experiments)
        ]
        found = evaluate_experiments(
            *(exposures[known], events[events.user < n_users * look // 14], METRICS[:1], experiments),
            engine="local",
            sequential={"tightest_at": n_users / 2},
            cuped=False,
        )
        fixed |= p_values(found, "watch", "raw") < 0.05
        sequential |= np.nan_to_num(p_values(found, "watch", "sequential"), nan=1.0) < 0.05
    return float(fixed.mean()), float(sequential.mean())


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_fourteen_looks_reject_too_often_unless_the_test_is_sequential() -> None:
    fixed, sequential = looks(1000, 2800)
    assert fixed > 0.15
    assert sequential <= 0.05
