"""Users as a person writes them down, item by item, and their form for the kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np
from world import about

from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import Catalog, Entries, ItemContext
from spark_eval.kernels.lists import FilledRanks, Lists, Ragged
from spark_eval.kernels.registry import RankingMetric

# Of the cutoffs that tests of lists with gaps ask for.
LARGEST_CUTOFF: Final = 20
LEAST: Final = 5e-324
N_KNOWN: Final = 200
# Where lists keep what metrics of intents see of them.
OF_INTENTS: Final = "_of_intents"


@dataclass(frozen=True)
class User:
    """The items recommended to one user, best first, and the relevance of every relevant item.

    ``scores`` stand at each rank and fall; None: no two items tie. A negative item is a place that nothing
    holds: given ranks may have gaps. ``history`` are the items of training, ``base`` those of the baseline's
    list, None where it has none, and ``fold`` the number of the fold.
    """

    recommended: Sequence[int]
    truth: Mapping[int, float]
    scores: Sequence[float] | None = None
    history: Sequence[int] = ()
    base: Sequence[int] | None = None
    fold: int = 0

    @property
    def relevances(self) -> list[float]:
        """The relevance at each rank, 0 where the item is not relevant."""
        return [relevance or 0 for relevance in self.judged]

    @property
    def judged(self) -> list[float | None]:
        """The relevance at each rank, None where the item is not relevant: a relevant one may be worth 0."""
        return [self.truth.get(item) for item in self.recommended]

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


def user(
    recommended: Sequence[int],
    relevant: Sequence[int],
    history: Sequence[int] = (),
    base: Sequence[int] | None = None,
    fold: int = 0,
) -> User:
    """A user whose relevant items are all worth 1."""
    return User(recommended, dict.fromkeys(relevant, 1), history=history, base=base, fold=fold)


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


def groups_of(item: int) -> str:
    """The groups of an item, a letter for each; any has some."""
    return ("b", "a", "ab", "b", "bc", "c", "ac", "a", "c", "bd", "ac", "bc")[item % 12]


def grouped_lists(
    lists: Sequence[Sequence[int]], truth: Sequence[Sequence[int]], groups: Mapping[int, str]
) -> Lists:
    """Lists of items in groups, a letter for each; the catalogue holds the items that ``groups`` names."""
    letters = [groups.get(item, "") for item in range(max(groups, default=-1) + 1)]
    in_groups = Lists.of_items(lists, truth=truth, groups=letters, listed=sorted(groups))
    known = about_of(in_groups)
    texts = [*map(str, range(known.catalog.n_items)), ""]
    catalog = replace(known.catalog, text_order=np.argsort(np.argsort(texts)))
    return replace(in_groups, context=replace(known, catalog=catalog))


def about_of(lists: Lists) -> ItemContext:
    """What is known of the items of lists."""
    assert lists.context is not None
    return lists.context


def item_entries(lists: Sequence[Sequence[int]]) -> Entries:
    """The items of lists, each at its place in the catalogue; negative ones are none."""
    entries = [(row, rank, item) for row, items in enumerate(lists) for rank, item in enumerate(items, 1)]
    row, rank, item = np.array([one for one in entries if one[2] >= 0], dtype=np.int64).reshape(-1, 3).T
    return Entries(len(lists), row, rank, item, item)


CATALOG: Final[Catalog] = about_of(
    grouped_lists([], [], {item: groups_of(item) for item in range(N_KNOWN)})
).catalog


def about_intents(users: Sequence[User], hits: Ragged) -> ItemContext:
    """What is known of the items of these users where every item has groups."""
    hit = [users[row].recommended[rank - 1] for row, rank in zip(hits.row, hits.rank, strict=True)]
    at_hits = np.array(hit, dtype=np.int64)
    relevant = [sorted(one.truth, key=lambda item: (-one.truth[item], -item)) for one in users]
    return ItemContext(
        CATALOG,
        fold=np.zeros(len(users), dtype=np.int64),
        hits=at_hits,
        hit_items=at_hits,
        listed=item_entries([one.recommended for one in users]),
        relevant=item_entries(relevant),
    )


def batch(users: Sequence[User]) -> Lists:
    """The users as the kernels see them; of metrics of intents, see ``for_metric``."""
    # In lists of relevances 0 is no hit: a relevant item of relevance 0 stands there as the least double.
    lists = Lists.of(
        [[0 if one is None else one or LEAST for one in user.judged] for user in users],
        truth=[[one or LEAST for one in user.truth.values()] for user in users],
        scores=[one.falling for one in users],
    )
    lists = replace(
        lists,
        n_recommended=np.array([one.n_recommended for one in users], dtype=np.int64),
        hits=unmarked(lists.hits),
        ideal=unmarked(lists.ideal),
        context=about(
            [one.recommended for one in users],
            [one.history for one in users],
            [one.base for one in users],
            [sorted(one.truth, key=lambda item: (-one.truth[item], -item)) for one in users],
            [one.fold for one in users],
            lists.hits,
        ),
    )
    vars(lists)[OF_INTENTS] = about_intents(users, lists.hits)
    if all(item >= 0 for one in users for item in one.recommended):
        return lists
    # Given ranks, some of which hold nothing: how many items there are up to each.
    up_to = [[0, *accumulate(item >= 0 for item in one.recommended)] for one in users]
    hits = zip(lists.hits.row, lists.hits.rank, strict=True)
    places = np.array([up_to[row][rank] for row, rank in hits], dtype=np.int64)
    cutoffs = range(1, LARGEST_CUTOFF + 1)
    within = {
        k: np.array([counts[min(k, len(counts) - 1)] for counts in up_to], dtype=np.int64) for k in cutoffs
    }
    filled = replace(lists, filled_ranks=FilledRanks(places, within))
    vars(filled)[OF_INTENTS] = vars(lists)[OF_INTENTS]
    return filled


def for_metric(lists: Lists, metric: RankingMetric) -> Lists:
    """The lists with the world of items that a metric is tested in: intents have one of their own."""
    of_intents = vars(lists).get(OF_INTENTS) if {Need.RELEVANT, Need.GROUPS} <= metric.needs else None
    return lists if of_intents is None else replace(lists, context=of_intents)


def unmarked(entries: Ragged) -> Ragged:
    """The same with relevance 0 for the least double."""
    return replace(entries, relevance=np.where(entries.relevance == LEAST, 0.0, entries.relevance))
