"""Batch of users' lists, reduced to the hits and the numbers that ranking metrics need.

Hits are few, so metrics cost O(hits), not O(users x k), and memory does not grow with k. A cutoff k is a
number of ranks, or None for the whole list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from spark_eval.arrow.codes import Array, run_starts
from spark_eval.conventions import TieOrder
from spark_eval.kernels.beyond.catalog import Entries, ItemContext, RankedEntries, index_in_run, require_fact
from spark_eval.kernels.beyond.examples import ListsOfItems, example_context
from spark_eval.statistics.exact import Floats, Ints


@dataclass(frozen=True)
class Ragged(RankedEntries):
    """Relevant entries of lists; ``relevance`` (entries,) is from the truth, >= 0."""

    relevance: Floats

    @classmethod
    def of(cls, lists: Sequence[Sequence[float]]) -> "Ragged":
        """Build entries from ``lists[i][rank - 1] > 0``, for examples and tests."""
        entries = [
            (row, rank, relevance)
            for row, relevances in enumerate(lists)
            for rank, relevance in enumerate(relevances, 1)
            if relevance > 0
        ]
        rows, ranks, relevances = np.array(entries, dtype=np.float64).reshape(-1, 3).T
        return cls(len(lists), rows.astype(np.int64), ranks.astype(np.int64), relevances)

    @cached_property
    def best_first(self) -> "Ragged":
        """The same entries sorted by relevance, with ranks 1, 2, ... in each list."""
        order = np.lexsort((-self.relevance, self.row))
        return Ragged(self.n_rows, self.row, self.number, self.relevance[order])


@dataclass(frozen=True)
class FilledRanks:
    """Numbers of items up to a rank, for lists with given ranks, which may have gaps.

    A repeated item counts once, at its best rank. ``up_to_hit`` counts the items of a hit's list at
    ranks up to the hit's, including the hit; shape (hits,), in the order of ``Lists.hits``. ``within[k]``
    counts the items of each list at ranks up to k; shape (n,). It has every cutoff k of a requested metric of
    the kind ``pairs``; without a cutoff the count is ``Lists.n_recommended``.
    """

    up_to_hit: Ints
    within: Mapping[int, Ints]


@dataclass(frozen=True)
class Lists:
    """One recommendation list per user, for n users at once.

    ``n_relevant`` (m) counts the user's relevant items, ``n_recommended`` the distinct items of the list;
    shape (n,). ``hits`` are the relevant items of the list at their ranks; ``ideal`` is the user's truth
    sorted by relevance, best first, up to the largest k. ``tie_first`` and ``tie_last`` are the first and
    last rank of the items with the same score as each hit; shape (hits,).

    Only metrics of the kind ``pairs`` need ``filled_ranks``, and only if ranks are given. If it is None,
    each list has one item at every rank from 1 to ``n_recommended`` (as lists ranked by score do), or no
    metric needs it. If ranks are given, there are no ties.

    ``context`` is the item context; None if no metric needs it.
    """

    n_relevant: Ints
    n_recommended: Ints
    hits: Ragged
    ideal: Ragged
    tie_first: Ints
    tie_last: Ints
    filled_ranks: FilledRanks | None = None
    context: ItemContext | None = None

    @classmethod
    def of(
        cls,
        lists: Sequence[Sequence[float]],
        truth: Sequence[Sequence[float]] | None = None,
        scores: Sequence[Sequence[float]] | None = None,
    ) -> "Lists":
        """Build lists from the relevance at each rank, for examples and tests.

        ``truth`` has the relevances of all relevant items of the user; by default those in the list.
        ``scores`` fall along each list; by default they are distinct.
        """
        ideal = [
            sorted((r for r in row if r > 0), reverse=True) for row in (lists if truth is None else truth)
        ]
        hits = Ragged.of(lists)
        scored = [[-rank for rank in range(len(row))] for row in lists] if scores is None else scores
        score_lists = [list(scored[row]) for row in hits.row]
        values = [scored[row][rank - 1] for row, rank in zip(hits.row, hits.rank, strict=True)]
        first = [score_list.index(value) + 1 for score_list, value in zip(score_lists, values, strict=True)]
        size = [score_list.count(value) for score_list, value in zip(score_lists, values, strict=True)]
        tie_first = np.array(first, dtype=np.int64)
        return cls(
            n_relevant=np.array([len(row) for row in ideal], dtype=np.int64),
            n_recommended=np.array([len(row) for row in lists], dtype=np.int64),
            hits=hits,
            ideal=Ragged.of(ideal),
            tie_first=tie_first,
            tie_last=tie_first + np.array(size, dtype=np.int64) - 1,
        )

    @classmethod
    def of_items(cls, lists: ListsOfItems, *, truth: ListsOfItems | None = None, **facts: Any) -> "Lists":
        """Build lists of items 0, 1, ..., best first, for examples and tests; by default nothing is relevant.

        ``truth`` has the relevant items of each list's user; ``facts`` are further arguments of
        ``example_context``.
        """
        relevant = [set(row) for row in truth or [[]] * len(lists)]
        hits = [[float(item in wanted) for item in row] for row, wanted in zip(lists, relevant, strict=True)]
        built = cls.of(hits, truth=[[1.0] * len(row) for row in relevant])
        return replace(built, context=example_context(lists, relevant, **facts))

    @property
    def items(self) -> ItemContext:
        """Item context, for metrics that have declared it."""
        return require_fact(self.context)

    @property
    def listed(self) -> Entries:
        """All items of the lists, for metrics that have declared them."""
        return require_fact(self.items.listed)

    def of_hits(self, table: Array) -> Array:
        """Look the hits up in a table by fold and item (f, n + 1); shape (hits,)."""
        return self.items.of_indices(table, self.hits.row, self.items.hits)

    def n_hits(self, k: int | None) -> Floats:
        """Return h, the hits in the top k; shape (n,)."""
        return self.hits.count(k).astype(np.float64)

    def n_ranks(self, k: int | None) -> Ints:
        """Return k for every list; without a cutoff the length of each; shape (n,)."""
        return self.n_recommended if k is None else np.full(len(self.n_relevant), k, dtype=np.int64)

    def filled(self, k: int | None) -> Ints:
        """Return min(k, length of the list); shape (n,)."""
        return np.minimum(self.n_recommended, self.n_ranks(k))

    def length(self, k: int | None) -> Ints:
        """Return the number of items at ranks up to k; shape (n,)."""
        if k is None or self.filled_ranks is None:
            return self.filled(k)
        return self.filled_ranks.within[k]

    def fillable(self, k: int | None) -> Ints:
        """Return min(m, k), the number of hits of a perfect list; shape (n,)."""
        return self.n_relevant if k is None else np.minimum(self.n_relevant, k)

    def arranged(self, order: TieOrder) -> "Lists":
        """Reorder ties: each hit is before (``best``) or after (``worst``) the items with the same score.

        Hits that tie with each other are sorted by relevance, highest first (``best``) or last.
        """
        if order not in (TieOrder.BEST, TieOrder.WORST):
            return self
        sign = -1.0 if order is TieOrder.BEST else 1.0
        hits = self.hits
        moved = np.lexsort((sign * hits.relevance, self.tie_first, hits.row))
        first, last, row = self.tie_first[moved], self.tie_last[moved], hits.row[moved]
        is_start = run_starts(row) | run_starts(first)
        group = np.cumsum(is_start) - 1
        start = first if order is TieOrder.BEST else last + 1 - np.bincount(group)[group]
        context = self.context
        if context is not None:
            context = replace(context, hits=context.hits[moved], hit_items=context.hit_items[moved])
        return replace(
            self,
            hits=Ragged(hits.n_rows, row, start + index_in_run(is_start), hits.relevance[moved]),
            context=context,
            tie_first=first,
            tie_last=last,
        )
