"""Who is in the mean, under each of the four rules."""

import pytest
from frames import assert_rows
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval.conventions import Conventions, NoHits
from spark_eval.presets import parse_conventions
from spark_eval.transforms.populate import populate

Row = tuple[object, ...]

LISTS = "model string, user int, n_recommended long, hit_ranks array<long>, hit_relevances array<double>"
TRUTH = "user int, n_relevant long, grades array<double>, grade_counts array<long>"
POPULATION = (
    "model string, user int, n_relevant long, n_recommended long, grades array<double>, "
    "grade_counts array<long>, hit_ranks array<long>, hit_relevances array<double>"
)
# Model als lacks users 2 and 4 of the truth, bpr lacks user 1; nobody knows what user 3 likes.
# The rows of user 4 and of nobody were quarantined, to the last one.
LISTS_ROWS = [
    ("als", 1, 5, [2], [1.0]),
    ("als", 3, 5, [], []),
    ("als", 4, 0, [], []),
    ("als", None, 0, [], []),
    ("bpr", 2, 7, [1, 3], [4.0, 2.0]),
    ("bpr", 4, 1, [], []),
]
TRUTH_ROWS = [(1, 2, [1.0], [2]), (2, 3, [4.0, 2.0], [1, 2]), (4, 1, [1.0], [1])]

BOTH: list[Row] = [
    ("als", 1, 2, 5, [1.0], [2], [2], [1.0]),
    ("bpr", 2, 3, 7, [4.0, 2.0], [1, 2], [1, 3], [4.0, 2.0]),
    ("bpr", 4, 1, 1, [1.0], [1], [], []),
]
WITHOUT_LIST: list[Row] = [
    ("als", 2, 3, 0, [4.0, 2.0], [1, 2], [], []),
    ("als", 4, 1, 0, [1.0], [1], [], []),
    ("bpr", 1, 2, 0, [1.0], [2], [], []),
]
WITHOUT_TRUTH: list[Row] = [("als", 3, 0, 5, [], [], [], [])]


@pytest.mark.parametrize(
    ("no_recommendations", "no_truth", "rows"),
    [
        ("zero", "drop", BOTH + WITHOUT_LIST),
        ("drop", "drop", BOTH),
        ("zero", "zero", BOTH + WITHOUT_LIST + WITHOUT_TRUTH),
        ("drop", "zero", BOTH + WITHOUT_TRUTH),
    ],
)
def test_the_rules_say_who_counts(
    spark: SparkSession, no_recommendations: str, no_truth: str, rows: list[Row]
) -> None:
    population = populate(
        spark.createDataFrame(LISTS_ROWS, LISTS),
        spark.createDataFrame(TRUTH_ROWS, TRUTH),
        ["als", "bpr"],
        parse_conventions({"no_recommendations": no_recommendations, "no_truth": no_truth}),
    )
    assert_rows(population, POPULATION, rows)


def test_a_model_whose_every_row_was_quarantined_still_faces_the_truth(spark: SparkSession) -> None:
    population = populate(
        spark.createDataFrame([("als", 1, 0, [], [])], LISTS),
        spark.createDataFrame([(1, 1, [1.0], [1])], TRUTH),
        ["als"],
        Conventions(),
    )
    assert_rows(population, POPULATION, [("als", 1, 1, 0, [1.0], [1], [], [])])


def test_users_whose_list_holds_nothing_relevant_may_be_left_out(spark: SparkSession) -> None:
    population = populate(
        spark.createDataFrame(LISTS_ROWS, LISTS),
        spark.createDataFrame(TRUTH_ROWS, TRUTH),
        ["als", "bpr"],
        parse_conventions({"no_truth": "zero", "no_hits": NoHits.DROP}),
    )
    # User 4 of bpr has a list in vain; users without a list or without truth follow their own rules.
    assert_rows(population, POPULATION, [*BOTH[:2], *WITHOUT_LIST, *WITHOUT_TRUTH])


def test_facts_of_users_and_ties_of_hits_come_along(spark: SparkSession) -> None:
    lists = spark.createDataFrame(LISTS_ROWS, LISTS).withColumn("hit_tie_firsts", F.col("hit_ranks"))
    truth = spark.createDataFrame(TRUTH_ROWS, TRUTH)
    population = populate(lists, truth, ["als"], Conventions()).where("user < 3")
    rows = [row.hit_tie_firsts for row in population.orderBy("user").collect()]
    assert rows == [[2], []]
