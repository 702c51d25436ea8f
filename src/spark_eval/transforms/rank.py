"""Give every recommendation its rank within its list, the same under any partitioning."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_eval.conventions import Checks, Ties
from spark_eval.schema import FAULT, ITEM, MODEL, N_ROWS, RANK, SCORE, USER, Fault

TIES_SEED = 20231


def rank(recommendations: DataFrame, ties: Ties, checks: Checks) -> DataFrame:
    """model, user, item, rank, fault, n_rows: ranks given are trusted, else they follow from the scores.

    Rows with a fault keep it and take no rank from sound ones. ``n_rows`` is the number of input rows
    that were combined into one because they repeat an item of the same list.
    """
    if RANK not in recommendations.columns:
        return rank_by_score(recommendations, ties)
    if checks is Checks.FULL:
        return check_ranks(recommendations)
    return recommendations.withColumn(N_ROWS, F.lit(1))


def rank_by_score(recommendations: DataFrame, ties: Ties) -> DataFrame:
    """Repeated items keep their best score, then the list is sorted. One shuffle by list serves both."""
    by_list = Window.partitionBy(MODEL, USER)
    distinct = (
        recommendations.repartition(MODEL, USER)
        .groupBy(MODEL, USER, ITEM, FAULT)
        .agg(F.max(SCORE).alias(SCORE), F.count("*").alias(N_ROWS))
    )
    best_first = by_list.orderBy(F.asc_nulls_first(FAULT), F.desc(SCORE), *tie_order(ties))
    ranks = F.row_number().over(best_first)
    return distinct.select(MODEL, USER, ITEM, ranks.alias(RANK), FAULT, N_ROWS)


def check_ranks(recommendations: DataFrame) -> DataFrame:
    """Repeated items keep their best rank; items that share a rank get the fault DUPLICATE_RANK."""
    distinct = (
        recommendations.repartition(MODEL, USER)
        .groupBy(MODEL, USER, ITEM, FAULT)
        .agg(F.min(RANK).alias(RANK), F.count("*").alias(N_ROWS))
    )
    sharing = F.count("*").over(Window.partitionBy(MODEL, USER, RANK, FAULT))
    clash = F.when(F.col(FAULT).isNull() & (sharing > 1), Fault.DUPLICATE_RANK.value)
    return distinct.select(MODEL, USER, ITEM, RANK, F.coalesce(FAULT, clash).alias(FAULT), N_ROWS)


def tie_order(ties: Ties) -> list[Column]:
    """What decides between equal scores; the item comes last, so that the order is total."""
    match ties:
        case Ties.ITEM_DESC:
            return [F.desc(ITEM)]
        case Ties.ITEM_ASC:
            return [F.asc(ITEM)]
        case Ties.HASH:
            return [F.xxhash64(F.lit(TIES_SEED), F.col(ITEM).cast("string")), F.desc(ITEM)]
