"""Validation over folds, from end to end: the page of the documents, and the verbs."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

PAGE = (Path(__file__).parents[2] / "docs" / "validation.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_page_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    # A verb that ran in this process before has given the logger a handler.
    caplog.set_level(logging.WARNING, "spark_eval")
    exec("\n".join(blocks("python")), {})
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == "".join(blocks("text")).splitlines()


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
