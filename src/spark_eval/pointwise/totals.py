"""Exact sums by cell: a model, a segment of its rows and a value of it. They add in any order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from spark_eval.errors import DataError
from spark_eval.pointwise.task import MOST_SEGMENT_VALUES
from spark_eval.stats.exact import ByPlace, Floats, Ints, add, counts, exact_sums, numbers_of

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
