"""Validation over folds, from end to end, by the verbs; tests/pages does what docs/validation.md says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


@pytest.mark.slow
def test_the_verbs_measure_a_back_test(desk: Desk) -> None:
    # Each fold tests a day: the lists of fold 0 hold its items, the others none of theirs.
    rows = [
        ("m", user, 10 * 8 + user if fold == 0 else 7, 1.0, fold) for user in range(1, 5) for fold in range(3)
    ]
    lists = pd.DataFrame(rows, columns=["model", "user", "item", "score", "fold"])
    desk.change("recommendations", path=str(desk.write("by_fold", lists)))
    desk.change("evaluate", k=1, metrics=["recall"])
    desk.tree["split"] = {"method": "expanding", "n_folds": 3, "test_days": 1, "end": "1970-01-12"}

    desk.done("split", "--run-id", "r")
    answer = desk.done("evaluate", "--run-id", "r")

    assert "0.3333 ± 0.5774" in answer.out
    found = desk.table("metrics")
    values = dict(
        zip(zip(found["segment"], found["segment_value"], strict=True), found["value"], strict=True)
    )
    assert values == {
        ("all", "all"): pytest.approx(1 / 3),
        **{("fold", str(fold)): float(fold == 0) for fold in range(3)},
        ("folds", "mean"): pytest.approx(1 / 3),
        ("folds", "sd"): pytest.approx((1 / 3) ** 0.5),
    }

    # One fold by itself, of which the lists need not tell.
    first = lists[lists["fold"] == 0].drop(columns="fold")
    desk.change("recommendations", path=str(desk.write("of_one", first)))
    assert desk.refused("evaluate", "--run-id", "r", "--replace")[:2] == (3, "FOLDS_DIFFER")
    desk.change("truth", subset="test", fold=0)
    desk.done("evaluate", "--run-id", "r", "--replace")
    assert desk.metric("recall", 1) == {"m": 1.0}
