"""The truth of a bucket: which items are relevant to whom, each pair once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import counted, ordered
from spark_eval.arrow.hashes import Booleans, Hashes, changes, numbers
from spark_eval.conventions import TruthDuplicates
from spark_eval.metrics.lists import Ragged
from spark_eval.schema import RELEVANCE, TIMESTAMP
from spark_eval.stats.exact import Floats, Ints

# A Bloom filter of two places for each pair: of other pairs, one in some hundred passes.
PLACES_PER_PAIR = 24
MOST_TABLE_BITS = 24
FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


@dataclass(frozen=True)
class Truth:
    """The distinct relevant pairs of n users, by user and item.

    ``user`` and ``item`` hold the numbers of each pair's user and item, ``relevance`` is its relevance, None
    where all are 1; ``is_cold`` tells items without training interactions, None where nothing is known of
    these; all of shape (pairs,).
    """

    n_users: int
    user: Ints
    item: Ints
    relevance: Floats | None
    is_cold: Booleans | None = None

    @cached_property
    def n_relevant(self) -> Ints:
        """How many items are relevant to each user; shape (n,)."""
        return counted(self.user, self.n_users)

    def relevances(self, pairs: Ints) -> Floats:
        """Return the relevance of each of these pairs."""
        return np.ones(len(pairs)) if self.relevance is None else self.relevance[pairs]

    @cached_property
    def largest_relevance(self) -> float:
        """The relevance of the most relevant pair; 0 of no pairs."""
        if self.relevance is None:
            return float(len(self.user) > 0)
        return float(self.relevance.max(initial=0.0))

    @cached_property
    def items(self) -> Ints | range:
        """The distinct items, ascending; all from the least to the last where 64 bits number their pairs."""
        least, last = int(self.item.min()), int(self.item.max())
        if self.n_users * (last - least + 1) < 1 << 63:
            return range(least, last + 1)
        in_order = np.sort(self.item)
        distinct: Ints = in_order[changes(in_order)]
        return distinct

    def places(self, item: Ints) -> tuple[Ints, Booleans]:
        """Return the place of each of these in ``items``, and which are there at all."""
        items = self.items
        if isinstance(items, range):
            return item - items[0], (items[0] <= item) & (item <= items[-1])
        place = np.minimum(np.searchsorted(items, item), len(items) - 1)
        return place, items[place] == item

    @cached_property
    def keys(self) -> Ints:
        """A number for each pair, ascending: no two are equal."""
        return self.user * len(self.items) + self.places(self.item)[0]

    @cached_property
    def filter(self) -> Booleans:
        """A Bloom filter in which every relevant pair has two places."""
        bits = min(max((PLACES_PER_PAIR * len(self.user)).bit_length(), 10), MOST_TABLE_BITS)
        table = np.zeros(1 << bits, dtype=bool)
        hashes = pair_hashes(self.user, self.item)
        table[hashes >> np.uint64(64 - bits)] = True
        table[hashes & np.uint64(len(table) - 1)] = True
        return table

    def find(self, user: Ints, item: Ints) -> tuple[Ints, Ints]:
        """Return which of these rows are relevant pairs, ascending, and which pair each is."""
        if not len(self.user):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        # Hardly any row but the hits passes the filter; those are looked up exactly.
        hashes = pair_hashes(user, item)
        rows = np.flatnonzero(self.filter[hashes >> np.uint64(65 - len(self.filter).bit_length())])
        rows = rows[self.filter[hashes[rows] & np.uint64(len(self.filter) - 1)]]
        place, is_known = self.places(item[rows])
        rows, place = rows[is_known], place[is_known]
        wanted = user[rows] * len(self.items) + place
        pair = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        is_hit = self.keys[pair] == wanted
        return rows[is_hit], pair[is_hit]

    def ideal(self, depth: int | None) -> Ragged:
        """Return each user's relevant items, best first, as far as ``depth``."""
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
    """Return 64 bits of each pair."""
    hashes = item.view(np.uint64) * FACTORS[0]
    hashes ^= hashes >> np.uint64(32)
    hashes += user.view(np.uint64)
    hashes *= FACTORS[1]
    hashes ^= hashes >> np.uint64(29)
    return hashes


def combined(
    user: Ints, item: Ints, rows: pa.Table, duplicates: TruthDuplicates
) -> tuple[Ints, Floats, Ints]:
    """Combine the rows of each pair of user and item: a row of it, its relevance, how many rows name it.

    ``user`` and ``item`` are the numbers of those of ``rows``. Pairs are in the order of these.
    """
    order = ordered(user, item)
    starts = np.flatnonzero(changes(user[order]) | changes(item[order]))
    size = np.broadcast_to(1, len(order))
    if len(starts) < len(order):
        size = np.diff(np.append(starts, len(order)))
    relevance = numbers(rows[RELEVANCE]).astype(np.float64, copy=False)[order]
    return order[starts], one_relevance(relevance, rows, order, starts, size, duplicates), size


def one_relevance(
    relevance: Floats, rows: pa.Table, order: Ints, starts: Ints, size: Ints, duplicates: TruthDuplicates
) -> Floats:
    """Return the relevance of each pair, named by the rows ``order[starts[i]:starts[i] + size[i]]``."""
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
        # Rows without a time count as the earliest; of equally late ones the larger relevance counts.
        known = numbers(when.is_valid())[order]
        time = numbers(when.fill_null(0))[order]
        latest: Floats = relevance[np.lexsort((relevance, time, known, group))[starts + size - 1]]
        return latest
    # Added one by one in ascending order, so that the order of rows never decides; what each addition rounds
    # away (Knuth, TAOCP 2, 4.2.2) is added in the end, so that ten rows of 0.1 make 1.
    ascending = relevance[np.lexsort((relevance, group))]
    total, lost = np.zeros(len(starts)), np.zeros(len(starts))
    with np.errstate(over="ignore", invalid="ignore"):
        for place in range(int(size.max(initial=0))):
            has = size > place
            before, term = total[has], ascending[starts[has] + place]
            total[has] = after = before + term
            added = after - before
            lost[has] += (before - (after - added)) + (term - added)
        return np.where(np.isfinite(total), total + lost, total)
