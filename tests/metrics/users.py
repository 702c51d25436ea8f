"""Users as a person writes them down, item by item, and their form for the kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_eval.metrics import Lists


@dataclass(frozen=True)
class User:
    """The items recommended to one user, best first, and the relevance of every relevant item."""

    recommended: Sequence[int]
    truth: Mapping[int, float]

    @property
    def relevances(self) -> list[float]:
        """The relevance at each rank, 0 where the item is not relevant."""
        return [self.truth.get(item, 0) for item in self.recommended]


def user(recommended: Sequence[int], relevant: Sequence[int]) -> User:
    """A user whose relevant items are all worth 1."""
    return User(recommended, dict.fromkeys(relevant, 1))


def graded(relevances: Sequence[float], missed: Sequence[float] = ()) -> User:
    """A user given by the relevance at each rank, and the relevances of the items not recommended."""
    by_item = enumerate([*relevances, *missed])
    return User(range(len(relevances)), {item: relevance for item, relevance in by_item if relevance > 0})


def hits(ranks: Sequence[int], length: int, n_relevant: int) -> User:
    """A list of this length with hits at these ranks, out of ``n_relevant`` relevant items."""
    relevances = [1 if rank in ranks else 0 for rank in range(1, length + 1)]
    return graded(relevances, [1] * (n_relevant - len(ranks)))


def batch(users: Sequence[User]) -> Lists:
    """The users as the kernels see them."""
    return Lists.of([one.relevances for one in users], truth=[list(one.truth.values()) for one in users])
