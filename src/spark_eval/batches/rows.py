"""The rows of a batch of recommendations that cannot be used, by the same rules as ``transforms.conform``."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.batches.ids import numbers
from spark_eval.schema import ITEM, MODEL, RANK, ROW_FAULTS, SCORE, USER, Fault

Codes = NDArray[np.int8]
# The code of a row that can be used; the others are places in ROW_FAULTS.
SOUND = -1
# Found out only later, in whole lists.
SHARED = ROW_FAULTS.index(Fault.DUPLICATE_RANK)


def faults(batch: pa.RecordBatch) -> Codes | None:
    """The fault of each row, as its place in ROW_FAULTS or SOUND; None where all rows are sound."""
    found: dict[Fault, NDArray[np.bool_]] = {}
    for fault, names in {
        Fault.NULL_MODEL: [MODEL],
        Fault.NULL_ID: [USER, ITEM],
        Fault.NULL_RANK: [RANK],
        Fault.NULL_SCORE: [SCORE],
    }.items():
        for name in names:
            if name in batch.schema.names and batch[name].null_count:
                is_null = numbers(batch[name].is_null())
                found[fault] = found[fault] | is_null if fault in found else is_null
    if RANK in batch.schema.names:
        found[Fault.RANK_BASE] = numbers(pc.less(batch[RANK], 1).fill_null(False))
    if SCORE in batch.schema.names:
        found[Fault.SCORE_NOT_FINITE] = numbers(pc.invert(pc.is_finite(batch[SCORE])).fill_null(False))
    if not any(np.any(rows) for rows in found.values()):
        return None
    codes = np.full(batch.num_rows, SOUND, dtype=np.int8)
    for code in reversed(range(len(ROW_FAULTS))):
        if ROW_FAULTS[code] in found:
            codes[found[ROW_FAULTS[code]]] = code
    return codes
