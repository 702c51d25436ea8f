"""Whole numbers that add over buckets: sums of cells, pairs of models and columns."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from spark_eval.pairing.cells import Crossings, SegmentValue
from spark_eval.stats.exact import POINT_BITS, ByPlace, Ints, limbs, number_of

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
