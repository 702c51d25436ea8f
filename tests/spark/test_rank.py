"""Ranks: from scores under every tie rule and any partitioning, or trusted as given."""

import pytest
from frames import assert_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.conventions import Checks, Ties
from spark_eval.transforms.rank import rank

# Of items 1 to 8, the order in which the hash of their text puts them.
BY_HASH = [2, 1, 5, 6, 8, 7, 3, 4]
OUT = "model string, user int, item int, rank int, fault string, n_rows long"
NAN = float("nan")


def scored(spark: SparkSession, *rows: tuple[object, ...], item: str = "int") -> DataFrame:
    schema = f"model string, user int, item {item}, score double, fault string"
    return spark.createDataFrame([("als", 1, *row, None)[:5] for row in rows], schema)


def order(ranked: DataFrame) -> list[object]:
    """The sound items, best first."""
    sound = ranked.where("fault IS NULL")
    items: list[object] = sound.agg(
        F.sort_array(F.collect_list(F.struct("rank", "item"))).item.alias("items")
    ).collect()[0]["items"]
    return items


def test_the_best_score_is_first(spark: SparkSession) -> None:
    recommendations = scored(spark, (1, -5.0), (2, 1e300), (3, 0.5), (4, 0.0))
    assert order(rank(recommendations, Ties.ITEM_DESC, Checks.HITS)) == [2, 3, 4, 1]


def test_lists_are_ranked_by_model_and_user(spark: SparkSession) -> None:
    schema = "model string, user int, item int, score double, fault string"
    rows = [("a", 1, 1, 0.1, None), ("a", 2, 2, 0.2, None), ("b", 1, 3, 0.3, None), ("b", 1, 4, 0.4, None)]
    ranks = [("a", 1, 1, 1), ("a", 2, 2, 1), ("b", 1, 3, 2), ("b", 1, 4, 1)]
    ranked = rank(spark.createDataFrame(rows, schema), Ties.ITEM_DESC, Checks.HITS)
    assert_rows(ranked.drop("tied_next"), OUT, [(*row, None, 1) for row in ranks])


def test_faulty_rows_take_no_rank_from_sound_ones(spark: SparkSession) -> None:
    recommendations = scored(
        spark,
        (1, NAN, "SCORE_NOT_FINITE"),
        (2, 0.5),
        (3, float("inf"), "SCORE_NOT_FINITE"),
        (4, 0.9),
        (None, 2.0, "NULL_ID"),
        (None, 3.0, "NULL_ID"),
    )
    ranked = rank(recommendations, Ties.ITEM_DESC, Checks.HITS).drop("tied_next")
    assert_rows(
        ranked.withColumn("rank", F.when(F.col("fault").isNull(), F.col("rank"))),
        OUT,
        [
            ("als", 1, 4, 1, None, 1),
            ("als", 1, 2, 2, None, 1),
            ("als", 1, 1, None, "SCORE_NOT_FINITE", 1),
            ("als", 1, 3, None, "SCORE_NOT_FINITE", 1),
            ("als", 1, None, None, "NULL_ID", 2),
        ],
    )


def test_a_repeated_item_keeps_its_best_score(spark: SparkSession) -> None:
    recommendations = scored(spark, (1, 0.1), (2, 0.5), (1, 0.9), (1, NAN, "SCORE_NOT_FINITE"), (1, 0.9))
    ranked = rank(recommendations, Ties.ITEM_DESC, Checks.HITS).where("fault IS NULL").drop("tied_next")
    assert_rows(ranked, OUT, [("als", 1, 1, 1, None, 3), ("als", 1, 2, 2, None, 1)])


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        (Ties.ITEM_DESC, [7, 10, 9, 2, 1, 8]),
        (Ties.ITEM_ASC, [7, 1, 2, 9, 10, 8]),
        (Ties.HASH, None),
    ],
)
def test_ties_fall_the_same_way_under_any_partitioning(
    spark: SparkSession, ties: Ties, expected: list[int] | None
) -> None:
    tied = [(item, 0.5) for item in (2, 10, 1, 9)]
    recommendations = scored(spark, (8, 0.1), *tied, (7, 0.9))
    orders = [order(rank(recommendations.repartition(n), ties, Checks.HITS)) for n in (1, 2, 7)]
    assert orders == [expected or orders[0]] * 3


def test_the_order_by_hash_stays_what_it_is(spark: SparkSession) -> None:
    recommendations = scored(spark, *((item, 0.5) for item in range(1, 9)))
    assert order(rank(recommendations, Ties.HASH, Checks.HITS)) == BY_HASH


def test_the_order_by_hash_is_that_of_the_text_whatever_the_type(spark: SparkSession) -> None:
    recommendations = scored(spark, *((str(item), 0.5) for item in range(1, 9)), item="string")
    assert order(rank(recommendations, Ties.HASH, Checks.HITS)) == [str(item) for item in BY_HASH]


def test_string_ids_are_ordered_as_strings(spark: SparkSession) -> None:
    recommendations = scored(spark, ("10", 0.5), ("9", 0.5), ("a", 0.5), ("é", 0.5), item="string")
    assert order(rank(recommendations, Ties.ITEM_DESC, Checks.HITS)) == ["é", "a", "9", "10"]


def test_zeros_of_both_signs_tie(spark: SparkSession) -> None:
    recommendations = scored(spark, (1, 0.0), (2, -0.0), (3, 0.0))
    assert order(rank(recommendations, Ties.ITEM_DESC, Checks.HITS)) == [3, 2, 1]


def test_places_that_equal_scores_share_are_known(spark: SparkSession) -> None:
    recommendations = scored(
        spark, (1, 0.9), (2, 0.5), (3, 0.5), (4, 0.5), (5, 0.1), (6, 0.1, "NULL_ID"), (7, 0.0), (8, -0.0)
    )
    ranked = rank(recommendations, Ties.ITEM_DESC, Checks.HITS, sees_ties=True).where("fault IS NULL")
    assert_rows(
        ranked.select("item", "rank", "tied_next", "tie_first", "tie_last"),
        "item int, rank int, tied_next boolean, tie_first int, tie_last long",
        [
            (1, 1, False, 1, 1),
            (4, 2, True, 2, 4),
            (3, 3, True, 2, 4),
            (2, 4, False, 2, 4),
            (5, 5, False, 5, 5),  # the row that it ties with is none
            (8, 6, True, 6, 7),
            (7, 7, False, 6, 7),
        ],
    )


def test_given_ranks_have_no_ties(spark: SparkSession) -> None:
    ranked = rank(spark.createDataFrame([("als", 1, 1, 5, None)], GIVEN), Ties.ITEM_DESC, Checks.HITS, True)
    assert ranked.columns == ["model", "user", "item", "rank", "fault", "n_rows"]


GIVEN = "model string, user int, item int, rank long, fault string"
RANKED = "model string, user int, item int, rank long, fault string, n_rows {}"


def test_given_ranks_are_trusted(spark: SparkSession) -> None:
    rows = [
        ("als", 1, 1, 5, None),
        ("als", 1, 1, 2, None),
        ("als", 1, 2, 2, None),
        ("als", 1, 3, None, "NULL_RANK"),
    ]
    ranked = rank(spark.createDataFrame(rows, GIVEN), Ties.ITEM_DESC, Checks.HITS)
    assert_rows(ranked, RANKED.format("int"), [(*row, 1) for row in rows])


def test_full_checks_count_repeats_and_find_every_shared_rank(spark: SparkSession) -> None:
    rows = [
        ("als", 1, 1, 1, None),
        ("als", 1, 1, 2, None),
        ("als", 1, 2, 2, None),
        ("als", 1, 3, 3, None),
        ("als", 1, 4, 3, None),
        ("als", 1, 5, 1, "NULL_ID"),
        ("als", 2, 1, 1, None),
        ("bpr", 1, 9, 1, None),
    ]
    ranked = rank(spark.createDataFrame(rows, GIVEN), Ties.ITEM_DESC, Checks.FULL)
    assert_rows(
        ranked,
        RANKED.format("long"),
        [
            ("als", 1, 1, 1, None, 2),
            ("als", 1, 2, 2, None, 1),
            ("als", 1, 3, 3, "DUPLICATE_RANK", 1),
            ("als", 1, 4, 3, "DUPLICATE_RANK", 1),
            ("als", 1, 5, 1, "NULL_ID", 1),
            ("als", 2, 1, 1, None, 1),
            ("bpr", 1, 9, 1, None, 1),
        ],
    )
