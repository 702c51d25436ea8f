"""Intent-aware metrics: a user's intents are the groups of their relevant items.

Lists are used as ranked. An empty list scores 0, and so does a user without relevant items. A user whose
relevant items have no groups has no intents, and no value. Some metrics are normalised by a greedy ideal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

import numpy as np

from spark_eval.arrow.codes import run_starts
from spark_eval.conventions import Conventions, Discount, IdealTies
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import cached_on_first_argument, divide, index_in_run, require_fact
from spark_eval.kernels.discounts import discounts
from spark_eval.kernels.lists import Lists, Ragged
from spark_eval.kernels.registry import ranking_metric
from spark_eval.statistics.exact import Floats, Ints

# Share of the gain that an intent loses with each further hit.
REDUNDANCY: Final = 0.5
# A greedy ideal ends when the remaining gains are less than the rounding of the sum.
NEGLIGIBLE: Final = 2.0**-60
OF_INTENTS: Final = frozenset({Need.HITS, Need.GROUPS, Need.RELEVANT})
# Maximum gain of an intent if the items at r ranks all have it; later gains round to 0.
MOST_SERVED: Final = np.array(
    list(accumulate((REDUNDANCY ** (rank - 1) / rank for rank in range(1, 1100)), initial=0.0))
)


def share_of_ideal(
    lists: Lists, k: int | None, conventions: Conventions, weights: Callable[[Ints], Floats]
) -> Floats:
    """Return the sum of weighted gains up to k, divided by that of the greedy ideal; shape (n,)."""
    hits, ideal = lists.hits, greedy_ideal(lists, conventions.ideal_ties)
    gains = hits.total(gains_of(lists) * weights(hits.rank), k)
    return nan_without_intents(lists, divide(gains, ideal.total(ideal.relevance * weights(ideal.rank), k)))


def nan_without_intents(lists: Lists, values: Floats) -> Floats:
    """Return the values, with NaN for users whose relevant items have no groups."""
    return np.where((intents_of(lists).n_intents == 0) & (lists.n_relevant > 0), np.nan, values)


@ranking_metric(
    "alpha_ndcg",
    formula="sum of gain / log2(rank + 1) over hits / that of the greedy ideal; a hit gains, for each of its "
    "groups, 1/2^(earlier hits in it)",
    conventions=("ideal_ties",),
    upper=None,
    needs=OF_INTENTS,
)
def alpha_ndcg(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Gain of early hits in many intents, as a share of a greedy ideal; repeated intents count half.

    Items 1 and 2 are in a, item 3 is in b. The order 1, 3 is ideal, the order 1, 2 is not:

    >>> groups = ["", "a", "a", "b"]
    >>> lists = Lists.of_items([[1, 3, 2], [1, 2, 3]], truth=[[1, 2, 3], [1, 2, 3]], groups=groups)
    >>> alpha_ndcg(lists, 2, Conventions()).round(6)
    array([1.      , 0.806574])

    The ideal takes the item with the largest gain at each rank, of equal ones the larger id: finding the
    best order is too costly. So a list can be better than its ideal, and score above 1:

    >>> lists = Lists.of_items([[1, 2, 3]], truth=[[1, 2, 3, 4]], groups=["", "ac", "bd", "bc", "b"])
    >>> alpha_ndcg(lists, 3, Conventions()).round(6)
    array([1.01771])

    Undefined if no relevant item has a group.

    Source: Clarke and others, Novelty and diversity in information retrieval evaluation, 2008; alpha is 1/2.
    ``ideal_ties=text`` compares ids as ndeval does, up to rank 20.
    """
    return share_of_ideal(lists, k, conventions, lambda rank: discounts(rank, Discount.LOG2))


@ranking_metric(
    "err_ia",
    formula="sum of gain / rank over the hits / sum of |G| / 2^(r - 1) / r over r <= k",
    needs=OF_INTENTS,
)
def err_ia(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Intent-aware expected reciprocal rank as a share of the largest possible value in k ranks.

    Gains are those of ``alpha_ndcg``. G are the user's intents; each of k items could serve all of them.
    Items 1 and 3 serve a and b: (1 + 1/2) / (2 (1 + 1/4)).

    >>> groups = ["", "a", "a", "b"]
    >>> err_ia(Lists.of_items([[1, 3, 2]], truth=[[1, 2, 3]], groups=groups), 2, Conventions())
    array([0.6])

    Without a cutoff k is the length of the list. Undefined if no relevant item has a group.

    Source: Chapelle and others, Intent-based diversification of web search results, 2011, as in ndeval,
    which measures up to rank 20, and does not divide the value at rank 1.
    """
    gains = lists.hits.total(gains_of(lists) / lists.hits.rank, k)
    most = intents_of(lists).n_intents * MOST_SERVED[np.minimum(lists.n_ranks(k), len(MOST_SERVED) - 1)]
    # Sums in different orders: the value of a perfect list can be rounded to just above 1.
    return nan_without_intents(lists, np.minimum(divide(gains, most), 1.0))


@ranking_metric(
    "nerr_ia",
    formula="sum of gain / rank over the hits / that of the greedy ideal",
    conventions=("ideal_ties",),
    upper=None,
    needs=OF_INTENTS,
)
def nerr_ia(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Intent-aware expected reciprocal rank as a share of that of the user's greedy ideal.

    The ideal is that of ``alpha_ndcg``, so values can exceed 1. Item 3 would be better at rank 2:

    >>> groups = ["", "a", "a", "b"]
    >>> nerr_ia(Lists.of_items([[1, 2, 3]], truth=[[1, 2, 3]], groups=groups), 2, Conventions()).round(6)
    array([0.833333])

    Undefined if no relevant item has a group.

    Source: Clarke and others, A comparative analysis of cascade measures for novelty and diversity, 2011;
    ndeval, up to rank 20.
    """
    return share_of_ideal(lists, k, conventions, lambda rank: 1 / rank)


@ranking_metric("p_ia", formula="sum over hits of their groups / (k |G|)", needs=OF_INTENTS)
def p_ia(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Precision of each intent, averaged over the user's intents.

    Of three items two serve a, one serves b:

    >>> groups = ["", "a", "ab", "b"]
    >>> p_ia(Lists.of_items([[1, 2, 9]], truth=[[1, 2, 3]], groups=groups), 3, Conventions())
    array([0.5])

    Without a cutoff k is the length of the list. Undefined if no relevant item has a group.

    Source: Agrawal and others, Diversifying search results, 2009, with equally likely intents.
    """
    intents = intents_of(lists)
    served = lists.hits.total(intents.of_hits(np.ones(len(intents.hit)), len(lists.hits.row)), k)
    return nan_without_intents(lists, divide(served, lists.n_ranks(k) * intents.n_intents))


@ranking_metric("subtopic_recall", formula="intents with a hit / |G|", needs=OF_INTENTS)
def subtopic_recall(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of the user's intents with a hit in the top k.

    >>> groups = ["", "a", "a", "b", "cd"]
    >>> lists = Lists.of_items([[1, 2, 3]], truth=[[1, 2, 3, 4]], groups=groups)
    >>> subtopic_recall(lists, 2, Conventions()), subtopic_recall(lists, 3, Conventions())
    (array([0.25]), array([0.5]))

    Undefined if no relevant item has a group.

    Source: Zhai, Cohen, Lafferty, Beyond independent relevance, 2003.
    """
    intents = intents_of(lists)
    newly = intents.of_hits((intents.number == 1).astype(np.float64), len(lists.hits.row))
    return nan_without_intents(lists, divide(lists.hits.total(newly, k), intents.n_intents))


@ranking_metric("ap_ia", formula="mean over intents g of AP of the hits in g, over m_g", needs=OF_INTENTS)
def ap_ia(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Average precision of each intent, averaged over the user's intents.

    m_g counts the user's relevant items in g, even if more than k. Hits of a at ranks 1 and 3 of m = 2, none
    of b: (1/1 + 2/3) / 2, and 0.

    >>> groups = ["", "a", "a", "b"]
    >>> ap_ia(Lists.of_items([[1, 9, 2]], truth=[[1, 2, 3]], groups=groups), 3, Conventions()).round(6)
    array([0.416667])

    Undefined if no relevant item has a group.

    Source: Agrawal and others, Diversifying search results, 2009, with equally likely intents.
    """
    intents, rank = intents_of(lists), lists.hits.rank[intents_of(lists).hit]
    at_hits = intents.number / rank if k is None else np.where(rank <= k, intents.number / rank, 0.0)
    by_intent = np.bincount(intents.cell, at_hits, minlength=len(intents.row)) / intents.n_relevant
    total = np.bincount(intents.row, by_intent, minlength=intents.n).astype(np.float64, copy=False)
    return nan_without_intents(lists, divide(total, intents.n_intents))


@dataclass(frozen=True)
class Intents:
    """Intents of n users, as cells: a cell is a user and one of their intents.

    ``row`` is the user of each cell, ascending, ``n_relevant`` the number of relevant items in the group;
    shape (cells,). Pairs of a relevant item and its cell are in ``relevant`` (indices in
    ``context.relevant``) and ``relevant_cell``. Pairs of a hit and its cell are in ``hit`` (indices of hits)
    and ``cell``;
    ``number`` counts the hits of the cell so far, including this one.
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
        """Number of intents of each user; shape (n,)."""
        return np.bincount(self.row, minlength=self.n).astype(np.int64, copy=False)

    def of_hits(self, values: Floats, n_hits: int) -> Floats:
        """Sum the values of pairs by hit; shape (hits,)."""
        return np.bincount(self.hit, values, minlength=n_hits).astype(np.float64, copy=False)


@cached_on_first_argument
def intents_of(lists: Lists) -> Intents:
    """Join relevant items and hits with their groups."""
    groups, relevant = require_fact(lists.items.catalog.groups), require_fact(lists.items.relevant)
    item, of_item = groups.cells(relevant.row, relevant.index)
    cells, cell_of_item, n_relevant = np.unique(of_item, return_inverse=True, return_counts=True)
    hit, of_hit = groups.cells(lists.hits.row, lists.items.hits)
    cell = np.searchsorted(cells, of_hit)
    # The pairs of a cell are sorted by the rank of the hit.
    order = np.argsort(cell, kind="stable")
    number = np.empty(len(cell), dtype=np.int64)
    number[order] = index_in_run(run_starts(cell[order])) + 1
    row = cells // groups.n_members
    return Intents(lists.hits.n_rows, row, n_relevant, item, cell_of_item, hit, cell, number)


def gains_of(lists: Lists) -> Floats:
    """Return the gain of each hit (hits,): 1 for each of its groups, halved for each earlier hit in it."""
    intents = intents_of(lists)
    return intents.of_hits(np.power(REDUNDANCY, intents.number - 1), len(lists.hits.row))


@cached_on_first_argument
def greedy_ideal(lists: Lists, ties: IdealTies) -> Ragged:
    """Return each user's greedy ideal up to the largest k, with its gains as relevance.

    Each rank has the relevant item with the largest gain, of equal ones the larger id.
    """
    relevant = require_fact(lists.items.relevant)
    larger = relevant.item
    if ties is IdealTies.TEXT:
        larger = require_fact(lists.items.catalog.text_order)[relevant.index]
    return take_greedily(intents_of(lists), relevant.row, larger, lists.ideal.count(None))


def take_greedily(intents: Intents, row: Ints, larger: Ints, depth: Ints) -> Ragged:
    """Select the best relevant item of every user, rank by rank, up to ``depth`` (n,).

    ``row`` has the users of relevant items, ``larger`` integers that ascend with their ids.
    """
    order = np.lexsort((-larger, row))
    position = np.argsort(order)[intents.relevant]
    pairs = np.argsort(position, kind="stable")
    cell, n_cells = intents.relevant_cell[pairs], np.bincount(position, minlength=len(row))
    row, n_cells = row[order][n_cells > 0], n_cells[n_cells > 0]
    worth = np.ones(len(intents.row))
    rows, gains = [row[:0]], [worth[:0]]
    while len(row):
        gain = np.add.reduceat(worth[cell], np.cumsum(n_cells) - n_cells)
        starts = np.flatnonzero(run_starts(row))
        users, number = row[starts], np.repeat(np.arange(len(starts)), np.diff(starts, append=len(row)))
        best = np.maximum.reduceat(gain, starts)
        equal = np.flatnonzero(gain == best[number])
        chosen = equal[run_starts(number[equal])]
        rows.append(users)
        gains.append(best)
        is_chosen = np.zeros(len(row), dtype=bool)
        is_chosen[chosen] = True
        worth[cell[np.repeat(is_chosen, n_cells)]] *= REDUNDANCY
        is_left = ~is_chosen & ((depth[users] >= len(rows)) & (best > NEGLIGIBLE))[number]
        cell, row, n_cells = cell[np.repeat(is_left, n_cells)], row[is_left], n_cells[is_left]
    rank = np.repeat(np.arange(len(rows)), [len(users) for users in rows])
    selected = np.concatenate(rows)
    order = np.argsort(selected, kind="stable")
    return Ragged(intents.n, selected[order], rank[order], np.concatenate(gains)[order])
