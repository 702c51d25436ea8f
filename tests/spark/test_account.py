"""What became of every input row, on frames small enough to count by hand."""

from typing import Any

import pytest
from frames import assert_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.conventions import Conventions
from spark_eval.errors import SparkEvalError
from spark_eval.ledger import ACCOUNTING, check, list_entries
from spark_eval.schema import ROW_FAULTS
from spark_eval.transforms.account import count_lists, count_truth
from spark_eval.verbs.evaluate import evaluate
from spark_eval.verbs.evaluation import Evaluation

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
# One list of 20 rows, of which 9 are used.
LIST: dict[str, Any] = {
    "model": "als",
    "user": 1,
    "n_recommended": 12,
    "n_beyond_k": 3,
    "n_repeated": 2,
    "n_clashes": 1,
    "n_rows": 20,
    **{fault.value: 0 for fault in ROW_FAULTS},
    "NULL_ID": 5,
    "NULL_RANK": 1,
    "hit_ranks": [2, 5],
}


def evaluated(spark: SparkSession, **rules: Any) -> Evaluation:
    recommendations = spark.createDataFrame(SCORED, "model string, user int, item int, score double")
    truth = spark.createDataFrame(TRUTH, "user int, item int, relevance double")
    return evaluate(recommendations.repartition(3), truth, k=2, metrics=["map"], threshold=3.0, **rules)


def lists_of(spark: SparkSession, *changes: dict[str, Any]) -> DataFrame:
    """Lists like LIST, but for these columns."""
    kinds = {"model": "string", "user": "int", "hit_ranks": "array<long>"}
    rows = [LIST | change for change in changes]
    schema = ", ".join(f"{name} {kinds.get(name, 'long')}" for name in rows[0])
    return spark.createDataFrame([tuple(row.values()) for row in rows], schema)


def truth_of(spark: SparkSession, *users: int) -> DataFrame:
    return spark.createDataFrame([(user,) for user in users], "user int")


def counted(lists: DataFrame, truth: DataFrame) -> dict[str, Any]:
    (row,) = count_lists(lists, truth).collect()
    return row.asDict()


def test_every_row_of_both_tables_has_one_line(spark: SparkSession) -> None:
    evaluation = evaluated(spark)
    assert_rows(evaluation.accounting, ACCOUNTING, IN_TRUTH + IN_LISTS + IN_USERS)
    evaluation.unpersist()


def test_with_training_interactions_used_rows_of_cold_items_have_a_line_of_their_own(
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
    assert_rows(evaluation.accounting, ACCOUNTING, lines + IN_USERS + IN_TRAIN)
    evaluation.unpersist()


def test_what_came_in_is_the_sum_of_the_others() -> None:
    for lines in (IN_TRUTH, IN_LISTS[:10], IN_LISTS[10:], IN_USERS[:5], IN_USERS[5:], IN_TRAIN):
        assert lines[0][4] == sum(line[4] for line in lines[1:])


@pytest.mark.parametrize("checks", ["hits", "full"])
@pytest.mark.parametrize("plan", ["workers", "shuffle"])
def test_gaps_odd_ids_and_the_largest_user_are_told(spark: SparkSession, plan: str, checks: str) -> None:
    ranks = [(1, "x"), (2, "y"), (5, "z")]
    lists: list[tuple[Any, ...]] = [
        ("a", user, item, rank) for user in ("é", "e\u0301", " p", "p") for rank, item in ranks
    ]
    lists += [("b", "p", "y", 1), ("b", "p", None, 2), ("b", None, "x", 7), ("b", None, "x", 8)]
    truth = [("é", "x"), ("e\u0301", "x"), ("p", "x\n"), ("p", "\u00a0x"), ("p", "y"), ("q\u212b", "\u1100")]
    evaluation = evaluate(
        spark.createDataFrame(lists, "model string, user string, item string, rank int").coalesce(1),
        spark.createDataFrame(truth, "user string, item string"),
        metrics=["map"],
        k=2,
        plan=plan,
        checks=checks,
    )
    told = ("rank_gaps", "odd_ids", "largest")
    assert [
        (*tuple(row)[:4], row.users) for row in evaluation.accounting.collect() if row.outcome in told
    ] == [
        ("truth", None, "odd_ids", "user", 2),
        ("truth", None, "odd_ids", "item", 2),
        ("truth", None, "largest", "rows=3", 1),
        ("recommendations", "a", "rank_gaps", None, 4),
        ("recommendations", "a", "odd_ids", "user", 2),
        ("recommendations", "a", "largest", "rows=3", 1),
        ("recommendations", "b", "largest", "rows=2", 1),
    ]
    evaluation.unpersist()


def test_users_without_truth_are_used_where_they_count(spark: SparkSession) -> None:
    evaluation = evaluated(spark, no_truth="zero", no_recommendations="drop")
    changed = {"no_truth": ("used", "no_truth"), "zero": ("no_recommendations", "drop")}
    changed |= {"no_recommendations": ("dropped", "no_recommendations")}
    lines = [
        (source, model, *changed.get(str(reason), (outcome, reason)), rows, users)
        for source, model, outcome, reason, rows, users in IN_TRUTH + IN_LISTS + IN_USERS
    ]
    assert_rows(evaluation.accounting, ACCOUNTING, lines)
    evaluation.unpersist()


def test_rows_of_a_list_with_truth_are_used(spark: SparkSession) -> None:
    counts = counted(lists_of(spark, {}), truth_of(spark, 1, 2))
    assert (counts["used..rows"], counts["used..users"], counts["dropped.no_truth.rows"]) == (9, 1, 0)
    assert (counts["with_truth"], counts["without_hits"], counts["clashes"]) == (1, 0, 1)


def test_cold_rows_leave_the_used_ones_of_lists_with_truth_alone(spark: SparkSession) -> None:
    lists = lists_of(spark, {"n_cold": 4}, {"n_cold": 9, "user": 2}, {"n_cold": 0, "user": 3})
    counts = counted(lists, truth_of(spark, 1, 3))
    assert (counts["used..rows"], counts["used..users"]) == (5 + 9, 2)
    assert (counts["used.cold_item.rows"], counts["used.cold_item.users"]) == (4, 1)
    assert counts["dropped.no_truth.rows"] == 9


def test_rows_of_a_list_without_truth_are_dropped(spark: SparkSession) -> None:
    counts = counted(lists_of(spark, {}), truth_of(spark, 2))
    assert (counts["used..rows"], counts["with_truth"]) == (0, 0)
    assert (counts["dropped.no_truth.rows"], counts["dropped.no_truth.users"]) == (9, 1)


def test_an_empty_list_is_no_list(spark: SparkSession) -> None:
    empty = {"n_recommended": 0, "n_beyond_k": 0, "n_repeated": 0, "n_rows": 6}
    counts = counted(lists_of(spark, empty, empty | {"user": 2}), truth_of(spark, 1))
    assert (counts["with_truth"], counts["without_truth"], counts["in..users"]) == (0, 0, 2)


def test_rows_of_nobody_count_as_rows_alone(spark: SparkSession) -> None:
    counts = counted(lists_of(spark, {}, {"user": None}), truth_of(spark, 1))
    assert (counts["in..rows"], counts["in..users"]) == (40, 1)
    assert (counts["quarantined.NULL_ID.rows"], counts["quarantined.NULL_ID.users"]) == (10, 1)


def test_a_row_lost_on_the_way_is_found(spark: SparkSession) -> None:
    lists = lists_of(spark, {}, {"user": 2}).withColumn("n_clashes", F.lit(0))
    for lost, code in ((0, None), (1, "LEDGER_OPEN")):
        counts = counted(lists.withColumn("n_rows", F.col("n_rows") + lost), truth_of(spark, 1))
        entries = list_entries([counts], 1, Conventions())
        if code is None:
            check(entries)
        else:
            with pytest.raises(SparkEvalError) as raised:
                check(entries)
            assert raised.value.code == code


DISTINCT = [
    (1, 10, None, 2.0, 3),
    (1, 11, None, 5.0, 1),
    (2, 10, None, 1.0, 1),
    (2, None, "not_relevant", 0.0, 4),
]
COUNTS = (
    "fault string, everything boolean, rows long, distinct long, users long, max_relevance double, "
    "largest long, odd_users long, odd_items long"
)


def distinct_of(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(DISTINCT, "user int, item int, fault string, relevance double, n_rows long")


def test_truth_is_counted_by_reason_and_as_a_whole(spark: SparkSession) -> None:
    rows = [
        (None, False, 5, 3, 2, 5.0, 2, 0, 0),
        ("not_relevant", False, 4, 1, 1, 0.0, 1, 0, 0),
        (None, True, 9, 4, 2, 5.0, 2, 0, 0),
    ]
    names = [column.split()[0] for column in COUNTS.split(", ")]
    assert_rows(count_truth(distinct_of(spark)).toDF(*names), COUNTS, rows)


def test_relevant_items_that_no_model_could_learn_are_counted(spark: SparkSession) -> None:
    trained = spark.createDataFrame([(11,), (12,)], "item bigint")
    counts = {
        (row["fault"], row["everything"]): (
            row["distinct"],
            row["cold"],
            row["cold_users"],
            row["warm_users"],
        )
        for row in count_truth(distinct_of(spark), trained).collect()
    }
    assert counts[None, False] == (3, 2, 2, 1)
    assert counts["not_relevant", False][1:3] == (0, 0)
