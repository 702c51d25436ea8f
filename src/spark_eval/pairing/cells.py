"""Cells of users: everybody, and the values of segments; and whole numbers summed in them, which add."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_eval.arrow.hashes import Booleans, changes, numbers
from spark_eval.schema import ALL
from spark_eval.stats.exact import POINT_BITS, ByPlace, Ints, limbs, number_of

# A segment and its value.
SegmentValue = tuple[str, str]
EVERYBODY: Final = (ALL, ALL)
# Segments are crossed while each crossing of their values has so many users, on average.
USERS_PER_CROSSING: Final = 256


@dataclass(frozen=True)
class Crossings:
    """Crossings of some segments' values; ``crossing`` (n,) is the number of that of each user.

    ``has_everybody`` says that its cells are everybody, too, not the segments' values alone.
    """

    names: Sequence[str]
    values: Sequence[Sequence[str]]
    crossing: Ints
    has_everybody: bool

    @property
    def n_crossings(self) -> int:
        """The number of crossings; some may have no users."""
        return prod(map(len, self.values))

    @property
    def cells(self) -> list[SegmentValue]:
        """The cells."""
        named = zip(self.names, self.values, strict=True)
        of_segments = [(name, value) for name, values in named for value in values]
        return [EVERYBODY, *of_segments] if self.has_everybody else of_segments

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
        parts = [grid.sum(axis=tuple(axes))[None]] if self.has_everybody else []
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
    grouped: list[Crossings] = []
    names: list[str] = []
    values: list[Sequence[str]] = []
    crossing = np.zeros(n, dtype=np.int64)
    for name, texts in segments.items():
        coded = texts.dictionary_encode()
        known = coded.dictionary.to_pylist()
        n_crossings = prod(map(len, values)) * len(known)
        if not crossed or (names and n_crossings * USERS_PER_CROSSING > n):
            grouped.append(Crossings(names, values, crossing, not grouped))
            names, values, crossing = [], [], np.zeros(n, dtype=np.int64)
        names, values = [*names, name], [*values, known]
        crossing = crossing * len(known) + numbers(coded.indices).astype(np.int64)
    return [*grouped, Crossings(names, values, crossing, not grouped)]


def cells_of(grouped: Sequence[Crossings]) -> Iterator[SegmentValue]:
    """Yield the cells of several crossings."""
    for grouping in grouped:
        yield from grouping.cells


# What is summed, and which limb of it; counts have limb 0.
SumKey = tuple[str, int]
# Pairs and columns of which something is summed: all of the first with some of the others, or one of each.
Where = tuple[slice | int, slice | int]


@dataclass
class PairTotals:
    """Sums of c cells: arrays (c, pairs, columns) of integers, by what they sum; limbs of 0 have none."""

    cells: list[SegmentValue]
    n_pairs: int
    n_columns: int
    sums: dict[SumKey, Ints] = field(default_factory=dict)

    def of(self, key: SumKey) -> Ints:
        """Return the sums of one kind, for as many cells as there are."""
        known = self.sums.get(key, np.zeros((0, self.n_pairs, self.n_columns), dtype=np.int64))
        if len(known) < len(self.cells):
            more = np.zeros((len(self.cells) - len(known), *known.shape[1:]), dtype=np.int64)
            known = self.sums[key] = np.concatenate([known, more])
        return known

    def add(self, other: "PairTotals") -> None:
        """Add the sums of other users; they may be in other cells."""
        place_of = {cell: place for place, cell in enumerate(self.cells)}
        places = [place_of.setdefault(cell, len(place_of)) for cell in other.cells]
        self.cells = list(place_of)
        for key in other.sums:
            self.of(key)[places] += other.of(key)

    def put_counts(self, name: str, grouping: Crossings, where: Where, counts: Ints) -> None:
        """Add counts (crossings, ...) of some pairs and columns in the crossings of a grouping."""
        self.of((name, 0))[self.cells_of(grouping), *where] += grouping.of_cells(counts)

    def put_sums(self, name: str, grouping: Crossings, where: Where, sums: ByPlace) -> None:
        """Add sums (crossings, ...) by place."""
        of_cells = {place: grouping.of_cells(amounts) for place, amounts in sums.items()}
        flat = {place: amounts.ravel() for place, amounts in of_cells.items()}
        for limb, amounts in limbs(flat).items():
            shape = next(iter(of_cells.values())).shape
            self.of((name, limb))[self.cells_of(grouping), *where] += amounts.reshape(shape)

    def cells_of(self, grouping: Crossings) -> slice:
        """Return the places of a grouping's cells, which lie side by side."""
        cells = grouping.cells
        first = self.cells.index(cells[0]) if cells else 0
        return slice(first, first + len(cells))

    def number(self, name: str, place: tuple[int, int, int], bits: int = POINT_BITS) -> Fraction:
        """Return one sum, of a cell, pair and column, as a number; those of squares have twice the bits."""
        amounts = {limb: int(self.sums[kind, limb][place]) for kind, limb in self.sums if kind == name}
        return number_of(amounts, bits)

    def count(self, name: str, place: tuple[int, int, int]) -> int:
        """Return one count, of a cell, pair and column."""
        return int(self.sums[name, 0][place])
