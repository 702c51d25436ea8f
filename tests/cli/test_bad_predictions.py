"""Bad rows of predictions through the command line: a named error or a counted line, and nothing lost."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Desk

pytestmark = pytest.mark.usefixtures("each_engine")

N_ROWS: Final = 40
OPTIONS: Final[dict[str, Any]] = {
    "task": "binary",
    "metrics": ["auc", "log_loss"],
    "intervals": "user",
    "max_quarantined": 1.0,
}
Spoiler = Callable[[pd.DataFrame], pd.DataFrame]


def clicks() -> pd.DataFrame:
    random = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "user": pd.array(random.integers(0, 8, N_ROWS), dtype="Int64"),
            "label": pd.array(np.arange(N_ROWS) % 2, dtype="Int64"),
            "score": random.random(N_ROWS).round(2),
            "model": "ctr",
        }
    )


def first_two(column: str, value: Any) -> Spoiler:
    """A table whose first two rows have this value."""
    return lambda rows: rows.assign(**{column: rows[column].where(rows.index > 1, value)})


# What spoils rows, options, and the code that two rows are quarantined by; None: all rows are used.
COUNTED: Final[Mapping[str, tuple[Spoiler, dict[str, Any], str | None]]] = {
    "label of no class": (first_two("label", 2), {}, "UNKNOWN_CLASS"),
    "no label": (first_two("label", None), {}, "NULL_LABEL"),
    "no score": (first_two("score", np.nan), {}, "NULL_SCORE"),
    "infinite score": (first_two("score", np.inf), {}, "SCORE_NOT_FINITE"),
    "score above 1": (first_two("score", 1.5), {}, "NOT_A_PROBABILITY"),
    "score below 0": (first_two("score", -0.1), {}, "NOT_A_PROBABILITY"),
    "raw score": (first_two("score", -7.5), {"scores": "raw", "metrics": ["auc"]}, None),
    "no user": (first_two("user", None), {}, "NULL_ID"),
    "no user of rows": (first_two("user", None), {"intervals": "row"}, None),
    "one class": (lambda rows: rows.assign(label=1), {}, None),
    "one user": (lambda rows: rows.assign(user=1), {}, None),
}


@pytest.mark.parametrize("name", COUNTED)
def test_rows_are_quarantined_by_name_or_used(new_desk: type[Desk], tmp_path: Path, name: str) -> None:
    spoil, options, code = COUNTED[name]
    desk, rows = new_desk(tmp_path), spoil(clicks())
    section = OPTIONS | options | {"path": str(desk.write("clicks", rows))}
    desk.tree = {"output": {"path": str(desk.out)}, "predictions": section}
    desk.run("predictions", "--run-id", "r")
    lines = {(row.outcome, row.reason or None): row.rows for row in desk.table("accounting").itertuples()}
    n_bad = 2 if code else 0
    expected = {("in", None): N_ROWS, ("used", None): N_ROWS - n_bad}
    assert lines == expected | ({("quarantined", code): n_bad} if code else {})
    metrics = desk.table("metrics").set_index("metric")
    assert set(metrics["n_rows"]) == {N_ROWS - n_bad}
    assert np.isnan(metrics["value"]["auc"]) == (name == "one class")
    assert np.isnan(metrics["std_error"]["auc"]) == (name in {"one class", "one user"})
    if section["intervals"] == "user":
        assert desk.table("per_user")["rows"].sum() == N_ROWS - n_bad


REFUSED: Final[Mapping[str, tuple[Spoiler, str]]] = {
    "no user at all": (lambda rows: rows.assign(user=pd.array([None] * N_ROWS, dtype="Int64")), r"NULL_ID"),
    "no column of users": (lambda rows: rows.drop(columns="user"), r"error\[MISSING_COLUMN\].*'user'"),
    "no rows": (lambda rows: rows[:0].astype({"model": "string"}), r"error\[EMPTY_PREDICTIONS\]"),
    "no model in a row": (first_two("model", None), r"error\[NULL_MODEL\] predictions: 2 rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_measured_is_refused(new_desk: type[Desk], tmp_path: Path, name: str) -> None:
    spoil, said = REFUSED[name]
    desk = new_desk(tmp_path)
    section = OPTIONS | {"path": str(desk.write("clicks", spoil(clicks())))}
    desk.tree = {"output": {"path": str(desk.out)}, "predictions": section}
    code, _, err = desk.refused("predictions", "--run-id", "r")
    assert code == 3
    assert re.search(said, err), err


def test_rows_that_are_there_twice_count_twice(new_desk: type[Desk], tmp_path: Path) -> None:
    desk, rows = new_desk(tmp_path), clicks()
    section = OPTIONS | {"path": str(desk.write("clicks", pd.concat([rows, rows[:10]])))}
    desk.tree = {"output": {"path": str(desk.out)}, "predictions": section}
    desk.done("predictions", "--run-id", "r")
    assert set(desk.table("accounting")["rows"]) == {N_ROWS + 10}
    assert desk.table("per_user")["rows"].sum() == N_ROWS + 10
