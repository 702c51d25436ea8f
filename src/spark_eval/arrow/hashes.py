"""Ids of a batch as numbers: equal ids have equal keys and hashes, whatever their type.

A hash finds candidates fast; whoever finds by hash compares the ids themselves afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.schema import ODD_ID
from spark_eval.stats.draws import GOLDEN, scrambled
from spark_eval.stats.exact import Ints

Hashes = NDArray[np.uint64]
Booleans = NDArray[np.bool_]

# Of all hashes: tasks must agree on them.
HASH_SEED: Final = 20231


@dataclass(frozen=True)
class Ids:
    """A column of n ids without nulls.

    ``values`` are int64 numbers or dictionary-coded text; ``key`` (n,) is equal where ids of this very
    column are.
    """

    values: pa.Array
    key: Ints

    @classmethod
    def of(cls, column: pa.Array) -> "Ids":
        """Return the ids of an Arrow column of integers or text."""
        column = plain(column)
        if pa.types.is_integer(column.type):
            return cls(column, column.to_numpy())
        coded = column.dictionary_encode()
        return cls(coded, coded.indices.to_numpy().astype(np.int64))

    @cached_property
    def hash(self) -> Hashes:
        """64 bits of each id; shape (n,)."""
        return hashes_of(self.values)

    def take(self, places: Ints) -> "Ids":
        """Return the ids at these places."""
        return Ids(self.values.take(pa.array(places)), self.key[places])


def hashes_of(column: pa.Array) -> Hashes:
    """Return 64 bits of each id of a column of integers or text without nulls; shape (n,)."""
    if pa.types.is_integer(column.type):
        return mixed(numbers(column).astype(np.int64, copy=False).view(np.uint64))
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    texts = numbers(column.dictionary.cast(pa.string()))
    # SipHash, of each text of the batch once.
    of_text = pd.util.hash_array(texts, hash_key=f"{HASH_SEED:016}", categorize=False)
    hashes: Hashes = of_text[numbers(column.indices)]
    return hashes


def plain(column: pa.Array) -> pa.Array:
    """Return a column of integers or text as int64 or text."""
    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.string())


def is_odd(ids: pa.Array) -> Booleans:
    """Return which ids of text look like others; none, of integers or nulls; shape (n,)."""
    if not pa.types.is_string(ids.type):
        return np.zeros(len(ids), dtype=bool)
    return numbers(pc.match_substring_regex(ids, ODD_ID).fill_null(False))


def mixed(numbers: Hashes) -> Hashes:
    """Return each number scrambled, one to one."""
    return scrambled(numbers + np.uint64(HASH_SEED * GOLDEN % 2**64))


def pair_hash(users: Hashes, items: Hashes) -> Hashes:
    """Return 64 bits of each pair of two ids, from their hashes."""
    return users + items * np.uint64(GOLDEN)


def bucket_of(users: Hashes, n_buckets: int) -> Ints:
    """Return the bucket of each user: equal ranges of the upper half of the hash."""
    return ((users >> np.uint64(32)) * np.uint64(n_buckets) >> np.uint64(32)).astype(np.int64)


def changes(values: NDArray[Any]) -> Booleans:
    """Return where a value differs from the one before, and at the first."""
    changed = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column without nulls as numpy has it."""
    is_whole = isinstance(column, pa.Array)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False) if is_whole else column.to_numpy()
    return values


def in_one_piece(parts: Sequence[pa.Table]) -> pa.Table:
    """Return tables end to end, with one dictionary for each coded column."""
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()
