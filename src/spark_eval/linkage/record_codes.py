"""Integer codes of ids in 32 bits; text is in memory for a block of rows at a time."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.codes import DENSEST, to_numpy
from spark_eval.statistics.exact import Ints

Codes32 = NDArray[np.int32]
# Rows that are computed at once, and rows whose text is in memory at once.
BLOCK: Final = 1 << 20
BLOCK_OF_TEXT: Final = 1 << 24
FITS: Final = np.iinfo(np.int32)


def blocks(n: int, size: int | None = None) -> Iterator[slice]:
    """Yield slices of at most ``size`` rows, by default ``BLOCK``, that cover n rows.

    >>> list(blocks(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    most = size or BLOCK
    for start in range(0, n, most):
        yield slice(start, min(start + most, n))


class IdColumn:
    """Column of up to ``n_most`` ids, filled batch by batch.

    ``values`` are the integers, in 32 bits if they fit. Those of text are codes of ``dictionaries``, which
    has the start of each block of rows and the distinct texts of the block.
    """

    def __init__(self, n_most: int, *, is_text: bool = False) -> None:
        self.is_text = is_text
        self.values: Codes32 | Ints = np.empty(n_most, dtype=np.int32)
        self.n_rows = self.least = self.last = 0
        self.waiting: list[pa.Array] = []
        self.dictionaries: list[tuple[int, pa.Array]] = []

    def add(self, ids: pa.Array) -> None:
        """Add a batch of integers or of text, without nulls."""
        if not self.is_text:
            self.add_numbers(to_numpy(ids))
            return
        self.waiting.append(ids)
        if sum(map(len, self.waiting)) >= BLOCK_OF_TEXT:
            self.code_waiting()

    def add_numbers(self, numbers: Ints) -> None:
        """Add integers; they all take 64 bits from the first one on that needs them."""
        if not len(numbers):
            return
        least, last = int(numbers.min()), int(numbers.max())
        self.least = min(least, self.least) if self.n_rows else least
        self.last = max(last, self.last) if self.n_rows else last
        if least < FITS.min or last > FITS.max:
            self.values = self.values.astype(np.int64, copy=False)
        self.values[self.n_rows : self.n_rows + len(numbers)] = numbers
        self.n_rows += len(numbers)

    def code_waiting(self) -> None:
        """Code the batches that wait, by a dictionary of their own."""
        if self.waiting:
            self.add_block(pa.chunked_array(self.waiting))
            self.waiting = []

    def add_block(self, ids: pa.ChunkedArray) -> None:
        """Add ids with a dictionary of their own."""
        coded = ids.dictionary_encode()  # all chunks have the same dictionary
        self.dictionaries.append((self.n_rows, coded.chunk(0).dictionary))
        for chunk in coded.chunks:
            self.values[self.n_rows : self.n_rows + len(chunk)] = to_numpy(chunk.indices)
            self.n_rows += len(chunk)

    def by_dictionary(self) -> "IdColumn":
        """Return the column, coded by dictionaries even if its ids are integers."""
        self.code_waiting()
        if self.dictionaries or not self.n_rows:
            return self
        coded = IdColumn(self.n_rows)
        for rows in blocks(self.n_rows, BLOCK_OF_TEXT):
            coded.add_block(pa.chunked_array([self.values[rows].astype(np.int64)]))
        return coded


def code_together(columns: Sequence[IdColumn], *, in_order: bool = False) -> tuple[list[Codes32], pa.Array]:
    """Return the codes of each column, from 0, and the ids by code; in ascending order if asked.

    The columns are all of integers or all of text, and are used up: their codes take the place of the values.

    >>> column = IdColumn(3, is_text=True)
    >>> column.add(pa.array(["x", "b", "x"]))
    >>> [codes], ids = code_together([column], in_order=True)
    >>> codes.tolist(), ids.to_pylist()
    ([1, 0, 1], ['b', 'x'])
    """
    filled = [column for column in columns if column.n_rows and not column.dictionaries]
    n_rows = sum(column.n_rows for column in filled)
    least, last = (
        min((column.least for column in filled), default=0),
        max((column.last for column in filled), default=0),
    )
    is_text = any(column.is_text for column in columns)
    if not is_text and last - least < max(DENSEST * n_rows, 1):
        return codes_of_dense(columns, least, last)
    return codes_by_dictionary([column.by_dictionary() for column in columns], in_order=in_order)


def codes_of_dense(columns: Sequence[IdColumn], least: int, last: int) -> tuple[list[Codes32], pa.Array]:
    """Return the codes of integers between two numbers by marks of all that are there; see above."""
    is_there = np.zeros(last - least + 1, dtype=np.bool_)
    for column in columns:
        for rows in blocks(column.n_rows):
            is_there[column.values[rows].astype(np.int64) - least] = True
    codes = np.cumsum(is_there, dtype=np.int32)
    codes -= 1
    coded: list[Codes32] = []
    for column in columns:
        values = column.values[: column.n_rows]
        own = values.astype(np.int32, copy=False)  # in place, unless the integers take 64 bits
        for rows in blocks(len(values)):
            own[rows] = codes[values[rows].astype(np.int64) - least]
        coded.append(own)
    return coded, pa.array(np.flatnonzero(is_there) + least)


def codes_by_dictionary(columns: Sequence[IdColumn], *, in_order: bool) -> tuple[list[Codes32], pa.Array]:
    """Return the codes of columns that are coded by dictionaries, block by block; see above."""
    dictionaries = [ids for column in columns for _, ids in column.dictionaries]
    if not dictionaries:
        return [column.values[:0].astype(np.int32) for column in columns], pa.array([], pa.string())
    together = pa.chunked_array(dictionaries).dictionary_encode()
    ids = together.chunk(0).dictionary
    if in_order:
        order = to_numpy(pc.sort_indices(ids))
        ranks = np.empty(len(order), dtype=np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        ids = ids.take(pa.array(order))
    maps = iter(to_numpy(chunk.indices) for chunk in together.chunks)
    coded: list[Codes32] = []
    for column in columns:
        own = column.values[: column.n_rows].astype(np.int32, copy=False)
        starts = [start for start, _ in column.dictionaries]
        for start, end in pairwise([*starts, column.n_rows]):
            new = next(maps)
            new = ranks[new] if in_order else new
            for rows in blocks(end - start):
                chosen = slice(start + rows.start, start + rows.stop)
                own[chosen] = new[own[chosen]]
        coded.append(own)
    return coded, ids
