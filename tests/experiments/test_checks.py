"""Checks that are shown and never fail: sample ratios by day and segment, interactions, A/A experiments."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_eval import evaluate_experiments
from spark_eval.errors import ConfigError
from spark_eval.experiments.evaluate import Experiments
from spark_eval.experiments.moments import ONE, Moments, X, Y
from spark_eval.experiments.worker import halves
from spark_eval.experiments.worker.halves import arms_of, sums_of_halves
from spark_eval.experiments.worker.sums import moments_by_group

START: Final = pd.Timestamp("2024-05-01T00:00:00Z")
DAY: Final = pd.Timedelta(days=1)
HOME: Final[dict[str, Any]] = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1, "b": 1},
    "period": ["2024-05-01", "2024-05-08"],
    "by": ["hour", "country"],
}
METRICS: Final[list[dict[str, Any]]] = [
    {"name": "d1", "kind": "retention", "of": {"kind": "click"}, "day": 1, "role": "info"},
    {"name": "clicks", "kind": "mean", "of": {"kind": "click"}, "decimals": 2},
    {"name": "ctr", "kind": "ratio", "numerator": {"kind": "click"}, "denominator": {"kind": "view"}},
    {
        "name": "user",
        "kind": "mean_of_ratios",
        "numerator": {"kind": "click"},
        "denominator": {"kind": "view"},
    },
]


def log(n_users: int = 400) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Users of a and b; on the second day only a third of b is exposed. In France the treatment is worse."""
    random = np.random.default_rng(8)
    users = np.arange(n_users)
    arm, late = users % 2, users >= n_users // 2
    country = np.where(users // 2 % 2, "DE", "FR")
    exposures = pd.DataFrame({"user": users, "variant": np.where(arm, "b", "a"), "country": country})
    exposures["timestamp"] = START + late * DAY
    rate = 3 + 2 * arm * np.where(country == "FR", -1, 1)
    rows = []
    for day in range(-2, 7):
        views = 1 + random.poisson(4, n_users)
        for kind, numbers in (("view", views), ("click", random.poisson(rate if day > 0 else 3, n_users))):
            owners = np.repeat(users, numbers)
            when = START + day * DAY + pd.to_timedelta(random.integers(0, 24, len(owners)), unit="h")
            rows.append(pd.DataFrame({"user": owners, "kind": kind, "timestamp": when}))
    is_kept = ~late | (arm == 0) | (users % 3 == 0)
    return exposures[is_kept], pd.concat(rows, ignore_index=True)


TABLES: Final = log()


def run(change: dict[str, Any] | None = None, **options: Any) -> Experiments:
    return evaluate_experiments(*TABLES, METRICS, {**HOME, **(change or {})}, engine="local", **options)


def checks(found: Experiments, name: str) -> dict[str, Any]:
    return {row.subject: row for row in found.check_rows if row.check == name}


def test_sample_ratios_by_day_and_segment_are_shown_and_do_not_block() -> None:
    exposures, _ = TABLES
    found = run()
    for check, column in (
        ("srm_day", exposures.timestamp.dt.strftime("%Y-%m-%d")),
        ("srm_segment", "country"),
    ):
        counts = exposures.groupby([column, "variant"]).size().unstack()
        theirs = [stats.chisquare(row) for row in counts.to_numpy()]
        rows = checks(found, check)
        names = [name if check == "srm_day" else f"country={name}" for name in counts.index]
        assert list(rows) == names
        adjusted = min(1, 2 * min(one.pvalue for one in theirs))
        assert min(row.p_value for row in rows.values()) == pytest.approx(adjusted)
        assert [row.statistic for row in rows.values()] == pytest.approx([one.statistic for one in theirs])
        assert {row.passed for row in rows.values()} == {None}
    assert checks(found, "srm_day")["2024-05-02"].p_value < 0.001
    assert "srm_day" not in found.analyses[0].failed_checks


def test_interactions_are_those_of_the_rows() -> None:
    found = run()
    rows = {
        f"{row.metric} of b by {row.segment}": row
        for row in found.experiment_rows
        if row.method == "gail_simon"
    }
    shown = checks(found, "interaction")
    assert shown.keys() == rows.keys() != set()
    for subject, row in shown.items():
        assert (row.statistic, row.p_value) == (rows[subject].statistic, rows[subject].p_value)
        assert row.passed is None
    assert shown["clicks of b by country"].p_value < 0.001


def test_halves_of_units_have_uniform_p_values(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(aa_salts=300)
    rows = checks(found, "uniformity")
    assert list(rows) == ["d1", "clicks", "ctr", "user"]
    # The effects are large, and halves do not see them.
    assert all(rows[name].p_value > 0.001 for name in ("clicks", "ctr", "user"))
    assert {row.passed for row in rows.values()} == {None}
    assert not checks(run(), "uniformity")
    monkeypatch.setattr("spark_eval.runners.spread.ROWS_PER_BUCKET", 1000)
    assert checks(run(aa_salts=300), "uniformity") == rows
    with pytest.raises(ConfigError, match="aa_salts"):
        run(aa_salts=0)


def test_halves_see_that_one_user_has_everything() -> None:
    exposures, events = TABLES
    whale = events.assign(value=1.0)
    whale.loc[(whale.user == 0) & (whale.kind == "click"), "value"] = 1e6
    found = evaluate_experiments(
        exposures, whale, [METRICS[1]], {**HOME, "by": []}, engine="local", aa_salts=1000
    )
    [row] = checks(found, "uniformity").values()
    assert row.p_value < 1e-6
    # It is Kolmogorov and Smirnov's test of the p-values of all halves.
    p_values = []
    [half_sums] = found.sums.halves.values()
    total = sum((m for cell, m in found.sums.moments.items() if cell.by == "all"), Moments())
    for half in half_sums:
        one, other = arms_of(half, total)
        means = [arm.product(ONE, X) / arm.n for arm in (one, other)]
        variances = [
            (arm.product(X, X) / arm.n - mean**2) / (arm.n - 1)
            for arm, mean in zip((one, other), means, strict=True)
        ]
        freedom = sum(variances) ** 2 / sum(
            v**2 / (arm.n - 1) for v, arm in zip(variances, (one, other), strict=True)
        )
        p_values.append(2 * stats.t.sf(abs(means[0] - means[1]) / np.sqrt(sum(variances)), freedom))
    theirs = stats.kstest(p_values, "uniform")
    assert (row.statistic, row.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(-(2**61), 2**61)] * 2), min_size=1, max_size=40),
    st.integers(1, 130),
    st.sampled_from([2, 1024]),
)
def test_sums_of_halves_are_exact(rows: list[tuple[int, int]], n_salts: int, n_rows: int) -> None:
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    ids, ones = pa.array([f"u{n}" for n in range(len(x))]), np.ones(len(x), dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(halves, "ROWS", n_rows)
        patch.setattr(halves, "MOST_ROWS", 4 * n_rows)
        found = sums_of_halves(ids, [ones, x, y], n_salts)
    [total] = moments_by_group([ones, x, y, None, None, None], ones * 0, 1)
    single = [
        sums_of_halves(ids[n : n + 1], [ones[:1], x[n : n + 1], y[n : n + 1]], n_salts) for n in range(len(x))
    ]
    is_in = np.array([[row[0] for row in one] for one in single])
    for salt in range(n_salts):
        chosen = [pair for pair, inside in zip(rows, is_in[:, salt], strict=True) if inside]
        other, one = arms_of(found[salt], total)
        assert one.n == len(chosen)
        assert one.product(X, Y) == sum(a * b for a, b in chosen)
        assert one.product(X, X) == sum(a * a for a, _ in chosen)
        assert other.product(Y, Y) == sum(b * b for _, b in rows) - sum(b * b for _, b in chosen)


def test_halves_are_halves_and_differ() -> None:
    ids = pa.array([str(n) for n in range(4000)])
    ones = np.ones(4000, dtype=np.int64)
    found = sums_of_halves(ids, [ones, np.arange(4000), ones], 200)
    sizes, sums = found[:, 0].astype(int), found[:, 1].astype(int)
    assert stats.kstest((sizes - 2000) / np.sqrt(1000), "norm").pvalue > 0.001
    assert len(set(sums.tolist())) == 200
