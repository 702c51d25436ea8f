"""Count what became of every input row: small tables from which the ledger is closed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.schema import FAULT, MODEL, N_RECOMMENDED, N_ROWS, RELEVANCE, USER, Outcome, Reason
from spark_eval.transforms.match import N_BEYOND_K, N_CLASHES, N_REPEATED, ROW_FAULTS

# Users with truth who have a list, per model, and hits that share a rank.
WITH_TRUTH = "with_truth"
CLASHES = "clashes"


def count_lists(lists: DataFrame, truth: DataFrame) -> DataFrame:
    """One row per model: rows and users of each outcome, named ``<outcome>.<reason>.rows`` and ``….users``.

    ``used.`` counts rows of users with truth, ``dropped.no_truth`` of those without. ``with_truth`` counts
    users with truth whose list recommends anything.
    """
    known = truth.select(USER, F.lit(True).alias("has_truth"))
    has_truth = F.coalesce("has_truth", F.lit(False))
    used = F.col(N_RECOMMENDED) - F.col(N_BEYOND_K)
    rows = {
        f"{Outcome.IN}.": F.col(N_ROWS),
        f"{Outcome.USED}.": F.when(has_truth, used).otherwise(0),
        f"{Outcome.DROPPED}.{Reason.NO_TRUTH}": F.when(has_truth, 0).otherwise(used),
        f"{Outcome.FILTERED}.{Reason.BEYOND_K}": F.col(N_BEYOND_K),
        f"{Outcome.DEDUPLICATED}.{Reason.REPEATED_ITEM}": F.col(N_REPEATED),
        **{f"{Outcome.QUARANTINED}.{fault}": F.col(fault) for fault in ROW_FAULTS},
    }
    is_list = F.col(N_RECOMMENDED) > 0
    sums = [F.sum(count).alias(f"{name}.rows") for name, count in rows.items()]
    users = [
        F.count_if((count > 0) & F.col(USER).isNotNull()).alias(f"{name}.users")
        for name, count in rows.items()
    ]
    return (
        lists.join(known, USER, "left")
        .groupBy(MODEL)
        .agg(
            *sums,
            *users,
            F.count_if(is_list & has_truth).alias(WITH_TRUTH),
            F.sum(N_CLASHES).alias(CLASHES),
        )
    )


def count_truth(distinct: DataFrame) -> DataFrame:
    """One row per reason (null: used), and one for everything: rows, distinct, users, max_relevance."""
    return distinct.rollup(FAULT).agg(
        (F.grouping(FAULT) == 1).alias("everything"),
        F.sum(N_ROWS).alias("rows"),
        F.count("*").alias("distinct"),
        F.count_distinct(USER).alias("users"),
        F.max(RELEVANCE).alias("max_relevance"),
    )
