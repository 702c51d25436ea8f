"""Exact sums of slices of users: of the values of attributes, and of several of them together.

Attributes are coded once. Several attributes share a grid of all combinations of their values. A metric is
added to it by these codes; the sums of a slice are those of the grid's cells. No slice is looked for among
all users.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import prod
from typing import Final, NamedTuple

import numpy as np

from spark_eval.arrow.codes import Booleans, row_codes, to_numpy
from spark_eval.errors import DataError
from spark_eval.schema import MISSING, MOST_SEGMENT_VALUES
from spark_eval.statistics.exact import (
    DigitSums,
    ExactSums,
    Floats,
    Groups,
    Ints,
    add,
    sums_by_group,
    two_product,
)
from spark_eval.statistics.totals import CellTotals, limbs_of_sums
from spark_eval.users.cells import SegmentValue
from spark_eval.users.population import AlignedUsers, SliceTask

# Values of attributes, one of each; without any, all users.
Slice = tuple[SegmentValue, ...]
# Sums by slice; shape (slices, pairs, metrics).
SliceTotals = CellTotals[Slice]
EVERYBODY: Final[Slice] = ()
# Maximum number of cells of a grid, whose sums then stay in the processor's cache.
MOST_CELLS: Final = 1 << 11
# Maximum number of slices of a bucket; each has sums of its own.
MOST_SLICES: Final = 200_000
# Counts of users: with rows of both models, and with values of both.
N_COMMON: Final = "n_common"
N_USERS: Final = "n_users"
# Counts of rows of both models by the values of all attributes, unless one of these alone has users enough.
N_RARE: Final = "n_rare"
# Sums of users are of the slice itself, or what is removed of a wider one that is without it.
OWN: Final = "own"


@dataclass(frozen=True)
class Attribute:
    """Attribute of n rows: its distinct values, and the index (n,) of each row's value among them."""

    name: str
    values: Sequence[str]
    codes: Ints

    @property
    def is_known(self) -> Booleans:
        """True for values, False for that of rows without one."""
        return np.array([value != MISSING for value in self.values], dtype=bool)


@dataclass(frozen=True)
class Grid:
    """All combinations of the values of some attributes, by index; ``codes`` (n,) is that of each row.

    ``crossings`` are the subsets of these attributes whose slices are summed here.
    """

    attributes: Sequence[int]
    shape: tuple[int, ...]
    codes: Ints
    crossings: Sequence[tuple[int, ...]]

    @property
    def n_cells(self) -> int:
        """Number of combinations."""
        return prod(self.shape)

    def margin(self, sums: Ints, crossing: Sequence[int]) -> Ints:
        """Add up the sums (cells, ...) of the grid's cells to those of all combinations of a crossing."""
        others = tuple(axis for axis, index in enumerate(self.attributes) if index not in crossing)
        margin: Ints = sums.reshape((*self.shape, *sums.shape[1:])).sum(axis=others, dtype=np.int64)
        return margin.reshape((-1, *sums.shape[1:]))


class Place(NamedTuple):
    """Slices of a crossing that have users: their cells in the crossing, and where they are in the totals."""

    cells: Ints
    where: slice


def crossings_of(n_attributes: int, cross: int) -> list[tuple[int, ...]]:
    """Return the subsets of up to ``cross`` attributes, by index; first that of none, all users.

    >>> crossings_of(3, 2)
    [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    """
    return [one for depth in range(cross + 1) for one in combinations(range(n_attributes), depth)]


def cover(sizes: Sequence[int], cross: int, most: int = MOST_CELLS) -> list[tuple[int, ...]]:
    """Return sets of attributes so that each crossing is within one, of up to ``most`` cells if it can be.

    ``sizes`` are the numbers of values.

    >>> cover([2, 3, 4, 5], 2, most=24)
    [(0, 1, 2), (0, 3), (1, 3), (2, 3)]
    """
    deepest = min(cross, len(sizes))
    left, sets = dict.fromkeys(combinations(range(len(sizes)), deepest)), list[tuple[int, ...]]()
    while left:
        chosen = set(next(iter(left)))
        for index, size in enumerate(sizes):
            fits = prod(sizes[one] for one in chosen) * size <= most
            if index not in chosen and fits and any(index in one for one in left):
                chosen.add(index)
        sets.append(tuple(sorted(chosen)))
        for one in [one for one in left if chosen.issuperset(one)]:
            del left[one]
    return sets


def parents_of(crossing: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the crossings of one attribute less, and all users.

    >>> parents_of((0, 2)), parents_of((1,))
    ([(0,), (2,), ()], [()])
    """
    return list(dict.fromkeys([*combinations(crossing, max(len(crossing) - 1, 0)), ()])) if crossing else []


class SliceAdder:
    """Adder of the sums of a bucket's slices, metric by metric.

    Differences are of users. If users have several rows, ``person`` tells them apart, and a user's rows in a
    slice are summed first; such a user may be in several values of an attribute of requests. What is left of
    a wider slice without a narrower one is then not their difference: the sums that are removed are kept,
    for each wider slice, under its own name.
    """

    def __init__(self, population: AlignedUsers, task: SliceTask) -> None:
        self.population, self.task = population, task
        self.is_clustered = population.task.has_several_rows
        self.attributes = [coded(population, name) for name in task.attributes]
        self.crossings = crossings_of(len(self.attributes), task.cross)
        common = list(population.common())
        if self.is_clustered:
            self.person = np.unique(population.person, return_inverse=True)[1]
            everybody = np.zeros(len(population), dtype=np.int64)
            self.codes_of = {(): everybody} | {one: self.codes(one) for one in self.crossings if one}
            self.grids = [self.grid(one, [one]) for one in self.crossings]
        else:
            self.grids = list(self.shared_grids())
        n_common = [[self.users_in(grid, both) for both in common] for grid in self.grids]
        self.names: list[Slice] = []
        self.places: dict[tuple[int, ...], Place] = {}
        for grid, of_grid in zip(self.grids, n_common, strict=True):
            self.place(grid, of_grid)
        n_metrics = len(population.task.columns) + len(population.task.weighted)
        self.totals = SliceTotals(self.names, (population.task.n_pairs, n_metrics))
        for pair, both in enumerate(common):
            self.put_counts(N_COMMON, [of_grid[pair] for of_grid in n_common], pair, slice(None))
            self.put_rare(pair, both)

    def shared_grids(self) -> Iterator[Grid]:
        """Yield few grids; each crossing is summed on one of them."""
        left = dict.fromkeys(self.crossings)
        for indices in cover([len(one.values) for one in self.attributes], self.task.cross):
            own = [one for one in left if set(indices).issuperset(one)]
            yield self.grid(indices, own)
            for one in own:
                del left[one]

    def grid(self, indices: tuple[int, ...], crossings: Sequence[tuple[int, ...]]) -> Grid:
        """Return the grid of some attributes."""
        shape = tuple(len(self.attributes[index].values) for index in indices)
        return Grid(indices, shape, self.codes(indices), crossings)

    def codes(self, indices: Sequence[int]) -> Ints:
        """Return the combination of the values of some attributes of each row."""
        codes = np.zeros(len(self.population), dtype=np.int64)
        for attribute in (self.attributes[index] for index in indices):
            codes = codes * len(attribute.values) + attribute.codes
        return codes

    def users_in(self, grid: Grid, chosen: Booleans) -> Ints:
        """Count the users with chosen rows in each cell of a grid."""
        codes = grid.codes[chosen]
        if self.is_clustered:
            codes = codes[first_of_each(codes, self.person[chosen])]
        return np.bincount(codes, minlength=grid.n_cells)

    def place(self, grid: Grid, n_common: Sequence[Ints]) -> None:
        """Give the slices of a grid that have users a place in the totals.

        Raises DataError TOO_MANY_SLICES.
        """
        for crossing in grid.crossings:
            has_users = grid.margin(np.sum(n_common, axis=0), crossing) > 0
            if len(crossing) > 1:
                known = [self.attributes[index].is_known for index in crossing]
                has_users &= reduce(np.logical_and.outer, known).ravel()
            cells, first = np.flatnonzero(has_users), len(self.names)
            if first + len(cells) > MOST_SLICES:
                message = f"more than {MOST_SLICES:,} slices; name fewer attributes, or cross fewer of them"
                raise DataError("TOO_MANY_SLICES", message)
            shape = [len(self.attributes[index].values) for index in crossing]
            indices = np.unravel_index(cells, shape) if shape else []
            texts = [
                [(self.attributes[index].name, self.attributes[index].values[at]) for at in of_cells.tolist()]
                for index, of_cells in zip(crossing, indices, strict=True)
            ]
            self.names += list(zip(*texts, strict=True)) if texts else [EVERYBODY] * len(cells)
            self.places[crossing] = Place(cells, slice(first, len(self.names)))

    def put_rare(self, pair: int, chosen: Booleans) -> None:
        """Count the rows in no slice that has users enough here, by the values of all attributes."""
        is_rare = chosen.copy()
        for index, attribute in enumerate(self.attributes):
            cells, where = self.places[index,]
            n_users = np.zeros(len(attribute.values), dtype=np.int64)
            n_users[cells] = self.totals.of((N_COMMON, 0))[where, pair, 0]
            is_rare &= (n_users < self.task.min_users)[attribute.codes]
        rows = np.flatnonzero(is_rare)
        if not len(rows) or not self.attributes:
            return
        profile = row_codes(*(attribute.codes[rows] for attribute in self.attributes))
        _, first, numbers = np.unique(profile, return_index=True, return_counts=True)
        texts = [
            [(attribute.name, attribute.values[code]) for code in attribute.codes[rows[first]].tolist()]
            for attribute in self.attributes
        ]
        start = len(self.names)
        self.names += list(zip(*texts, strict=True))
        self.totals.of((N_RARE, 0))[start:, pair, 0] += numbers

    def put_counts(self, name: str, of_grids: Sequence[Ints], pair: int, metrics: int | slice) -> None:
        """Add counts of the cells of all grids to those of their slices."""
        for grid, counts in zip(self.grids, of_grids, strict=True):
            for crossing in grid.crossings:
                cells, where = self.places[crossing]
                margin = grid.margin(counts, crossing)[cells]
                target = self.totals.of((name, 0))[where, pair, metrics]
                target += margin if target.ndim == 1 else margin[:, np.newaxis]

    def add(self, values: Floats, columns: slice) -> None:
        """Add the differences of some columns; values have shape (value models, columns, n)."""
        for pair, (baseline, candidate) in enumerate(self.population.task.value_pairs):
            for number, column in enumerate(range(columns.start, columns.stop)):
                differences = values[candidate, number] - values[baseline, number]
                self.add_amounts([differences], np.isfinite(differences), pair, column)

    def add_amounts(self, amounts: Sequence[Floats], is_defined: Booleans, pair: int, metric: int) -> None:
        """Add the sums of users' amounts, of their squares and of their products, in all slices."""
        self.put_counts(N_USERS, [self.users_in(grid, is_defined) for grid in self.grids], pair, metric)
        if self.is_clustered:
            rows = np.flatnonzero(is_defined)
            of_rows = [numbers[rows] for numbers in amounts]
            for grid in self.grids:
                self.add_users(grid, rows, of_rows, pair, metric)
            return
        is_there = is_defined & np.logical_or.reduce([numbers != 0 for numbers in amounts])
        rows = np.flatnonzero(is_there)
        groups = Groups([(grid.codes[rows], grid.n_cells) for grid in self.grids], groups_only=True)
        self.put(OWN, self.grids, moments([numbers[rows] for numbers in amounts], groups), pair, metric)

    def add_users(self, grid: Grid, rows: Ints, amounts: Sequence[Floats], pair: int, metric: int) -> None:
        """Add the sums of users with several rows in the slices of one crossing."""
        person, [crossing] = self.person[rows], grid.crossings
        own, first = sums_of_pairs(grid.codes[rows], person, amounts)
        cells = grid.codes[rows][first]
        groups = Groups([(cells, grid.n_cells)], groups_only=True)
        self.put(OWN, [grid], moments(self.of_users(own), groups), pair, metric)
        for parent in parents_of(crossing):
            names = [self.attributes[index].name for index in parent]
            of_parent = sums_of_wider(self.codes_of[parent][rows], person, amounts, first)
            rest = [wide - narrow for wide, narrow in zip(of_parent, own, strict=True)]
            is_left = rest[-1] > 0
            gone = np.bincount(cells[~is_left], minlength=grid.n_cells)
            where = self.places[crossing]
            self.totals.of((removed_from(names, N_USERS), 0))[where.where, pair, metric] += gone[where.cells]
            left = Groups([(cells[is_left], grid.n_cells)], groups_only=True)
            whole = moments(self.of_users(of_parent), groups)
            still = moments(self.of_users([numbers[is_left] for numbers in rest]), left)
            self.put(removed_from(names, ""), [grid], whole, pair, metric)
            self.put(removed_from(names, ""), [grid], still, pair, metric, sign=-1)

    def of_users(self, sums: Sequence[Floats]) -> Sequence[Floats]:
        """Return the amounts of users from their sums; the last one counts their rows."""
        *amounts, n_rows = sums
        if len(amounts) > 1:
            return amounts
        return [amounts[0] / n_rows] if self.task.by_means else sums

    def put(
        self,
        prefix: str,
        grids: Sequence[Grid],
        sums: Iterable[tuple[str, DigitSums]],
        pair: int,
        metric: int,
        sign: int = 1,
    ) -> None:
        """Add sums of the cells of grids by name, one grid after the other, to those of their slices."""
        limbs = [
            ((prefix + name, limb), sign * of_cells)
            for name, of_name in sums
            for limb, of_cells in limbs_of_sums(of_name).items()
        ]
        if not limbs:
            return
        targets = [self.totals.of(key) for key, _ in limbs]
        ends = np.cumsum([grid.n_cells for grid in grids])[:-1]
        together = np.stack([of_cells for _, of_cells in limbs], axis=1)
        for grid, of_grid in zip(grids, np.split(together, ends), strict=True):
            for crossing in grid.crossings:
                cells, where = self.places[crossing]
                margin = grid.margin(of_grid, crossing)[cells]
                for target, of_limb in zip(targets, margin.T, strict=True):
                    target[where, pair, metric] += of_limb


def coded(population: AlignedUsers, name: str) -> Attribute:
    """Return an attribute of a population; raise DataError TOO_MANY_SEGMENTS."""
    texts = population.attributes[name].dictionary_encode()
    values = texts.dictionary.to_pylist()
    check_values(name, len(values))
    return Attribute(name, values, to_numpy(texts.indices).astype(np.int64))


def check_values(name: str, n_values: int) -> None:
    """Raise DataError TOO_MANY_SEGMENTS for an attribute with more than MOST_SEGMENT_VALUES values."""
    if n_values > MOST_SEGMENT_VALUES:
        message = f"slices: {name!r} has more than {MOST_SEGMENT_VALUES:,} values; group them into fewer"
        raise DataError("TOO_MANY_SEGMENTS", message)


def removed_from(attributes: Sequence[str], name: str) -> str:
    """Return the name of a sum that is removed of a wider slice, of a crossing of these attributes."""
    return f"{[*attributes]}{name}"


def first_of_each(codes: Ints, person: Ints) -> Ints:
    """Return the index of the first row of each user in each cell."""
    return np.unique(row_codes(codes, person), return_index=True)[1]


def sums_of_pairs(codes: Ints, person: Ints, amounts: Sequence[Floats]) -> tuple[list[Floats], Ints]:
    """Return the sums of each user in each cell, at last the number of rows, and the first row of each."""
    key = row_codes(codes, person)
    first = np.unique(key, return_index=True)[1]
    sums = [sums_by_group(numbers, key, len(first)) for numbers in amounts]
    return [*sums, np.bincount(key, minlength=len(first)).astype(np.float64)], first


def sums_of_wider(codes: Ints, person: Ints, amounts: Sequence[Floats], first: Ints) -> list[Floats]:
    """Return the sums of each user in the wider cell of the user's ``first`` row in a narrower one."""
    sums, _ = sums_of_pairs(codes, person, amounts)
    key = row_codes(codes, person)[first]
    return [numbers[key] for numbers in sums]


def moments(amounts: Sequence[Floats], groups: Groups) -> Iterator[tuple[str, DigitSums]]:
    """Yield the exact sums of amounts in each cell, of their squares and products, by name: 0, 00, 01."""
    for index, numbers in enumerate(amounts):
        sums = ExactSums.of(numbers, groups)
        yield f"{index}", sums.total
        yield f"{index}{index}", sums.squares
        for other in range(index + 1, len(amounts)):
            parts = two_product(numbers, amounts[other])
            high, low = (ExactSums.of(part, groups, has_squares=False).total for part in parts)
            for position, sums_of_low in low.items():
                add(high, position, sums_of_low)
            yield f"{index}{other}", high
