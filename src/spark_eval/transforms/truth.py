"""What was relevant to whom: distinct items per user, then one small row per user."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.conventions import Conventions, TruthDuplicates
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
    """The truth, what is below ``threshold``, or without one 0 or less, with a ``fault``: not relevant."""
    irrelevant = F.when(F.col(RELEVANCE) <= 0, Reason.NOT_RELEVANT.value)
    if threshold is not None:
        irrelevant = F.when(F.col(RELEVANCE) < threshold, Reason.BELOW_THRESHOLD.value)
    return truth.withColumn(FAULT, F.coalesce(FAULT, irrelevant))


def distinct_truth(truth: DataFrame, conventions: Conventions) -> DataFrame:
    """user, item, relevance, fault, n_rows: one row per relevant item of a user, and for the others.

    Rows with a fault are combined per user without their items, for the ledger only; so are those that are
    not relevant, where rows are judged one by one. One shuffle by user.
    """
    rows = judge(truth, conventions.threshold) if conventions.judges_rows else truth
    distinct = (
        rows.withColumn(ITEM, F.when(F.col(FAULT).isNull(), F.col(ITEM)))
        .repartition(USER)
        .groupBy(USER, ITEM, FAULT)
        .agg(combined(conventions.truth_duplicates).alias(RELEVANCE), F.count("*").alias(N_ROWS))
    )
    return distinct if conventions.judges_rows else judge(distinct, conventions.threshold)


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
            nothing = F.struct(F.lit(0.0).alias("total"), F.lit(0.0).alias("lost"))
            return F.aggregate(ordered, nothing, with_rest, whole_sum)


def with_rest(before: Column, term: Column) -> Column:
    """A running sum and what its additions have rounded away so far; as ``batches.truth.combined``."""
    total = before["total"] + term
    added = total - before["total"]
    lost = (before["total"] - (total - added)) + (term - added)
    return F.struct(total.alias("total"), (before["lost"] + lost).alias("lost"))


def whole_sum(found: Column) -> Column:
    """The sum with what was rounded away; infinite where no double holds it."""
    is_finite = F.abs(found["total"]) < float("inf")
    return F.when(is_finite, found["total"] + found["lost"]).otherwise(found["total"])


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
