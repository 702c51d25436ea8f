"""Three models for the demo: popularity, recent popularity, and Spark ML's ALS.

Each takes ``train`` (user, item, relevance, timestamp) and ``users`` (user), and returns recommendations in
long layout (user, item, score, model). Every user gets the best n items that they do not have in ``train``,
or fewer if there are no more items. Ties are ordered by item, descending, so that the lists do not depend on
the partitioning of ``train``.
"""

from functools import reduce
from typing import Final

from pyspark.ml.recommendation import ALS
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.schema import ITEM, MODEL, RELEVANCE, SCORE, TIMESTAMP, USER

POPULARITY: Final = "popularity"
RECENT_POPULARITY: Final = "recent_popularity"
ALS_MODEL: Final = "als"

# Tuned on local_train and local_test of the simulated log and of MovieLens; global_test was not used.
RECENT_DAYS: Final = 60
ALS_RANK: Final = 16
ALS_ITERATIONS: Final = 6
ALS_REGULARISATION: Final = 0.5
ALS_CONFIDENCE: Final = 4.0
# Fixed, because the result of ALS depends on it.
ALS_BLOCKS: Final = 2

SEEN: Final = "seen"
RANKED: Final = "ranked"


def recommend_all(train: DataFrame, users: DataFrame, n: int, seed: int) -> DataFrame:
    """Return the recommendations of all three models in one frame."""
    models = [popularity(train, users, n), recent_popularity(train, users, n), als(train, users, n, seed)]
    return reduce(DataFrame.unionByName, models)


def popularity(train: DataFrame, users: DataFrame, n: int) -> DataFrame:
    """Recommend the items that the most users have; the score is the number of users."""
    return _popular_lists(train, users, _popularity_scores(train), n, POPULARITY)


def recent_popularity(train: DataFrame, users: DataFrame, n: int, days: int = RECENT_DAYS) -> DataFrame:
    """Recommend the items that the most users had in the last ``days`` before the newest row of ``train``.

    The score is r + a / (a + 1), with r recent users and a users in all: total popularity breaks ties of
    recent popularity, and orders the items without recent users.
    """
    end = F.broadcast(train.agg(F.max(TIMESTAMP).alias("end")))
    is_recent = F.col("last") > F.col("end") - F.make_dt_interval(days=F.lit(days))
    scores = (
        train.groupBy(USER, ITEM)
        .agg(F.max(TIMESTAMP).alias("last"))
        .crossJoin(end)
        .groupBy(ITEM)
        .agg((F.count_if(is_recent) + F.count("*") / (F.count("*") + 1)).alias(SCORE))
    )
    return _popular_lists(train, users, scores, n, RECENT_POPULARITY)


def als(train: DataFrame, users: DataFrame, n: int, seed: int) -> DataFrame:
    """Recommend by ALS on implicit feedback; each pair of user and item counts once, weighted by its rating.

    Users without training interactions are unknown to ALS. They get the popular items, scored by the share of
    users who have them. A list has scores of one kind only; both kinds are about 0 to 1.

    Fitting is an action. Raises DataError ``ID_NOT_INT`` if an id of ``train`` is not a 32-bit integer, the
    only ids that Spark's ALS accepts.
    """
    most_seen, n_users = _check_ids(train)
    pairs = train.groupBy(_as_int(USER), _as_int(ITEM)).agg(F.max(RELEVANCE).alias(RELEVANCE))
    # Sums of floats depend on their order; sorted rows do not depend on the partitioning of train.
    ordered = pairs.repartition(ALS_BLOCKS, USER).sortWithinPartitions(USER, ITEM)
    fitted = ALS(
        userCol=USER,
        itemCol=ITEM,
        ratingCol=RELEVANCE,
        implicitPrefs=True,
        rank=ALS_RANK,
        maxIter=ALS_ITERATIONS,
        regParam=ALS_REGULARISATION,
        alpha=ALS_CONFIDENCE,
        numUserBlocks=ALS_BLOCKS,
        numItemBlocks=ALS_BLOCKS,
        seed=seed,
    ).fit(ordered)

    # Items that a user already has score high: request enough that n others remain for every user.
    user_type, item_type = train.schema[USER].dataType, train.schema[ITEM].dataType
    known = users.select(_as_int(USER)).where(F.col(USER).isNotNull())
    generated = fitted.recommendForUserSubset(known, n + most_seen).select(
        F.col(USER).cast(user_type),
        F.transform(
            "recommendations",
            lambda pair: F.struct(
                pair["rating"].cast("double").alias(SCORE), pair[ITEM].cast(item_type).alias(ITEM)
            ),
        ).alias("generated"),
    )
    popular = F.broadcast(_best_first(_popularity_scores(train).withColumn(SCORE, F.col(SCORE) / n_users)))
    both = _with_seen(users, train).join(generated, USER, "left").crossJoin(popular)
    ranked = F.coalesce(F.sort_array("generated", asc=False), RANKED)
    return _lists(both, ranked, n, ALS_MODEL)


def _popularity_scores(train: DataFrame) -> DataFrame:
    """Count the users who have each item: (item, score)."""
    return train.groupBy(ITEM).agg(F.count_distinct(USER).cast("double").alias(SCORE))


def _best_first(scores: DataFrame) -> DataFrame:
    """Return one row: all (item, score) as an array of (score, item), best first, ties by item descending."""
    pairs = F.collect_list(F.struct(SCORE, ITEM))
    return scores.agg(F.sort_array(pairs, asc=False).alias(RANKED))


def _popular_lists(train: DataFrame, users: DataFrame, scores: DataFrame, n: int, model: str) -> DataFrame:
    """Recommend to each user the n best items that they do not have."""
    popular = F.broadcast(_best_first(scores))
    return _lists(_with_seen(users, train).crossJoin(popular), F.col(RANKED), n, model)


def _with_seen(users: DataFrame, train: DataFrame) -> DataFrame:
    """Return one row per user of ``users``, with all their items in ``train``: (user, seen)."""
    seen = train.groupBy(USER).agg(F.collect_set(ITEM).alias(SEEN))
    known = users.select(USER).distinct().join(seen, USER, "left")
    return known.withColumn(SEEN, F.coalesce(SEEN, F.array()))


def _lists(users: DataFrame, ranked: Column, n: int, model: str) -> DataFrame:
    """Return the n best unseen items of each user, one per row.

    ``users`` has one row per user with the items ``seen``; ``ranked`` is an array of (score, item), best
    first. For a user with s seen items, the best n + s items suffice, so that the work grows with the rows of
    train, not with users x items.
    """
    near = F.slice(ranked, F.lit(1), F.size(SEEN) + n)
    unseen = F.filter(near, lambda pair: ~F.array_contains(SEEN, pair[ITEM]))
    best = users.select(USER, F.inline(F.slice(unseen, 1, n)))
    return best.select(USER, ITEM, SCORE, F.lit(model).alias(MODEL))


def _check_ids(train: DataFrame) -> tuple[int, int]:
    """Return the largest number of items of a user, and the number of users; raise DataError ID_NOT_INT."""
    user, item = (_not_int(train, column) for column in (USER, ITEM))
    per_user = train.groupBy(USER).agg(
        F.count_distinct(ITEM).alias("n_items"), F.count_if(user | item).alias("n_unfit")
    )
    row = per_user.agg(F.max("n_items"), F.count("*"), F.sum("n_unfit")).first()
    most_seen, n_users, n_unfit = row if row is not None else (None, 0, None)
    if n_unfit:
        raise DataError(
            "ID_NOT_INT",
            f"{n_unfit} training rows have a user or an item that is not a 32-bit integer, which Spark's ALS "
            "needs; number users and items from 1",
        )
    return int(most_seen or 0), int(n_users)


def _as_int(column: str) -> Column:
    """Cast an id to int; null if it does not fit."""
    return F.col(column).try_cast("int").alias(column)


def _not_int(train: DataFrame, column: str) -> Column:
    """Return a column that is true if a cast to a 32-bit integer changes the id."""
    there_and_back = _as_int(column).cast(train.schema[column].dataType)
    return ~there_and_back.eqNullSafe(F.col(column))
