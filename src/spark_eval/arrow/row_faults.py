"""The rows that cannot be used, by the same rules as ``transforms.conform``."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.hashes import numbers
from spark_eval.conventions import Conventions, NegativeRelevance
from spark_eval.errors import DataError
from spark_eval.schema import (
    FAULT,
    FOLD,
    IN_TRAIN,
    ITEM,
    LARGEST_EXACT,
    MODEL,
    RANK,
    RELEVANCE,
    ROW_FAULTS,
    SCORE,
    TIMESTAMP,
    USER,
    Fault,
    Reason,
)

Codes = NDArray[np.int8]
# The code of a row that can be used; the others are places in ROW_FAULTS.
SOUND = -1


def faults(batch: pa.RecordBatch) -> Codes | None:
    """The fault of each row, as its place in ROW_FAULTS or SOUND; None where all rows are sound."""
    found: dict[Fault, NDArray[np.bool_]] = {}
    for fault, names in {
        Fault.NULL_MODEL: [MODEL],
        Fault.NULL_ID: [USER, ITEM, FOLD],
        Fault.NULL_RANK: [RANK],
        Fault.NULL_SCORE: [SCORE],
    }.items():
        for name in names:
            if name in batch.schema.names and batch[name].null_count:
                is_null = numbers(batch[name].is_null())
                found[fault] = found[fault] | is_null if fault in found else is_null
    if RANK in batch.schema.names:
        found[Fault.RANK_BASE] = numbers(pc.less(batch[RANK], 1).fill_null(False))
    if SCORE in batch.schema.names and pa.types.is_floating(batch.schema.field(SCORE).type):
        found[Fault.SCORE_NOT_FINITE] = numbers(pc.invert(pc.is_finite(batch[SCORE])).fill_null(False))
    if not any(np.any(rows) for rows in found.values()):
        return None
    codes = np.full(batch.num_rows, SOUND, dtype=np.int8)
    for code in reversed(range(len(ROW_FAULTS))):
        if ROW_FAULTS[code] in found:
            codes[found[ROW_FAULTS[code]]] = code
    return codes


def beyond_doubles(numbers: pa.Array) -> pa.Array:
    """Which are whole numbers that a double may round; null where a number is."""
    if not pa.types.is_int64(numbers.type):
        return pa.scalar(False)
    return pc.or_(pc.greater(numbers, LARGEST_EXACT), pc.less(numbers, -LARGEST_EXACT))


def inexact_relevance() -> DataError:
    """What refuses a log: its rows are written, and nobody would know that a relevance was rounded."""
    what = "a relevance that a double cannot hold; divide it, or cast it to double"
    return DataError(Fault.RELEVANCE_NOT_EXACT, f"interactions: {what}")


def judged(rows: pa.Table, conventions: Conventions) -> pa.Table:
    """Rows of the truth: user, item, relevance (1 if there is none), timestamp as a number if there is one,
    and fault: null, a code or, where rows are judged one by one, a reason."""
    relevance, inexact = pa.repeat(1.0, rows.num_rows), pa.scalar(False)
    if RELEVANCE in rows.column_names:
        given = rows[RELEVANCE].combine_chunks()
        relevance, inexact = given.cast(pa.float64(), safe=False), beyond_doubles(given)
    if FAULT in rows.column_names:  # Spark has made it a double
        inexact = pc.equal(rows[FAULT], Fault.RELEVANCE_NOT_EXACT.value)
    faults = {
        Fault.NULL_ID: any_null(rows),
        Fault.NULL_RELEVANCE: pc.is_null(relevance),
        Fault.RELEVANCE_NOT_FINITE: pc.invert(pc.is_finite(relevance)),
        Fault.RELEVANCE_NOT_EXACT: inexact,
    }
    if conventions.negative_relevance is NegativeRelevance.REFUSE:
        faults[Fault.NEGATIVE_RELEVANCE] = pc.less(relevance, 0.0)
    fault = pa.nulls(rows.num_rows, pa.string())
    if conventions.judges_rows:
        fault = irrelevance(relevance, conventions.threshold)
    for name, holds in reversed(faults.items()):
        if pc.any(holds).as_py():
            fault = pc.if_else(pc.fill_null(holds, False), name.value, fault)
    columns = {USER: rows[USER], ITEM: rows[ITEM], RELEVANCE: relevance}
    columns |= {name: rows[name] for name in (FOLD, IN_TRAIN) if name in rows.column_names}
    if TIMESTAMP in rows.column_names:
        columns[TIMESTAMP] = rows[TIMESTAMP].cast(pa.int64())
    return pa.table(columns | {FAULT: fault})


def any_null(rows: pa.Table) -> pa.ChunkedArray:
    """Return which rows lack a user, an item or, if there are folds, a fold."""
    found = pc.or_(pc.is_null(rows[USER]), pc.is_null(rows[ITEM]))
    return pc.or_(found, pc.is_null(rows[FOLD])) if FOLD in rows.column_names else found


def irrelevance(relevance: pa.Array, threshold: float | None) -> pa.Array:
    """Why each relevance is not relevant; null where it is, or is null itself."""
    below, reason = pc.less(relevance, threshold), Reason.BELOW_THRESHOLD
    if threshold is None:
        below, reason = pc.less_equal(relevance, 0.0), Reason.NOT_RELEVANT
    return pc.if_else(below, reason.value, pa.scalar(None, pa.string()))
