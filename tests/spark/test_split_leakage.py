"""The leakage report finds what is planted, and only that."""

import pytest
from pyspark.sql import SparkSession
from split_logs import at, day, leaks, plan_of

from spark_eval.splits.leakage import leakage

SPLIT_ROWS = "user int, item int, timestamp timestamp, subset string"


def test_the_leakage_report_finds_what_was_planted(spark: SparkSession) -> None:
    rows = [
        (1, 1, at(day(10)), "local_train"),
        (2, 2, at(day(5)), "local_train"),
        # at and before the end of local_train
        (1, 3, at(day(10)), "ranker_train"),
        (2, 3, at(day(9)), "ranker_test"),
        (2, 4, at(day(9)), "ranker_test"),
        # user 5 in both parts, with three rows
        (5, 1, at(day(11)), "ranker_train"),
        (5, 2, at(day(11)), "ranker_test"),
        (5, 3, at(day(12)), "ranker_test"),
        # met in local_train before, twice
        (1, 1, at(day(11)), "ranker_train"),
        (1, 1, at(day(12)), "ranker_train"),
        # at the end of global_train; met in local_test
        (5, 3, at(day(12)), "global_test"),
        # met in local_train
        (2, 2, at(day(13)), "global_test"),
        (9, 9, at(day(13)), "global_test"),
    ]
    assert leaks(leakage(spark.createDataFrame(rows, SPLIT_ROWS))) == {
        "ranker_at_or_before_local_train": (3, 2, True),
        "global_test_at_or_before_global_train": (1, 1, True),
        "users_in_both_ranker_parts": (3, 1, True),
        "pairs_in_train_and_local_test": (2, 1, False),
        "pairs_in_train_and_global_test": (2, 2, False),
    }


def test_an_empty_split_leaks_nothing(spark: SparkSession) -> None:
    found = leaks(leakage(spark.createDataFrame([], SPLIT_ROWS)))
    assert len(found) == 5
    assert set(found.values()) == {(0, 0, False)}


def test_the_leakage_report_moves_the_log_once(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(leakage(spark.createDataFrame([], SPLIT_ROWS)), capsys)
    assert plan.count("Exchange hashpartitioning") == 1
