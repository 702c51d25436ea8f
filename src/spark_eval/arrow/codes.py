"""Hashes and integer codes of ids: equal ids have equal hashes and equal codes, whatever their type.

Hashes only preselect: the ids themselves are compared afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
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
Array = NDArray[Any]
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


def run_starts(values: Array) -> Booleans:
    """Return True where a value differs from the previous one, and for the first value."""
    changed = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def to_numpy(column: pa.Array | pa.ChunkedArray) -> Array:
    """Convert a column without nulls to numpy."""
    is_whole = isinstance(column, pa.Array)
    values: Array = column.to_numpy(zero_copy_only=False) if is_whole else column.to_numpy()
    return values


def rows_at(table: pa.Table, rows: slice | Ints) -> pa.Table:
    """Return the rows of these indices, in their order; a slice is not copied."""
    if isinstance(rows, slice):
        return table.slice(rows.start, rows.stop - rows.start)
    return table.take(pa.array(rows))


def concat_tables(parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables, with one dictionary for each dictionary-coded column."""
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


# Distinct integers are found by marks if there are at most this many numbers between them per value.
DENSEST: Final = 2

# Function from row indices to the sort values of these rows.
SortKey = Callable[[Ints], Array]
# Longer runs are sorted one by one.
LONGEST_BATCHED: Final = 1 << 11


@dataclass(frozen=True)
class Codes:
    """Integer codes of the ids of several columns.

    ``columns`` have a code per row: an integer id is its own code; the code of a text is its index in
    ``texts``.
    """

    columns: Sequence[Ints]
    texts: pa.Array | None

    @classmethod
    def of(cls, columns: Sequence[pa.ChunkedArray]) -> "Codes":
        """Code columns of integers, or of text (plain or dictionary-coded), without nulls."""
        if all(pa.types.is_integer(column.type) for column in columns):
            return cls([to_numpy(column).astype(np.int64, copy=False) for column in columns], None)
        coded = [
            column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()
            for column in columns
        ]
        chunks = [chunk for column in coded for chunk in column.cast(CODED_TEXT).chunks]
        if not chunks:
            return cls([np.empty(0, np.int64) for _ in columns], pa.array([], pa.string()))
        unified = pa.chunked_array(chunks).unify_dictionaries()
        codes = np.concatenate([to_numpy(chunk.indices) for chunk in unified.chunks]).astype(np.int64)
        ends = np.cumsum([len(column) for column in columns])[:-1]
        return cls(np.split(codes, ends), unified.chunk(0).dictionary)

    def ids(self, codes: Ints) -> pa.Array:
        """Return the ids of codes, as int64 or text."""
        return pa.array(codes) if self.texts is None else self.texts.take(pa.array(codes))

    def in_order(self, codes: Ints) -> Ints:
        """Return integers in the order of the ids: integers by value, text by its UTF-8 bytes."""
        return codes if self.texts is None else self.text_order[codes]

    def ids_in_order(self, ranks: Ints) -> pa.Array:
        """Return the ids of integers that ``in_order`` returned."""
        if self.texts is None:
            return pa.array(ranks)
        codes = np.empty_like(self.text_order)
        codes[self.text_order] = np.arange(len(codes))
        return self.texts.take(pa.array(codes[ranks]))

    @cached_property
    def text_order(self) -> Ints:
        """Rank of each text among all, by UTF-8 bytes."""
        by_text = to_numpy(pc.sort_indices(self.texts))
        rank = np.empty(len(by_text), dtype=np.int64)
        rank[by_text] = np.arange(len(by_text))
        return rank


CODED_TEXT: Final = pa.dictionary(pa.int32(), pa.string())


def index_of(values: pa.Array, among: pa.Array) -> Ints:
    """Return the index of each value in distinct values, -1 if missing."""
    return to_numpy(pc.index_in(values, value_set=among).fill_null(-1)).astype(np.int64)


def unique_in_order_of_appearance(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values in order of appearance, and the index of each row's value in them."""
    starts = np.flatnonzero(run_starts(values))  # equal values are mostly adjacent: one lookup per run
    coded = pa.array(values[starts]).dictionary_encode()
    index = to_numpy(coded.indices).astype(np.int64)
    return to_numpy(coded.dictionary), np.repeat(index, np.diff(np.append(starts, len(values))))


def unique_sorted(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values, ascending, and the index of each row's value in them."""
    if (distinct_and_index := unique_by_marks(values)) is not None:
        return distinct_and_index
    distinct, index = unique_in_order_of_appearance(values)
    order = np.argsort(distinct)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[index]


def unique(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values in the order that is quickest, and the index of each row's value in them."""
    if (values[1:] > values[:-1]).all():
        return values, np.arange(len(values))
    return unique_by_marks(values) or unique_in_order_of_appearance(values)


def unique_by_marks(values: Ints) -> tuple[Ints, Ints] | None:
    """Find the values of ``unique_sorted`` by marks of all numbers between them; None if these are many.

    Marks are quicker than a hash table.
    """
    least, last = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if last - least >= DENSEST * len(values):
        return None
    offset, is_there = values - least, np.zeros(last - least + 1, dtype=bool)
    is_there[offset] = True
    return np.flatnonzero(is_there) + least, (np.cumsum(is_there) - 1)[offset]


def count_unique(values: Ints) -> int:
    """Count distinct values."""
    n: int = pc.count_distinct(pa.array(values)).as_py()
    return n


def count_by_code(codes: Ints, n: int) -> Ints:
    """Count how often each code below n occurs; shape (n,)."""
    return np.bincount(codes, minlength=n)


def lexsort(*keys: Ints | Hashes) -> Ints:
    """Return the order that sorts rows by the first key, then by the next, and so on; shape (n,).

    The order of rows with equal keys is undefined.
    """
    packed = combine_keys(*keys)
    return np.lexsort(keys[::-1]) if packed is None else np.argsort(packed)


def combine_keys(*keys: Ints | Hashes) -> Hashes | None:
    """Pack keys into one integer per row with the same order; None if they do not fit 64 bits."""
    packed, n_bits = np.zeros(len(keys[0]), dtype=np.uint64), 0
    for key in reversed(keys if len(keys[0]) else ()):
        least = int(key.min())
        bits = (int(key.max()) - least).bit_length()
        if n_bits + bits > 64:
            return None
        packed |= (key - least).astype(np.uint64) << np.uint64(min(n_bits, 63))
        n_bits += bits
    return packed


def row_codes(*columns: Ints) -> Ints:
    """Return a code from 0 per row (n,) of columns of codes from 0, in the order of their values.

    Pairs are coded anew with each column, so that no product of codes is beyond 64 bits.

    >>> row_codes(np.array([0, 7, 7]), np.array([2, 1, 2])).tolist()
    [0, 1, 2]
    """
    first, *others = columns
    for codes in others:
        first = unique_sorted(first.astype(np.int64) * (int(codes.max(initial=0)) + 1) + codes)[1]
    return first


def stable_argsort(codes: Ints, n_codes: int) -> Ints:
    """Return the order that sorts rows by codes below ``n_codes``; stable."""
    if (codes[1:] >= codes[:-1]).all():
        return np.arange(len(codes))
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    if n_codes > 1 << 16:
        order = order[np.argsort((codes >> 16)[order], kind="stable")]
    return order


def argsort_within_runs(rows: Ints, is_first: Booleans, keys: Sequence[SortKey]) -> None:
    """Sort each run of rows by the first key, equal rows by the next key, and so on.

    Runs begin where ``is_first`` is True; both arrays (n,) are changed in place: finally a run has the rows
    that are equal in all keys. Each key is computed only for rows that are still equal.
    """
    for key in keys:
        tied = np.flatnonzero(~is_first | ~np.append(is_first[1:], True))
        if not len(tied):
            return
        unsorted = rows[tied]
        values = key(unsorted)
        order = argsort_values_within_runs(values, np.flatnonzero(is_first[tied]))
        rows[tied] = unsorted[order]
        is_first[tied] |= run_starts(values[order])


def argsort_values_within_runs(values: Array, starts: Ints) -> Ints:
    """Return the order that sorts each run of values (n,); a run begins at each of ``starts``.

    Runs of about the same length are sorted as rows of one matrix: many short sorts cost a tenth of a long
    one.
    """
    order, lengths = np.arange(len(values)), np.diff(np.append(starts, len(values)))
    _, size = np.frexp(lengths - 1)
    for bits in np.flatnonzero(np.bincount(size))[::-1].tolist():
        if not bits:  # only runs of one value are left
            break
        runs = np.flatnonzero(size == bits)
        if 1 << bits > LONGEST_BATCHED:
            for start, length in zip(starts[runs].tolist(), lengths[runs].tolist(), strict=True):
                order[start : start + length] = start + np.argsort(values[start : start + length])
            continue
        start, length = starts[runs][:, None], lengths[runs][:, None]
        column = np.arange(length.max())
        index, is_own = start + column, column < length
        if is_own.all():
            order[index] = start + np.argsort(values[index], axis=1)
            continue
        padded = np.full(index.shape, np.iinfo(values.dtype).max, dtype=values.dtype)
        padded[is_own] = values[index[is_own]]
        in_order = np.argsort(padded, axis=1)
        # The padding may equal values of the run, so positions beyond the run are masked out.
        order[index[is_own]] = (start + in_order)[in_order < length]
    return order
