"""Presets of experiments: the lifts of gbstats and tea-tasting; pooled shares; see also tests/parity."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.experiments.data_d import CTR, HOME, START, WATCHED, tables

from spark_eval import evaluate_experiments
from spark_eval.errors import ConfigError
from spark_eval.experiments.evaluate import Experiments


def run(change: dict[str, Any] | None = None, **options: Any) -> Experiments:
    home = {**HOME, **(change or {})}
    return evaluate_experiments(*tables(), [CTR, WATCHED], home, engine="local", **options)


def row_of(found: Experiments, metric: str, method: str) -> dict[str, Any]:
    [row] = [
        row._asdict()
        for row in found.experiment_rows
        if (row.metric, row.method, row.segment) == (metric, method, "all")
    ]
    return row


@pytest.mark.parametrize(
    ("preset", "ctr", "watch"),
    [
        ("default", (0.571429, -0.108688, 3.623700, 0.117872), (0.189438, None, None, 0.036959)),
        ("tea_tasting", (0.571429, -0.230437, 2.208817, 0.117872), (0.189438, 0.012066, 0.397897, 0.036959)),
        ("gbstats", (0.571429, -0.516229, 1.659087, None), (0.177374, -0.000101, 0.354848, 0.050114)),
    ],
)
def test_lifts_are_those_of_the_preset(preset: str, ctr: tuple[Any, ...], watch: tuple[Any, ...]) -> None:
    found = run(conventions=preset)
    for metric, method, worked in (("ctr", "raw", ctr), ("watch", "cuped", watch)):
        row = row_of(found, metric, method)
        for name, number in zip(("lift", "lift_low", "lift_high", "p_value"), worked, strict=True):
            if number is not None:
                assert row[name] == pytest.approx(number, abs=1e-6), (metric, name)
        assert ("preset=" in row["conventions"]) == (preset != "default")
    # A preset is about lifts: differences are the same.
    row, ours = row_of(found, "watch", "cuped"), row_of(run(), "watch", "cuped")
    names = ("difference", "std_error", "ci_low", "ci_high", "theta")
    assert [row[name] for name in names] == [ours[name] for name in names]
    assert row["theta"] == pytest.approx(1.150472, abs=1e-6)


def test_the_sequential_test_of_gbstats_is_of_the_lift() -> None:
    found = run(conventions="gbstats", sequential={"tightest_at": 10, "min_users": 1})
    row, raw = row_of(found, "ctr", "sequential"), row_of(found, "ctr", "raw")
    error = (raw["lift_high"] - raw["lift_low"]) / 2
    v, n, level = (error / _quantile(raw["df"])) ** 2, 16, 0.05
    rho = (-2 * np.log(level) + np.log(1 - 2 * np.log(level))) / 10
    tau = rho * n * v
    factor = np.sqrt(v / (v + tau)) * np.exp(tau * row["lift"] ** 2 / (2 * v * (v + tau)))
    assert row["p_value"] == pytest.approx(min(1, 1 / factor))
    half = np.sqrt(v * (v + tau) / tau * (2 * np.log(1 / level) + np.log((v + tau) / v)))
    assert (row["lift_low"], row["lift_high"]) == pytest.approx((row["lift"] - half, row["lift"] + half))
    ours = row_of(run(sequential={"tightest_at": 10, "min_users": 1}), "ctr", "sequential")
    assert (ours["lift_low"], ours["lift_high"]) == (None, None)


def _quantile(freedom: float) -> float:
    from scipy import stats

    return float(stats.t.ppf(0.975, freedom))


def test_gbstats_has_no_p_value_without_a_lift() -> None:
    exposures, events = tables()
    nothing = events[~(events.user.str.startswith("c") & (events.kind == "click"))]
    found = evaluate_experiments(exposures, nothing, [CTR], HOME, engine="local", conventions="gbstats")
    row = row_of(found, "ctr", "raw")
    assert (row["p_value"], row["lift"], row["reason"]) == (None, None, "the value of the control is 0")
    with pytest.raises(ConfigError, match="home has weights, and no lift"):
        run({"weights": [{"since": "2024-05-02", "variants": {"c": 1, "t": 3}}]}, conventions="gbstats")
    with pytest.raises(ConfigError, match="tea_tasting"):
        run(conventions="tea-tasting")


def test_pooled_shares() -> None:
    users = range(20_000)
    exposures = pd.DataFrame({"user": users, "variant": ["ct"[user // 10_000] for user in users]})
    exposures = exposures.assign(timestamp=START)
    buyers = [*range(480), *range(10_000, 10_530)]
    events = pd.DataFrame({"user": buyers, "kind": "buy", "timestamp": START})
    bought = {"name": "bought", "kind": "mean", "of": {"kind": "buy", "value": "any"}, "test": "z_pooled"}
    found = evaluate_experiments(exposures, events, [bought], HOME, engine="local", cuped=False)
    pooled, raw = row_of(found, "bought", "z_pooled"), row_of(found, "bought", "raw")
    assert (pooled["statistic"], pooled["p_value"]) == pytest.approx((1.614588, 0.106400), abs=1e-6)
    assert pooled["p_adjusted"] == pooled["p_value"]
    # Welch's test stands beside it, and does not decide.
    assert raw["p_value"] == pytest.approx(0.106377, abs=5e-5)
    assert raw["p_adjusted"] is None
    # If weights change, shares are pooled within each stratum.
    late = exposures.user % 2 == 1
    exposures.loc[late, "timestamp"] += pd.Timedelta(days=1)
    events["timestamp"] += pd.Timedelta(days=1)
    weights = [{"since": "2024-05-02", "variants": {"c": 1, "t": 2}}]
    home = {**HOME, "weights": weights}
    row = row_of(
        evaluate_experiments(exposures, events, [bought], home, engine="local", cuped=False),
        "bought",
        "z_pooled",
    )
    variance = 0.0
    for chosen in (~late, late):
        of_arms = [exposures[chosen & (exposures.variant == arm)].user for arm in "ct"]
        n = [len(one) for one in of_arms]
        share = sum(one.isin(buyers).sum() for one in of_arms) / sum(n)
        variance += (sum(n) / 20_000) ** 2 * share * (1 - share) * (1 / n[0] + 1 / n[1])
    assert row["std_error"] == pytest.approx(np.sqrt(variance))
