"""A batch of users' lists, reduced to all that a ranking metric can see: where the hits are.

Hits are few, so metrics cost O(hits), not O(users x k), and memory stays flat for any k.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ragged:
    """Arrays of several lengths, laid end to end.

    ``row[i]`` is the list that entry i belongs to (ascending), ``rank[i]`` its rank from 1 (ascending
    within a list), ``relevance[i]`` its true relevance, > 0. All three have shape (entries,).
    """

    n_rows: int
    row: Ints
    rank: Ints
    relevance: Floats

    def total(self, weight: Floats, k: int) -> Floats:
        """Per list, the sum of ``weight`` over its entries with rank <= k; shape (n_rows,).

        The sum runs in rank order, one entry after the other, so a list's value does not depend on
        which other lists share its batch.
        """
        within = np.where(self.rank <= k, weight, 0.0)
        return np.bincount(self.row, weights=within, minlength=self.n_rows).astype(np.float64, copy=False)

    @classmethod
    def of(cls, lists: Sequence[Sequence[float]]) -> "Ragged":
        """Entries of ``lists[i][rank - 1] > 0``, for examples and tests."""
        entries = [
            (row, rank, relevance)
            for row, relevances in enumerate(lists)
            for rank, relevance in enumerate(relevances, 1)
            if relevance > 0
        ]
        rows, ranks, relevances = np.array(entries, dtype=np.float64).reshape(-1, 3).T
        return cls(len(lists), rows.astype(np.int64), ranks.astype(np.int64), relevances)

    @cached_property
    def number(self) -> Ints:
        """1 for the first entry of a list, 2 for its second, ...; shape (entries,)."""
        counts = np.bincount(self.row, minlength=self.n_rows)
        starts = np.cumsum(counts) - counts
        return np.arange(1, len(self.row) + 1, dtype=np.int64) - starts[self.row]


@dataclass(frozen=True)
class Lists:
    """One recommendation list per user, for n users at once.

    ``n_relevant`` (m) counts the user's relevant items, ``n_recommended`` the list; shape (n,).
    ``hits`` are the relevant items of the list at their ranks; ``ideal`` is the user's whole truth
    sorted by relevance, best first, as far as the largest k.
    """

    n_relevant: Ints
    n_recommended: Ints
    hits: Ragged
    ideal: Ragged

    @classmethod
    def of(cls, lists: Sequence[Sequence[float]], truth: Sequence[Sequence[float]] | None = None) -> "Lists":
        """Lists given as the relevance at each rank, for examples and tests.

        ``truth`` holds the relevances of all the user's relevant items; by default those in the list.
        """
        ideal = [
            sorted((r for r in row if r > 0), reverse=True) for row in (lists if truth is None else truth)
        ]
        return cls(
            n_relevant=np.array([len(row) for row in ideal], dtype=np.int64),
            n_recommended=np.array([len(row) for row in lists], dtype=np.int64),
            hits=Ragged.of(lists),
            ideal=Ragged.of(ideal),
        )

    def n_hits(self, k: int) -> Floats:
        """Hits in the top k; shape (n,)."""
        return self.hits.total(np.ones(len(self.hits.row)), k)


def divide(numerator: Floats, denominator: Floats | Ints) -> Floats:
    """Elementwise quotient, 0 where the denominator is 0: a user without truth or hits scores 0."""
    quotient = np.zeros(len(numerator))
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient
