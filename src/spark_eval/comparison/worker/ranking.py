"""Count differences by size in each cell: the input of rank tests and exact sign-flip tests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from spark_eval.arrow.codes import Booleans, run_starts, scramble
from spark_eval.errors import DataError
from spark_eval.statistics.differences import to_quanta
from spark_eval.statistics.exact import Floats, Ints, sums_by_group
from spark_eval.statistics.ranked import RankSums
from spark_eval.statistics.resampling import MOST_ENUMERATED
from spark_eval.users.cells import SegmentCombinations, SegmentValue, combine_segments
from spark_eval.users.population import AlignedUsers

# Number of slices of |q| per cell: FEWEST_SLICES, and as many again for each USERS_PER_SLICE users.
USERS_PER_SLICE: Final = 1 << 20
FEWEST_SLICES: Final = 4
# The sum of the rows of a user, in quanta, is a double.
LARGEST_RANKED: Final = 2.0**950


class SizeCounts(NamedTuple):
    """Numbers of users whose difference has the size |q|, in quanta: increases and decreases.

    ``cell`` numbers the cell, pair and column together; all arrays have shape (m,).
    """

    cell: Ints
    size: Floats
    greater: Ints
    less: Ints

    def take(self, chosen: Ints | slice) -> "SizeCounts":
        """Select some of the counts."""
        return SizeCounts(self.cell[chosen], self.size[chosen], self.greater[chosen], self.less[chosen])


class Ranked(NamedTuple):
    """Rank sums of a cell's differences in a slice of |q|, and the differences themselves if they are few."""

    ranks: RankSums
    quanta: tuple[int, ...] | None

    def below(self, above: "Ranked") -> "Ranked":
        """Combine this slice with the one above it."""
        ranks, both = self.ranks + above.ranks, (self.quanta, above.quanta)
        is_few = ranks.n <= MOST_ENUMERATED
        return Ranked(ranks, (both[0] or ()) + (both[1] or ()) if is_few else None)


@dataclass(frozen=True)
class DifferenceCounter:
    """Counter of differences by size, in chosen cells of pairs and columns.

    Differences are of rows; with ``by_user``, of the sums of each user's rows in a cell.

    ``cells`` are those of the comparison; ``chosen`` is their mask (cells, pairs, columns). ``largest``
    (pairs, columns) is the largest absolute difference, which determines the slices.
    """

    cells: Sequence[SegmentValue]
    chosen: Booleans
    largest: Floats
    n_slices: int
    n_parts: int
    by_user: bool = False

    def __post_init__(self) -> None:
        """Raise DataError METRIC_OVERFLOW if differences are too large for quanta."""
        if self.largest.max(initial=0.0) > LARGEST_RANKED:
            message = "differences larger than 2^950 have no ranks; scale the values down"
            raise DataError("METRIC_OVERFLOW", message)

    def counts(self, population: AlignedUsers) -> Iterator[tuple[int, SizeCounts]]:
        """Yield the counts of a bucket, with the number of their partition."""
        whole = concat_counts([self.of_column(population, column) for column in range(self.chosen.shape[2])])
        part = self.part(whole)
        order = np.argsort(part, kind="stable")
        whole, ends = whole.take(order), np.cumsum(np.bincount(part, minlength=self.n_parts))
        for number, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
            if start < end:
                yield number, whole.take(slice(start, end))

    def of_column(self, population: AlignedUsers, column: int) -> SizeCounts:
        """Count the differences of a column, for all pairs."""
        task = population.task
        pairs = np.flatnonzero(self.chosen[:, :, column].any(axis=0))
        if not len(pairs):
            return NOTHING
        values = population.values([task.columns[column]])[:, 0]
        index_of = {cell: index for index, cell in enumerate(self.cells)}
        grouped = combine_segments(population.segments, len(population), crossed=False)
        counts = []
        for pair in pairs.tolist():
            baseline, candidate = task.value_pairs[pair]
            differences = values[candidate] - values[baseline]
            q = np.nan_to_num(to_quanta(differences))
            for grouping in grouped:
                crossing = grouping.crossing
                if self.by_user:
                    q, crossing = quanta_of_users(differences, population, grouping)
                rows = np.flatnonzero(q)
                size, is_up = abs(q[rows]), q[rows] > 0
                indices = np.array([index_of[cell] for cell in grouping.cells], dtype=np.int64)
                cell = indices[crossing[rows]]
                is_chosen = self.chosen[:, pair, column][cell]
                index = (cell[is_chosen] * self.chosen.shape[1] + pair) * self.chosen.shape[2] + column
                up = is_up[is_chosen].astype(np.int64)
                counts.append(merge_equal_sizes(SizeCounts(index, size[is_chosen], up, 1 - up)))
        return concat_counts(counts)

    def slices(self, counts: SizeCounts) -> Ints:
        """Return the slice (m,) of each size; slices ascend with the size within a cell."""
        most = to_quanta(self.largest).ravel()[counts.cell % self.largest.size]
        return np.minimum(counts.size / most * self.n_slices, self.n_slices - 1).astype(np.int64)

    def part(self, counts: SizeCounts) -> Ints:
        """Return the partition (m,) of each count; a slice of a cell is in one partition."""
        key = counts.cell * self.n_slices + self.slices(counts)
        return (scramble(key.astype(np.uint64)) % np.uint64(self.n_parts)).astype(np.int64)

    def ranked(self, parts: Sequence[SizeCounts]) -> dict[tuple[int, int], Ranked]:
        """Rank each (cell, slice) of a partition, from the counts of all buckets."""
        whole = merge_equal_sizes(concat_counts(parts))
        key = whole.cell * self.n_slices + self.slices(whole)
        starts = [*np.flatnonzero(run_starts(key)).tolist(), len(key)] if len(key) else []
        by_slice = {}
        for start, end in pairwise(starts):
            of_slice = whole.take(slice(start, end))
            cell_slice = divmod(int(key[start]), self.n_slices)
            by_slice[cell_slice] = Ranked(RankSums.of(of_slice.greater, of_slice.less), few_quanta(of_slice))
        return by_slice


NO_INDICES: Final[Ints] = np.empty(0, dtype=np.int64)
NOTHING: Final = SizeCounts(NO_INDICES, np.empty(0), NO_INDICES, NO_INDICES)


def quanta_of_users(
    differences: Floats, population: AlignedUsers, grouping: SegmentCombinations
) -> tuple[Floats, Ints]:
    """Sum the differences (n,) of each user's rows in a combination, in quanta; NaN counts 0.

    Also return the combination of each sum. Sums are exact, and rounded once.
    """
    order, starts, _ = grouping.by_person(population.person, population.folds)
    users = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    quanta = np.nan_to_num(to_quanta(differences))[order]
    return sums_by_group(quanta, users, len(starts)), grouping.crossing[order[starts]]


def slices_for(n_users: int) -> int:
    """Return the number of slices of a cell with this many users."""
    return FEWEST_SLICES * (1 + n_users // USERS_PER_SLICE)


def concat_counts(parts: Sequence[SizeCounts]) -> SizeCounts:
    """Concatenate counts."""
    return SizeCounts(*map(np.concatenate, zip(NOTHING, *parts, strict=True)))


def merge_equal_sizes(counts: SizeCounts) -> SizeCounts:
    """Sort counts by cell and size, and add up those of the same cell and size."""
    if not len(counts.cell):
        return counts
    ordered = counts.take(np.lexsort((counts.size, counts.cell)))
    starts = np.flatnonzero(run_starts(ordered.cell) | run_starts(ordered.size))
    greater, less = (np.add.reduceat(values, starts) for values in (ordered.greater, ordered.less))
    return SizeCounts(ordered.cell[starts], ordered.size[starts], greater, less)


def few_quanta(counts: SizeCounts) -> tuple[int, ...] | None:
    """Return each user's difference in quanta; None if there are more than MOST_ENUMERATED."""
    if (counts.greater + counts.less).sum() > MOST_ENUMERATED:
        return None
    signed = [np.repeat(counts.size, counts.greater), -np.repeat(counts.size, counts.less)]
    return tuple(map(int, np.concatenate(signed).tolist()))


def merge_slices(parts: Sequence[Mapping[tuple[int, int], Ranked]]) -> dict[int, Ranked]:
    """Combine the slices of each cell, by cell index."""
    whole: dict[int, Ranked] = {}
    for (cell, _), ranked in sorted((item for part in parts for item in part.items()), key=itemgetter(0)):
        whole[cell] = whole[cell].below(ranked) if cell in whole else ranked
    return whole
