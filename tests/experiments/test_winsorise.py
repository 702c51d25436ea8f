"""Winsorised terms: the quantile of all units, whatever the buckets, and values that are capped there."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eval import evaluate_experiments
from spark_eval.errors import ConfigError
from spark_eval.experiments.evaluate import Experiments
from spark_eval.experiments.worker import tails
from spark_eval.experiments.worker.tails import Tail, quantile_of

START: Final = pd.Timestamp("2024-05-01T00:00:00Z")
MONEY: Final[dict[str, Any]] = {
    "name": "money",
    "kind": "mean",
    "of": {"kind": "buy", "winsorise": 0.95},
    "decimals": 2,
}


def experiment(name: str, end: str) -> dict[str, Any]:
    return {"name": name, "control": "a", "variants": {"a": 1, "b": 1}, "period": ["2024-05-01", end]}


def log(n_users: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Purchases with a heavy tail, on two days, by two thirds of the users."""
    random = np.random.default_rng(3)
    users = np.arange(n_users)
    exposures = pd.DataFrame({"user": users, "variant": np.where(users % 2, "b", "a"), "timestamp": START})
    buyers = random.integers(0, n_users, 2 * n_users)
    when = START + random.integers(-2, 3, len(buyers)) * pd.Timedelta(days=1)
    value = random.lognormal(3, 1.5, len(buyers)).round(2)
    return exposures, pd.DataFrame({"user": buyers, "kind": "buy", "timestamp": when, "value": value})


def run(metrics: list[dict[str, Any]], *experiments: dict[str, Any], **options: Any) -> Experiments:
    exposures, events = log()
    both = pd.concat([exposures.assign(experiment=one["name"]) for one in experiments])
    return evaluate_experiments(both, events, metrics, list(experiments), engine="local", **options)


def test_a_winsorised_mean_is_one_with_a_cap_at_the_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    exposures, events = log()
    two = [experiment("short", "2024-05-02"), experiment("long", "2024-05-08")]
    found = run([MONEY], *two)
    caps = []
    for one in two:
        inside = (events.timestamp >= START) & (events.timestamp < pd.Timestamp(one["period"][1], tz="UTC"))
        sums = events[inside].groupby("user").value.sum().reindex(exposures.user, fill_value=0)
        caps.append(float(np.quantile(sums, 0.95, method="inverted_cdf").round(2)))
        capped = {**MONEY, "of": {"kind": "buy", "cap": caps[-1]}}
        names = [name for name in found.experiment_rows[0]._fields if name != "conventions"]
        expected, rows = (
            [[getattr(row, name) for name in names] for row in rows]
            for rows in (
                run([capped], one).experiment_rows,
                [row for row in found.experiment_rows if row.experiment == one["name"]],
            )
        )
        assert rows == expected
        [text] = {row.conventions for row in found.experiment_rows if row.experiment == one["name"]}
        assert f"buy winsorise=0.95 at {caps[-1]:g}" in text
    assert caps[0] < caps[1]
    # The same, over several buckets, and if they do not give enough units.
    monkeypatch.setattr("spark_eval.runners.spread.ROWS_PER_BUCKET", 100)
    assert run([MONEY], *two).experiment_rows == found.experiment_rows
    monkeypatch.setattr(tails, "LEAST", 1)
    monkeypatch.setattr(tails, "MARGIN", 0)
    assert run([MONEY], *two).experiment_rows == found.experiment_rows


def test_experiments_that_share_the_sums_of_users_have_caps_of_their_own() -> None:
    exposures, events = log()
    # Users and times are the same; the fifty users who buy most have both variants in the second one.
    sums = events[events.timestamp >= START].groupby("user").value.sum()
    largest = exposures[exposures.user.isin(sums.nlargest(50).index)]
    swapped = largest.assign(variant=largest.variant.map({"a": "b", "b": "a"}))
    tables = {"first": exposures, "second": pd.concat([exposures, swapped])}
    two = [experiment(name, "2024-05-08") for name in tables]
    both = pd.concat([rows.assign(experiment=name) for name, rows in tables.items()])
    options: Any = {"engine": "local", "max_crossover": 1.0}
    found = evaluate_experiments(both, events, [MONEY], two, **options)
    alone = [
        evaluate_experiments(rows, events, [MONEY], one, **options)
        for one, rows in zip(two, tables.values(), strict=True)
    ]
    assert found.experiment_rows == [row for one in alone for row in one.experiment_rows]
    assert len({row.conventions for row in found.experiment_rows}) == 2


@given(
    st.lists(st.lists(st.integers(-5, 20), max_size=30), min_size=1, max_size=4),
    st.sampled_from([0.9, 0.95, 0.999]),
    st.integers(0, 6),
)
def test_the_quantile_is_that_of_numpy_or_unknown(
    buckets: list[list[int]], probability: float, n_largest: int
) -> None:
    everything = [value for bucket in buckets for value in bucket]
    expected = int(np.quantile(everything, probability, method="inverted_cdf")) if everything else None
    whole = [Tail.of(np.array(bucket, dtype=np.int64), probability, is_whole=True) for bucket in buckets]
    assert quantile_of(whole, probability) == expected
    cut = [Tail(tail.n, tail.largest[len(tail.largest) - min(n_largest, tail.n) :]) for tail in whole]
    assert quantile_of(cut, probability) in (expected, None)


def test_a_quantile_is_checked() -> None:
    for of in ({"winsorise": 1.0}, {"winsorise": 0.5}, {"winsorise": 0.99, "cap": 3}):
        with pytest.raises(ConfigError, match="winsorise"):
            run([{**MONEY, "of": {"kind": "buy", **of}}], experiment("home", "2024-05-08"))
