"""``compare`` over the folds of a run's own split: how much their trains overlap is read from its record."""

from math import sqrt
from statistics import stdev
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import LISTS, Desk

pytestmark = pytest.mark.usefixtures("engine_of_users")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "ratio"),
    [
        ({"method": "k_fold", "k": 3, "by": "row", "exact": True}, 1 / 2),
        # Two days of four users after three days, twice.
        ({"method": "rolling", "n_folds": 2, "test_days": 2, "train_days": 3}, 8 / 12),
    ],
)
def test_a_split_reports_how_much_trains_overlap(desk: Desk, rule: dict[str, Any], ratio: float) -> None:
    desk.tree["split"] = rule
    n_folds = rule.get("k") or rule["n_folds"]
    lists = pd.concat([LISTS.assign(fold=n) for n in range(n_folds)])
    lists["score"] = np.random.default_rng(3).random(len(lists))
    desk.write("lists", lists)
    desk.change("truth", subset="test")
    desk.change("compare", metrics=["recall@5"], models=["best", "late"])
    desk.done("split", "--run-id", "a")
    desk.done("evaluate", "--run-id", "a")
    desk.done("compare", "--run-id", "a", "--set", "compare.segments=fold")
    rows = desk.table("comparisons").to_dict("records")
    of_folds = [row["difference"] for row in rows if row["segment"] == "fold"]
    [over] = [row for row in rows if row["segment"] == "folds"]
    assert len(of_folds) == n_folds
    assert over["std_error"] == pytest.approx(sqrt(1 / n_folds + ratio) * stdev(of_folds), rel=1e-9)
    elsewhere = str(desk.out / "splits" / "run_id=a")
    desk.change("truth", path=elsewhere)
    desk.done("evaluate", "--run-id", "b")
    told = desk.done("compare", "--run-id", "b")
    assert "the row over folds is left out: compare.test_train_ratio" in told.out
    of_other_truth = desk.table("comparisons").query("run_id == 'b'")
    assert set(of_other_truth["segment"]) == {"all"}
    told = desk.done("compare", "--run-id", "b", "--set", "compare.test_train_ratio=0.5", "--replace")
    assert "left out" not in told.out
    assert set(desk.table("comparisons").query("run_id == 'b'")["segment"]) == {"all", "folds"}
