"""Sums of slices, read from the totals of buckets, over all users and by segment of items."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from spark_eval.accounting import Entry
from spark_eval.comparison.results import ComparedCells
from spark_eval.comparison.worker.slices import (
    N_COMMON,
    N_RARE,
    N_USERS,
    OWN,
    Slice,
    SliceTotals,
    check_values,
    removed_from,
)
from spark_eval.kernels.means import WeightedMean
from spark_eval.kernels.values import MetricValue
from spark_eval.schema import Outcome, Reason
from spark_eval.statistics.differences import (
    Estimate,
    MeanSums,
    RatioSums,
)
from spark_eval.statistics.exact import POINT_BITS
from spark_eval.users.population import ComparisonTask

# Number of users that a standard error needs.
FEWEST: Final = 2


@dataclass(frozen=True)
class SliceSums:
    """Sums of the slices of one pair of models (by index) and one metric.

    ``n_amounts`` is the number of amounts of a user: the difference; the difference and the number of rows,
    if users have several; or the four of a weighted mean. ``is_clustered`` if users have several rows.
    ``known`` are the sums that were read, and ``means`` the sums of all slices, if a user has one amount.
    """

    totals: SliceTotals
    index_of: Mapping[Slice, int]
    pair: int
    metric: int
    n_amounts: int
    is_clustered: bool
    known: dict[Slice, "OneSlice"] = field(default_factory=dict)
    means: dict[str, list[MeanSums]] = field(default_factory=dict)

    def of(self, cell: Slice) -> "OneSlice":
        """Return the sums of a slice."""
        if cell not in self.known:
            self.known[cell] = self.sums(cell, OWN, N_USERS)
        return self.known[cell]

    def without(self, wider: Slice, cell: Slice) -> "OneSlice":
        """Return the sums of a slice without another one that is within it."""
        attributes = [name for name, _ in wider]
        removed: Any = (
            self.sums(cell, removed_from(attributes, ""), removed_from(attributes, N_USERS))
            if self.is_clustered
            else self.of(cell)
        )
        left: OneSlice = self.of(wider) - removed
        return left

    def sums(self, cell: Slice, prefix: str, n_users: str) -> "OneSlice":
        """Return sums by their names."""
        if self.n_amounts == 1:
            if prefix not in self.means:
                self.means[prefix] = self.means_of(prefix, n_users)
            return self.means[prefix][self.index_of[cell]]
        where, indices = (self.index_of[cell], self.pair, self.metric), range(self.n_amounts)
        totals = [self.totals.number(f"{prefix}{one}", where) for one in indices]
        products = [
            [
                self.totals.number(
                    f"{prefix}{min(one, other)}{max(one, other)}",
                    where,
                    2 * POINT_BITS if one == other else POINT_BITS,
                )
                for other in indices
            ]
            for one in indices
        ]
        return RatioSums(self.totals.count(n_users, where), totals, products)

    def means_of(self, prefix: str, n_users: str) -> list[MeanSums]:
        """Return the sums of all slices, where a user has one amount."""
        totals, where, bits = self.totals, (self.pair, self.metric), self.totals.most_bits
        sums = totals.integers(f"{prefix}0", where, POINT_BITS, bits)
        squares = totals.integers(f"{prefix}00", where, 2 * POINT_BITS, 2 * bits)
        n = totals.of((n_users, 0))[:, self.pair, self.metric].tolist()
        return [MeanSums(*of_slice, bits) for of_slice in zip(n, sums, squares, strict=True)]


# Sums of one slice.
OneSlice = MeanSums | RatioSums


@dataclass(frozen=True)
class PairSlices:
    """Sums of the slices of one pair and one metric, over all users and by segment of items.

    A slice with a value of a segment of items is summed over the rows of this segment, and so is what is left
    of a wider slice without it.
    """

    of_tables: Mapping[str | None, SliceSums]
    item_segments: Collection[str] = ()

    @property
    def of_users(self) -> SliceSums:
        """Sums over the users' whole lists and truth."""
        return self.of_tables[None]

    def segment_of(self, cell: Slice) -> str | None:
        """Return the segment of items that a slice has a value of."""
        return next((name for name, _ in cell if name in self.item_segments), None)

    def has(self, cell: Slice) -> bool:
        """Return False for a slice of items, if the metric has no values by these."""
        return self.segment_of(cell) in self.of_tables

    def of(self, cell: Slice) -> OneSlice:
        """Return the sums of a slice."""
        return self.of_tables[self.segment_of(cell)].of(cell)

    def without(self, wider: Slice, cell: Slice) -> OneSlice:
        """Return the sums of a slice without another one that is within it."""
        return self.of_tables[self.segment_of(cell)].without(wider, cell)


def estimate_of(sums: OneSlice) -> Estimate:
    """Return the mean difference of users."""
    is_ratio = isinstance(sums, RatioSums) and len(sums.totals) == FEWEST
    return sums.combination(Fraction(1)) if is_ratio else sums.estimate


class SlicedTable:
    """Sums of the slices of a table, of all users or of a segment of items; ``cells`` are its slices.

    With ``of_items`` these are the slices with a value of the segment.
    """

    def __init__(self, compared: ComparedCells, slices: SliceTotals, task: ComparisonTask) -> None:
        self.task, self.of_items = task, task.of_items
        self.totals = SliceTotals.together([slices], slices.shape)
        self.index_of = {cell: index for index, cell in enumerate(self.totals.cells)}
        self.n_rows = compared.counts.rows[:, 2]
        self.cells = [
            cell for cell in self.totals.cells if self.of_items is None or self.of_items in dict(cell)
        ]

    @classmethod
    def tables_of(cls, compared: ComparedCells) -> "dict[str | None, SlicedTable]":
        """Return the tables with slices by segment of items; the table of all users is first, under None."""
        return {
            one.task.of_items: cls(one, one.slices, one.task)
            for one in (compared, *compared.of_items.values())
            if one.task is not None and one.task.slices is not None and one.slices is not None
        }

    @property
    def attributes(self) -> Sequence[str]:
        """Names of the attributes."""
        return () if self.task.slices is None else self.task.slices.attributes

    def check_values(self) -> None:
        """Raise DataError TOO_MANY_SEGMENTS for an attribute with too many values in all buckets."""
        for name in self.attributes:
            check_values(name, sum(len(cell) == 1 and cell[0][0] == name for cell in self.index_of))

    def n_common(self, pair: int) -> dict[Slice, int]:
        """Return the number of common users of each slice of a pair."""
        return {cell: self.totals.count(N_COMMON, (self.index_of[cell], pair, 0)) for cell in self.cells}

    def sums(self, pair: int, value: MetricValue) -> SliceSums | None:
        """Return the sums of a pair and a metric; None for a metric that the table does not have."""
        task = self.task
        if value.column not in task.columns:
            return None
        metric, n_amounts = task.columns.index(value.column), 1
        if task.has_clusters and task.slices is not None and not task.slices.by_means:
            n_amounts = 2
        if isinstance(value, WeightedMean):
            metric = len(task.columns) + task.weighted.index((value.column, value.weight))
            n_amounts = 4
        return SliceSums(self.totals, self.index_of, pair, metric, n_amounts, task.has_several_rows)

    def entries(self, pair: int, name: str, tested: set[Slice]) -> Iterator[Entry]:
        """Yield the accounting of a pair's rows that are in no tested slice."""
        if self.attributes:
            left = rows_in_no_slice(self.totals, pair, tested)
            of = "" if self.of_items is None else f" by {self.of_items}"
            yield from dropped_entries(f"rows in slices{of}", name, int(self.n_rows[pair]), left)


def rows_in_no_slice(totals: SliceTotals, pair: int, tested: set[Slice]) -> int:
    """Return the number of a pair's rows whose users are in no tested slice."""
    left = [index for index, cell in enumerate(totals.cells) if not any((one,) in tested for one in cell)]
    return int(totals.of((N_RARE, 0))[left, pair, 0].sum())


def dropped_entries(source: str, name: str, n_in: int, n_dropped: int) -> Iterator[Entry]:
    """Yield the accounting of slices, or of their rows, with those below the minimum of users."""
    yield Entry(source, name, Outcome.IN, None, n_in, None)
    yield Entry(source, name, Outcome.USED, None, n_in - n_dropped, None)
    if n_dropped:
        yield Entry(source, name, Outcome.DROPPED, Reason.BELOW_MIN_USERS, n_dropped, None)
