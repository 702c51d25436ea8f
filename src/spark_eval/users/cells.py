"""Cells of users: all users, and one cell per segment value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Array, Booleans, Codes, lexsort, run_starts, to_numpy
from spark_eval.schema import ALL, SEGMENT, SEGMENT_VALUE
from spark_eval.statistics.exact import Ints
from spark_eval.statistics.totals import CellTotals

# Segment name and value.
SegmentValue = tuple[str, str]
# Sums per pair of models; shape (cells, pairs, columns).
PairTotals = CellTotals[SegmentValue]
EVERYBODY: Final = (ALL, ALL)
# Segments are crossed while a combination of their values has at least this many users on average.
USERS_PER_CROSSING: Final = 256


@dataclass(frozen=True)
class SegmentCombinations:
    """All combinations of the values of some segments; ``crossing`` (n,) is the combination of each user.

    ``first`` is the index of its first cell among the cells of all combinations; the cell of all users is 0.
    """

    names: Sequence[str]
    values: Sequence[Sequence[str]]
    crossing: Ints
    first: int

    @property
    def n_crossings(self) -> int:
        """Number of combinations, including those without users."""
        return prod(map(len, self.values))

    @property
    def cells(self) -> list[SegmentValue]:
        """Cells of these segments; the first ``SegmentCombinations`` also has the cell of all users."""
        named = zip(self.names, self.values, strict=True)
        of_segments = [(name, value) for name, values in named for value in values]
        return [EVERYBODY, *of_segments] if self.first == 0 else of_segments

    @property
    def cell_slice(self) -> slice:
        """Slice of its cells among the cells of all ``SegmentCombinations``."""
        return slice(self.first, self.first + len(self.cells))

    @cached_property
    def order(self) -> Ints:
        """Indices that sort the users by combination; shape (n,)."""
        return np.argsort(self.crossing, kind="stable")

    @property
    def ends(self) -> Ints:
        """Offsets of each combination in ``order``; shape (n_crossings + 1,)."""
        return np.append(0, np.cumsum(self.counted(np.ones(len(self.crossing), dtype=bool))))

    def counted(self, chosen: Booleans) -> Ints:
        """Count the chosen users (n,) of each combination; shape (n_crossings,)."""
        if self.n_crossings == 1:
            return np.array([np.count_nonzero(chosen)])
        return np.bincount(self.crossing[chosen], minlength=self.n_crossings)

    def of_cells(self, sums: Array) -> Array:
        """Add up the sums of combinations (n_crossings, ...) to those of cells (cells, ...)."""
        grid = sums.reshape((*map(len, self.values), *sums.shape[1:]))
        axes = range(len(self.values))
        parts = [grid.sum(axis=tuple(axes))[None]] if self.first == 0 else []
        parts += [grid.sum(axis=tuple(summed for summed in axes if summed != axis)) for axis in axes]
        return np.concatenate(parts)

    def by_person(self, person: Ints, folds: Ints | None) -> tuple[Ints, Ints, Ints]:
        """Sort rows by combination, then by their user ``person`` (n,), any integers, then by fold.

        Return three arrays: the sort order (n,); the offset in it of each user's rows within a combination;
        and the offsets of the combinations among these users, shape (n_crossings + 1,).
        """
        keys = (person, self.crossing)
        order = np.lexsort(keys if folds is None else (folds, *keys))
        is_first = np.logical_or.reduce([run_starts(key[order]) for key in keys])
        starts = np.flatnonzero(is_first)
        n_people = np.bincount(self.crossing[order[starts]], minlength=self.n_crossings)
        return order, starts, np.append(0, np.cumsum(n_people))


def combine_segments(
    segments: Mapping[str, pa.Array], n: int, *, crossed: bool = True
) -> list[SegmentCombinations]:
    """Group the segments of n users; each is in one ``SegmentCombinations``; the first has the cell of all.

    With ``crossed``, small segments share one ``SegmentCombinations``; otherwise each segment has its own.
    """
    grouped = [SegmentCombinations([], [], np.zeros(n, dtype=np.int64), 0)]
    for name, texts in segments.items():
        coded = texts.dictionary_encode()
        known, last = coded.dictionary.to_pylist(), grouped[-1]
        n_crossings = last.n_crossings * len(known)
        if not crossed or (last.names and n_crossings * USERS_PER_CROSSING > n):
            last = SegmentCombinations([], [], np.zeros(n, dtype=np.int64), last.cell_slice.stop)
            grouped.append(last)
        crossing = last.crossing * len(known) + to_numpy(coded.indices).astype(np.int64)
        grouped[-1] = SegmentCombinations([*last.names, name], [*last.values, known], crossing, last.first)
    return grouped


def cells_of(grouped: Sequence[SegmentCombinations]) -> Iterator[SegmentValue]:
    """Yield the cells of several ``SegmentCombinations``."""
    for grouping in grouped:
        yield from grouping.cells


def rows_by_cell(table: pa.Table) -> Iterator[tuple[SegmentValue, pa.Table]]:
    """Yield the rows of each segment value of a table; those of all rows if it has no segments.

    >>> table = pa.table({"segment": ["age", "all"], "segment_value": ["old", "all"], "rows": [1.0, 3.0]})
    >>> [(*cell, rows["rows"].to_pylist()) for cell, rows in rows_by_cell(table)]
    [('age', 'old', [1.0]), ('all', 'all', [3.0])]
    """
    if SEGMENT not in table.column_names:
        yield EVERYBODY, table
        return
    coded = [Codes.of([table[name]]) for name in (SEGMENT, SEGMENT_VALUE)]
    columns = [of_column.columns[0] for of_column in coded]
    order = lexsort(*columns)
    rows, in_order = table.take(pa.array(order)), [column[order] for column in columns]
    starts = np.flatnonzero(run_starts(in_order[0]) | run_starts(in_order[1]))
    texts = [
        of_column.ids(codes[starts]).to_pylist() for of_column, codes in zip(coded, in_order, strict=True)
    ]
    for *cell, (start, end) in zip(*texts, pairwise([*starts.tolist(), len(order)]), strict=True):
        yield (cell[0], cell[1]), rows.slice(start, end - start)
