"""Targets of a test by time, against loops over the rows of each user."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fold_logs import SECONDS_PER_DAY, leaks, ledger, log_of, places, random_rows, split_log, split_rows
from pyspark.sql import SparkSession

from spark_eval import evaluate
from spark_eval.arrow.xxhash64 import id_hashes, word_hashes
from spark_eval.errors import ConfigError, DataError
from spark_eval.schema import Subset
from spark_eval.splits.rules.fold_rule import Targets
from spark_eval.splits.rules.methods import rule_of
from spark_eval.splits.split import split
from spark_eval.splits.worker.targets import MOMENT, TargetChooser

# The draw of a user's moment, in microseconds, under a seed.
Draw = Callable[[str, int, int], int]


def draw(user: str, moment: int, seed: int) -> int:
    """Return the draw of one moment."""
    of_user = id_hashes(pa.array([user]), np.int64(seed))
    return int(word_hashes(np.array([moment], dtype=np.int64), of_user).view(np.int64)[0])


def target(moments: set[int], user: str, targets: str, seed: int) -> int:
    """Return the moment of a user that the choice names."""
    if targets == "random":
        return min(moments, key=lambda moment: draw(user, moment, seed))
    return min(moments) if targets == "first" else max(moments)


def expected(
    by_time: Mapping[int, Mapping[int, str]], rows: list[tuple[Any, ...]], test: str, targets: str, seed: int
) -> dict[int, dict[int, str]]:
    """Return the subset of each row in each fold, from those of the same split without targets."""
    of_row = {row: (user, at * 1_000_000) for user, _, at, _, row in rows}
    moments: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row, folds in by_time.items():
        for fold, part in folds.items():
            if part == test:
                moments[of_row[row][0], fold].add(of_row[row][1])
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for row, folds in by_time.items():
        user, at = of_row[row]
        for fold, part in folds.items():
            aim = target(moments[user, fold], user, targets, seed) if part == test else at
            if at <= aim:
                found[row][fold] = part if at == aim else "input"
    return dict(found)


METHODS: dict[str, dict[str, Any]] = {
    "time": {"test_cut": 0.5, "validation_cut": 0.3},
    "expanding": {"n_folds": 3, "test_days": 8},
    "global_local_ranker": {"local_cut": 0.3, "global_cut": 0.5},
}
# Each method with one choice in the slow ring, and one of them by default; the other pairs repeat them.
MARKS = {
    ("time", "random"): [],
    ("expanding", "last"): [pytest.mark.slow],
    ("global_local_ranker", "first"): [pytest.mark.slow],
}


@pytest.mark.parametrize(
    ("method", "targets"),
    [
        pytest.param(method, targets, marks=MARKS.get((method, targets), pytest.mark.exhaustive))
        for method in METHODS
        for targets in ("first", "last", "random")
    ],
)
def test_one_moment_of_each_user_is_the_target_and_earlier_rows_are_input(
    spark: SparkSession, method: str, targets: str
) -> None:
    rows = random_rows(120, n_users=5)
    test = rule_of(method, {}).final_test
    options = {**METHODS[method], "seed": 4}
    by_time = places(split_rows(spark, rows, method, **options))
    chosen: dict[str, Any] = {**options, "targets": targets}
    done = split_rows(spark, rows, method, **chosen)
    found = places(done)
    assert found == expected(by_time, rows, test, targets, seed=4)
    assert any("input" in folds.values() for folds in found.values()) == (targets != "first")
    n_dropped = len(by_time) - len(found)
    assert ledger(done).get(("interactions", "dropped", "after_target"), (0, None))[0] == n_dropped
    assert not any(leaked for _, _, leaked in leaks(done).values())
    if targets != "first":
        assert leaks(done)[0, "targets_at_or_before_input"] == (0, 0, False)
    spread = split_log(log_of(spark, rows[::-1], 5), method, **chosen)
    assert places(spread) == found


def test_other_moments_are_drawn_under_another_seed() -> None:
    rows = pa.record_batch(
        {"user": ["a"] * 9, "fold": pa.array([0] * 9, pa.int32()), MOMENT: pa.array(range(9), pa.int64())}
    )
    drawn = {
        next(TargetChooser(Targets.RANDOM, seed).choose([rows]))[MOMENT][0].as_py() for seed in range(60)
    }
    assert drawn == set(range(9))


@pytest.mark.parametrize("targets", [Targets.FIRST, Targets.LAST, Targets.RANDOM])
def test_a_choice_among_choices_is_the_choice_of_the_whole(
    targets: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, chooser = Random(3), TargetChooser(targets, 7)
    frame = pd.DataFrame(
        {
            "user": [f"u{random.randrange(6)}" for _ in range(300)],
            "fold": np.array([random.randrange(2) for _ in range(300)], dtype=np.int32),
            MOMENT: [random.randrange(40) for _ in range(300)],
        }
    )
    batches = pa.Table.from_pandas(frame).to_batches(max_chunksize=29)
    whole = pa.Table.from_batches(chooser.choose(batches)).to_pandas()
    slow = {
        key: target(set(of_key), str(key[0]), targets, 7)
        for key, of_key in frame.groupby(["user", "fold"])[MOMENT]
    }
    assert dict(zip(zip(whole["user"], whole["fold"], strict=True), whole[MOMENT], strict=True)) == slow
    monkeypatch.setattr("spark_eval.splits.worker.targets.ROWS_AT_ONCE", 50)
    parts = [batch for start in (0, 4) for batch in chooser.choose(batches[start::7])]
    rest = [batch for start in (1, 2, 3, 5, 6) for batch in chooser.choose(batches[start::7])]
    again = pa.Table.from_batches(chooser.choose([*parts, *rest])).to_pandas()
    assert set(again.itertuples(index=False)) == set(whole.itertuples(index=False))


def test_each_moment_of_test_is_a_request_with_all_earlier_rows_as_input(spark: SparkSession) -> None:
    day = SECONDS_PER_DAY
    rows = [
        ("ann", 1, 1 * day, None, 0),
        ("bob", 1, 2 * day, None, 1),
        ("ann", 2, 10 * day, None, 2),
        ("ann", 3, 11 * day, None, 3),
        ("ann", 4, 11 * day, None, 4),
        ("bob", 2, 12 * day, None, 5),
    ]
    done = split_rows(spark, rows, "time", test_cut="1970-01-09", targets="successive")
    found = done.rows.toPandas()
    assert set(found["subset"]) == {"train", "test"}
    assert found.loc[found["subset"] == "train", "request"].isna().all()
    test = done.test.toPandas()
    asked = test[["user", "request"]].drop_duplicates().astype({"request": int})
    assert sorted(asked["request"] // (day * 10**6)) == [10, 11, 12]
    # A model that recommends what a user has next in the log, from what is earlier than the request.
    moments = test["timestamp"].dt.as_unit("us").astype("int64")
    assert (moments == test["request"]).all()
    lists = asked.assign(item=[2, 3, 1], rank=1, model="next")
    result = evaluate(
        lists, test[["user", "request", "item"]].astype({"request": int}), metrics=["mrr"], k=[1]
    )
    [row] = result.to_pandas("metrics").itertuples()
    assert (row.n_users, row.n_requests) == (2, 3)
    assert row.value == pytest.approx(2 / 3)
    assert "requests: weight=requests, truth=requests" in str(row.conventions)


def test_a_log_with_a_column_of_requests_is_refused_where_the_split_makes_them(spark: SparkSession) -> None:
    log = log_of(spark, random_rows(20)).withColumnRenamed("genre", "request")
    assert "request" in split(log, method="time", timestamp_unit="s").rows.columns
    with pytest.raises(DataError) as refused:
        split(log, method="time", timestamp_unit="s", targets="successive")
    assert refused.value.code == "RESERVED_COLUMN"


def test_policies_drop_targets_and_leave_the_input(spark: SparkSession) -> None:
    day = SECONDS_PER_DAY
    rows = [
        ("ann", 1, 1 * day, None, 0),
        ("ann", 2, 10 * day, None, 1),  # input, with a cold item
        ("ann", 2, 11 * day, None, 2),  # the target repeats it
        ("bob", 2, 2 * day, None, 3),
        ("bob", 1, 10 * day, None, 4),
    ]
    done = split_rows(spark, rows, "time", test_cut="1970-01-09", targets="last", seen="drop")
    assert {row: parts[0] for row, parts in places(done).items()} == {
        0: "train", 1: "input", 3: "train", 4: "test"
    }  # fmt: skip
    assert ledger(done)["interactions", "dropped", "seen"] == (1, None)
    cold = split_rows(
        spark, rows[:3] + rows[4:], "time", test_cut="1970-01-09", targets="last", cold_items="drop"
    )
    assert places(cold)[1] == {0: "input"}


@pytest.mark.parametrize("method", ["holdout", "leave_one_out"])
def test_targets_are_an_option_of_splits_by_time(method: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rule_of(method, {"targets": "last"})
    assert refused.value.code == "UNKNOWN_CONFIG_KEY"
    with pytest.raises(ConfigError, match="allowed: all, first, last, random, successive"):
        rule_of("time", {"targets": "next"})
    assert rule_of("time", {"targets": "last"}).subsets == (Subset.TRAIN, Subset.INPUT, Subset.TEST)
