"""What became of every input row, on frames small enough to count by hand."""

from typing import Any

import pandas as pd
import pytest
from frames import assert_rows
from pyspark.sql import SparkSession

from spark_eval.accounting import ACCOUNTING
from spark_eval.evaluation.evaluate import evaluate
from spark_eval.evaluation.result import Evaluation

NAN, INFINITY = float("nan"), float("inf")
# Ranked, best first: user 1's 10, 20, 11. Of these, k = 2 takes the first two.
SCORED = [
    ("als", 1, 10, 0.9),
    ("als", 1, 10, 0.8),
    ("als", 1, 20, 0.7),
    ("als", 1, 11, 0.6),
    ("als", 1, 30, NAN),
    ("als", 1, 31, None),
    ("als", 1, None, 0.5),
    ("als", 2, 40, 0.5),
    ("als", 3, 10, 0.9),
    ("als", 3, 11, 0.8),
    ("als", 3, 12, 0.7),
    ("als", None, 10, 0.5),
    ("als", 6, 10, INFINITY),
    ("bpr", 5, 10, 0.1),
]
TRUTH = [
    (1, 10, 5.0),
    (1, 10, 4.0),
    (1, 11, 5.0),
    (1, 12, 2.0),
    (2, 10, 5.0),
    (2, 13, NAN),
    (3, 10, None),
    (4, 10, 1.0),
    (5, 10, 5.0),
    (None, 10, 5.0),
]
IN_TRUTH = [
    ("truth", None, "in", None, 10, 5),
    ("truth", None, "used", None, 4, 3),
    ("truth", None, "deduplicated", "repeated_item", 1, None),
    ("truth", None, "filtered", "below_threshold", 2, 2),
    ("truth", None, "quarantined", "NULL_ID", 1, 0),
    ("truth", None, "quarantined", "NULL_RELEVANCE", 1, 1),
    ("truth", None, "quarantined", "RELEVANCE_NOT_FINITE", 1, 1),
    ("truth", None, "largest", "rows=2", 0, 1),
]
IN_LISTS = [
    ("recommendations", "als", "in", None, 13, 4),
    ("recommendations", "als", "used", None, 3, 2),
    ("recommendations", "als", "dropped", "no_truth", 2, 1),
    ("recommendations", "als", "filtered", "beyond_k", 2, 2),
    ("recommendations", "als", "deduplicated", "repeated_item", 1, 1),
    ("recommendations", "als", "quarantined", "NULL_ID", 2, 1),
    ("recommendations", "als", "quarantined", "NULL_SCORE", 1, 1),
    ("recommendations", "als", "quarantined", "SCORE_NOT_FINITE", 2, 2),
    ("recommendations", "als", "no_recommendations", "zero", 0, 1),
    ("recommendations", "als", "largest", "rows=7", 0, 1),
    ("recommendations", "bpr", "in", None, 1, 1),
    ("recommendations", "bpr", "used", None, 1, 1),
    ("recommendations", "bpr", "no_recommendations", "zero", 0, 2),
    ("recommendations", "bpr", "largest", "rows=1", 0, 1),
]
IN_USERS = [
    ("users", "als", "in", None, 4, 4),
    ("users", "als", "used", None, 1, 1),
    ("users", "als", "used", "no_hits", 1, 1),
    ("users", "als", "used", "no_recommendations", 1, 1),
    ("users", "als", "dropped", "no_truth", 1, 1),
    ("users", "bpr", "in", None, 3, 3),
    ("users", "bpr", "used", None, 1, 1),
    ("users", "bpr", "used", "no_recommendations", 2, 2),
]
# Training interactions with items 10 and 40, and rows that are none.
TRAIN = [(1, 10), (1, 10), (1, 40), (9, 10), (9, None), (None, 20)]
IN_TRAIN = [
    ("train", None, "in", None, 6, 2),
    ("train", None, "used", None, 4, 2),
    ("train", None, "quarantined", "NULL_ID", 2, 1),
    ("train", None, "largest", "rows=3", 0, 1),
]


def evaluated(spark: SparkSession, **rules: Any) -> Evaluation:
    recommendations = spark.createDataFrame(SCORED, "model string, user int, item int, score double")
    truth = spark.createDataFrame(TRUTH, "user int, item int, relevance double")
    return evaluate(recommendations.repartition(3), truth, k=2, metrics=["map"], threshold=3.0, **rules)


def test_every_row_has_one_line_used_ones_of_cold_items_their_own(
    spark: SparkSession,
) -> None:
    evaluation = evaluated(spark, train=spark.createDataFrame(TRAIN, "user int, item int"))
    # Of the truth, 11 is cold for user 1; of the used recommendations 20 is. User 3, who recommends 11 too,
    # has no truth, and what user 1 has beyond k stays there.
    truth = [("used", None, 3, 3), ("used", "cold_item", 1, 1)]
    lists = [("used", None, 2, 2), ("used", "cold_item", 1, 1)]
    lines = [line for line in IN_TRUTH + IN_LISTS if line not in (IN_TRUTH[1], IN_LISTS[1])]
    lines += [("truth", None, *line) for line in truth] + [
        ("recommendations", "als", *line) for line in lists
    ]
    assert_rows(evaluation.to_spark("accounting"), ACCOUNTING, lines + IN_USERS + IN_TRAIN)
    evaluation.unpersist()


def test_what_came_in_is_the_sum_of_the_others() -> None:
    for lines in (IN_TRUTH, IN_LISTS[:10], IN_LISTS[10:], IN_USERS[:5], IN_USERS[5:], IN_TRAIN):
        assert lines[0][4] == sum(line[4] for line in lines[1:])


def test_users_without_truth_are_used_where_they_count(spark: SparkSession) -> None:
    evaluation = evaluated(spark, no_truth="zero", no_recommendations="drop")
    changed = {"no_truth": ("used", "no_truth"), "zero": ("no_recommendations", "drop")}
    changed |= {"no_recommendations": ("dropped", "no_recommendations")}
    lines = [
        (source, model, *changed.get(str(reason), (outcome, reason)), rows, users)
        for source, model, outcome, reason, rows, users in IN_TRUTH + IN_LISTS + IN_USERS
    ]
    assert_rows(evaluation.to_spark("accounting"), ACCOUNTING, lines)
    evaluation.unpersist()


@pytest.mark.parametrize("no_truth", ["drop", "zero"])
def test_lists_that_mostly_met_no_truth_are_warned_of(no_truth: str) -> None:
    lists = pd.DataFrame({"user": [1, 2, 3, 4], "item": 7, "rank": 1})
    truth = pd.DataFrame({"user": [1, 2, 9], "item": 7})
    done = evaluate(lists, truth, model="m", metrics="mrr", k=1, no_truth=no_truth, engine="local")
    warning = f"warning: 2 of 4 lists of m met no truth (50 %, no_truth={no_truth}); check `user`"
    assert warning in repr(done)
    assert any(note.startswith(warning) for note in done.summary().notes)
    most = evaluate(lists[:3], truth, model="m", metrics="mrr", k=1, no_truth=no_truth, engine="local")
    assert "met no truth" not in repr(most)
