"""Methods of ``split`` other than the default, on the command line."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_eval.demo.simulation import simulate
from spark_eval.runs.sections import read_config
from spark_eval.splits.rules.methods import GLOBAL_LOCAL_RANKER, METHODS

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Desk

DAY = 86_400
CONF = Path(__file__).parents[2] / "conf"
SHOWN = sorted(set(METHODS) - {GLOBAL_LOCAL_RANKER})


def chosen(desk: "Desk", method: str, **options: Any) -> "Desk":
    """The desk with this rule."""
    desk.tree["split"] = {"method": method, **options}
    return desk


def test_folds_are_published_and_a_source_takes_one(desk: "Desk") -> None:
    chosen(desk, "k_fold", k=2, by="user", exact=True)
    out = desk.done("split", "--run-id", "a").out
    assert "rows in, 40 rows used, 0 rows quarantined" in out
    lines = [line.replace("│", " ").split() for line in out.splitlines()]
    for fold in "01":
        assert ["fold", fold, "train", "20", "2", "20"] in lines
        assert ["fold", fold, "test", "20", "2", "20", "train", "2", "(100%)", "20", "(100%)"] in lines
        assert ["fold", fold, "users_in_train_and_test", "0", "0", "no"] in lines
    assert "leaked rows: 0" in out
    assert "train on train of each fold for test\n" in out
    assert "warning: 2 of 2 users of test (100%) have no row in train" in out
    rows = desk.table("splits")
    assert len(rows) == 80
    tested = set(rows[(rows["subset"] == "test") & (rows["fold"] == 0)]["user"])
    desk.change("truth", subset="test", fold=0)
    desk.change("evaluate", metrics=["recall"])
    desk.done("evaluate", "--run-id", "a")
    per_user = desk.table("per_user")
    assert set(per_user["user"]) == tested
    assert set(per_user["n_relevant"]) == {10}
    record = json.loads((desk.out / "_commits" / "a.json").read_text())["jobs"]
    assert record["split"]["config"]["split"]["by"] == "user"
    assert record["evaluate"]["config"]["truth"]["fold"] == 0


@pytest.mark.slow
def test_the_test_of_a_single_fold_is_the_truth_by_default(desk: "Desk") -> None:
    chosen(desk, "leave_one_out")
    desk.done("split", "--run-id", "a")
    desk.done("evaluate", "--run-id", "a")
    # One row of the last day per user, as the global_test of the other tests.
    assert desk.metric() == {"best": 1.0, "late": 0.5, "half": 0.5}
    assert desk.metric("recall") == {"best": 1.0, "late": 1.0, "half": 0.5}


@pytest.mark.slow
def test_later_moments_are_requests_whose_lists_are_evaluated_against_the_test(desk: "Desk") -> None:
    chosen(desk, "time", test_cut="1970-01-10", targets="successive")
    assert "targets_at_or_before_input" not in desk.done("split", "--run-id", "a").out
    rows = desk.table("splits")
    tested = rows[rows["subset"] == "test"]
    assert set(tested["request"]) == {9 * DAY * 10**6, 10 * DAY * 10**6}
    # The list of each moment of users 1 and 2 has the item of day 9 alone.
    lists = tested[tested["user"] < 3][["user", "request"]].astype({"request": "int64"})
    desk.write("lists", lists.assign(item=90 + lists["user"], rank=1, model="late"))
    desk.done("evaluate", "--run-id", "a")
    [row] = desk.table("metrics").query("metric == 'mrr' and k == 1").itertuples()
    assert (row.value, row.n_users, row.n_requests) == (0.25, 4, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "fold", "n_test"),
    [
        ("expanding", {"n_folds": 2, "test_days": 2}, 1, 12),
        ("stratified_k_fold", {"by": ["relevance"], "k": 2}, 1, 20),
        ("last_fraction", {"test_share": 0.3}, 0, 12),
    ],
)
def test_other_methods_publish_their_folds(
    desk: "Desk", method: str, options: dict[str, Any], fold: int, n_test: int
) -> None:
    out = chosen(desk, method, **options).done("split", "--run-id", "a").out
    assert f"fold {fold} test" in out
    rows = desk.table("splits")
    assert len(rows[(rows["subset"] == "test") & (rows["fold"] == fold)]) == n_test


@pytest.mark.parametrize("method", SHOWN)
def test_an_example_shows_every_option(method: str) -> None:
    section = read_config(CONF / f"split_{method}.yaml").split
    assert section.method == method
    assert set(section.model_extra or {}) == {field.name for field in fields(METHODS[method]) if field.init}


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", SHOWN)
def test_an_example_runs_on_the_log_of_the_demo(
    method: str, program: Callable[..., "Answer"], tmp_path: Path
) -> None:
    """In CI tests/freeze runs each example, on a log of its own."""
    simulate(0.2).to_parquet(tmp_path / "log.parquet", index=False)
    tree = yaml.safe_load((CONF / f"split_{method}.yaml").read_text(encoding="utf-8"))
    tree["output"]["path"] = str(tmp_path / "out")
    tree["interactions"]["path"] = str(tmp_path / "log.parquet")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(tree))
    answer = program("split", "--config", str(tmp_path / "config.yaml"))
    assert (answer.code, answer.err) == (0, "")
    assert "LEAK" not in answer.out
