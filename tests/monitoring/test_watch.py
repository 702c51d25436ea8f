"""Watches: worked numbers, simulated series, what moved, what is refused; published as gates with exit 5."""

import json
import math
import shutil
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.monitoring.days import UserDay, publish_day
from tests.monitoring.test_window_verb import no_spark

from spark_eval import history, watch
from spark_eval.cli.commands import main
from spark_eval.errors import ConfigError, DataError
from spark_eval.monitoring.plan import WatchPlan
from spark_eval.monitoring.watch import Judgement, Point, distance_of, judge
from spark_eval.verbs.watch import Watched

START = date(2024, 1, 1)
PLAN = WatchPlan(metrics=("ndcg@10",))
VALUES = (0.160, 0.158, 0.163, 0.161, 0.155, 0.159, 0.162)
ERRORS = (0.001, 0.001, 0.0012, 0.001, 0.0011, 0.001, 0.001)


def series(values: Sequence[float], errors: Sequence[float] | float) -> list[Point]:
    of_days = [errors] * len(values) if isinstance(errors, float) else errors
    days = (START + timedelta(days=at) for at in range(len(values)))
    return [Point(*one) for one in zip(days, values, of_days, strict=True)]


def test_worked_numbers() -> None:
    found = judge(series([*VALUES, 0.150], [*ERRORS, 0.001]), PLAN)
    assert found.level is not None
    assert found.level.value == pytest.approx(0.1597053995, abs=5e-11)
    assert math.sqrt(found.level.between) == pytest.approx(0.00232996, abs=5e-9)
    assert found.u == pytest.approx(-3.57749976, abs=5e-9)
    assert found.p_value == pytest.approx(1.734e-4, abs=5e-8)
    assert found.is_alarm
    # A rise is no alarm, unless lower is better.
    rise = series([*VALUES, 0.170], [*ERRORS, 0.001])
    assert not judge(rise, PLAN).is_alarm
    assert judge(rise, PLAN, is_lower_better=True).is_alarm


def test_the_cumulative_sum_is_over_the_days_of_the_window() -> None:
    # A steep fall on the first day before the window must not count, one on its first day must.
    for n_after, is_counted in ((PLAN.days - 1, True), (PLAN.days, False)):
        values = [*(VALUES * 4), 0.100, *(VALUES * 4)[:n_after]]
        days = series(values, 0.001)
        sums = 0.0
        for at in range(len(days) - PLAN.days, len(days)):
            u = judge(days[: at + 1], PLAN).u
            assert u is not None
            sums = max(0.0, sums - u - 0.5)
        assert judge(days, PLAN).cusum == sums
        assert (sums > 10) == is_counted


@given(order=st.permutations(range(8)))
@settings(max_examples=20, deadline=None)
def test_the_order_of_days_does_not_matter(order: list[int]) -> None:
    days = series([*VALUES, 0.150], [*ERRORS, 0.001])
    assert judge([days[at] for at in order], PLAN) == judge(days, PLAN)


def test_fewer_than_seven_runs_and_values_that_do_not_vary() -> None:
    few = judge(series([*VALUES[:6], 0.0], 0.001), PLAN)
    assert (few.is_decided, few.is_alarm, few.n_runs) == (False, False, 6)
    assert "6 comparable runs before, 7 are needed" in str(few)
    constant = judge(series([0.5] * 10, 0.0), PLAN)
    assert (constant.u, constant.is_alarm) == (0.0, False)
    assert judge(series([*[0.5] * 10, 0.4], 0.0), PLAN).is_alarm
    # Days that are too old are no past.
    old = series([*VALUES], 0.001)
    late = Point(START + timedelta(days=60), 0.1, 0.001)
    assert not judge([*old, late], PLAN).is_decided


def test_weekdays_have_levels_of_their_own_after_three_weeks() -> None:
    """A weekly season that is far larger than the noise hides no fall, and is none."""
    noise = np.random.default_rng(0).normal(0, 0.001, 29)
    season = np.array([0.02, 0.0, 0.0, 0.0, 0.0, -0.02, -0.02])
    values = (0.16 + season[np.arange(29) % 7] + noise).tolist()
    usual, fallen = (
        judge(series(values, 0.001), PLAN),
        judge(series([*values[:-1], values[-1] - 0.01], 0.001), PLAN),
    )
    assert not usual.is_alarm
    assert usual.level is not None
    assert usual.level.value == pytest.approx(0.18, abs=0.003)
    assert fallen.is_alarm


def test_a_slow_drift_is_found_by_its_sum() -> None:
    noise = np.where(np.arange(60) % 2, 0.0003, -0.0003)
    drift = np.concatenate([np.zeros(30), -0.00013 * np.arange(30)])
    values = (0.16 + noise + drift).tolist()
    found = [judge(series(values[: day + 1], 0.001), PLAN) for day in range(30, 60)]
    first = next(judgement for judgement in found if judgement.is_alarm)
    assert first.cusum >= 7
    assert first.u is not None
    assert first.u >= -first.limit


def has_alarm(values: Sequence[float], std_error: float) -> bool:
    """True if any day has an alarm; each day's distance is computed once."""
    days = series(values, std_error)
    found = [
        distance_of(day, [one for one in days[:at] if (day.day - one.day).days <= PLAN.days])
        for at, day in enumerate(days)
    ]
    for at in range(7, len(days)):
        cusum = 0.0
        for one in found[max(0, at - PLAN.days + 1) : at + 1]:
            cusum = cusum if one is None else max(0.0, cusum - one.u - 0.5)
        newest = found[at]
        if newest is not None:
            limit = 3.2905 if newest.freedom is None else -stats.t.ppf(0.0005, newest.freedom)
            if newest.u < -limit or cusum >= 7:
                return True
    return False


@given(seed=st.integers(0, 10**6))
@settings(max_examples=3, deadline=None)
def test_the_short_way_of_the_simulation_is_that_of_judge(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.003, 40)
    values = (0.16 + noise).tolist()
    days = series(values, 0.001)
    assert has_alarm(values, 0.001) == any(judge(days[: at + 1], PLAN).is_alarm for at in range(7, 40))


@pytest.mark.parametrize(
    ("between", "n_series"),
    [
        (0.001, 10),
        *(
            pytest.param(between, 200, marks=[pytest.mark.exhaustive, pytest.mark.slow])
            for between in (0.0, 0.001, 0.002)
        ),
    ],
)
def test_at_most_one_in_ten_stationary_series_has_an_alarm_at_all(between: float, n_series: int) -> None:
    """90 days with seasons of the week; days vary by their users, and up to twice as much by themselves."""
    n_alarms = 0
    for seed in range(n_series):
        random = np.random.default_rng(seed)
        season = random.normal(0, 0.002, 7)[np.arange(90) % 7]
        noise = random.normal(0, math.hypot(0.001, between), 90)
        n_alarms += has_alarm((0.16 + season + noise).tolist(), 0.001)
    assert n_alarms <= n_series / 10


def test_once_weekdays_have_levels_the_limit_is_that_of_t() -> None:
    """The limits from scipy.stats, which has its own quantiles; a reference keeps the normal one."""
    noise = np.random.default_rng(1).normal(0, 0.002, 29)
    days = series([*(0.16 + noise[:28]), 0.15], 0.001)
    found = judge(days, PLAN)
    assert found.freedom == 28 - 7
    assert found.u is not None
    assert found.limit == pytest.approx(-stats.t.ppf(0.0005, 21), rel=1e-12)
    assert found.p_value == pytest.approx(stats.t.cdf(found.u, 21), rel=1e-9)
    of_reference = judge(days, PLAN, is_reference=True)
    assert of_reference.limit == pytest.approx(-stats.norm.ppf(0.0005), rel=1e-12)
    assert (of_reference.u, of_reference.cusum) == (found.u, found.cusum)
    assert judge(days[:20], PLAN).freedom is None


def moved(days: Sequence[tuple[float, float, float, float]]) -> str | None:
    """What moved on the last of days: of each the difference and its error, the reference and its error."""
    difference = judge(series([day[0] for day in days], [day[1] for day in days]), PLAN)
    of_frozen = series([day[2] for day in days], [day[3] for day in days])
    reference = judge(of_frozen, PLAN, is_reference=True)
    row: Any = None
    return Watched(row, difference, reference, "frozen").moved


def measured(random: np.random.Generator, n_users: int, model: float, world: float) -> tuple[float, ...]:
    """Means of users of a day, who agree on both models in part, and their errors."""
    user = random.normal(0, 0.2, n_users)
    reference = world * (0.14 + user + random.normal(0, 0.1, n_users))
    values = world * model * 0.16 + world * user + random.normal(0, 0.1, n_users)
    difference = values - reference
    root = math.sqrt(n_users)
    return (difference.mean(), difference.std() / root, reference.mean(), reference.std() / root)


@pytest.mark.parametrize("n_series", [2, pytest.param(40, marks=[pytest.mark.exhaustive, pytest.mark.slow])])
@pytest.mark.parametrize(("model", "world", "expected"), [(0.98, 1.0, "model"), (1.0, 0.98, "world")])
def test_a_step_of_two_percent_is_found_within_three_days_and_named(
    n_series: int, model: float, world: float, expected: str
) -> None:
    """A step of the world is 4 standard errors of a day, so some series take more than three days."""
    n_found = 0
    for seed in range(n_series):
        random = np.random.default_rng(seed)
        days: list[Any] = [measured(random, 100_000, 1.0, 1.0) for _ in range(28)]
        found = []
        for _ in range(3):
            days.append(measured(random, 100_000, model, world))
            found.append(moved(days))
        n_found += expected in found
        assert ({"model", "world"} - {expected}).isdisjoint(found)
    assert n_found >= {"model": 0.95, "world": 0.85}[expected] * n_series


def users(mean: float, seed: int) -> list[UserDay]:
    random = np.random.default_rng(seed)
    values = np.clip(random.normal(mean, 0.05, 200), 0, 1)
    return [UserDay(f"u{at}", None, float(value), None, 0.0) for at, value in enumerate(values)]


def lists_of(rows: list[UserDay], weight: str | None) -> list[UserDay]:
    """The users with one list, or with a list for each of two requests, of which one is worse."""
    if weight is None:
        return rows
    worse = [row._replace(request="s", ap=0.9 * (row.ap or 0)) for row in rows]
    return [*(row._replace(request="r") for row in rows), *worse]


def days_of(root: Path, n_days: int, *, fallen: str, weight: str | None = None) -> list[str]:
    """Days of als and a frozen model; the last one has fallen for the model, or for the world."""
    names = []
    for at in range(n_days):
        is_last = at == n_days - 1
        model = 0.4 if is_last and fallen in ("model", "world") else 0.5
        frozen = 0.3 if is_last and fallen == "world" else 0.4
        names.append((START + timedelta(days=at)).isoformat())
        models = {"als": users(model, at), "frozen": users(frozen, 1000 + at)}
        lists = {name: lists_of(rows, weight) for name, rows in models.items()}
        publish_day(root, names[-1], lists, weight=weight)
    return names


@pytest.mark.parametrize("weight", [None, "requests", "users"])
@pytest.mark.parametrize("fallen", ["model", "world", "none"])
def test_a_frozen_reference_shows_whether_the_model_or_the_world_moved(
    tmp_path: Path, fallen: str, weight: str | None
) -> None:
    day = days_of(tmp_path, 10, fallen=fallen, weight=weight)[-1]
    [row] = watch(str(tmp_path), day, metrics=["map@2"], reference="frozen").to_pylist()
    expected = {"model": ("model", False), "world": ("world", True), "none": (None, True)}[fallen]
    assert (row["watch"], row["passed"]) == expected
    assert row["reason"].startswith("difference to frozen: ")
    assert "; frozen: " in row["reason"]
    alone = {row["model"]: row for row in watch(str(tmp_path), day, metrics=["map@2"]).to_pylist()}
    assert alone["als"]["passed"] == (fallen == "none")
    assert alone["als"]["watch"] is None


def test_days_of_other_rules_are_left_out(tmp_path: Path) -> None:
    names = days_of(tmp_path, 10, fallen="none")
    for day in names[:5]:
        publish_day(tmp_path, day, {"als": users(0.5, 0)}, versions={"spark_eval": "0.0.1"})
    found = watch(str(tmp_path), names[-1], metrics=["map@2"], models=["als"]).to_pylist()
    assert [row["decision"] for row in found] == ["undecided"]


def test_what_is_refused(tmp_path: Path) -> None:
    [first, last] = days_of(tmp_path, 2, fallen="none")
    for options, code in (
        ({"metrics": ["ndcg@2"]}, "METRIC_NOT_MEASURED"),
        ({"metrics": ["map@2"], "reference": "als2"}, "UNKNOWN_MODEL"),
        ({"metrics": ["map@2"], "days": 3}, "OUT_OF_RANGE"),
    ):
        asked: Any = options
        with pytest.raises(ConfigError) as refused:
            watch(str(tmp_path), last, **asked)
        assert refused.value.code == code
    with pytest.raises(DataError, match="not published") as missing:
        watch(str(tmp_path), "2024-02-01", metrics=["map@2"])
    assert missing.value.code == "MISSING_DAYS"
    shutil.rmtree(tmp_path / "per_user" / f"run_id={first}")
    with pytest.raises(DataError, match=first) as gone:
        watch(str(tmp_path), last, metrics=["map@2"], reference="frozen")
    assert gone.value.code == "NO_PER_USER"


def test_a_watch_is_published_as_a_gate_with_exit_5_and_turns_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    names = days_of(out, 10, fallen="model")
    day = names[-1]
    section = {"metrics": ["map@2"], "reference": "frozen"}
    (tmp_path / "config.yaml").write_text(json.dumps({"output": {"path": str(out)}, "watch": section}))
    monkeypatch.setattr("spark_eval.cli.runner.open_session", lambda *_: no_spark())

    def run(*words: str) -> int:
        with pytest.raises(SystemExit) as end:
            main([words[0], "--config", str(tmp_path / "config.yaml"), *words[1:]])
        return int(str(end.value.code))

    assert run("watch", "--run-id", day) == 5
    said = capsys.readouterr()
    assert f"run {day}_watch published" in said.out
    assert "error[GATE_FAILED] 1 alarm: map@2 of 'als': difference to frozen" in said.err
    assert run("watch", "--run-id", day) == 5
    assert "already published" in capsys.readouterr().out
    assert run("watch", "--run-id", names[-2]) == 0
    capsys.readouterr()
    assert run("status", "--failed") == 0
    listed = capsys.readouterr().out
    assert listed.startswith("1 run with gates that failed or are undecided published under ")
    assert f"{day}_watch" in listed
    assert " 1 alarm " in listed
    assert run("status", "--failed", "--json") == 0
    assert [one["gates"] for one in json.loads(capsys.readouterr().out)["runs"]] == [{"alarm": 1}]
    rows = history(str(out), metrics=["map@2"], models=["als"]).rows
    assert [(row.alarm, row.failed_gates) for row in rows[-2:]] == [(None, 0), ("model", 0)]
    publish_day(out, names[3], {"als": users(0.5, 9), "frozen": users(0.4, 9)}, fingerprint="late")
    capsys.readouterr()
    assert run("status") == 0
    assert f"stale: {names[3]} changed since" in capsys.readouterr().out
    assert run("watch", "--run-id", day) == 2
    assert run("watch", "--run-id", day, "--replace") == 5
    assert run("watch") == 2
    assert run("watch", "--run-id", "2024-02-01") == 3


def test_a_judgement_says_both_limits() -> None:
    found: Judgement = judge(series([*VALUES, 0.150], [*ERRORS, 0.001]), PLAN)
    assert str(found) == (
        "0.15 where 0.159705 is usual: -3.58 standard deviations (alarm below -3.29), "
        "drift 3.08 (alarm from 7)"
    )
