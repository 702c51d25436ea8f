"""Segments of items over days: windows and histories read their rows by user."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from request_lists import drawn
from tests.monitoring.test_window_of_requests import DAYS, ENDS, publish

from spark_eval import evaluate, history, window

ITEMS = pd.DataFrame({"item": range(40), "genre": [["x", "y|z", "x|z", None][n % 4] for n in range(40)]})
ASKED: dict[str, Any] = {
    "metrics": ["ndcg", "fcp", "catalog_coverage"],
    "k": [3, 8],
    "item_segments": ["genre"],
}


@pytest.mark.parametrize(("weight", "by_fold"), [("requests", True), ("users", False)])
def test_a_window_of_lists_by_request_is_one_evaluation(weight: str, by_fold: bool, tmp_path: Path) -> None:
    whole: dict[str, Any] = drawn(by_fold=by_fold)
    requests = sorted({*whole["recommendations"]["request"], *whole["truth"]["request"]})
    asked = ASKED | {"weight": weight}
    for number, run_id in enumerate(DAYS):
        of_day = {
            name: frame[frame["request"].map(requests.index) % 3 == number] for name, frame in whole.items()
        }
        train = whole["truth"].drop(columns="request")
        publish(tmp_path, run_id, of_day | {"train": train, "items": ITEMS}, asked)
    merged = window(str(tmp_path / "out"), **ENDS)
    one_job = evaluate(**whole, items=ITEMS, engine="local", **{**asked, "metrics": ["ndcg", "fcp"]})
    assert "item:genre" in {row.segment for row in merged.sum_rows}
    assert merged.sum_rows == one_job.sum_rows
    assert [row for row in one_job.metric_rows if row.segment != "folds"] == merged.metric_rows


def test_days_of_other_users_are_one_evaluation(tmp_path: Path) -> None:
    whole = tables()
    for number, run_id in enumerate(DAYS):
        of_day = {name: frame[frame["user"] % 3 == number] for name, frame in whole.items()}
        publish(tmp_path, run_id, of_day | {"train": whole["truth"], "items": ITEMS}, ASKED)
    merged = window(str(tmp_path / "out"), **ENDS)
    one_job = evaluate(**whole, items=ITEMS, engine="local", **{**ASKED, "metrics": ["ndcg", "fcp"]})
    assert merged.sum_rows == one_job.sum_rows
    pairs = list(zip(merged.metric_rows, one_job.metric_rows, strict=True))
    assert {row.segment for row, _ in pairs} == {"all", "item:genre"}
    for row, other in pairs:
        assert (row[:6], row.n_users) == (other[:6], other.n_users)
        both = [one.std_error for one in (row, other) if one.std_error is not None]
        assert len(both) != 1
        assert not both or math.isclose(*both, rel_tol=1e-12)
    lines = [
        row
        for row in history(str(tmp_path / "out"), segments=["item:genre"]).rows
        if row.segment == "item:genre"
    ]
    assert {row.segment_value for row in lines} == {"x", "y", "z", "(missing)"}
    later = [row for row in lines if row.before is not None and row.metric == "ndcg"]
    assert later
    assert all(row.difference is not None and row.difference_low is not None for row in later)


def tables() -> dict[str, Any]:
    """Return lists and truth of users who have one list each."""
    drawn_tables = drawn(by_fold=False)
    first = drawn_tables["truth"].drop_duplicates("user")[["user", "request"]]
    return {
        name: frame.merge(first, on=["user", "request"]).drop(columns="request")
        for name, frame in drawn_tables.items()
    }
