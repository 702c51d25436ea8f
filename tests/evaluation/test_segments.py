"""Segments of users by their names and tables: who is in which, and what is refused."""

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from frames import assert_rows
from hypothesis import given
from hypothesis import strategies as st
from opened_tables import opened
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.accounting import Counts
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.plan import make_plan
from spark_eval.evaluation.segments import activity_bounds, check_segments
from spark_eval.evaluation.side_tables import check_train, check_users, count_users, read_train
from spark_eval.evaluation.specs import Described
from spark_eval.evaluation.tables import Tables
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import Fault, Outcome

Rows = Sequence[tuple[Any, ...]]


def activity(interactions: int, of_users: Sequence[int]) -> int:
    """A decile by its words: the tenths of the users, begun ones counted whole, with at most so many."""
    at_most = sum(number <= interactions for number in of_users)
    return next(tenths for tenths in range(1, 11) if at_most * 10 <= tenths * len(of_users))


@pytest.mark.parametrize(
    ("of_users", "deciles"),
    [
        (range(1, 11), range(1, 11)),
        (range(100, 0, -1), [*range(1, 11)] * 10),
        ([5], [10]),
        ([3, 3, 3], [10]),
        ([1, 1, 1, 1, 1, 1, 1, 1, 1, 2], [9, 10]),
        ([1, 2, 2, 2, 2, 2, 2, 2, 2, 2], [1, 10]),
        ([1, 2], [5, 10]),
        ([1, 2, 3], [4, 7, 10]),
    ],
)
def test_deciles_of_small_tables(of_users: Sequence[int], deciles: Sequence[int]) -> None:
    assert [*activity_bounds(Counter(of_users))] == sorted(set(deciles))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=50))
def test_equally_active_users_share_the_decile_of_their_rank(of_users: list[int]) -> None:
    bounds = activity_bounds(Counter(of_users))
    assert [*bounds] == sorted(bounds)
    for interactions in of_users:
        found = next(decile for decile, largest in bounds.items() if interactions <= largest)
        assert found == activity(interactions, of_users)


@pytest.mark.parametrize(
    ("names", "has", "code", "words"),
    [
        (["known"], (False, True), "MISSING_TRAIN", "segment 'known'"),
        (["activity"], (False, True), "MISSING_TRAIN", "segment 'activity'"),
        (["country"], (True, False), "MISSING_USERS", "allowed: activity, known"),
        (["knwon"], (True, False), "MISSING_USERS", "did you mean 'known'?"),
        (["country", "Country"], (True, True), "INVALID_SEGMENT", "'Country' is given twice"),
        (["known", "known"], (True, True), "INVALID_SEGMENT", "'known' is given twice"),
        *(
            ([name], (True, True), "INVALID_SEGMENT", "has a reserved name")
            for name in ("", "user", "MODEL", "n_relevant", "n_recommended", "all", "run_id")
        ),
        (["AP_at_5"], (True, True), "INVALID_SEGMENT", "has a reserved name"),
    ],
)
def test_unknown_and_clashing_segments_are_refused(
    names: list[str], has: tuple[bool, bool], code: str, words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        check_segments(names, ["ap_at_5"], *has)
    assert (raised.value.code, words in raised.value.message) == (code, True), raised.value


def test_names_that_fit() -> None:
    check_segments(["known", "activity", "country", "value", "segment"], ["ap_at_5"], True, True)
    check_segments([], [], False, False)


TRAIN = [(1, "a"), (1, "a"), (1, "b"), (2, "b"), (None, "c"), (3, None), (3, None), (None, None)]


def train_of(spark: SparkSession, rows: Rows = TRAIN, user: str = "int") -> DataFrame:
    return spark.createDataFrame(rows, f"user {user}, item string")


@pytest.mark.parametrize("is_plain", [True, False])
def test_one_pass_counts_users_items_and_rows_that_are_neither(
    spark: SparkSession, tmp_path: Path, is_plain: bool
) -> None:
    frame = train_of(spark).repartition(3)
    if is_plain:
        frame.write.parquet(str(tmp_path / "train"))
        frame = spark.read.parquet(str(tmp_path / "train"))
    truth = spark.createDataFrame([(1, "a")], "user int, item string")
    plan = make_plan(metrics=["novelty"], segments=["activity"])
    train = SparkRows(*opened(frame, "train", Described(), plan=plan))
    assert (train.files is not None) is is_plain
    found = read_train(Tables(plan, SparkRows(truth), SparkRows(truth), train))
    assert found.items is not None
    rows = sorted((row["item"], row["n_rows"], row["n_takers"]) for row in found.items.to_pylist())
    assert rows == [("a", 2, 1), ("b", 2, 2)]
    assert (found.n_items, found.n_users) == (2, {None: 2})
    assert found.bounds == {5: 1, 10: 3}
    assert [entry[2:] for entry in found.entries] == [
        ("in", None, 8, 3),
        ("used", None, 4, 2),
        ("largest", "rows=3", 0, 1),
        ("quarantined", "NULL_ID", 4, 1),
    ]


def test_a_train_table_without_a_sound_row_is_refused() -> None:
    counts = Counts(Counter({(Outcome.IN, None): 3, (Outcome.QUARANTINED, Fault.NULL_ID): 3}))
    with pytest.raises(DataError) as raised:
        check_train(counts)
    assert raised.value.code == "EMPTY_TRAIN"


PEOPLE = "user int, country string, `age band` string"


def test_users_are_counted_with_the_values_of_their_segments(spark: SparkSession) -> None:
    rows = [
        (1, "it", "a"),
        (1, "it", "b"),
        (1, "fr", "c"),
        (2, None, "d"),
        (None, "it", "e"),
        (None, "x", None),
    ]
    counted = {"rows": 6, "with_id": 4, "users": 2, "values_0": 3, "values_1": 5}
    assert (
        count_users(SparkRows(frame := spark.createDataFrame(rows, PEOPLE)), ["country", "age band"])
        == counted
    )
    assert (
        count_users(LocalTable((table := frame.toArrow()).schema, table), ["country", "age band"]) == counted
    )


def test_all_that_is_wrong_with_the_users_comes_in_one_error() -> None:
    count = {"rows": 6, "with_id": 4, "users": 2, "values_0": 1000, "values_1": 1001}
    with pytest.raises(DataError) as raised:
        check_users(count, ["country", "zip"])
    said = str(raised.value)
    assert said.startswith("error[DUPLICATE_USER] users: 2 rows are not the first of their user")
    assert "also [NULL_USER] users: 2 rows without a user" in said
    assert "also [TOO_MANY_SEGMENTS] users: segment 'zip' has 1001 values, at most 1000" in said
    assert "country" not in said
    check_users({"rows": 2, "with_id": 2, "users": 2, "values_0": 1000}, ["country"])


@pytest.mark.parametrize(
    ("users", "train", "names", "code"),
    [
        ("SELECT 1 AS user, 'it' AS country FROM range(2)", TRAIN, ["country"], "DUPLICATE_USER"),
        ("SELECT int(null) AS user, 'it' AS country", TRAIN, ["country"], "NULL_USER"),
        ("SELECT int(id) AS user, id AS zip FROM range(1001)", TRAIN, ["zip"], "TOO_MANY_SEGMENTS"),
        ("SELECT 1 AS user, 'it' AS country", TRAIN, ["contry"], "MISSING_COLUMN"),
        ("SELECT '1' AS user, 'it' AS country", TRAIN, ["country"], "ID_TYPE_MISMATCH"),
        ("SELECT 1 AS user, 'it' AS country, 1 AS known", TRAIN, ["country", "known"], "RESERVED_COLUMN"),
        (None, TRAIN, ["country"], "MISSING_USERS"),
        (None, None, ["known"], "MISSING_TRAIN"),
        (None, [(None, "a")], [], "EMPTY_TRAIN"),
    ],
)
def test_an_evaluation_refuses_them_before_it_measures_and_keeps_nothing(
    spark: SparkSession,
    persisted: list[Any],
    users: str | None,
    train: Rows | None,
    names: list[str],
    code: str,
) -> None:
    lists = spark.createDataFrame([(1, "a", 1)], "user int, item string, rank int")
    with pytest.raises((ConfigError, DataError)) as raised:
        evaluate(
            lists,
            lists.drop("rank"),
            model="als",
            users=None if users is None else spark.sql(users),
            train=None if train is None else train_of(spark, train),
            segments=names,
        )
    assert raised.value.code == code
    assert not any(rows.is_cached for rows in persisted)


def test_errors_in_users_are_raised_before_truth_is_read(spark: SparkSession) -> None:
    lists = spark.createDataFrame([(1, "a", 1)], "user int, item string, rank int")
    unread = lists.select("user", F.raise_error(F.lit("truth was read")).cast("string").alias("item"))
    with pytest.raises(DataError) as raised:
        evaluate(
            lists,
            unread,
            model="als",
            users=spark.sql("SELECT int(id) AS user, id AS zip FROM range(1001)"),
            train=spark.createDataFrame([(None, "a")], "user int, item string"),
            segments=["zip"],
        )
    assert str(raised.value).startswith("error[TOO_MANY_SEGMENTS] users: segment 'zip' has 1001 values")
    assert "also [EMPTY_TRAIN]" in str(raised.value)


def test_users_and_train_are_read_once_and_freed(
    spark: SparkSession, persisted: list[Any], tmp_path: Path
) -> None:
    lists = spark.createDataFrame(
        [("als", 1, 7, 1), ("als", 2, 8, 1)], "model string, user int, item int, rank int"
    )
    facts = {"users": "SELECT 1 AS user, 'it' AS country", "train": "SELECT 2 AS user, 7 AS item"}
    for name, query in facts.items():
        spark.sql(query).write.parquet(str(tmp_path / name))
    tables = {name: spark.read.parquet(str(tmp_path / name)) for name in facts}
    evaluation = evaluate(
        lists,
        lists.select("user", "item"),
        users=tables["users"],
        train=tables["train"],
        segments=["country", "known", "activity"],
        metrics=["rr"],
        k=1,
    )
    shutil.rmtree(tmp_path)
    schema = (
        "model string, user int, n_relevant long, n_recommended long, country string, known string, "
        "activity string, rr_at_1 double"
    )
    rows = [("als", 1, 1, 1, "it", "no_train", "no_train", 1.0), ("als", 2, 1, 1, None, "known", "10", 1.0)]
    assert_rows(evaluation.per_user, schema, rows)
    values = {(row.segment, row.segment_value, row.n_users) for row in evaluation.metrics.itertuples()}
    assert values == {
        ("all", "all", 2),
        *((name, value, 1) for name, value in (("country", "it"), ("country", "(missing)"))),
        *((name, value, 1) for name, value in (("known", "known"), ("known", "no_train"))),
        *((name, value, 1) for name, value in (("activity", "10"), ("activity", "no_train"))),
    }
    assert [rows.is_cached for rows in persisted] == [True] * 2
    evaluation.unpersist()
    assert not any(rows.is_cached for rows in persisted)
