"""Differences counted by their size: what ranks and exact flips take, cell by cell, from many buckets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from spark_eval.arrow.hashes import Booleans, changes, mixed
from spark_eval.pairing.cells import SegmentValue, crossings_of
from spark_eval.pairing.population import Population
from spark_eval.stats.differences import quanta
from spark_eval.stats.exact import Floats, Ints
from spark_eval.stats.ranked import RankSums
from spark_eval.stats.resampling import MOST_FLIPPED

# A cell is cut into a slice of |q| for every so many of its users, and into so many more.
USERS_PER_SLICE: Final = 1 << 20
FEWEST_SLICES: Final = 4


class SizeCounts(NamedTuple):
    """Counts of users whose difference has the size |q|, in quanta: how many go up, how many go down.

    ``cell`` is the number of a cell of a pair and column; all of shape (m,).
    """

    cell: Ints
    size: Floats
    greater: Ints
    less: Ints

    def take(self, chosen: Ints | slice) -> "SizeCounts":
        """Return some of them."""
        return SizeCounts(self.cell[chosen], self.size[chosen], self.greater[chosen], self.less[chosen])


class Ranked(NamedTuple):
    """What is known of a cell's differences in a slice of |q|; all of them in ``quanta`` if they are few."""

    ranks: RankSums
    quanta: tuple[int, ...] | None

    def below(self, above: "Ranked") -> "Ranked":
        """Return what is known of this slice and one above it."""
        ranks, both = self.ranks + above.ranks, (self.quanta, above.quanta)
        is_few = ranks.n <= MOST_FLIPPED
        return Ranked(ranks, (both[0] or ()) + (both[1] or ()) if is_few else None)


@dataclass(frozen=True)
class Counting:
    """Counts differences by size in chosen cells of pairs and columns.

    ``cells`` are those of the comparison; ``chosen`` (cells, pairs, columns) says which of them count.
    ``largest`` (pairs, columns) is the largest size of a difference, from which slices follow.
    """

    cells: Sequence[SegmentValue]
    chosen: Booleans
    largest: Floats
    n_slices: int
    n_parts: int

    def counts(self, population: Population) -> Iterator[tuple[int, SizeCounts]]:
        """Yield the counts of a bucket, by the number of the part to which they go."""
        whole = merged([self.of_column(population, column) for column in range(self.chosen.shape[2])])
        part = self.part(whole)
        order = np.argsort(part, kind="stable")
        whole, ends = whole.take(order), np.cumsum(np.bincount(part, minlength=self.n_parts))
        for number, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
            if start < end:
                yield number, whole.take(slice(start, end))

    def of_column(self, population: Population, column: int) -> SizeCounts:
        """Return the counts of a column, for all pairs."""
        question = population.question
        pairs = np.flatnonzero(self.chosen[:, :, column].any(axis=0))
        if not len(pairs):
            return NOTHING
        values = population.values([question.columns[column]])[:, 0]
        codes = self.codes(population)
        counts = []
        for pair in pairs.tolist():
            left, right = (ends[pair] for ends in question.ends)
            q = quanta(values[right] - values[left])
            rows = np.flatnonzero(np.nan_to_num(q))
            size, is_up = abs(q[rows]), q[rows] > 0
            for code in codes:
                cell = code[rows]
                is_chosen = self.chosen[:, pair, column][cell]
                place = (cell[is_chosen] * self.chosen.shape[1] + pair) * self.chosen.shape[2] + column
                up = is_up[is_chosen].astype(np.int64)
                counts.append(each_size_once(SizeCounts(place, size[is_chosen], up, 1 - up)))
        return merged(counts)

    def codes(self, population: Population) -> list[Ints]:
        """Return the cells of each user: that of everybody, then of each segment's value."""
        place_of = {cell: place for place, cell in enumerate(self.cells)}
        grouped = crossings_of(population.segments, len(population), crossed=False)
        places = [np.array([place_of[cell] for cell in one.cells], dtype=np.int64) for one in grouped]
        return [own[one.crossing] for own, one in zip(places, grouped, strict=True)]

    def slices(self, counts: SizeCounts) -> Ints:
        """Return the slice of each size, ascending with it within a cell."""
        most = quanta(self.largest).ravel()[counts.cell % self.largest.size]
        return np.minimum(counts.size / most * self.n_slices, self.n_slices - 1).astype(np.int64)

    def part(self, counts: SizeCounts) -> Ints:
        """Return the part to which each count goes: all of a slice of a cell to one."""
        key = counts.cell * self.n_slices + self.slices(counts)
        return (mixed(key.astype(np.uint64)) % np.uint64(self.n_parts)).astype(np.int64)

    def ranked(self, parts: Sequence[SizeCounts]) -> dict[tuple[int, int], Ranked]:
        """Return what is known of each cell and slice of a part, from the counts of all buckets."""
        whole = each_size_once(merged(parts))
        key = whole.cell * self.n_slices + self.slices(whole)
        starts = [*np.flatnonzero(changes(key)).tolist(), len(key)] if len(key) else []
        by_slice = {}
        for start, end in pairwise(starts):
            of_slice = whole.take(slice(start, end))
            place = divmod(int(key[start]), self.n_slices)
            by_slice[place] = Ranked(RankSums.of(of_slice.greater, of_slice.less), few_quanta(of_slice))
        return by_slice


NO_PLACES: Final[Ints] = np.empty(0, dtype=np.int64)
NOTHING: Final = SizeCounts(NO_PLACES, np.empty(0), NO_PLACES, NO_PLACES)


def slices_for(n_users: int) -> int:
    """Return into how many slices cells of so many users are cut."""
    return FEWEST_SLICES * (1 + n_users // USERS_PER_SLICE)


def merged(parts: Sequence[SizeCounts]) -> SizeCounts:
    """Return counts one after the other."""
    return SizeCounts(*map(np.concatenate, zip(NOTHING, *parts, strict=True)))


def each_size_once(counts: SizeCounts) -> SizeCounts:
    """Return counts ordered by cell and size, each of these once."""
    if not len(counts.cell):
        return counts
    ordered = counts.take(np.lexsort((counts.size, counts.cell)))
    starts = np.flatnonzero(changes(ordered.cell) | changes(ordered.size))
    greater, less = (np.add.reduceat(values, starts) for values in (ordered.greater, ordered.less))
    return SizeCounts(ordered.cell[starts], ordered.size[starts], greater, less)


def few_quanta(counts: SizeCounts) -> tuple[int, ...] | None:
    """Return the differences in quanta, each of a user; None where there are more than a few."""
    if (counts.greater + counts.less).sum() > MOST_FLIPPED:
        return None
    signed = [np.repeat(counts.size, counts.greater), -np.repeat(counts.size, counts.less)]
    return tuple(map(int, np.concatenate(signed).tolist()))


def in_slices(parts: Sequence[Mapping[tuple[int, int], Ranked]]) -> dict[int, Ranked]:
    """Return what is known of each cell, from its slices."""
    whole: dict[int, Ranked] = {}
    for (cell, _), ranked in sorted((item for part in parts for item in part.items()), key=itemgetter(0)):
        whole[cell] = whole[cell].below(ranked) if cell in whole else ranked
    return whole
