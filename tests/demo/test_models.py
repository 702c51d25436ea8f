"""The demo's models on logs small enough to count by hand."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.demo.models import als, popularity, recent_popularity, recommend_all
from spark_eval.errors import DataError

START = datetime(2024, 1, 1, tzinfo=UTC)
TRAIN = "user long, item long, relevance double, timestamp timestamp"
LISTS = "user long, item long, score double, model string"
COLD_USER = 99

# Item 1 has four users, 2 three, 3 and 4 two each, 5 one. Lately it is 5, then 4.
LOG = [
    (10, 1, 5.0, 0),
    (10, 2, 4.0, 1),
    (10, 3, 3.0, 2),
    (20, 1, 4.0, 3),
    (20, 2, 2.0, 4),
    (20, 4, 5.0, 60),
    (30, 1, 4.5, 5),
    (30, 2, 4.0, 6),
    (30, 3, 4.0, 7),
    (40, 1, 1.0, 8),
    (40, 4, 3.5, 9),
    (40, 5, 5.0, 70),
    (40, 5, 4.0, 71),
]


def train_of(spark: SparkSession, rows: Sequence[tuple[int, int, float, int]]) -> DataFrame:
    """Rows of (user, item, rating, day)."""
    dated = [(user, item, rating, START + timedelta(days=day)) for user, item, rating, day in rows]
    return spark.createDataFrame(dated, TRAIN)


def users_of(spark: SparkSession, *users: int) -> DataFrame:
    return spark.createDataFrame([(user,) for user in users], "user long")


def items_by_user(recommendations: DataFrame) -> dict[int, list[int]]:
    rows = recommendations.orderBy("user", F.desc("score"), F.desc("item")).collect()
    items: dict[int, list[int]] = {}
    for row in rows:
        items.setdefault(row["user"], []).append(row["item"])
    return items


@pytest.fixture
def train(spark: SparkSession) -> DataFrame:
    return train_of(spark, LOG)


def test_popularity_counts_users_and_leaves_out_what_a_user_has(
    spark: SparkSession, train: DataFrame
) -> None:
    expected = [
        (10, 4, 2.0, "popularity"),
        (10, 5, 1.0, "popularity"),
        (COLD_USER, 1, 4.0, "popularity"),
        # Items 3 and 4 have two users each; item 2 has three.
        (COLD_USER, 2, 3.0, "popularity"),
    ]
    lists = popularity(train, users_of(spark, 10, COLD_USER), n=2)
    assert_df_equality(
        lists, spark.createDataFrame(expected, LISTS), ignore_row_order=True, ignore_nullable=True
    )


def test_equal_popularity_goes_by_item_descending(spark: SparkSession, train: DataFrame) -> None:
    # User 50 has an item that does not stand in the way, so one more than he needs is looked at.
    with_another = train.union(train_of(spark, [(50, 6, 4.0, 0)]))
    lists = popularity(with_another, users_of(spark, 50, COLD_USER), n=3)
    assert items_by_user(lists) == {50: [1, 2, 4], COLD_USER: [1, 2, 4]}


def test_repeats_of_a_pair_count_once(spark: SparkSession, train: DataFrame) -> None:
    lists = popularity(train, users_of(spark, COLD_USER), n=5)
    assert [row["score"] for row in lists.where("item = 5").collect()] == [1.0]


def test_recent_popularity_sees_the_last_days_first_and_all_time_second(
    spark: SparkSession, train: DataFrame
) -> None:
    lists = recent_popularity(train, users_of(spark, COLD_USER), n=5, days=30)
    scores = {row["item"]: row["score"] for row in lists.collect()}
    # Days 42 to 71 hold items 4 and 5, one user each; 4 has two users ever, 5 one.
    assert scores == pytest.approx({4: 1 + 2 / 3, 5: 1 + 1 / 2, 1: 4 / 5, 2: 3 / 4, 3: 2 / 3})
    assert items_by_user(lists) == {COLD_USER: [4, 5, 1, 2, 3]}


@pytest.mark.parametrize(("days", "best"), [(11, 5), (12, 4)])
def test_the_recent_window_excludes_its_own_start(
    spark: SparkSession, train: DataFrame, days: int, best: int
) -> None:
    """The last row is on day 71 and item 4's last on day 60: 11 days before is out, 12 days takes it in."""
    lists = recent_popularity(train, users_of(spark, COLD_USER), n=1, days=days)
    assert items_by_user(lists) == {COLD_USER: [best]}


@pytest.mark.parametrize("kind", ["long", pytest.param("string", marks=pytest.mark.slow)])
def test_als_leaves_out_what_a_user_has_and_gives_unknown_ones_what_is_popular(
    spark: SparkSession, train: DataFrame, kind: str
) -> None:
    train = train.withColumns({name: F.col(name).cast(kind) for name in ("user", "item")})
    users = users_of(spark, 10, 20, COLD_USER).select(F.col("user").cast(kind))
    lists = als(train, users, n=2, seed=7)
    ids = "bigint" if kind == "long" else kind
    assert lists.dtypes == [("user", ids), ("item", ids), ("score", "double"), ("model", "string")]
    found = {(int(row.user), int(row.item)): row.score for row in lists.collect()}
    # The share of users who have it is an unknown user's score of an item.
    assert {pair: score for pair, score in found.items() if pair[0] == COLD_USER} == {
        (COLD_USER, 1): 1.0,
        (COLD_USER, 2): 0.75,
    }
    assert {pair for pair in found if pair[0] != COLD_USER} == {(10, 4), (10, 5), (20, 3), (20, 5)}
    # Preferences, where a model of the ratings themselves, 1 to 5, would predict such.
    assert all(-0.5 < score < 1.5 for score in found.values())


@pytest.mark.slow
def test_als_finds_the_taste_of_two_groups(spark: SparkSession) -> None:
    """Even users take items 0 to 5, odd ones 10 to 15, each all but one; that one is what he lacks."""
    rows = [
        (user, 10 * (user % 2) + item, 4.0, 0) for user in range(12) for item in range(6) if item != user // 2
    ]
    lists = als(train_of(spark, rows), users_of(spark, *range(12)), n=1, seed=7)
    assert items_by_user(lists) == {user: [10 * (user % 2) + user // 2] for user in range(12)}


def test_ids_that_are_no_32_bit_integers_are_a_named_error(spark: SparkSession) -> None:
    train = train_of(spark, [(1, 1, 4.0, 0), (2, 2**31, 4.0, 0), (2**40, 1, 4.0, 0)])
    with pytest.raises(DataError, match=r"error\[ID_NOT_INT\] 2 training rows"):
        als(train, users_of(spark, 1), n=1, seed=7)


@pytest.mark.slow
def test_everybody_asked_for_has_n_items_of_every_model_or_all_that_are_left(
    spark: SparkSession, train: DataFrame
) -> None:
    # Users 10, 20 and 40 lack two items each; the cold user lacks all five; 20 is named twice, 30 not at all.
    lists = recommend_all(train, users_of(spark, 10, 20, 20, 40, COLD_USER), n=4, seed=7)
    per_list = lists.groupBy("model", "user").agg(F.count("*"), F.count_distinct("item"))
    models = ("popularity", "recent_popularity", "als")
    assert {tuple(row) for row in per_list.collect()} == {
        (model, user, n, n) for model in models for user, n in ((10, 2), (20, 2), (40, 2), (COLD_USER, 4))
    }
    assert lists.join(train, ["user", "item"], "left_semi").isEmpty()


@pytest.mark.exhaustive
def test_the_order_and_partitions_of_train_change_nothing(spark: SparkSession, train: DataFrame) -> None:
    users = users_of(spark, 10, 20, 30, 40, COLD_USER)
    shuffled = train.orderBy(F.xxhash64("item", "user", "relevance")).repartition(5)
    assert_df_equality(
        recommend_all(train, users, n=3, seed=7),
        recommend_all(shuffled, users.repartition(3), n=3, seed=7),
        ignore_row_order=True,
        ignore_nullable=True,
    )
