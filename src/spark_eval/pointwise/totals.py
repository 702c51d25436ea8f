"""Exact sums by cell, and weights by score as whole numbers: both add in any order.

An amount is a row of limbs, 1 for counts; of weights 3, in units of 1, 2^-30 and 2^-60, the last rounded.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from spark_eval.arrow.hashes import changes
from spark_eval.errors import DataError
from spark_eval.pointwise.task import MOST_SEGMENT_VALUES
from spark_eval.stats.exact import ByPlace, Floats, Ints, add, counts, exact_sums, numbers_of

AMOUNT_BITS: Final = 30
N_LIMBS: Final = 3
# Beyond it 2^33 rows could outgrow their sums.
LARGEST_WEIGHT: Final = 2.0**30
# model, segment, segment_value
Cell = tuple[str | None, str, str]


@dataclass(frozen=True)
class Addend:
    """What each row adds to which of ``size`` sums; values None: 1 each, places None: the first."""

    name: str
    values: Floats | None = None
    places: Ints | None = None
    size: int = 1


@dataclass(frozen=True)
class Grouping:
    """The cell that each row is in: its place in ``cells``; shape (n,)."""

    codes: Ints
    cells: Sequence[Cell]


class Totals:
    """Exact sums (``stats.exact``) by cell and name."""

    def __init__(self) -> None:
        self.sums: dict[Cell, dict[str, ByPlace]] = {}

    def add(self, groupings: Sequence[Grouping], addends: Iterable[Addend]) -> None:
        """Add rows to every cell that they are in."""
        for addend in addends:
            for grouping in groupings:
                for cell, sums in sums_of(addend, grouping):
                    self.add_sums(cell, addend.name, sums)

    def add_sums(self, cell: Cell, name: str, sums: ByPlace) -> None:
        """Add sums of one name to those of a cell."""
        known = self.sums.setdefault(cell, {}).setdefault(name, {})
        for place, amounts in sums.items():
            add(known, place, amounts)

    def add_all(self, cell: Cell, by_name: Mapping[str, ByPlace]) -> None:
        """Add sums of several names to those of a cell."""
        for name, sums in by_name.items():
            self.add_sums(cell, name, sums)

    def merge(self, other: "Totals") -> None:
        """Add what another task has added."""
        for cell, by_name in other.sums.items():
            self.add_all(cell, by_name)

    def of(self, cell: Cell) -> Mapping[str, list[Fraction]]:
        """Return the sums of a cell as numbers."""
        return {name: numbers_of(sums) for name, sums in self.sums[cell].items()}


def segment_faults(cells: Iterable[Cell]) -> list[DataError]:
    """Return a fault for each segment that has too many values in one model."""
    n_values = Counter((model, segment) for model, segment, _ in cells)
    return [
        DataError(
            "TOO_MANY_SEGMENTS",
            f"predictions of model {model!r}: segment {segment!r} has more than {MOST_SEGMENT_VALUES} "
            "values; group them",
        )
        for (model, segment), number in n_values.items()
        if number > MOST_SEGMENT_VALUES
    ]


def sums_of(addend: Addend, grouping: Grouping) -> Iterator[tuple[Cell, ByPlace]]:
    """Yield the sums of one name in each cell."""
    n_cells, size = len(grouping.cells), addend.size
    places = grouping.codes
    if addend.places is not None:
        places = addend.places if n_cells == 1 else places * size + addend.places
    if addend.values is None:
        sums = counts(places, n_cells * size)
    else:
        alone = n_cells * size == 1
        sums = exact_sums(addend.values, None if alone else places, n_cells * size)
    for number, cell in enumerate(grouping.cells):
        part = slice(number * size, (number + 1) * size)
        yield cell, {place: amounts[part] for place, amounts in sums.items()}


def amounts_of(weights: Floats) -> Ints:
    """Return the limbs of weights; shape (n, 3)."""
    amounts = np.empty((len(weights), N_LIMBS), dtype=np.int64)
    rest = weights
    for place in range(N_LIMBS - 1):
        limb = np.floor(rest)
        amounts[:, place] = limb
        rest = (rest - limb) * 2.0**AMOUNT_BITS
    amounts[:, -1] = np.rint(rest)
    return amounts


def in_doubles(amounts: Ints) -> Floats:
    """Return amounts (..., limbs) as doubles, which are equal where amounts are, whatever their summands."""
    carried = amounts.copy()
    for place in range(carried.shape[-1] - 1, 0, -1):
        carried[..., place - 1] += carried[..., place] >> AMOUNT_BITS
        carried[..., place] &= (1 << AMOUNT_BITS) - 1
    total = np.zeros(carried.shape[:-1])
    for place in range(carried.shape[-1] - 1, -1, -1):
        total = total * 2.0**-AMOUNT_BITS + carried[..., place]
    return total


def at_distinct(scores: Floats, amounts: Ints | None) -> tuple[Floats, Ints]:
    """Return ascending distinct scores, and the amounts (n, ...) there; None: 1 each.

    >>> scores, amounts = at_distinct(np.array([0.5, 0.1, 0.5]), None)
    >>> scores.tolist(), amounts.tolist()
    ([0.1, 0.5], [[1], [2]])
    """
    if amounts is None:
        distinct, n_rows = np.unique(scores, return_counts=True)
        return distinct, n_rows[:, np.newaxis]
    order = np.argsort(scores, kind="stable")
    ascending = scores[order]
    starts = np.flatnonzero(changes(ascending))
    return ascending[starts], np.add.reduceat(amounts[order], starts, axis=0)
