"""What of the later parts of a split is already in the earlier ones, counted."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.schema import ITEM, SUBSET, SUBSETS, TIMESTAMP, USER, Subset

RANKER_EARLY: Final = "ranker_at_or_before_local_train"
GLOBAL_TEST_EARLY: Final = "global_test_at_or_before_global_train"
BOTH_RANKER_PARTS: Final = "users_in_both_ranker_parts"
RETURNED_TO_LOCAL_TEST: Final = "pairs_in_train_and_local_test"
RETURNED_TO_GLOBAL_TEST: Final = "pairs_in_train_and_global_test"
# Each check, and whether its rows are leaks.
CHECKS: Final = {
    RANKER_EARLY: True,
    GLOBAL_TEST_EARLY: True,
    BOTH_RANKER_PARTS: True,
    RETURNED_TO_LOCAL_TEST: False,
    RETURNED_TO_GLOBAL_TEST: False,
}


def leakage(split_rows: DataFrame) -> DataFrame:
    """One row per check: check, rows, users (both long), leaked (boolean).

    ``split_rows`` has user, item, timestamp and subset, in none of them null.

    - ``ranker_at_or_before_local_train``: rows of local_test not after the last row of local_train.
    - ``global_test_at_or_before_global_train``: rows of global_test not after the last of global_train.
    - ``users_in_both_ranker_parts``: users of ranker_train and ranker_test, and their rows in both.
    - ``pairs_in_train_and_local_test``: rows of local_test whose user and item met in local_train.
    - ``pairs_in_train_and_global_test``: rows of global_test whose user and item met in global_train.

    The first three are ``leaked`` if they count any row. The last two never are, being legitimate
    wherever people come back to an item; ``seen: drop`` makes them 0. The log is shuffled once, by
    user, and read twice, the first time for the last row of each part.
    """
    rows = split_rows.select(USER, ITEM, TIMESTAMP, SUBSET)
    ends = rows.agg(
        F.max(F.when(within("local_train"), F.col(TIMESTAMP))).alias("local_train_end"),
        F.max(F.when(within("global_train"), F.col(TIMESTAMP))).alias("global_train_end"),
    )
    # Spread by user, the rows stay where they are for both groupings: by pair, then by user.
    spread = rows.crossJoin(F.broadcast(ends)).repartition(USER)
    counts = per_user(per_pair(spread)).agg(
        *(F.coalesce(F.sum(check), F.lit(0)).alias(f"{check}_rows") for check in CHECKS),
        *(F.count_if(F.col(check) > 0).alias(f"{check}_users") for check in CHECKS),
    )
    report = (
        F.struct(
            F.lit(check).alias("check"),
            F.col(f"{check}_rows").alias("rows"),
            F.col(f"{check}_users").alias("users"),
            ((F.col(f"{check}_rows") > 0) & F.lit(is_leak)).alias("leaked"),
        )
        for check, is_leak in CHECKS.items()
    )
    return counts.select(F.inline(F.array(*report)))


def per_pair(spread: DataFrame) -> DataFrame:
    """For each pair of user and item: its rows per part, and those that are not after the part before."""
    too_early = {
        RANKER_EARLY: within("local_test") & (F.col(TIMESTAMP) <= F.col("local_train_end")),
        GLOBAL_TEST_EARLY: within("global_test") & (F.col(TIMESTAMP) <= F.col("global_train_end")),
    }
    return spread.groupBy(USER, ITEM).agg(
        *(F.count_if(within(subset)).alias(subset) for subset in Subset),
        *(F.count_if(early).alias(check) for check, early in too_early.items()),
    )


def per_user(pairs: DataFrame) -> DataFrame:
    """For each user: the rows that each check finds."""
    ranker_train, ranker_test = F.col(Subset.RANKER_TRAIN), F.col(Subset.RANKER_TEST)
    local_train, local_test = F.col(Subset.LOCAL_TRAIN), ranker_train + ranker_test
    in_both_parts = (F.sum(ranker_train) > 0) & (F.sum(ranker_test) > 0)
    return pairs.groupBy(USER).agg(
        F.sum(RANKER_EARLY).alias(RANKER_EARLY),
        F.sum(GLOBAL_TEST_EARLY).alias(GLOBAL_TEST_EARLY),
        F.when(in_both_parts, F.sum(local_test)).alias(BOTH_RANKER_PARTS),
        F.sum(F.when(local_train > 0, local_test)).alias(RETURNED_TO_LOCAL_TEST),
        F.sum(F.when(local_train + local_test > 0, F.col(Subset.GLOBAL_TEST))).alias(RETURNED_TO_GLOBAL_TEST),
    )


def within(name: str) -> Column:
    """Whether a row is in the subset, or the subsets, of this name."""
    return F.col(SUBSET).isin([subset.value for subset in SUBSETS[name]])
