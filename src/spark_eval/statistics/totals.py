"""Exact sums in many cells, which can be added in any order: 64-bit integers, limb by limb."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import iadd
from typing import Any, Generic, Self, TypeVar

import numpy as np

from spark_eval.statistics.additive import Accumulator
from spark_eval.statistics.exact import (
    LIMB_BITS,
    POINT_BITS,
    DigitSums,
    Ints,
    integer_of_limbs,
    normalize_limbs,
)

CellName = TypeVar("CellName")
# Name of the sum, and index of its limb; counts have limb 0.
SumKey = tuple[str, int]
# Index of cells, and of the other axes of the sums.
Where = tuple[Any, ...]


@dataclass
class CellTotals(Accumulator, Generic[CellName]):
    """Sums of c cells: arrays (c, *shape) of integers by name and limb; limbs that are 0 may be missing.

    Cells may occur several times until the sums are merged.
    """

    cells: list[CellName]
    shape: tuple[int, ...]
    sums: dict[SumKey, Ints] = field(default_factory=dict)

    def of(self, key: SumKey) -> Ints:
        """Return the sums of one key, extended to the current number of cells."""
        sums = self.sums.get(key, np.zeros((0, *self.shape), dtype=np.int64))
        if len(sums) < len(self.cells):
            more = np.zeros((len(self.cells) - len(sums), *self.shape), dtype=np.int64)
            sums = self.sums[key] = np.concatenate([sums, more])
        return sums

    def __iadd__(self, other: Self) -> Self:
        """Add the sums of other users, by cell."""
        if len(set(self.cells)) < len(self.cells):
            own = replace(self)
            self.cells, self.sums = [], {}
            self.add(own)
        self.add(other)
        return self

    def add(self, other: Self) -> None:
        """Add the sums of other users to these, whose cells occur once each."""
        index_of = {cell: index for index, cell in enumerate(self.cells)}
        indices = [index_of.setdefault(cell, len(index_of)) for cell in other.cells]
        self.cells = list(index_of)
        for key in other.sums:
            np.add.at(self.of(key), indices, other.of(key))

    @classmethod
    def together(cls, parts: Iterable[Self], shape: tuple[int, ...]) -> Self:
        """Sum all parts; each cell then occurs once."""
        return reduce(iadd, parts, cls([], shape))

    def put_count(self, name: str, where: Where, counts: Ints) -> None:
        """Add counts to the chosen cells."""
        self.of((name, 0))[where] += counts

    def put_sums(self, name: str, where: Where, sums: DigitSums) -> None:
        """Add sums by position of the digit to the chosen cells."""
        self.put_limbs(name, where, limbs_of_sums(sums))

    def put_limbs(self, name: str, where: Where, limbs: Mapping[int, Ints]) -> None:
        """Add sums, as of ``limbs_of_sums``, to the chosen cells."""
        for limb, amounts in limbs.items():
            mine = self.of((name, limb))
            mine[where] += amounts.reshape(mine[where].shape)

    def put_columns(self, name: str, first: int, columns: Sequence[DigitSums]) -> None:
        """Add the sums of columns from ``first`` on, each by position of the digit, to all cells."""
        together: DigitSums = {}
        for column, sums in enumerate(columns):
            for position, amounts in sums.items():
                if position not in together:
                    together[position] = np.zeros((len(amounts), len(columns)), dtype=np.int64)
                together[position][:, column] = amounts
        self.put_sums(name, (slice(None), slice(first, first + len(columns))), together)

    def number(self, name: str, cell: tuple[int, ...], bits: int = POINT_BITS) -> Fraction:
        """Return one sum as a fraction; squares have twice as many bits after the binary point."""
        own = [key for key in self.sums if key[0] == name]
        return integer_of_limbs({key[1]: int(self.of(key)[cell]) for key in own}, bits)

    def integers(self, name: str, where: Where, point_bits: int, bits: int) -> list[int]:
        """Return one sum of each cell as an integer, in units of 2^-bits; ``where`` are the other axes.

        ``point_bits`` is what ``number`` takes; with ``bits`` of ``most_bits`` nothing is lost.
        """
        columns = {
            limb: amounts[(slice(None), *where)].tolist()
            for limb, amounts in ((key[1], self.of(key)) for key in [*self.sums] if key[0] == name)
        }
        whole = [0] * len(self.cells)
        for limb, amounts in columns.items():
            shift = LIMB_BITS * limb + bits - point_bits
            whole = [one + (amount << shift) for one, amount in zip(whole, amounts, strict=True)]
        return whole

    @property
    def most_bits(self) -> int:
        """Number of bits after the binary point that any sum of values has at most."""
        return POINT_BITS + LIMB_BITS * max(0, -min((limb for _, limb in self.sums), default=0))

    def count(self, name: str, cell: tuple[int, ...]) -> int:
        """Return one count."""
        return int(self.of((name, 0))[cell])


def limbs_of_sums(sums: DigitSums) -> Mapping[int, Ints]:
    """Return sums of cells by position of the digit as limbs."""
    return normalize_limbs({position: amounts.ravel() for position, amounts in sums.items()})
