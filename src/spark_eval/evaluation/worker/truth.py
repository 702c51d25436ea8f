"""Truth of a bucket: the relevant items of each user, each once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Booleans, Hashes, count_by_code, lexsort, run_starts, to_numpy
from spark_eval.conventions import TruthDuplicates
from spark_eval.kernels.beyond.catalog import expand_ranges
from spark_eval.kernels.lists import Ragged
from spark_eval.schema import RELEVANCE, TIMESTAMP
from spark_eval.statistics.exact import Floats, Ints

# A Bloom filter with two bits per pair: about one in a hundred other pairs passes.
BITS_PER_PAIR = 24
MOST_TABLE_BITS = 24
FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


@dataclass(frozen=True)
class Truth:
    """Distinct relevant pairs of n users, sorted by user and item.

    ``user`` and ``item`` are codes; ``relevance`` is None if all are 1; ``is_cold`` is True for items without
    training interactions, None if these are unknown. All have shape (pairs,).
    """

    n_users: int
    user: Ints
    item: Ints
    relevance: Floats | None
    is_cold: Booleans | None = None

    @cached_property
    def n_relevant(self) -> Ints:
        """Number of relevant items of each user; shape (n,)."""
        return count_by_code(self.user, self.n_users)

    def of_lists(self, users: Ints) -> "Truth":
        """Return the truth of lists, each with the pairs of its user; shape of ``users``: (lists,)."""
        first = np.cumsum(self.n_relevant) - self.n_relevant
        of_list, pairs = expand_ranges(first[users], self.n_relevant[users])
        return Truth(
            len(users),
            of_list,
            self.item[pairs],
            None if self.relevance is None else self.relevance[pairs],
            None if self.is_cold is None else self.is_cold[pairs],
        )

    def relevances(self, pairs: Ints) -> Floats:
        """Return the relevance of each of these pairs."""
        return np.ones(len(pairs)) if self.relevance is None else self.relevance[pairs]

    @cached_property
    def largest_relevance(self) -> float:
        """Largest relevance of a pair; 0 without pairs."""
        if self.relevance is None:
            return float(len(self.user) > 0)
        return float(self.relevance.max(initial=0.0))

    @cached_property
    def items(self) -> Ints | range:
        """Distinct items, ascending; a range that covers all codes if the keys then fit 64 bits."""
        least, last = int(self.item.min()), int(self.item.max())
        if self.n_users * (last - least + 1) < 1 << 63:
            return range(least, last + 1)
        in_order = np.sort(self.item)
        distinct: Ints = in_order[run_starts(in_order)]
        return distinct

    def indices_of(self, item: Ints) -> tuple[Ints, Booleans]:
        """Return the index of each item in ``items``, and True for those that are in it."""
        items = self.items
        if isinstance(items, range):
            return item - items[0], (items[0] <= item) & (item <= items[-1])
        index = np.minimum(np.searchsorted(items, item), len(items) - 1)
        return index, items[index] == item

    @cached_property
    def keys(self) -> Ints:
        """Unique number of each pair, ascending."""
        return self.user * len(self.items) + self.indices_of(self.item)[0]

    @cached_property
    def filter(self) -> Booleans:
        """Bloom filter of the relevant pairs, two bits each."""
        bits = min(max((BITS_PER_PAIR * len(self.user)).bit_length(), 10), MOST_TABLE_BITS)
        table = np.zeros(1 << bits, dtype=bool)
        hashes = pair_hashes(self.user, self.item)
        table[hashes >> np.uint64(64 - bits)] = True
        table[hashes & np.uint64(len(table) - 1)] = True
        return table

    def find(self, user: Ints, item: Ints) -> tuple[Ints, Ints]:
        """Return the rows that are relevant pairs, ascending, and the index of each one's pair."""
        if not len(self.user):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        # Few rows other than hits pass the filter; all that pass are looked up exactly.
        hashes = pair_hashes(user, item)
        rows = np.flatnonzero(self.filter[hashes >> np.uint64(65 - len(self.filter).bit_length())])
        rows = rows[self.filter[hashes[rows] & np.uint64(len(self.filter) - 1)]]
        index, is_in_truth = self.indices_of(item[rows])
        rows, index = rows[is_in_truth], index[is_in_truth]
        wanted = user[rows] * len(self.items) + index
        pair = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        is_hit = self.keys[pair] == wanted
        return rows[is_hit], pair[is_hit]

    def ideal(self, depth: int | None) -> Ragged:
        """Return each user's relevant items, best first, up to rank ``depth``."""
        first = np.cumsum(self.n_relevant) - self.n_relevant
        rank = np.arange(1, len(self.user) + 1) - first[self.user]
        relevance = np.broadcast_to(1.0, len(rank)) if self.relevance is None else self.relevance
        ideal = Ragged(self.n_users, self.user, rank, relevance)
        if self.relevance is not None:
            ideal = ideal.best_first
        if depth is None:
            return ideal
        within = ideal.rank <= depth
        return Ragged(self.n_users, ideal.row[within], ideal.rank[within], ideal.relevance[within])


def pair_hashes(user: Ints, item: Ints) -> Hashes:
    """Return a 64-bit hash of each pair."""
    hashes = item.view(np.uint64) * FACTORS[0]
    hashes ^= hashes >> np.uint64(32)
    hashes += user.view(np.uint64)
    hashes *= FACTORS[1]
    hashes ^= hashes >> np.uint64(29)
    return hashes


def combine_duplicates(
    user: Ints, item: Ints, rows: pa.Table, duplicates: TruthDuplicates
) -> tuple[Ints, Floats, Ints]:
    """Combine the rows of each pair of user and item: index of one row, relevance, number of rows.

    ``user`` and ``item`` are the codes of ``rows``; pairs are sorted by them.
    """
    order = lexsort(user, item)
    starts = np.flatnonzero(run_starts(user[order]) | run_starts(item[order]))
    size = np.broadcast_to(1, len(order))
    if len(starts) < len(order):
        size = np.diff(np.append(starts, len(order)))
    relevance = to_numpy(rows[RELEVANCE]).astype(np.float64, copy=False)[order]
    return order[starts], resolve_relevance(relevance, rows, order, starts, size, duplicates), size


def resolve_relevance(
    relevance: Floats, rows: pa.Table, order: Ints, starts: Ints, size: Ints, duplicates: TruthDuplicates
) -> Floats:
    """Return the relevance of each pair, which has the rows ``order[starts[i]:starts[i] + size[i]]``."""
    if len(starts) == len(order) and duplicates is not TruthDuplicates.COUNT:
        return relevance
    match duplicates:
        case TruthDuplicates.COUNT:
            return size.astype(np.float64)
        case TruthDuplicates.MAX:
            largest: Floats = np.maximum.reduceat(relevance, starts)
            return largest
    group = np.repeat(np.arange(len(starts)), size)
    if duplicates is TruthDuplicates.LAST:
        when = rows[TIMESTAMP]
        # Rows without a timestamp are the earliest; among equal timestamps, the largest relevance counts.
        has_time = to_numpy(when.is_valid())[order]
        time = to_numpy(when.fill_null(0))[order]
        latest: Floats = relevance[np.lexsort((relevance, time, has_time, group))[starts + size - 1]]
        return latest
    # Summed in ascending order, so that the order of rows does not matter, with compensated summation (Knuth,
    # TAOCP 2, 4.2.2), so that ten rows of 0.1 make 1.
    ascending = relevance[np.lexsort((relevance, group))]
    total, lost = np.zeros(len(starts)), np.zeros(len(starts))
    with np.errstate(over="ignore", invalid="ignore"):
        for number in range(int(size.max(initial=0))):
            has = size > number
            before, term = total[has], ascending[starts[has] + number]
            total[has] = after = before + term
            added = after - before
            lost[has] += (before - (after - added)) + (term - added)
        return np.where(np.isfinite(total), total + lost, total)
