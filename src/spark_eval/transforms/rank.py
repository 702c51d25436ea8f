"""Give every recommendation its rank within its list, the same under any partitioning."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_eval.conventions import Checks, Ties
from spark_eval.schema import (
    FAULT,
    HELD_PLACE,
    ITEM,
    MODEL,
    N_ROWS,
    RANK,
    SCORE,
    TIE_FIRST,
    TIE_LAST,
    TIED_NEXT,
    USER,
    Fault,
)
from spark_eval.transforms.folds import bare

TIES_SEED = 20231


def rank(
    recommendations: DataFrame, ties: Ties, checks: Checks, sees_ties: bool = False, sees_places: bool = False
) -> DataFrame:
    """model, user, item, rank, fault, n_rows: ranks given are trusted, else they follow from the scores.

    Rows with a fault keep it and take no rank from sound ones. ``n_rows`` is the number of input rows
    that were combined into one because they repeat an item of the same list. From scores come tied_next,
    and with ``sees_ties`` tie_first and tie_last, the ranks of the first and last item of equal score. From
    given ranks that are checked comes with ``sees_places`` held_place, the place among the list's items.
    """
    if RANK not in recommendations.columns:
        return rank_by_score(recommendations, ties, sees_ties)
    if checks is Checks.FULL:
        return check_ranks(recommendations, sees_places)
    return recommendations.withColumn(N_ROWS, F.lit(1))


def rank_by_score(recommendations: DataFrame, ties: Ties, sees_ties: bool) -> DataFrame:
    """Repeated items keep their best score, then the list is sorted. One shuffle and one sort serve all."""
    by_list = Window.partitionBy(MODEL, USER)
    distinct = (
        recommendations.repartition(MODEL, USER)
        .groupBy(MODEL, USER, ITEM, FAULT)
        .agg(F.max(SCORE).alias(SCORE), F.count("*").alias(N_ROWS))
    )
    by_score = [F.asc_nulls_first(FAULT), F.desc(SCORE)]
    best_first = by_list.orderBy(*by_score, *tie_order(ties, bare(recommendations, ITEM)))
    is_tied = (F.lead(SCORE).over(best_first) == F.col(SCORE)) & F.lead(FAULT).over(best_first).isNull()
    places = {TIED_NEXT: F.coalesce(is_tied, F.lit(False))}
    if sees_ties:
        first = F.rank().over(by_list.orderBy(*by_score))
        equals = by_list.orderBy(*by_score).rangeBetween(Window.currentRow, Window.currentRow)
        places |= {TIE_FIRST: first, TIE_LAST: first + F.count("*").over(equals) - 1}
    ranks = F.row_number().over(best_first).alias(RANK)
    ties_known = [place.alias(name) for name, place in places.items()]
    return distinct.select(MODEL, USER, ITEM, ranks, FAULT, N_ROWS, *ties_known)


def check_ranks(recommendations: DataFrame, sees_places: bool) -> DataFrame:
    """Repeated items keep their best rank; items that share a rank get the fault DUPLICATE_RANK."""
    distinct = (
        recommendations.repartition(MODEL, USER)
        .groupBy(MODEL, USER, ITEM, FAULT)
        .agg(F.min(RANK).alias(RANK), F.count("*").alias(N_ROWS))
    )
    sharing = F.count("*").over(Window.partitionBy(MODEL, USER, RANK, FAULT))
    clash = F.when(F.col(FAULT).isNull() & (sharing > 1), Fault.DUPLICATE_RANK.value)
    checked = distinct.select(MODEL, USER, ITEM, RANK, F.coalesce(FAULT, clash).alias(FAULT), N_ROWS)
    if not sees_places:
        return checked
    # A table with items that share a rank is refused: whichever comes first changes no number.
    by_rank = Window.partitionBy(MODEL, USER).orderBy(F.asc_nulls_first(FAULT), RANK)
    return checked.withColumn(HELD_PLACE, F.row_number().over(by_rank).cast("long"))


def tie_order(ties: Ties, item: Column) -> list[Column]:
    """What decides between equal scores; the item comes last, so that the order is total."""
    match ties:
        case Ties.ITEM_DESC:
            return [item.desc()]
        case Ties.ITEM_ASC:
            return [item.asc()]
        case Ties.HASH:
            return [F.xxhash64(F.lit(TIES_SEED), item.cast("string")), item.desc()]
