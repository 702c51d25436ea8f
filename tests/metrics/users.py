"""Users as a person writes them down, item by item, and their form for the kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from spark_eval.metrics import Lists
from spark_eval.metrics.lists import Held

# Of the cutoffs that tests of lists with gaps ask for.
LARGEST_CUTOFF = 20


@dataclass(frozen=True)
class User:
    """The items recommended to one user, best first, and the relevance of every relevant item.

    ``scores`` stand at each rank and fall; None: no two items tie. A negative item is a place that nothing
    holds: given ranks may have gaps.
    """

    recommended: Sequence[int]
    truth: Mapping[int, float]
    scores: Sequence[float] | None = None

    @property
    def relevances(self) -> list[float]:
        """The relevance at each rank, 0 where the item is not relevant."""
        return [self.truth.get(item, 0) for item in self.recommended]

    @property
    def n_recommended(self) -> int:
        """The items of the list."""
        return sum(item >= 0 for item in self.recommended)

    @property
    def falling(self) -> list[float]:
        """The score at each rank, also where none is given."""
        return [-rank for rank in range(len(self.recommended))] if self.scores is None else list(self.scores)

    def cut(self, k: int | None) -> "User":
        """The same user with the top k only."""
        scores = None if self.scores is None else self.scores[:k]
        return replace(self, recommended=self.recommended[:k], scores=scores)


def user(recommended: Sequence[int], relevant: Sequence[int]) -> User:
    """A user whose relevant items are all worth 1."""
    return User(recommended, dict.fromkeys(relevant, 1))


def graded(
    relevances: Sequence[float], missed: Sequence[float] = (), scores: Sequence[float] | None = None
) -> User:
    """A user given by the relevance at each rank, and the relevances of the items not recommended."""
    by_item = enumerate([*relevances, *missed])
    truth = {item: relevance for item, relevance in by_item if relevance > 0}
    return User(range(len(relevances)), truth, scores)


def hits(ranks: Sequence[int], length: int, n_relevant: int) -> User:
    """A list of this length with hits at these ranks, out of ``n_relevant`` relevant items."""
    relevances = [1 if rank in ranks else 0 for rank in range(1, length + 1)]
    return graded(relevances, [1] * (n_relevant - len(ranks)))


def batch(users: Sequence[User]) -> Lists:
    """The users as the kernels see them."""
    lists = Lists.of(
        [one.relevances for one in users],
        truth=[list(one.truth.values()) for one in users],
        scores=[one.falling for one in users],
    )
    n_recommended = np.array([one.n_recommended for one in users], dtype=np.int64)
    if all(item >= 0 for one in users for item in one.recommended):
        return lists
    # Given ranks, some of which hold nothing: how many items there are up to each.
    up_to = [[0, *accumulate(item >= 0 for item in one.recommended)] for one in users]
    hits = zip(lists.hits.row, lists.hits.rank, strict=True)
    places = np.array([up_to[row][rank] for row, rank in hits], dtype=np.int64)
    cutoffs = range(1, LARGEST_CUTOFF + 1)
    within = {k: np.array([counts[min(k, len(counts) - 1)] for counts in up_to]) for k in cutoffs}
    return replace(lists, n_recommended=n_recommended, held=Held(places, within))
