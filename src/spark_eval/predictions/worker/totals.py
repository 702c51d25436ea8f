"""Exact sums by cell, and weights by score as integers; neither depends on the order of addition.

An amount is a row of limbs: one for counts; three for weights, in units of 1, 2^-30 and 2^-60. The last limb
is rounded.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from spark_eval.arrow.codes import run_starts
from spark_eval.errors import DataError
from spark_eval.schema import MOST_SEGMENT_VALUES
from spark_eval.statistics.additive import Accumulator
from spark_eval.statistics.exact import DigitSums, Floats, Ints, add, counts, exact_sums, integers_of_sums

AMOUNT_BITS: Final = 30
N_LIMBS: Final = 3
# With larger weights, the sum of 2^33 rows could overflow.
LARGEST_WEIGHT: Final = 2.0**30
# Squares of ratios of weights stay doubles.
LEAST_WEIGHT: Final = 2.0**-256
# model, segment, segment_value
Cell = tuple[str | None, str, str]


@dataclass(frozen=True)
class Addend:
    """Contribution of each row to one of ``size`` sums.

    ``values`` (n,) are added, 1 each if None. ``indices`` (n,) are the indices of the sums, 0 if None.
    """

    name: str
    values: Floats | None = None
    indices: Ints | None = None
    size: int = 1


@dataclass(frozen=True)
class Grouping:
    """Grouping of rows by cell; ``codes`` (n,) are indices into ``cells``."""

    codes: Ints
    cells: Sequence[Cell]


@dataclass
class Totals(Accumulator):
    """Exact sums (``statistics.exact``) by cell and name."""

    sums: dict[Cell, dict[str, DigitSums]] = field(default_factory=dict)

    def add(self, groupings: Sequence[Grouping], addends: Iterable[Addend]) -> None:
        """Add rows to each of their cells."""
        for addend in addends:
            for grouping in groupings:
                for cell, sums in sums_of(addend, grouping):
                    self.add_sums(cell, addend.name, sums)

    def add_sums(self, cell: Cell, name: str, sums: DigitSums) -> None:
        """Add sums of one name to those of a cell."""
        totals = self.sums.setdefault(cell, {}).setdefault(name, {})
        for exponent, amounts in sums.items():
            add(totals, exponent, amounts)

    def add_all(self, cell: Cell, by_name: Mapping[str, DigitSums]) -> None:
        """Add sums of several names to those of a cell."""
        for name, sums in by_name.items():
            self.add_sums(cell, name, sums)

    def of(self, cell: Cell) -> Mapping[str, list[Fraction]]:
        """Return the sums of a cell as fractions."""
        return {name: integers_of_sums(sums) for name, sums in self.sums[cell].items()}


def segment_faults(cells: Iterable[Cell]) -> list[DataError]:
    """Return an error for each segment with too many values in one model."""
    n_values = Counter((model, segment) for model, segment, _ in cells)
    return [
        DataError(
            "TOO_MANY_SEGMENTS",
            f"predictions of model {model!r}: segment {segment!r} has more than {MOST_SEGMENT_VALUES} "
            "values; group them into fewer",
        )
        for (model, segment), number in n_values.items()
        if number > MOST_SEGMENT_VALUES
    ]


def sums_of(addend: Addend, grouping: Grouping) -> Iterator[tuple[Cell, DigitSums]]:
    """Yield the sums of one name in each cell."""
    n_cells, size = len(grouping.cells), addend.size
    indices = grouping.codes
    if addend.indices is not None:
        indices = addend.indices if n_cells == 1 else indices * size + addend.indices
    if addend.values is None:
        sums = counts(indices, n_cells * size)
    else:
        alone = n_cells * size == 1
        sums = exact_sums(addend.values, None if alone else indices, n_cells * size)
    for number, cell in enumerate(grouping.cells):
        part = slice(number * size, (number + 1) * size)
        yield cell, {exponent: amounts[part] for exponent, amounts in sums.items()}


def amounts_of(weights: Floats) -> Ints:
    """Split weights (n,) into limbs; shape (n, 3)."""
    amounts = np.empty((len(weights), N_LIMBS), dtype=np.int64)
    rest = weights
    for index in range(N_LIMBS - 1):
        limb = np.floor(rest)
        amounts[:, index] = limb
        rest = (rest - limb) * 2.0**AMOUNT_BITS
    amounts[:, -1] = np.rint(rest)
    return amounts


def to_doubles(amounts: Ints) -> Floats:
    """Convert amounts (..., limbs) to doubles (...); equal amounts give equal doubles."""
    if amounts.shape[-1] == 1:
        return amounts[..., 0].astype(np.float64)
    carried = amounts.copy()
    for limb in range(carried.shape[-1] - 1, 0, -1):
        carried[..., limb - 1] += carried[..., limb] >> AMOUNT_BITS
        carried[..., limb] &= (1 << AMOUNT_BITS) - 1
    total = np.zeros(carried.shape[:-1])
    for limb in range(carried.shape[-1] - 1, -1, -1):
        total = total * 2.0**-AMOUNT_BITS + carried[..., limb]
    return total


def sum_by_score(scores: Floats, amounts: Ints | None) -> tuple[Floats, Ints]:
    """Return the distinct scores, ascending, and the summed amounts (n, ...) of each; None: 1 per row.

    >>> scores, amounts = sum_by_score(np.array([0.5, 0.1, 0.5]), None)
    >>> scores.tolist(), amounts.tolist()
    ([0.1, 0.5], [[1], [2]])
    """
    if amounts is None:
        distinct, n_rows = np.unique(scores, return_counts=True)
        return distinct, n_rows[:, np.newaxis]
    order = np.argsort(scores, kind="stable")
    ascending = scores[order]
    starts = np.flatnonzero(run_starts(ascending))
    return ascending[starts], np.add.reduceat(amounts[order], starts, axis=0)
