"""Where recommendations meet the truth: one row per list, hits at their best rank, every row counted."""

from frames import assert_rows
from pyspark.sql import DataFrame, SparkSession

from spark_eval.schema import ROW_FAULTS
from spark_eval.transforms.match import is_tied_at, match

RANKED = "model string, user int, item int, rank long, fault string, n_rows int"
HITS = "user int, hit_ranks array<long>, hit_relevances array<double>"
# User 1 likes items 10 to 13; user 2 likes item 10.
RELEVANT = [(1, 10, 1.0), (1, 11, 2.0), (1, 12, 3.0), (1, 13, 4.0), (2, 10, 5.0)]


def lists_of(spark: SparkSession, *rows: tuple[object, ...], depth: int | None = 10) -> DataFrame:
    """Rows of user, item, rank, and if need be a fault and n_rows."""
    full = [("als", *row, *(None, 1)[len(row) - 3 :]) for row in rows]
    relevant = spark.createDataFrame(RELEVANT, "user int, item int, relevance double")
    return match(spark.createDataFrame(full, RANKED).repartition(2), relevant, depth)


def hits(lists: DataFrame) -> DataFrame:
    return lists.select("user", "hit_ranks", "hit_relevances")


def test_hits_stand_in_the_order_of_their_ranks(spark: SparkSession) -> None:
    lists = lists_of(spark, (1, 13, 9), (1, 99, 1), (1, 10, 2), (1, 12, 10), (2, 11, 1), (2, 10, 3))
    assert_rows(hits(lists), HITS, [(1, [2, 9, 10], [1.0, 4.0, 3.0]), (2, [3], [5.0])])


def test_a_list_without_a_hit_is_still_a_list(spark: SparkSession) -> None:
    assert_rows(hits(lists_of(spark, (1, 98, 1), (3, 10, 1))), HITS, [(1, [], []), (3, [], [])])


def test_a_repeated_relevant_item_counts_once_at_its_best_rank(spark: SparkSession) -> None:
    lists = lists_of(spark, (1, 10, 4), (1, 11, 3), (1, 10, 2), (1, 12, 5), (1, 10, 6))
    assert_rows(hits(lists), HITS, [(1, [2, 3, 5], [1.0, 2.0, 3.0])])


def test_hits_beyond_k_are_none(spark: SparkSession) -> None:
    lists = lists_of(spark, (1, 10, 2), (1, 11, 3), (1, 99, 4), depth=2)
    assert_rows(hits(lists), HITS, [(1, [2], [1.0])])


def test_without_a_depth_every_hit_counts(spark: SparkSession) -> None:
    lists = lists_of(spark, (1, 10, 2), (1, 11, 3000), depth=None)
    assert_rows(hits(lists), HITS, [(1, [2, 3000], [1.0, 2.0])])
    assert lists.collect()[0]["n_beyond_k"] == 0


def test_ties_of_hits_and_lists_tied_at_a_cutoff_are_known(spark: SparkSession) -> None:
    # Items 99 and 10 tie at ranks 2 and 3, and 11 with nothing.
    ranked = spark.createDataFrame(
        [
            ("als", 1, 98, 1, None, 1, False, 1, 1),
            ("als", 1, 99, 2, None, 1, True, 2, 3),
            ("als", 1, 10, 3, None, 1, False, 2, 3),
            ("als", 1, 11, 4, None, 1, False, 4, 4),
        ],
        f"{RANKED.replace('rank long', 'rank int')}, tied_next boolean, tie_first int, tie_last long",
    )
    relevant = spark.createDataFrame(RELEVANT, "user int, item int, relevance double")
    cuts = list(range(1, 100))
    [found] = (
        match(ranked, relevant, 3, cuts)
        .select("hit_tie_firsts", "hit_tie_lasts", *(is_tied_at(cut) for cut in range(len(cuts))))
        .collect()
    )
    assert found[:2] == ([2], [3])
    assert [k for k, is_tied in zip(cuts, found[2:], strict=True) if is_tied] == [2]


def test_many_cutoffs_have_a_bit_each(spark: SparkSession) -> None:
    rows = [("als", 1, item, item, None, 1, item in (1, 60, 61, 119)) for item in range(1, 121)]
    ranked = spark.createDataFrame(rows, f"{RANKED.replace('rank long', 'rank int')}, tied_next boolean")
    relevant = spark.createDataFrame(RELEVANT, "user int, item int, relevance double")
    cuts = list(range(1, 121))
    lists = match(ranked, relevant, 120, cuts)
    [found] = lists.select(*(is_tied_at(cut) for cut in range(len(cuts)))).collect()
    assert [k for k, is_tied in zip(cuts, found, strict=True) if is_tied] == [1, 60, 61, 119]


def test_a_row_with_a_fault_is_no_hit(spark: SparkSession) -> None:
    lists = lists_of(spark, (1, 10, 1, "SCORE_NOT_FINITE"), (1, 11, 2))
    assert_rows(hits(lists), HITS, [(1, [2], [2.0])])


def test_hits_that_share_a_rank_are_counted(spark: SparkSession) -> None:
    lists = lists_of(
        spark, (1, 10, 1), (1, 11, 1), (1, 12, 1), (1, 13, 2), (1, 99, 2), (2, 10, 1), (2, 10, 1)
    )
    assert_rows(lists.select("user", "n_clashes"), "user int, n_clashes int", [(1, 2), (2, 0)])


def test_models_do_not_mix(spark: SparkSession) -> None:
    rows = [("als", 1, 10, 1, None, 1), ("bpr", 1, 11, 1, None, 1)]
    relevant = spark.createDataFrame(RELEVANT, "user int, item int, relevance double")
    lists = match(spark.createDataFrame(rows, RANKED), relevant, 10)
    schema = "model string, hit_relevances array<double>"
    assert_rows(lists.select("model", "hit_relevances"), schema, [("als", [1.0]), ("bpr", [2.0])])


def test_every_row_of_a_list_is_counted_once(spark: SparkSession) -> None:
    lists = lists_of(
        spark,
        (1, 10, 1),
        (1, 10, 2),  # a repeated hit
        (1, 11, 3, None, 4),  # four rows, combined by the ranking
        (1, 99, 4),
        (1, 98, 11),
        (1, 97, 12, None, 2),
        (1, 12, 13),  # relevant, but beyond k
        (1, None, 5, "NULL_ID"),
        (1, 96, None, "NULL_SCORE", 3),
        (1, 95, 6, "SCORE_NOT_FINITE"),
        (1, 94, 0, "RANK_BASE"),
    )
    counts = ("n_recommended", "n_repeated", "n_beyond_k", "n_rows")
    faults = ("NULL_ID", "NULL_SCORE", "SCORE_NOT_FINITE", "RANK_BASE")
    found = lists.collect()[0]
    assert [found[name] for name in counts] == [6, 5, 3, 17]
    assert [found[name] for name in faults] == [1, 3, 1, 1]
    parts = ("n_recommended", "n_repeated", *ROW_FAULTS)
    assert sum(found[name] for name in parts) == found["n_rows"]


def test_rows_without_a_user_are_a_list_of_nobody(spark: SparkSession) -> None:
    lists = lists_of(spark, (None, 10, 1, "NULL_ID"), (None, 11, 2, "NULL_ID"), (1, 10, 1))
    schema = "user int, n_recommended long, NULL_ID long, hit_ranks array<long>"
    rows = [(None, 0, 2, []), (1, 1, 0, [1])]
    assert_rows(lists.select("user", "n_recommended", "NULL_ID", "hit_ranks"), schema, rows)
