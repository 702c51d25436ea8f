"""Windows of days: the same as one job over all days, in any order; what is refused, and what is named."""

import math
import shutil
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.monitoring.days import FIRST, METRICS_AT, SECOND, OfDay, UserDay, publish_day, sums_of

from spark_eval import Window, add_sums, window
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.summary import MetricRow, metric_rows
from spark_eval.monitoring.plan import make_window_plan
from spark_eval.monitoring.window import merge_days
from spark_eval.publishing.local import LocalStore
from spark_eval.schema import VERSION
from spark_eval.verbs.window import day_of

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
ENDS: Any = {"first": DAYS[0], "last": DAYS[-1]}
VALUES = st.none() | st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1 / 3, 1e-300])
WHOLE = st.integers(1, 9).map(float)
ROWS = st.builds(UserDay, st.just(""), st.sampled_from([None, "DE", "FR"]), VALUES, VALUES, WHOLE)
LISTS = st.dictionaries(st.sampled_from("abcdef"), ROWS, min_size=1).map(
    lambda rows: [
        row._replace(user=user, pairs=0.0 if row.fcp is None else row.pairs) for user, row in rows.items()
    ]
)
MODELS = st.fixed_dictionaries({"als": LISTS, "pop/ular": LISTS})


def plain_error(x: Sequence[Fraction], w: Sequence[Fraction]) -> float | None:
    """The standard error of sum(x) / sum(w) over users, as the sandwich estimator is written in textbooks."""
    n = len(x)
    if n < 2 or not sum(w):
        return None
    ratio = sum(x) / sum(w)
    spread = sum((a - ratio * b) ** 2 for a, b in zip(x, w, strict=True))
    return math.sqrt(Fraction(n, n - 1) * spread / sum(w) ** 2)


def plain_errors(days: Sequence[OfDay], model: str, country: str) -> Mapping[str, float | None]:
    """The clustered standard errors of the means of a model, user by user."""
    rows = [row for day in days for row in day[model] if country in ("all", row.country or "(missing)")]
    found = {}
    for name in ("map", "fcp", "fcp_micro"):
        x, w = dict[str | int, Fraction](), dict[str | int, Fraction]()
        for row in rows:
            value = row.ap if name == "map" else row.fcp
            if value is not None:
                weight = row.pairs if name == "fcp_micro" else 1.0
                x[row.user] = x.get(row.user, Fraction()) + Fraction(value * weight)
                w[row.user] = w.get(row.user, Fraction()) + Fraction(weight)
        found[name] = plain_error(list(x.values()), list(w.values()))
    return found


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(days=st.lists(MODELS, min_size=3, max_size=3), order=st.permutations(range(3)))
def test_a_window_is_one_job_over_all_days_in_any_order(
    days: list[dict[str, list[UserDay]]], order: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("days")
    for run_id, models in zip(DAYS, days, strict=True):
        publish_day(root, run_id, models)
    plan = make_window_plan(**ENDS)
    merged = merge_days([day_of(LocalStore(root), DAYS[at]) for at in order], plan)
    together = {model: [row for day in days for row in day[model]] for model in days[0]}
    whole = sums_of(together)
    assert merged.sum_rows == whole
    one_job: dict[Any, MetricRow] = {row[:5]: row for row in metric_rows(whole)}
    for row in merged.metric_rows:
        assert (row.value, row.n_users, row.n_undefined) == (
            one_job[row[:5]].value,
            one_job[row[:5]].n_users,
            one_job[row[:5]].n_undefined,
        )
        expected = plain_errors(days, str(row.model), row.segment_value)[row.metric]
        assert (row.std_error is None) == (expected is None)
        assert row.std_error is None or math.isclose(
            row.std_error, expected or 0, rel_tol=1e-9, abs_tol=1e-12
        )
    again = merge_days([day_of(LocalStore(root), run_id) for run_id in DAYS], plan)
    assert again == merged
    shutil.rmtree(root)


TWO: Any = {"first": DAYS[0], "last": DAYS[1]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    publish_day(tmp_path, DAYS[0], {"als": FIRST})
    publish_day(tmp_path, DAYS[1], {"als": SECOND})
    return tmp_path


def everybody(merged: Window, metric: str = "map") -> dict[str, Any]:
    [row] = [one for one in merged.metric_rows if (one.metric, one.segment) == (metric, "all")]
    return row._asdict()


def test_worked_numbers_of_two_days(root: Path) -> None:
    row = everybody(window(str(root), **TWO))
    assert (row["value"], row["n_users"]) == (0.4375, 4)
    assert row["std_error"] == pytest.approx(0.214808, abs=5e-7)
    independent = everybody(window(str(root), **TWO, errors="independent"))
    assert independent["std_error"] == pytest.approx(0.213478, abs=5e-7)
    by_user = window(str(root), **TWO, unit="users")
    assert (everybody(by_user)["value"], everybody(by_user)["n_users"]) == (0.5, 3)
    assert everybody(by_user)["std_error"] == pytest.approx(0.25)
    assert "fcp_micro@2" in by_user.absent


def test_distinct_users_and_the_longest_list_are_counted(root: Path) -> None:
    entries = {(one.source, one.outcome): one for one in window(str(root), **TWO).entries}
    assert entries["users", "in"].rows == 4
    assert entries["users", "distinct"].users == 3
    assert entries["recommendations", "largest"].reason == "rows=2"


def test_missing_days_are_named_or_counted(root: Path) -> None:
    with pytest.raises(DataError, match=r"MISSING_DAYS.*'?2024-03-01"):
        window(str(root), **ENDS)
    assert list(window(str(root), **ENDS, allow_missing=True).days) == DAYS[:2]
    with pytest.raises(DataError, match="MISSING_DAYS"):
        window(str(root), first="2025-01-01", last="2025-01-02", allow_missing=True)
    publish_day(root, DAYS[2], {"als": FIRST, "new": SECOND})
    with pytest.raises(DataError, match=r"MISSING_DAYS.*new on 2024-02-28"):
        window(str(root), **ENDS)
    assert window(str(root), **ENDS, allow_missing=True).models == ["als", "new"]


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"conventions": "other"}, "conventions"),
        ({"config": {"evaluate": {**METRICS_AT, "resamples": 7}}}, "config evaluate"),
        ({"versions": {"spark_eval": VERSION + ".1"}}, "version of spark-eval"),
    ],
)
def test_days_that_were_measured_otherwise_are_refused(root: Path, facts: Any, name: str) -> None:
    publish_day(root, DAYS[2], {"als": FIRST}, **facts)
    with pytest.raises(DataError, match=f"MIXED_CONVENTIONS.*{DAYS[0]} and {DAYS[2]} differ in {name}"):
        window(str(root), **ENDS)


def test_users_of_two_types_are_refused(root: Path) -> None:
    publish_day(root, DAYS[2], {"als": [user._replace(user=number) for number, user in enumerate(FIRST)]})
    with pytest.raises(DataError, match=r"MIXED_CONVENTIONS.*users are of types int64 and string"):
        window(str(root), **ENDS)


def test_without_per_user_there_are_no_errors(root: Path) -> None:
    shutil.rmtree(root / "per_user" / f"run_id={DAYS[1]}")
    merged = window(str(root), **TWO)
    assert merged.unclustered
    assert (everybody(merged)["value"], everybody(merged)["std_error"]) == (0.4375, None)
    assert everybody(window(str(root), **TWO, errors="independent"))["std_error"] is not None
    with pytest.raises(DataError, match="NO_PER_USER"):
        window(str(root), **TWO, unit="users")


def test_sums_that_are_not_those_of_per_user_are_refused(root: Path) -> None:
    publish_day(root, "2024-03-02", {"als": FIRST})
    source, goal = (root / "per_user" / f"run_id={run}" for run in ("2024-03-02", DAYS[1]))
    shutil.rmtree(goal)
    shutil.copytree(source, goal)
    with pytest.raises(DataError, match=r"INCOMPLETE_RUN.*sums and per_user of the days differ"):
        window(str(root), **TWO)


@pytest.mark.parametrize(
    "ends", [{"first": "yesterday"}, {"first": "20240301"}, {"first": DAYS[1], "last": DAYS[0]}, {}]
)
def test_what_is_no_window_is_refused(root: Path, ends: Any) -> None:
    with pytest.raises(ConfigError, match="INVALID_WINDOW"):
        window(str(root), **ends)


def test_sums_are_added_without_a_window(root: Path) -> None:
    rows = [row for run in DAYS[:2] for row in day_of(LocalStore(root), run).sum_rows]
    rows += [
        row._replace(metric="mrr", k=None) for row in rows if row.metric == "map"
    ]  # pandas makes doubles of the other k
    added = add_sums(pd.DataFrame(rows)).to_pylist()
    whole = sums_of({"als": [*FIRST, *SECOND]})
    found = {tuple(row.values()) for row in added if (row["metric"], row["k"]) != ("mrr", None)}
    assert found == set(metric_rows(whole))
    assert sum(row["k"] is None for row in added) == 3
    with pytest.raises(DataError, match=r"MISSING_COLUMN.*unit"):
        add_sums(pd.DataFrame(rows).drop(columns="unit"))


def test_a_table_of_a_window_has_a_name(root: Path) -> None:
    merged = window(str(root), **TWO)
    assert len(merged.table("sums")) == len(merged.sum_rows)
    with pytest.raises(ConfigError, match=r"UNKNOWN_TABLE.*did you mean 'sums'"):
        merged.table("sum")
