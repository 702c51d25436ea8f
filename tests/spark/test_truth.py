"""The truth: distinct relevant items, why the other rows are none, and one small row per user."""

from datetime import UTC, datetime
from typing import Any

import pytest
from frames import assert_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.conventions import Conventions, TruthDuplicates
from spark_eval.presets import parse_conventions
from spark_eval.transforms.truth import distinct_truth, per_user_truth, relevant

TRUTH = "user int, item int, relevance double, timestamp timestamp, fault string"
DISTINCT = "user int, item int, fault string, relevance double, n_rows long"
PER_USER = "user int, n_relevant long, grades array<double>, grade_counts array<long>"


def truth_of(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    """Rows of user, item, relevance, and if need be a time in seconds and a fault."""
    full = [(*row, None, None)[:5] for row in rows]
    moments = [None if row[3] is None else datetime.fromtimestamp(row[3], UTC) for row in full]
    rows_in_time = [(*row[:3], moment, row[4]) for row, moment in zip(full, moments, strict=True)]
    return spark.createDataFrame(rows_in_time, TRUTH)


def test_rows_below_the_threshold_or_worth_nothing_say_so(spark: SparkSession) -> None:
    truth = truth_of(
        spark,
        (1, 10, 4.0),
        (1, 11, 3.9),
        (1, 12, 0.0),
        (1, 13, 5.0),
        (2, 10, 1.0),
        (1, 14, 9.0, None, "NULL_ID"),
        (1, None, None, None, "NULL_ID"),
    )
    rows = [
        (1, 10, None, 4.0, 1),
        (1, 13, None, 5.0, 1),
        (1, None, "below_threshold", 3.9, 2),
        (2, None, "below_threshold", 1.0, 1),
        (1, None, "NULL_ID", 9.0, 2),
    ]
    assert_rows(distinct_truth(truth, Conventions(threshold=4.0)), DISTINCT, rows)


def test_without_a_threshold_only_what_is_worth_nothing_is_not_relevant(spark: SparkSession) -> None:
    truth = truth_of(spark, (1, 10, 0.1), (1, 11, 0.0), (1, 12, 0.0))
    rows = [(1, 10, None, 0.1, 1), (1, None, "not_relevant", 0.0, 2)]
    assert_rows(distinct_truth(truth, Conventions()), DISTINCT, rows)


@pytest.mark.parametrize(
    ("duplicates", "relevance"),
    [("max", 5.0), ("sum", 10.0), ("last", 3.0), ("count", 3.0)],
)
def test_a_repeated_item_is_one_of_this_relevance(
    spark: SparkSession, duplicates: str, relevance: float
) -> None:
    # Of the two latest rows the larger one is the last; a row without a time is the first.
    truth = truth_of(spark, (1, 7, 5.0, 100), (1, 7, 2.0, 200), (1, 7, 3.0, 200), (1, 8, 4.0))
    merged = distinct_truth(truth, parse_conventions({"truth_duplicates": duplicates})).where("item = 7")
    assert_rows(merged, DISTINCT, [(1, 7, None, relevance, 3)])


def test_a_row_without_a_time_is_not_the_last(spark: SparkSession) -> None:
    truth = truth_of(spark, (1, 7, 1.0, -100), (1, 7, 2.0))
    assert_rows(
        relevant(distinct_truth(truth, Conventions(truth_duplicates=TruthDuplicates.LAST))),
        "user int, item int, relevance double",
        [(1, 7, 1.0)],
    )


def test_a_sum_does_not_depend_on_the_order_of_its_rows(spark: SparkSession) -> None:
    terms = [1e16, 1.0, 1.0, 1.0, 3.0, 0.1]
    forward = [(1, 7, term) for term in terms]
    backward = [(2, 7, term) for term in reversed(terms)]
    truth = truth_of(spark, *forward, *backward).repartition(3)
    sums = [
        row["relevance"]
        for row in distinct_truth(truth, Conventions(truth_duplicates=TruthDuplicates.SUM)).collect()
    ]
    assert sums[0] == sums[1]


def test_relevances_are_coded_by_run_length_best_first(spark: SparkSession) -> None:
    truth = truth_of(
        spark, *((1, item, grade) for item, grade in enumerate([3.0, 1.0, 3.0, 5.0, 3.0])), (2, 9, 1.0)
    )
    rows = [(1, 5, [5.0, 3.0, 1.0], [1, 3, 1]), (2, 1, [1.0], [1])]
    assert_rows(per_user_truth(distinct_truth(truth, Conventions()), 10), PER_USER, rows)


def test_relevances_beyond_k_are_cut_but_counted(spark: SparkSession) -> None:
    truth = truth_of(spark, *((1, item, float(item)) for item in range(1, 6)))
    rows = [(1, 5, [5.0, 4.0], [1, 1])]
    assert_rows(per_user_truth(distinct_truth(truth, Conventions()), 2), PER_USER, rows)


def test_without_a_depth_all_relevances_are_kept(spark: SparkSession) -> None:
    truth = truth_of(spark, *((1, item, float(item)) for item in range(1, 4)))
    rows = [(1, 3, [3.0, 2.0, 1.0], [1, 1, 1])]
    assert_rows(per_user_truth(distinct_truth(truth, Conventions()), None), PER_USER, rows)


def test_a_user_without_a_relevant_row_has_no_truth(spark: SparkSession) -> None:
    truth = truth_of(spark, (1, 10, 1.0), (2, 10, 0.0), (None, 10, 1.0, None, "NULL_ID"))
    users = per_user_truth(distinct_truth(truth, Conventions(threshold=0.5)), 10).agg(
        F.sum("user"), F.count("*")
    )
    assert users.collect()[0] == (1, 1)
