"""Which segments a user is in, and which items nobody has met in training."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.schema import FAULT, ITEM, N_INTERACTIONS, N_ROWS, NO_TRAIN, USER, BuiltIn, Outcome
from spark_eval.transforms.inputs import quoted

# Whether a row of ``count_by_id`` counts a user's rows, not an item's.
OF_USER = "of_user"


def count_by_id(train: DataFrame) -> DataFrame:
    """user, item, of_user, fault, n_rows: one row per user and per item, the other null, and per fault.

    One scan and one shuffle give both.
    """
    one = F.struct(USER, F.lit(None).alias(ITEM), F.lit(True).alias(OF_USER))
    other = F.struct(F.lit(None).alias(USER), ITEM, F.lit(False).alias(OF_USER))
    ids = train.select(FAULT, F.inline(F.array(one, other)))
    return ids.groupBy(USER, ITEM, OF_USER, FAULT).agg(F.count("*").alias(N_ROWS))


def trained_users(by_id: DataFrame) -> DataFrame:
    """user, n_interactions of every user with sound training interactions."""
    sound = by_id.where(F.col(OF_USER) & F.col(FAULT).isNull())
    return sound.select(USER, F.col(N_ROWS).alias(N_INTERACTIONS))


def trained_items(by_id: DataFrame) -> DataFrame:
    """item of every sound training interaction, once."""
    return by_id.where(~F.col(OF_USER) & F.col(FAULT).isNull()).select(ITEM)


def count_train(by_id: DataFrame) -> DataFrame:
    """One row per reason (null: used), and one for everything: rows, users, items, a user's most rows."""
    return by_id.rollup(FAULT).agg(
        (F.grouping(FAULT) == 1).alias("everything"),
        F.sum(F.when(F.col(OF_USER), F.col(N_ROWS))).alias("rows"),
        F.count_distinct(USER).alias("users"),
        F.count_distinct(ITEM).alias("items"),
        F.max(F.when(F.col(USER).isNotNull(), F.col(N_ROWS))).alias(Outcome.LARGEST),
    )


def activity_histogram(users: DataFrame) -> DataFrame:
    """n_interactions, n_users: how many users have so many interactions."""
    return users.groupBy(N_INTERACTIONS).agg(F.count("*").alias("n_users"))


def count_users(users: DataFrame, segments: Sequence[str]) -> DataFrame:
    """One row: rows, with_id, users (distinct), and the number of values of each segment by its place."""
    return users.agg(
        F.count("*").alias("rows"),
        F.count(USER).alias("with_id"),
        F.count_distinct(USER).alias("users"),
        *(F.count_distinct(quoted(name)).alias(f"values_{place}") for place, name in enumerate(segments)),
    )


def add_segments(
    population: DataFrame,
    segments: Sequence[str],
    users: DataFrame | None,
    trained: DataFrame | None,
    bounds: Mapping[int, int] | None,
) -> DataFrame:
    """The population with a column per segment, as text; null for users who are not in ``users``.

    ``users`` (user, segments) and ``trained`` (user, n_interactions) hold each user once; ``bounds`` are the
    largest numbers of interactions of the activity deciles, ascending.
    """
    for facts in (users, trained):
        if facts is not None:
            population = population.join(facts, USER, "left")
    columns = {}
    if BuiltIn.KNOWN in segments:
        columns[BuiltIn.KNOWN.value] = told_by_train(F.lit(BuiltIn.KNOWN.value))
    if BuiltIn.ACTIVITY in segments:
        columns[BuiltIn.ACTIVITY.value] = told_by_train(decile(bounds or {}))
    return population.withColumns(columns)


def told_by_train(value: Column) -> Column:
    """A segment's value for users with training interactions, and the one of users without."""
    return F.when(F.col(N_INTERACTIONS).isNull(), NO_TRAIN).otherwise(value)


def decile(bounds: Mapping[int, int]) -> Column:
    """The activity decile of a user, as text: the first whose bound holds."""
    within = [F.when(F.col(N_INTERACTIONS) <= largest, str(name)) for name, largest in bounds.items()]
    return F.coalesce(*within)
