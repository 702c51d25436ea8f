"""Hashes and integers of ids: equal ids have equal hashes, whatever their type.

A hash finds candidates fast; the ids themselves are compared afterwards.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.schema import ODD_ID
from spark_eval.statistics.draws import GOLDEN, splitmix64_finalize
from spark_eval.statistics.exact import Ints

Hashes = NDArray[np.uint64]
Booleans = NDArray[np.bool_]

# Seed of all hashes: tasks must use the same.
HASH_SEED: Final = 20231


def hashes_of(column: pa.Array) -> Hashes:
    """Return a 64-bit hash of each id; integers or text without nulls; shape (n,)."""
    if pa.types.is_integer(column.type):
        return scramble(to_numpy(column).astype(np.int64, copy=False).view(np.uint64))
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    texts = to_numpy(column.dictionary.cast(pa.string()))
    # SipHash, once for each distinct text of the batch.
    of_text = pd.util.hash_array(texts, hash_key=f"{HASH_SEED:016}", categorize=False)
    hashes: Hashes = of_text[to_numpy(column.indices)]
    return hashes


def decode_ids(column: pa.Array) -> pa.Array:
    """Cast ids to int64 or text."""
    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.string())


def is_numeric_lookalike(ids: pa.Array) -> Booleans:
    """Return True for text ids that look like other ids; False for integers and nulls; shape (n,)."""
    if not pa.types.is_string(ids.type):
        return np.zeros(len(ids), dtype=bool)
    return to_numpy(pc.match_substring_regex(ids, ODD_ID).fill_null(False))


def scramble(numbers: Hashes) -> Hashes:
    """Scramble each integer, one to one."""
    return splitmix64_finalize(numbers + np.uint64(HASH_SEED * GOLDEN % 2**64))


def pair_hash(users: Hashes, items: Hashes) -> Hashes:
    """Return a 64-bit hash of each pair of ids, from the hashes of the ids."""
    return users + items * np.uint64(GOLDEN)


def bucket_of(users: Hashes, n_buckets: int) -> Ints:
    """Return the bucket of each user: equal ranges of the upper half of the hash."""
    return ((users >> np.uint64(32)) * np.uint64(n_buckets) >> np.uint64(32)).astype(np.int64)


def run_starts(values: NDArray[Any]) -> Booleans:
    """Return True where a value differs from the previous one, and for the first value."""
    changed = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Convert a column without nulls to numpy."""
    is_whole = isinstance(column, pa.Array)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False) if is_whole else column.to_numpy()
    return values


def concat_tables(parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables, with one dictionary for each dictionary-coded column."""
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()
