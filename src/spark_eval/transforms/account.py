"""Count what became of every input row: small tables from which the ledger is closed."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.ledger import CLASHES, WITH_TRUTH, WITHOUT_HITS, WITHOUT_TRUTH
from spark_eval.schema import (
    FAULT,
    HIT_RANKS,
    IN_TRAIN,
    ITEM,
    MODEL,
    N_RECOMMENDED,
    N_ROWS,
    ODD_ID,
    RELEVANCE,
    ROW_FAULTS,
    USER,
    Outcome,
    Reason,
)
from spark_eval.transforms.match import LAST_RANK, N_BEYOND_K, N_CLASHES, N_COLD, N_REPEATED, is_tied_at


def count_lists(lists: DataFrame, truth: DataFrame, cuts: Sequence[int] = ()) -> DataFrame:
    """One row per model: rows and users of each outcome, named ``<outcome>.<reason>.rows`` and ``….users``.

    ``used.`` counts rows of users with truth, ``dropped.no_truth`` of those without. Where cold items were
    looked for, their rows are in ``used.cold_item`` and not in ``used.``. ``with_truth`` counts users with
    truth whose list recommends anything, ``ties_at_cut.k=5`` lists where equal scores straddle 5,
    ``rank_gaps.`` those with a rank beyond the number of their rows, ``odd_ids.user`` those of odd users;
    ``largest`` is the most rows of one.
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
            *(
                F.count_if(F.col(LAST_RANK) > F.col(N_ROWS)).alias(f"{Outcome.RANK_GAPS}.")
                for name in lists.columns
                if name == LAST_RANK
            ),
            F.count_if(is_odd(lists, USER)).alias(f"{Outcome.ODD_IDS}.{USER}"),
            F.max(F.when(F.col(USER).isNotNull(), F.col(N_ROWS))).alias(Outcome.LARGEST),
            F.sum(N_CLASHES).alias(CLASHES),
        )
    )


def count_truth(distinct: DataFrame, trained: DataFrame | None = None) -> DataFrame:
    """One row per reason (null: used), and one for everything: rows, distinct, users, max_relevance.

    ``largest`` is the most distinct items of one user, ``odd_ids.user`` counts odd users, ``odd_ids.item``
    users of odd items. With ``trained``, the items that have training interactions, also cold, the relevant
    items of users that have none, and how many users have such ones and others: cold_users, warm_users.
    """
    cold: dict[str, Column] = {}
    if trained is not None:
        distinct = distinct.join(trained.withColumn(IN_TRAIN, F.lit(True)), ITEM, "left")
        is_cold = F.col(FAULT).isNull() & F.col(IN_TRAIN).isNull()
        cold = {
            "cold": F.sum("cold"),
            "cold_users": F.count_if(F.col("cold") > 0),
            "warm_users": F.count_if(F.col("cold") < F.col("distinct")),
        }
        distinct = distinct.withColumn("cold", is_cold)
    # By user first, which takes no shuffle: they lie together.
    by_user = distinct.groupBy(USER, FAULT).agg(
        F.sum(N_ROWS).alias("rows"),
        F.count("*").alias("distinct"),
        F.max(RELEVANCE).alias("max_relevance"),
        F.count_if(is_odd(distinct, ITEM)).alias("odd_items"),
        *([F.count_if("cold").alias("cold")] if cold else []),
    )
    return by_user.rollup(FAULT).agg(
        (F.grouping(FAULT) == 1).alias("everything"),
        F.sum("rows").alias("rows"),
        F.sum("distinct").alias("distinct"),
        F.count_distinct(USER).alias("users"),
        F.max("max_relevance").alias("max_relevance"),
        F.max("distinct").alias(Outcome.LARGEST),
        F.count_if(is_odd(distinct, USER)).alias(f"{Outcome.ODD_IDS}.{USER}"),
        F.count_if(F.col("odd_items") > 0).alias(f"{Outcome.ODD_IDS}.{ITEM}"),
        *(count.alias(name) for name, count in cold.items()),
    )


def is_odd(frame: DataFrame, name: str) -> Column:
    """Whether an id of text looks like another; never, of integers."""
    is_text = isinstance(frame.schema[name].dataType, T.StringType)
    return F.col(name).rlike(ODD_ID) if is_text else F.lit(False)
