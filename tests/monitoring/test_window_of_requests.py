"""Windows of lists by request: the same as one job over all days, in any order; what is refused."""

import shutil
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from request_lists import drawn
from tests.monitoring.days import UserDay, publish_day, sums_of

from spark_eval import evaluate, window
from spark_eval.errors import DataError
from spark_eval.evaluation.summary import MetricRow, metric_rows
from spark_eval.monitoring.plan import make_window_plan
from spark_eval.monitoring.window import merge_days
from spark_eval.publishing.local import LocalStore
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.verbs import VERBS
from spark_eval.verbs.window import day_of

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
ENDS: Any = {"first": DAYS[0], "last": DAYS[-1]}
VALUES = st.none() | st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1 / 3, 1e-300])
COUNTRIES = st.sampled_from([None, "DE", "FR"])
ROWS = st.builds(UserDay, st.just(""), COUNTRIES, VALUES, VALUES, st.integers(1, 9).map(float))
# Requests come again on other days; a user without any has the null request.
KEYS = st.tuples(st.sampled_from("abcde"), st.sampled_from([None, "r", "é", "\U0001f600"]))
LISTS = st.dictionaries(KEYS, ROWS, min_size=1, max_size=12).map(
    lambda rows: [
        row._replace(user=user, request=request, pairs=0.0 if row.fcp is None else row.pairs)
        for (user, request), row in rows.items()
    ]
)
MODELS = st.fixed_dictionaries({"als": LISTS, "pop/ular": LISTS})


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    days=st.lists(MODELS, min_size=3, max_size=3),
    order=st.permutations(range(3)),
    weight=st.sampled_from(["requests", "users"]),
)
def test_a_window_is_one_job_over_all_days_in_any_order(
    days: list[dict[str, list[UserDay]]],
    order: list[int],
    weight: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("days")
    for run_id, models in zip(DAYS, days, strict=True):
        publish_day(root, run_id, models, weight=weight)
    merged = merge_days([day_of(LocalStore(root), DAYS[at]) for at in order], make_window_plan(**ENDS))
    together = {model: [row for day in days for row in day[model]] for model in days[0]}
    assert merged.sum_rows == sums_of(together, weight)
    assert merged.metric_rows == metric_rows(merged.sum_rows)
    distinct = {entry.model: entry.users for entry in merged.entries if entry.outcome == "distinct"}
    assert distinct == {model: len({row.user for row in rows}) for model, rows in together.items()}
    shutil.rmtree(root)


def many_rows(seed: int, *, by_request: bool) -> list[list[UserDay]]:
    """Three days of 80 users, some with several requests; the ids of requests come again on other days."""
    random = np.random.default_rng(seed)
    days = []
    for _ in DAYS:
        n_requests = random.integers(1, 5 if by_request else 2, 80).tolist()
        keys = [(user, request) for user, n in enumerate(n_requests) for request in random.permutation(n)]
        values = random.random((len(keys), 2)).tolist()
        days.append(
            [
                UserDay(f"u{user}", "DE" if user % 3 else None, ap, fcp, float(user % 4 + 1), f"r{request}")
                for (user, request), (ap, fcp) in zip(keys, values, strict=True)
            ]
        )
    return days


@pytest.mark.parametrize("weight", [None, "requests", "users"])
def test_the_bits_are_those_of_one_job_whose_requests_have_other_names(
    weight: str | None, tmp_path: Path
) -> None:
    """Of plain days the requests of one job are the days; names say in which order a user's lists come."""
    days = many_rows(3, by_request=weight is not None)
    for run_id, rows in zip(DAYS, days, strict=True):
        publish_day(tmp_path, run_id, {"als": rows}, weight=weight)
    found = merge_days([day_of(LocalStore(tmp_path), run_id) for run_id in DAYS], make_window_plan(**ENDS))
    for names in (DAYS, DAYS[::-1]):
        renamed = [
            row._replace(request=f"{name} {row.request}")
            for name, rows in zip(names, days, strict=True)
            for row in rows
        ]
        one_job = metric_rows(sums_of({"als": renamed}, weight or "requests"))
        numbers = [[numbers_of(row) for row in rows] for rows in (found.metric_rows, one_job)]
        assert len(numbers[0]) == 9
        assert numbers[0] == numbers[1]


def numbers_of(row: Any) -> tuple[Any, ...]:
    return (row.metric, row.segment, row.segment_value, row.value, row.std_error, row.ci_low, row.ci_high)


def no_spark() -> NoReturn:
    raise AssertionError("a session of Spark was opened")


def publish(root: Path, run_id: str, tables: dict[str, pd.DataFrame], asked: dict[str, Any]) -> None:
    """Evaluate a day and publish it, in this process."""
    sections: dict[str, Any] = {
        "engine": "local",
        "output": {"path": str(root / "out")},
        "evaluate": asked,
    }
    for name, frame in tables.items():
        (root / run_id).mkdir(exist_ok=True)
        frame.to_parquet(path := root / run_id / f"{name}.parquet", index=False)
        sections[name] = {"path": str(path)}
    run_verb(VERBS["evaluate"], no_spark, parse_config(sections), run_id, False)


@pytest.mark.parametrize(("weight", "by_fold"), [("requests", True), ("users", True), ("users", False)])
def test_a_window_of_evaluated_days_is_one_evaluation(weight: str, by_fold: bool, tmp_path: Path) -> None:
    whole: dict[str, Any] = drawn(by_fold=by_fold)
    requests = sorted({*whole["recommendations"]["request"], *whole["truth"]["request"]})
    devices = pd.DataFrame(
        [
            (user, request, f"device {(user + n) % 3}")
            for user in range(30)
            for n, request in enumerate(requests)
        ],
        columns=["user", "request", "device"],
    )
    whole["users"] = devices
    asked: dict[str, Any] = {"metrics": ["ndcg", "fcp", "catalog_coverage"], "k": [3, 8], "weight": weight}
    asked |= {"segments": ["device"]}
    for number, run_id in enumerate(DAYS):
        of_day = {
            name: frame[frame["request"].map(requests.index) % 3 == number] for name, frame in whole.items()
        }
        train = whole["truth"].drop(columns="request")
        publish(tmp_path, run_id, of_day | {"train": train}, asked)
    merged = window(str(tmp_path / "out"), **ENDS)
    one_job = evaluate(**whole, engine="local", **{**asked, "metrics": ["ndcg", "fcp"]})
    assert merged.sum_rows == one_job.sum_rows
    assert [row for row in one_job.metric_rows if row.segment != "folds"] == merged.metric_rows
    assert merged.absent[:1] == ["catalog_coverage@3"]


ANN = UserDay("ann", "DE", 0.5, None, 0.0, "r")
BOB = UserDay("bob", "DE", 1.0, None, 0.0, "r")


def two_days(root: Path, weight: str) -> Path:
    """Ann has lists of .5 and .25 on the first day, and of 0 on the second; Bob one of 1 on the first."""
    first = [ANN, ANN._replace(request="s", ap=0.25), BOB]
    publish_day(root, DAYS[0], {"als": first}, weight=weight)
    publish_day(root, DAYS[1], {"als": [ANN._replace(ap=0.0)]}, weight=weight)
    return root


def everybody(root: Path, **options: Any) -> MetricRow:
    merged = window(str(root), first=DAYS[0], last=DAYS[1], **options)
    [row] = [one for one in merged.metric_rows if (one.metric, one.segment) == ("map", "all")]
    assert isinstance(row, MetricRow)
    return row


def test_a_list_or_a_user_counts_once_in_the_window(tmp_path: Path) -> None:
    row = everybody(two_days(tmp_path / "by list", "requests"))
    assert (row.value, row.n_users, row.n_requests) == (1.75 / 4, 2, 4)
    row = everybody(two_days(tmp_path / "by user", "users"))
    assert (row.value, row.n_users, row.n_requests) == (0.625, 2, 4)
    assert row == everybody(tmp_path / "by user", unit="users")


def test_errors_of_user_days_need_no_per_user(tmp_path: Path) -> None:
    clustered = everybody(two_days(tmp_path, "requests"))
    independent = everybody(tmp_path, errors="independent")
    assert (independent.value, independent.n_users, independent.n_requests) == (clustered.value, 3, 4)
    assert independent.std_error not in (None, clustered.std_error)
    shutil.rmtree(tmp_path / "per_user" / f"run_id={DAYS[1]}")
    assert everybody(tmp_path, errors="independent") == independent
    unknown = everybody(tmp_path)
    assert (unknown.value, unknown.std_error, unknown.n_requests) == (clustered.value, None, 4)


def test_options_that_lists_by_request_do_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"NOT_BY_REQUEST.*weight: users"):
        everybody(two_days(tmp_path / "by list", "requests"), unit="users")
    by_user = two_days(tmp_path / "by user", "users")
    with pytest.raises(DataError, match=r"NOT_BY_REQUEST.*errors: independent"):
        everybody(by_user, errors="independent")
    shutil.rmtree(by_user / "per_user" / f"run_id={DAYS[1]}")
    with pytest.raises(DataError, match="NO_PER_USER"):
        everybody(by_user)


@pytest.mark.parametrize("weight", ["requests", "users"])
def test_sums_that_are_not_those_of_per_user_are_refused(weight: str, tmp_path: Path) -> None:
    two_days(tmp_path, weight)
    publish_day(tmp_path, DAYS[2], {"als": [ANN._replace(ap=None)]}, weight=weight)
    source, goal = (tmp_path / "per_user" / f"run_id={run}" for run in (DAYS[2], DAYS[1]))
    shutil.rmtree(goal)
    shutil.copytree(source, goal)
    with pytest.raises(
        DataError, match=r"INCOMPLETE_RUN.*map of 'als': sums and per_user of the days differ"
    ):
        everybody(tmp_path)
