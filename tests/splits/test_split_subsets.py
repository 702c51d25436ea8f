"""The subsets of a split in Python: by their names, and counted."""

from typing import Any

import pytest
from fold_logs import SECONDS_PER_DAY, random_rows, rows_of, split_rows
from pyspark.sql import SparkSession

from spark_eval.errors import ConfigError
from spark_eval.schema import SUBSETS

ROWS = [*random_rows(120, n_users=15), ("newcomer", 99, 50 * SECONDS_PER_DAY, None, 120)]
DAILY: list[tuple[Any, ...]] = [("a", day % 4, day * SECONDS_PER_DAY, None, day) for day in range(20)]
METHODS: dict[str, dict[str, Any]] = {
    "global_local_ranker": {},
    "time": {"validation_cut": 0.6},
    "holdout": {"by": "user"},
    "rolling": {"n_folds": 2},
}


@pytest.mark.parametrize("method", METHODS)
def test_users_and_items_of_subsets_are_those_of_their_rows(method: str) -> None:
    done = split_rows(None, ROWS, method, **METHODS[method])
    rows = [(row["fold"], row["subset"], row["user"], row["item"]) for row in rows_of(done.rows)]
    for found in done.to_arrow("subsets").to_pylist():
        here = [row for row in rows if row[0] == found["fold"] and row[1] in SUBSETS[found["subset"]]]
        assert found["rows"] == len(here)
        assert found["users"] == len({row[2] for row in here})
        assert found["items"] == len({row[3] for row in here})
        if (trained_on := found["trained_on"]) is not None:
            learnt = [row for row in rows if row[0] == found["fold"] and row[1] in SUBSETS[trained_on]]
            assert found["cold_users"] == len({row[2] for row in here} - {row[2] for row in learnt})
            assert found["cold_items"] == len({row[3] for row in here} - {row[3] for row in learnt})
    assert {(row.fold, row.subset) for row in done.subsets.itertuples()} >= {row[:2] for row in rows}


def days(frame: Any) -> list[int]:
    return sorted(row["row"] for row in rows_of(frame))


def test_train_and_test_by_time_stand_by_their_names(session: SparkSession | None) -> None:
    done = split_rows(session, DAILY, "time", test_cut=0.8)
    assert (days(done.train), days(done.test)) == (list(range(16)), list(range(16, 20)))
    with pytest.raises(ConfigError, match=r"unknown subset 'validation' in time; .*train on train for test"):
        _ = done.validation
    three = split_rows(
        session, DAILY, "time", validation_cut="10d", test_cut="1970-01-16", gap_days=1, test_days=2
    )
    assert [days(part) for part in (three.train, three.validation, three.test)] == [
        list(range(8)),
        list(range(9, 14)),
        [15, 16],
    ]
    assert not three.leakage["leaked"].any()
    dropped = {row.reason: row.rows for row in three.accounting.itertuples() if row.outcome == "dropped"}
    assert dropped == {"gap": 2, "after_end": 3}


def test_train_of_a_ranker_is_all_before_its_last_test() -> None:
    done = split_rows(None, DAILY, "global_local_ranker")
    assert days(done.train) == days(done.subset("global_train")) == list(range(18))
    assert days(done.test) == [18, 19]
    with pytest.raises(ConfigError, match=r"train on global_train for global_test; train on local_train for"):
        done.subset("train")


@pytest.mark.parametrize("name", ["train", "test"])
def test_of_several_folds_one_must_be_asked_for(name: str) -> None:
    done = split_rows(None, DAILY, "k_fold", k=2)
    with pytest.raises(ConfigError, match=rf"{name} of 2 folds; ask for one: subset\('{name}', fold=0\)"):
        getattr(done, name)
