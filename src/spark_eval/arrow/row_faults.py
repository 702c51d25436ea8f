"""Validate rows of recommendations, truth and train: the same rules for executors and quarantine."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans, to_numpy
from spark_eval.conventions import Conventions, NegativeRelevance
from spark_eval.errors import DataError
from spark_eval.schema import (
    FOLD,
    IN_TRAIN,
    INEXACT,
    ITEM,
    LARGEST_EXACT,
    MODEL,
    N_INTERACTIONS,
    RANK,
    RELEVANCE,
    REPEAT,
    REQUEST,
    SCORE,
    TIMESTAMP,
    USER,
    Fault,
    Reason,
)

# Rows in the engine's form, and the fault of each: null for a valid row, None if all are valid.
Judged = tuple[pa.Table, pa.Array | None]
FaultRule = Callable[[pa.Table], Judged]


def judge_lists(rows: pa.Table) -> Judged:
    """Validate rows of recommendations, which have a rank or a score; return ranks as integers."""
    is_broken = None
    if RANK in rows.column_names and pa.types.is_floating(rows.schema.field(RANK).type):
        ranks, is_broken = whole_ranks(rows[RANK].cast(pa.float64()))
        rows = rows.set_column(rows.column_names.index(RANK), RANK, ranks)
    faults: dict[Fault | Reason, Booleans] = {
        Fault.NULL_MODEL: is_any_null(rows, MODEL),
        Fault.NULL_REPEAT: is_any_null(rows, REPEAT),
        Fault.NULL_ID: is_any_null(rows, USER, ITEM, FOLD, REQUEST),
        Fault.NULL_RANK: is_any_null(rows, RANK),
        Fault.NULL_SCORE: is_any_null(rows, SCORE),
    }
    if is_broken is not None:
        faults[Fault.RANK_NOT_INTEGER] = fill_null_with_false(is_broken)
    if RANK in rows.column_names:
        faults[Fault.RANK_BASE] = fill_null_with_false(pc.less(rows[RANK], 1))
    if SCORE in rows.column_names and pa.types.is_floating(rows.schema.field(SCORE).type):
        faults[Fault.SCORE_NOT_FINITE] = fill_null_with_false(pc.invert(pc.is_finite(rows[SCORE])))
    return rows, first_fault_code(list(faults.items()))


def whole_ranks(ranks: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return doubles as integer ranks, NaN as null, 0 if not whole; and True where a rank is not whole."""
    ranks = pc.if_else(pc.is_nan(ranks), None, ranks)
    is_whole = pc.and_(pc.equal(pc.floor(ranks), ranks), pc.less_equal(pc.abs(ranks), float(LARGEST_EXACT)))
    return pc.if_else(is_whole, ranks, 0.0).cast(pa.int64()), pc.invert(is_whole)


def judge_truth(rows: pa.Table, conventions: Conventions) -> Judged:
    """Validate rows of the truth; filter them by relevance if rows are filtered one by one.

    Return rows with relevance as a double (default 1), and timestamp, if any, as an integer. A column INEXACT
    marks decimals that Spark rounded when it made them doubles.
    """
    names = [name for name in (USER, ITEM, FOLD, REQUEST, IN_TRAIN) if name in rows.column_names]
    ones = pa.chunked_array([pa.repeat(1.0, len(rows))])
    given = rows[RELEVANCE] if RELEVANCE in rows.column_names else ones
    relevance = given.cast(pa.float64(), safe=False)
    judged = rows.select(names).append_column(RELEVANCE, relevance)
    if TIMESTAMP in rows.column_names:
        judged = judged.append_column(TIMESTAMP, rows[TIMESTAMP].cast(pa.int64()))
    faults: dict[Fault | Reason, Booleans] = {
        Fault.NULL_ID: is_any_null(rows, USER, ITEM, FOLD, REQUEST),
        Fault.NULL_RELEVANCE: is_any_null(judged, RELEVANCE),
        Fault.RELEVANCE_NOT_FINITE: fill_null_with_false(pc.invert(pc.is_finite(relevance))),
    }
    if INEXACT in rows.column_names:
        faults[Fault.RELEVANCE_NOT_EXACT] = fill_null_with_false(rows[INEXACT])
    elif pa.types.is_int64(given.type):
        faults[Fault.RELEVANCE_NOT_EXACT] = fill_null_with_false(is_inexact_as_double(given))
    if conventions.negative_relevance is NegativeRelevance.REFUSE:
        faults[Fault.NEGATIVE_RELEVANCE] = fill_null_with_false(pc.less(relevance, 0.0))
    if conventions.judges_rows:
        reason, is_relevant = Reason.NOT_RELEVANT, pc.greater(relevance, 0.0)
        if conventions.threshold is not None:
            reason, is_relevant = Reason.BELOW_THRESHOLD, pc.greater_equal(relevance, conventions.threshold)
        faults[reason] = fill_null_with_false(pc.invert(is_relevant))
    return judged, first_fault_code(list(faults.items()))


def judge_train(rows: pa.Table) -> Judged:
    """Validate training interactions."""
    return rows, first_fault_code([(Fault.NULL_ID, is_any_null(rows, USER, ITEM, FOLD))])


def valid_train(rows: pa.Table) -> Judged:
    """Return the valid training interactions."""
    _, faults = judge_train(rows)
    return rows if faults is None else rows.filter(faults.is_null()), None


def interactions_of_users(rows: pa.Table) -> Judged:
    """Return the users of valid training interactions, with the number of interactions."""
    valid, _ = valid_train(rows)
    keys = [name for name in (USER, FOLD) if name in rows.column_names]
    return valid.group_by(keys, use_threads=False).aggregate([([], "count_all")]).rename_columns(
        [*keys, N_INTERACTIONS]
    ), None


def first_fault_code(faults: Sequence[tuple[Fault | Reason, Booleans]]) -> pa.Array | None:
    """Return the first fault of each row, null for a valid row; None if all are valid."""
    if not any(rows.any() for _, rows in faults):
        return None
    codes = np.full(len(faults[0][1]), -1, dtype=np.int32)
    for code, (_, rows) in reversed(list(enumerate(faults))):
        codes[rows] = code
    names = pa.array([fault.value for fault, _ in faults], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), names)


def is_any_null(rows: pa.Table, *names: str) -> Booleans:
    """Return True for rows with a null in one of these columns, if the table has it."""
    lacking = np.zeros(len(rows), dtype=bool)
    for name in names:
        if name in rows.column_names and rows[name].null_count:
            lacking |= to_numpy(rows[name].is_null())
    return lacking


def fill_null_with_false(condition: pa.ChunkedArray) -> Booleans:
    """Return True where a condition is True, and not null."""
    rows: Booleans = to_numpy(condition.fill_null(False))
    return rows


def is_inexact_as_double(numbers: pa.Array) -> pa.Array:
    """Return True for integers that a double may round; null for nulls."""
    if not pa.types.is_int64(numbers.type):
        return pa.scalar(False)
    return pc.or_(pc.greater(numbers, LARGEST_EXACT), pc.less(numbers, -LARGEST_EXACT))


def inexact_relevance() -> DataError:
    """Return the error for a log whose relevances would be rounded without notice in the written tables."""
    what = "a relevance that a double cannot hold; divide it, or cast it to double"
    return DataError(Fault.RELEVANCE_NOT_EXACT, f"interactions: {what}")
