"""The keys of ``per_user`` as one number: of what was measured, and of what is found in the files."""

from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.hashes import numbers
from spark_eval.arrow.xxhash64 import SPARK_SEED, text_hashes, xxh64
from spark_eval.schema import N_RECOMMENDED, N_RELEVANT, USER

# What of a row is looked at, beside its model.
KEYS: Final = (USER, N_RELEVANT, N_RECOMMENDED)


def key_sum(model: str, rows: pa.Table) -> int:
    """Return the exact sum of Spark's ``xxhash64(model, string(user), n_relevant, n_recommended)`` over rows.

    A row that is lost, twice there, of another model or of another run changes it, whatever the order.
    """
    if not rows.num_rows:
        return 0
    [of_model] = text_hashes(pa.array([model]), np.uint64(SPARK_SEED))
    hashes = text_hashes(rows[USER].combine_chunks().cast(pa.string()), of_model)
    for name in (N_RELEVANT, N_RECOMMENDED):
        count = np.ascontiguousarray(numbers(rows[name]), dtype="<i8")
        hashes = xxh64(count.view(np.uint8).reshape(-1, 8), hashes)
    signed = hashes.view(np.int64)
    # In halves, which cannot outgrow 64 bits.
    return (int((signed >> 32).sum()) << 32) + int((signed & 0xFFFFFFFF).sum())
