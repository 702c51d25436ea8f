"""Rows in memory are aligned as a whole and divided: the bits and errors are those of an exchange by user."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from tests.comparison.test_compare_engines import ASKED, found, users_of

from spark_eval.runners import user_buckets

Rows = pd.DataFrame


def same_users(rows: Rows) -> Rows:
    """Rows of the users of both models, in one order that is not sorted, and model after model."""
    both = rows.groupby("user").filter(lambda own: own["model"].nunique() == 2)
    return both.sort_values(
        ["model", "user"], key=lambda column: column if column.name == "model" else -column
    )


LAYOUTS: Final[Mapping[str, Callable[[Rows], Rows]]] = {
    "in no order": lambda rows: rows,
    "same users in one order": same_users,
    "sorted": lambda rows: rows.sort_values(["model", "user"]),
    "users of one model are among the other's": lambda rows: rows[
        (rows["model"] == "als") | (rows["user"] < 9)
    ],
    "text ids": lambda rows: rows.assign(user="u" + rows["user"].astype(str)),
    "text ids in one order": lambda rows: same_users(rows).assign(
        user=lambda own: "ü" + own["user"].astype(str)
    ),
    "narrow types": lambda rows: rows.astype({"user": "int16", "ndcg_at_5": "float32"}),
}


def both_ways(monkeypatch: pytest.MonkeyPatch, *sides: Any, **options: Any) -> tuple[Any, Any]:
    """What is found of rows in memory, a few users at once, and after an exchange."""
    with monkeypatch.context() as patch:
        patch.setattr(user_buckets, "USERS_AT_ONCE", 7)
        patch.setattr(user_buckets, "buckets_of_frames", None)  # nothing is exchanged
        in_memory = found("local", *sides, **options)
    with monkeypatch.context() as patch:
        patch.setattr(user_buckets, "rows_here", lambda *_: None)
        patch.setattr(user_buckets, "buckets_of_rows", None)
        return in_memory, found("local", *sides, **options)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_are_those_of_an_exchange(monkeypatch: pytest.MonkeyPatch, layout: str, asked: str) -> None:
    rows = LAYOUTS[layout](users_of("als", "knn"))
    in_memory, exchanged = both_ways(monkeypatch, rows, baseline_model="als", **ASKED[asked])
    assert isinstance(in_memory, dict), in_memory
    assert in_memory == exchanged
    assert in_memory["comparisons"]


@pytest.mark.parametrize("asked", ASKED)
def test_so_they_are_for_several_models_of_two_tables(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    sides = users_of("als", "knn"), users_of("als", "knn", "old", seed=6)
    in_memory, exchanged = both_ways(monkeypatch, *sides, **ASKED[asked])
    assert isinstance(in_memory, dict), in_memory
    assert in_memory == exchanged
    assert len(in_memory["pairs"]) == 2


# Rows of two models that are refused.
REFUSED: Final[Mapping[str, tuple[str, Callable[[Rows], Rows]]]] = {
    "user twice": ("DUPLICATE_USER", lambda rows: pd.concat([rows, rows[-1:]])),
    "user twice in both models": ("DUPLICATE_USER", lambda rows: pd.concat([rows, rows[rows["user"] == 3]])),
    "no user": ("NULL_ID", lambda rows: rows.assign(user=rows["user"].astype("Int64").replace(3, pd.NA))),
    "infinite": ("METRIC_OVERFLOW", lambda rows: rows.assign(ndcg_at_5=rows["ndcg_at_5"].replace(0, np.inf))),
    "both infinities": (
        "METRIC_OVERFLOW",
        lambda rows: rows.assign(ap_at_5=[np.inf, -np.inf] * (len(rows) // 2)),
    ),
    "nobody in common": (
        "NO_COMMON_USERS",
        lambda rows: rows.assign(user=np.where(rows["model"] == "als", rows["user"], rows["user"] + 1000)),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_those_of_an_exchange(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    code, spoilt = REFUSED[name]
    in_memory, exchanged = both_ways(monkeypatch, spoilt(same_users(users_of("als", "knn"))))
    assert isinstance(in_memory, str)
    assert f"[{code}]" in in_memory or in_memory.startswith(code), in_memory
    assert in_memory == exchanged


def test_files_beyond_the_limit_of_memory_are_exchanged(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = users_of("als", "knn")
    for model, own in rows.groupby("model"):
        (tmp_path / f"model={model}").mkdir()
        own.drop(columns="model").to_parquet(tmp_path / f"model={model}" / "users.parquet")
    in_memory, exchanged = both_ways(monkeypatch, str(tmp_path))
    assert isinstance(in_memory, dict), in_memory
    n_bytes = 8 * len(rows) * len(["model", "user", "ndcg_at_5", "ap_at_5"])
    for limit, not_used in ((n_bytes, "buckets_of_frames"), (n_bytes - 1, "buckets_of_rows")):
        with monkeypatch.context() as patch:
            patch.setattr(user_buckets, "MOST_IN_MEMORY", limit)
            patch.setattr(user_buckets, not_used, None)
            assert found("local", str(tmp_path)) == in_memory == exchanged
