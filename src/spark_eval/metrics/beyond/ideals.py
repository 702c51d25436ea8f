"""The intents of users, which are the groups of what they find relevant, and greedy ideals of these."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from spark_eval.conventions import IdealTies
from spark_eval.metrics.beyond.catalog import filled_in, once
from spark_eval.metrics.lists import Lists, Ragged
from spark_eval.stats.exact import Floats, Ints

# Of each further hit that serves an intent, as much of its worth is lost.
REDUNDANCY: Final = 0.5
# A greedy ideal ends where no item adds more: all that it leaves out is less than a rounding of what it has.
NEGLIGIBLE: Final = 2.0**-60


@dataclass(frozen=True)
class Intents:
    """The intents of n users, as cells: a cell is a user and one of their intents.

    ``row`` tells the cells' users, ascending, ``n_relevant`` how many relevant items belong to the group;
    shape (cells,). A relevant item and a cell of its are a pair: ``relevant`` are places in
    ``about.relevant``, ``relevant_cell`` the cells. A hit and a cell of its are a pair, too: ``hit`` are
    places in the hits, ``cell`` the cells, ``number`` counts the hits of the cell so far, this one included.
    """

    n: int
    row: Ints
    n_relevant: Ints
    relevant: Ints
    relevant_cell: Ints
    hit: Ints
    cell: Ints
    number: Ints

    @cached_property
    def n_intents(self) -> Ints:
        """Count the intents of each user; shape (n,)."""
        return np.bincount(self.row, minlength=self.n).astype(np.int64, copy=False)

    def of_hits(self, values: Floats, n_hits: int) -> Floats:
        """Return per hit the sum of its pairs' values; shape (hits,)."""
        return np.bincount(self.hit, values, minlength=n_hits).astype(np.float64, copy=False)


@once
def intents_of(lists: Lists) -> Intents:
    """Join relevant items and hits with their groups."""
    about = filled_in(lists.about)
    groups, relevant = filled_in(about.catalog.groups), filled_in(about.relevant)
    step = int(groups.members.max(initial=0)) + 1
    item, place = groups.places_of_members(relevant.place)
    keys, cell_of_item, n_relevant = np.unique(
        relevant.row[item] * step + groups.members[place], return_inverse=True, return_counts=True
    )
    hit, place = groups.places_of_members(about.hits)
    cell = np.searchsorted(keys, lists.hits.row[hit] * step + groups.members[place])
    # Pairs of a cell lie in the order of their hits' ranks.
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=len(keys))
    number = np.empty(len(cell), dtype=np.int64)
    number[order] = np.arange(1, len(cell) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
    return Intents(lists.hits.n_rows, keys // step, n_relevant, item, cell_of_item, hit, cell, number)


def gains_of(lists: Lists) -> Floats:
    """Return the gain of each hit (hits,): 1 for each of its groups, halved for each earlier hit in it."""
    intents = intents_of(lists)
    return intents.of_hits(np.power(REDUNDANCY, intents.number - 1), len(lists.hits.row))


@once
def greedy_ideal(lists: Lists, ties: IdealTies) -> Ragged:
    """Return each user's greedy ideal with its gains as relevance, as far as the largest k.

    Rank by rank it takes of the user's relevant items the one that gains most, of several the larger id.
    """
    about = filled_in(lists.about)
    relevant, larger = filled_in(about.relevant), filled_in(about.relevant).item
    if ties is IdealTies.TEXT:
        larger = filled_in(about.catalog.text_order)[relevant.place]
    depth = np.bincount(lists.ideal.row, minlength=lists.ideal.n_rows)
    return taken_greedily(intents_of(lists), relevant.row, larger, depth)


def taken_greedily(intents: Intents, row: Ints, larger: Ints, depth: Ints) -> Ragged:
    """Take the best relevant item of all users at once, rank by rank, as far as ``depth`` (n,).

    ``row`` and ``larger`` are the users of relevant items, and numbers that are larger where ids are.
    """
    order = np.lexsort((-larger, row))
    place = np.argsort(order)[intents.relevant]
    pairs = np.argsort(place, kind="stable")
    cell, n_cells = intents.relevant_cell[pairs], np.bincount(place, minlength=len(row))
    row, n_cells = row[order][n_cells > 0], n_cells[n_cells > 0]
    worth = np.ones(len(intents.row))
    rows, gains = [row[:0]], [worth[:0]]
    while len(row):
        gain = np.add.reduceat(worth[cell], np.cumsum(n_cells) - n_cells)
        starts = firsts(row)
        users, number = row[starts], np.repeat(np.arange(len(starts)), np.diff(starts, append=len(row)))
        best = np.maximum.reduceat(gain, starts)
        equal = np.flatnonzero(gain == best[number])
        chosen = equal[firsts(number[equal])]
        rows.append(users)
        gains.append(best)
        is_chosen = np.zeros(len(row), dtype=bool)
        is_chosen[chosen] = True
        worth[cell[np.repeat(is_chosen, n_cells)]] *= REDUNDANCY
        is_left = ~is_chosen & ((depth[users] >= len(rows)) & (best > NEGLIGIBLE))[number]
        cell, row, n_cells = cell[np.repeat(is_left, n_cells)], row[is_left], n_cells[is_left]
    rank = np.repeat(np.arange(len(rows)), [len(users) for users in rows])
    taken = np.concatenate(rows)
    order = np.argsort(taken, kind="stable")
    return Ragged(intents.n, taken[order], rank[order], np.concatenate(gains)[order])


def firsts(numbers: Ints) -> Ints:
    """Return where each of these ascending numbers from 0 on stands first."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))
