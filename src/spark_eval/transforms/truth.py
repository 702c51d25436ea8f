"""What was relevant to whom: distinct items per user, then one small row per user."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.conventions import TruthDuplicates
from spark_eval.schema import (
    FAULT,
    GRADE_COUNTS,
    GRADES,
    ITEM,
    N_RELEVANT,
    N_ROWS,
    RELEVANCE,
    TIMESTAMP,
    USER,
    Reason,
)


def judge(truth: DataFrame, threshold: float | None) -> DataFrame:
    """The truth, rows below ``threshold`` or of relevance 0 with a ``fault``: they are not relevant."""
    irrelevant = F.when(F.col(RELEVANCE) <= 0, Reason.NOT_RELEVANT.value)
    if threshold is not None:
        irrelevant = F.when(F.col(RELEVANCE) < threshold, Reason.BELOW_THRESHOLD.value).otherwise(irrelevant)
    return truth.withColumn(FAULT, F.coalesce(FAULT, irrelevant))


def distinct_truth(truth: DataFrame, threshold: float | None, duplicates: TruthDuplicates) -> DataFrame:
    """user, item, relevance, fault, n_rows: one row per relevant item of a user, and per reason otherwise.

    Rows that are not relevant are combined per user without their items, for the ledger only. One shuffle
    by user.
    """
    return (
        judge(truth, threshold)
        .withColumn(ITEM, F.when(F.col(FAULT).isNull(), F.col(ITEM)))
        .repartition(USER)
        .groupBy(USER, ITEM, FAULT)
        .agg(combined(duplicates).alias(RELEVANCE), F.count("*").alias(N_ROWS))
    )


def combined(duplicates: TruthDuplicates) -> Column:
    """The relevance of an item that a user has in several truth rows."""
    match duplicates:
        case TruthDuplicates.MAX:
            return F.max(RELEVANCE)
        case TruthDuplicates.LAST:
            # The larger relevance of equally late rows, so that row order never decides.
            return F.max_by(RELEVANCE, F.struct(TIMESTAMP, RELEVANCE))
        case TruthDuplicates.COUNT:
            return F.count("*").cast("double")
        case TruthDuplicates.SUM:
            # Summed in sorted order: a sum of doubles in row order would depend on the partitioning.
            ordered = F.array_sort(F.collect_list(RELEVANCE))
            return F.aggregate(ordered, F.lit(0.0), lambda total, relevance: total + relevance)


def relevant(distinct: DataFrame) -> DataFrame:
    """user, item, relevance of the relevant items alone."""
    return distinct.where(F.col(FAULT).isNull()).select(USER, ITEM, RELEVANCE)


def per_user_truth(distinct: DataFrame, depth: int | None) -> DataFrame:
    """user, n_relevant, grades, grade_counts: how many items, and which relevances, best first.

    Relevances are run-length coded (each distinct one with its count) and cut where ``depth`` items are
    reached, so that a user with millions of relevant items is still a small row.
    """
    best_first = F.sort_array(F.collect_list(F.struct(RELEVANCE, N_ROWS)), asc=False)
    by_grade = relevant(distinct).groupBy(USER, RELEVANCE).agg(F.count("*").alias(N_ROWS))
    graded = by_grade.groupBy(USER).agg(
        F.sum(N_ROWS).alias(N_RELEVANT),
        (best_first if depth is None else F.slice(best_first, 1, depth)).alias(GRADES),
    )
    return graded.select(
        USER,
        N_RELEVANT,
        F.col(f"{GRADES}.{RELEVANCE}").alias(GRADES),
        F.col(f"{GRADES}.{N_ROWS}").alias(GRADE_COUNTS),
    )
