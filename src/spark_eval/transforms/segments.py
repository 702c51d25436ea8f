"""Which segments a user is in, and which items nobody has met in training."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.names import quoted
from spark_eval.schema import FAULT, FOLD, ITEM, N_INTERACTIONS, N_ROWS, USER, Outcome

# Whether a row of ``count_by_id`` counts a user's rows, not an item's.
OF_USER = "of_user"


def count_by_id(train: DataFrame) -> DataFrame:
    """Return user, item, fold if any, of_user, fault, n_rows: a row per user and per item, and fault.

    One scan and one shuffle give both.
    """
    fold = [FOLD] if FOLD in train.columns else []
    one = F.struct(USER, F.lit(None).alias(ITEM), *fold, F.lit(True).alias(OF_USER))
    other = F.struct(F.lit(None).alias(USER), ITEM, *fold, F.lit(False).alias(OF_USER))
    ids = train.select(FAULT, F.inline(F.array(one, other)))
    return ids.groupBy(USER, ITEM, *fold, OF_USER, FAULT).agg(F.count("*").alias(N_ROWS))


def trained_users(by_id: DataFrame) -> DataFrame:
    """Return user, fold if any, n_interactions of every user with valid training interactions."""
    valid = by_id.where(F.col(OF_USER) & F.col(FAULT).isNull())
    return valid.select(USER, *folds_of(by_id), F.col(N_ROWS).alias(N_INTERACTIONS))


def trained_items(by_id: DataFrame) -> DataFrame:
    """Return item, fold if any, n_rows of every item with valid training interactions."""
    valid = by_id.where(~F.col(OF_USER) & F.col(FAULT).isNull())
    return valid.select(ITEM, *folds_of(by_id), N_ROWS)


def count_trained_users(by_id: DataFrame) -> DataFrame:
    """Return fold if any, n_users: the users with valid training interactions."""
    valid = by_id.where(F.col(OF_USER) & F.col(FAULT).isNull())
    return valid.groupBy(*folds_of(by_id)).agg(F.count("*").alias("n_users"))


def folds_of(by_id: DataFrame) -> list[str]:
    """Return the column ``fold``, where there is one."""
    return [FOLD] if FOLD in by_id.columns else []


def count_train(by_id: DataFrame) -> DataFrame:
    """Return one row per reason (null: used), and one for everything: rows, users, items, a user's most rows.

    Over folds, users and items count once in each.
    """
    of_user = [USER, *folds_of(by_id)]
    return by_id.rollup(FAULT).agg(
        (F.grouping(FAULT) == 1).alias("everything"),
        F.sum(F.when(F.col(OF_USER), F.col(N_ROWS))).alias("rows"),
        F.count_distinct(*of_user).alias("users"),
        F.count_distinct(ITEM, *folds_of(by_id)).alias("items"),
        F.max(F.when(F.col(USER).isNotNull(), F.col(N_ROWS))).alias(Outcome.LARGEST),
    )


def activity_histogram(users: DataFrame) -> DataFrame:
    """Return n_interactions, n_users: how many users have so many interactions."""
    return users.groupBy(N_INTERACTIONS).agg(F.count("*").alias("n_users"))


def count_users(users: DataFrame, segments: Sequence[str]) -> DataFrame:
    """Return one row: rows, with_id, users (distinct), and each segment's number of values by its place."""
    return users.agg(
        F.count("*").alias("rows"),
        F.count(USER).alias("with_id"),
        F.count_distinct(USER).alias("users"),
        *(F.count_distinct(quoted(name)).alias(f"values_{place}") for place, name in enumerate(segments)),
    )
