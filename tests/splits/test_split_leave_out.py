"""Rows held out of every user, and all choices of rows."""

from itertools import combinations
from typing import Any

import pytest
from fold_logs import in_part, leaks, ledger, log_of, places, random_rows, split_log, split_rows
from pyspark.sql import SparkSession

from spark_eval.errors import DataError

# user a has four rows, two of them at one time; b two at one time; c one.
ROWS: list[tuple[Any, ...]] = [
    ("a", 1, 10, None, 0),
    ("a", 2, 20, None, 1),
    ("a", 3, 30, None, 2),
    ("a", 4, 30, None, 3),
    ("b", 1, 50, None, 4),
    ("b", 2, 50, None, 5),
    ("c", 1, 60, None, 6),
    ("c", 1, None, None, 7),
    (None, 1, 60, None, 8),
]


def left_out(spark: SparkSession, method: str, rows: Any = ROWS, **options: Any) -> set[int]:
    """The rows held out; all other sound ones are train."""
    return in_part(places(split_rows(spark, rows, method, **options)), 0, "test")


def test_the_last_p_rows_of_each_user_who_has_more(spark: SparkSession) -> None:
    one = left_out(spark, "leave_one_out")
    assert len(one & {2, 3}) == len(one & {4, 5}) == 1
    assert len(one) == 2
    assert left_out(spark, "leave_p_out", p=2) == {2, 3}
    # All rows at the moment of the cut; of b none would be left to learn from.
    assert left_out(spark, "leave_one_out", ties="together") == {2, 3}
    assert left_out(spark, "leave_p_out", p=3, ties="together") == {1, 2, 3}


def test_the_last_share_of_each_users_rows_is_rounded_down(spark: SparkSession) -> None:
    rows = [
        (user, 1, moment, None, 100 * place + moment)
        for place, user in enumerate("abc", 1)
        for moment in range({"a": 10, "b": 9, "c": 3}[user])
    ]
    assert left_out(spark, "last_fraction", rows, test_share=0.3) == {107, 108, 109, 207, 208}
    assert len(left_out(spark, "last_fraction", rows, test_share=0.3, choose="hash")) == 5


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("leave_p_out", {"p": 3}),
        pytest.param("leave_p_out", {"p": 2, "choose": "hash"}, marks=pytest.mark.exhaustive),
        pytest.param("last_fraction", {}, marks=pytest.mark.exhaustive),
    ],
)
def test_the_same_rows_are_left_out_whatever_the_partitions(
    spark: SparkSession, method: str, options: dict[str, Any]
) -> None:
    rows = random_rows(80, n_days=5)
    found = places(split_rows(spark, rows, method, **options))
    assert set(found) == set(range(80))
    spread = split_log(log_of(spark, rows[::-1], 5), method, **options)
    assert places(spread) == found


def test_what_is_left_out_is_counted_and_compared(spark: SparkSession) -> None:
    done = split_rows(spark, ROWS, "leave_one_out")
    lines = ledger(done)
    assert lines == {
        ("interactions", "in", None): (9, None),
        ("interactions", "used", None): (7, None),
        ("interactions", "quarantined", "NULL_ID"): (1, None),
        ("interactions", "quarantined", "NULL_TIMESTAMP"): (1, None),
        ("folds", "in", None): (7, None),
        ("folds", "used", "fold 0 train"): (5, 3),
        ("folds", "used", "fold 0 test"): (2, 2),
    }
    # Both rows of test share their moment with a row of train of the same user, and lie before c's.
    assert leaks(done) == {
        (0, "test_at_or_before_users_train"): (2, 2, False),
        (0, "test_at_or_before_train"): (2, 2, False),
        (0, "pairs_in_train_and_test"): (0, 0, False),
    }
    together = split_rows(spark, ROWS, "leave_one_out", ties="together")
    assert leaks(together)[0, "test_at_or_before_users_train"] == (0, 0, False)


def test_all_choices_of_p_rows_are_a_fold_each(spark: SparkSession) -> None:
    found = places(split_rows(spark, ROWS[:5], "leave_p_out", p=2, exhaustive=True))
    folds = [frozenset(in_part(found, fold, "test")) for fold in range(10)]
    assert set(folds) == {frozenset(pair) for pair in combinations(range(5), 2)}
    assert all(len(parts) == 10 for parts in found.values())
    with pytest.raises(DataError, match=r"of p 3 of 80 rows are 82,160 folds, more than 1,000") as refused:
        split_rows(spark, random_rows(80), "leave_p_out", p=3, exhaustive=True)
    assert refused.value.code == "TOO_MANY_FOLDS"
