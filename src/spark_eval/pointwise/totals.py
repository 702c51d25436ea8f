"""Exact sums by cell: a model, a segment of its rows and a value of it. They add, in any order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from spark_eval.errors import DataError
from spark_eval.pointwise.task import MOST_SEGMENT_VALUES
from spark_eval.stats.exact import Floats, Ints, counts, exact_sums, in_full

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
    """Sums in units (``stats.exact``) by cell and name."""

    def __init__(self) -> None:
        self.sums: dict[Cell, dict[str, list[int]]] = {}

    def add(self, groupings: Iterable[Grouping], addends: Iterable[Addend]) -> None:
        """Add rows to every cell that they are in."""
        kept = list(groupings)
        for addend in addends:
            for grouping in kept:
                for cell, sums in sums_of(addend, grouping):
                    self.add_sums(cell, addend.name, sums)

    def add_sums(self, cell: Cell, name: str, sums: Sequence[int]) -> None:
        """Add sums of one name to a cell's."""
        mine = self.sums.setdefault(cell, {})
        mine[name] = [a + b for a, b in zip(mine[name], sums, strict=True)] if name in mine else list(sums)

    def merge(self, other: "Totals") -> None:
        """Take in what another task has added."""
        for cell, by_name in other.sums.items():
            for name, sums in by_name.items():
                self.add_sums(cell, name, sums)

    def of(self, cell: Cell) -> Mapping[str, list[Fraction]]:
        """The sums of a cell as numbers."""
        return {name: list(map(in_full, sums)) for name, sums in self.sums[cell].items()}


def segment_faults(cells: Iterable[Cell]) -> list[DataError]:
    """Segments of too many values in one model."""
    faults = []
    for (model, segment), n_values in Counter((model, segment) for model, segment, _ in cells).items():
        if n_values > MOST_SEGMENT_VALUES:
            message = (
                f"predictions of model {model!r}: segment {segment!r} has more than {MOST_SEGMENT_VALUES}"
            )
            faults.append(DataError("TOO_MANY_SEGMENTS", f"{message} values; group them"))
    return faults


def sums_of(addend: Addend, grouping: Grouping) -> Iterator[tuple[Cell, list[int]]]:
    """The sums of one name in each cell."""
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
        yield cell, sums[number * size : (number + 1) * size]
