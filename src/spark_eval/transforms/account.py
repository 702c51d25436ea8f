"""Count what became of every input row: small tables from which the ledger is closed."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.ledger import CLASHES, WITH_TRUTH, WITHOUT_HITS, WITHOUT_TRUTH
from spark_eval.schema import (
    FAULT,
    HIT_RANKS,
    IN_TRAIN,
    ITEM,
    MODEL,
    N_RECOMMENDED,
    N_ROWS,
    RELEVANCE,
    ROW_FAULTS,
    USER,
    Outcome,
    Reason,
)
from spark_eval.transforms.match import N_BEYOND_K, N_CLASHES, N_COLD, N_REPEATED, is_tied_at


def count_lists(lists: DataFrame, truth: DataFrame, cuts: Sequence[int] = ()) -> DataFrame:
    """One row per model: rows and users of each outcome, named ``<outcome>.<reason>.rows`` and ``….users``.

    ``used.`` counts rows of users with truth, ``dropped.no_truth`` of those without. Where cold items were
    looked for, their rows are in ``used.cold_item`` and not in ``used.``. ``with_truth`` counts users with
    truth whose list recommends anything, ``ties_at_cut.k=5`` lists where equal scores straddle 5.
    """
    known = truth.select(USER, F.lit(True).alias("has_truth"))
    has_truth = F.coalesce("has_truth", F.lit(False))
    used = F.col(N_RECOMMENDED) - F.col(N_BEYOND_K)
    kinds = {"": used}
    if N_COLD in lists.columns:
        kinds = {"": used - F.col(N_COLD), Reason.COLD_ITEM.value: F.col(N_COLD)}
    rows = {
        f"{Outcome.IN}.": F.col(N_ROWS),
        **{f"{Outcome.USED}.{kind}": F.when(has_truth, count).otherwise(0) for kind, count in kinds.items()},
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
            F.count_if(is_list & has_truth & (F.size(HIT_RANKS) == 0)).alias(WITHOUT_HITS),
            F.count_if(is_list & ~has_truth).alias(WITHOUT_TRUTH),
            *(
                F.count_if(is_tied_at(cut)).alias(f"{Outcome.TIES_AT_CUT}.k={k}")
                for cut, k in enumerate(cuts)
                if "tied_cuts_0" in lists.columns
            ),
            F.sum(N_CLASHES).alias(CLASHES),
        )
    )


def count_truth(distinct: DataFrame, trained: DataFrame | None = None) -> DataFrame:
    """One row per reason (null: used), and one for everything: rows, distinct, users, max_relevance.

    With ``trained``, the items that have training interactions, also cold, the relevant items of users that
    have none, and how many users have such ones and others: cold_users, warm_users.
    """
    cold: dict[str, Column] = {}
    if trained is not None:
        distinct = distinct.join(trained.withColumn(IN_TRAIN, F.lit(True)), ITEM, "left")
        is_cold = F.col(FAULT).isNull() & F.col(IN_TRAIN).isNull()
        cold = {
            "cold": F.count_if(is_cold),
            "cold_users": F.count_distinct(F.when(is_cold, F.col(USER))),
            "warm_users": F.count_distinct(F.when(~is_cold, F.col(USER))),
        }
    return distinct.rollup(FAULT).agg(
        (F.grouping(FAULT) == 1).alias("everything"),
        F.sum(N_ROWS).alias("rows"),
        F.count("*").alias("distinct"),
        F.count_distinct(USER).alias("users"),
        F.max(RELEVANCE).alias("max_relevance"),
        *(count.alias(name) for name, count in cold.items()),
    )
