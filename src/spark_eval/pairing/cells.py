"""Cells of users: everybody, and the values of segments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_eval.arrow.hashes import Booleans, changes, numbers
from spark_eval.schema import ALL
from spark_eval.stats.exact import Ints
from spark_eval.stats.totals import CellTotals

# A segment and its value.
SegmentValue = tuple[str, str]
# Sums of pairs, of shape (cells, pairs, columns).
PairTotals = CellTotals[SegmentValue]
EVERYBODY: Final = (ALL, ALL)
# Segments are crossed while each crossing of their values has so many users, on average.
USERS_PER_CROSSING: Final = 256


@dataclass(frozen=True)
class Crossings:
    """Crossings of some segments' values; ``crossing`` (n,) is the number of that of each user.

    ``first`` is the place of the first of its cells among those of all crossings: that of everybody is 0.
    """

    names: Sequence[str]
    values: Sequence[Sequence[str]]
    crossing: Ints
    first: int

    @property
    def n_crossings(self) -> int:
        """The number of crossings; some may have no users."""
        return prod(map(len, self.values))

    @property
    def cells(self) -> list[SegmentValue]:
        """The cells."""
        named = zip(self.names, self.values, strict=True)
        of_segments = [(name, value) for name, values in named for value in values]
        return [EVERYBODY, *of_segments] if self.first == 0 else of_segments

    @property
    def place(self) -> slice:
        """The places of its cells among those of all crossings."""
        return slice(self.first, self.first + len(self.cells))

    @cached_property
    def order(self) -> Ints:
        """The users in the order of their crossings; shape (n,)."""
        return np.argsort(self.crossing, kind="stable")

    @property
    def ends(self) -> Ints:
        """With which user, in this order, each crossing begins, and the last one ends."""
        return np.append(0, np.cumsum(self.counted(np.ones(len(self.crossing), dtype=bool))))

    def counted(self, chosen: Booleans) -> Ints:
        """Count the chosen users (n,) in each crossing."""
        return np.bincount(self.crossing[chosen], minlength=self.n_crossings)

    def of_cells(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Return the sums of cells (cells, ...) from those of crossings (crossings, ...)."""
        grid = sums.reshape((*map(len, self.values), *sums.shape[1:]))
        axes = range(len(self.values))
        parts = [grid.sum(axis=tuple(axes))[None]] if self.first == 0 else []
        parts += [grid.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
        return np.concatenate(parts)

    def by_person(self, person: Ints, folds: Ints | None) -> tuple[Ints, Ints, Ints]:
        """Order rows by crossing, then by the user (n,) whose they are, then by fold.

        Return that order, where in it each user's rows in a crossing begin, and with which of these users
        each crossing begins and the last one ends.
        """
        key = self.crossing * (int(person.max(initial=0)) + 1) + person
        order = np.lexsort((key,) if folds is None else (folds, key))
        starts = np.flatnonzero(changes(key[order])) if len(key) else np.empty(0, dtype=np.int64)
        n_people = np.bincount(self.crossing[order[starts]], minlength=self.n_crossings)
        return order, starts, np.append(0, np.cumsum(n_people))


def crossings_of(segments: Mapping[str, pa.Array], n: int, *, crossed: bool = True) -> list[Crossings]:
    """Return crossings of n users that have everybody and each segment once; the first has everybody.

    Where segments may be ``crossed``, they are few.
    """
    grouped = [Crossings([], [], np.zeros(n, dtype=np.int64), 0)]
    for name, texts in segments.items():
        coded = texts.dictionary_encode()
        known, last = coded.dictionary.to_pylist(), grouped[-1]
        n_crossings = last.n_crossings * len(known)
        if not crossed or (last.names and n_crossings * USERS_PER_CROSSING > n):
            last = Crossings([], [], np.zeros(n, dtype=np.int64), last.place.stop)
            grouped.append(last)
        crossing = last.crossing * len(known) + numbers(coded.indices).astype(np.int64)
        grouped[-1] = Crossings([*last.names, name], [*last.values, known], crossing, last.first)
    return grouped


def cells_of(grouped: Sequence[Crossings]) -> Iterator[SegmentValue]:
    """Yield the cells of several crossings."""
    for grouping in grouped:
        yield from grouping.cells
