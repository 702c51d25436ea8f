"""What an operator reads: stages, a summary, JSON on request, and what status knows."""

import json
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

pytestmark = pytest.mark.usefixtures("each_engine")

SPLIT = ["start", "read", "cuts", "splits", "leakage", "publish"]
EVALUATE = ["start", "read", "measure", "metrics", "publish"]


def events(err: str) -> list[dict[str, Any]]:
    """The objects on stderr, every line of which is one."""
    return [json.loads(line) for line in err.splitlines()]


def stages(told: list[dict[str, Any]]) -> dict[str, int | None]:
    """Rows of the stages, in their order."""
    return {event["stage"]: event["rows"] for event in told if event["event"] == "stage"}


def test_a_run_in_json(desk: "Desk") -> None:
    told = events(desk.run("split", "--run-id", "a", "--log-format", "json").err)
    assert stages(told) == dict.fromkeys(SPLIT) | {"splits": 40}
    answer = desk.run("evaluate", "--run-id", "a", "--log-format=json")
    told = events(answer.err)
    assert stages(told) == dict.fromkeys(EVALUATE) | {"measure": 22, "metrics": 12}
    assert all(event["run_id"] == "a" and event["verb"] == "evaluate" for event in told)
    assert all(event["level"] == "info" and event["time"].endswith("+00:00") for event in told)
    others = [event["event"] for event in told if event["event"] != "stage"]
    assert others == ["run_started", "engine", "run_ended"]
    end = told[-1]
    del end["message"], end["time"]
    took = end.pop("seconds")
    assert end == {
        "level": "info",
        "event": "run_ended",
        "run_id": "a",
        "verb": "evaluate",
        "outcome": "published",
        "rows_in": 22,
        "rows_used": 22,
        "rows_quarantined": 0,
        "users": 4,
        "models": 3,
    }
    assert took == pytest.approx(sum(e["seconds"] for e in told if e["event"] == "stage"), abs=0.5)
    assert "run a published" in answer.out
    assert "{" not in answer.out
    again = events(desk.run("split", "--run-id", "a", "--log-format=json").err)
    assert [event.get("outcome") for event in again] == [None, "already_published"]


def test_a_run_in_text(desk: "Desk") -> None:
    bad = pd.read_parquet(desk.home / "log").astype({"user": "Int64"})
    bad.loc[0, "user"] = None
    desk.write("log", bad)
    lines = desk.done("split", "--run-id", "a", "--engine", "spark").out.splitlines()
    assert [line.strip() for line in lines[:2]] == ["split of run a", "engine: spark (as asked)"]
    told = [line.partition("s] ")[2] for line in lines[2:8]]
    assert told == [name + (", 40 rows" if name == "splits" else "") for name in SPLIT]
    assert (
        lines[8].partition("s] ")[2]
        == "split of run a published, 40 rows in, 39 rows used, 1 rows quarantined"
    )


def test_errors_in_json(desk: "Desk") -> None:
    desk.change("interactions", path="no/such/log")
    answer = desk.run("split", "--run-id", "a", "--log-format=json")
    *_, error = events(answer.err)
    assert answer.code == 3
    assert (error["event"], error["level"], error["code"], error["exit_code"]) == (
        *("error", "error", "MISSING_INPUT", 3),
    )
    assert (error["run_id"], error["verb"]) == ("a", "split")
    assert "'no/such/log' not found" in error["message"]
    assert "trace" not in error
    assert "Traceback" in events(desk.run("split", "--debug", "--log-format=json").err)[-1]["trace"]
    [error] = events(desk.run("split", "--log-format=json", "--set", "evaluate.k=[0]").err)
    assert (error["code"], error["run_id"]) == ("INVALID_K", None)
    [error] = events(desk.run("split", "--no-such", "--log-format=json").err)
    assert error["code"] == "USAGE"


def test_status_in_json(published: "Desk") -> None:
    state = json.loads(published.done("status", "--json").out)
    assert state["root"] == str(published.out)
    assert state["attempts"] == []
    runs = {(run["run_id"], run["verb"]): run for run in state["runs"]}
    assert list(runs) == [("a", "evaluate"), ("a", "split"), ("b", "evaluate")]
    split = runs["a", "split"]
    assert split["rows"]["splits"] == 40
    assert (split["rows_in"], split["rows_used"], split["rows_quarantined"]) == (41, 40, 1)
    assert (split["users"], split["models"], runs["a", "evaluate"]["models"]) == (None, None, 3)
    assert all(run["seconds"] > 0 and run["published_at"].endswith("+00:00") for run in runs.values())
