"""Segments of items: the truth is restricted to the relevant items of each value, the lists stay whole."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from spark_eval.arrow.codes import count_by_code, lexsort, unique_sorted
from spark_eval.errors import DataError
from spark_eval.evaluation.worker.lists import BucketLists
from spark_eval.evaluation.worker.truth import Truth
from spark_eval.evaluation.worker.users import Segment
from spark_eval.kernels.beyond.catalog import Sets, expand_ranges
from spark_eval.kernels.lists import Ragged
from spark_eval.schema import ItemBuiltIn
from spark_eval.statistics.exact import Ints

# Maximum number of values of an attribute: more are likely ids or measurements.
MOST_VALUES: Final = 1_000
# Values of the built-in segments; items of the first two together hold a third and two thirds of all rows.
POPULARITY: Final = ("head", "torso", "tail", "cold")
COLD: Final = ("cold", "warm")


@dataclass(frozen=True)
class ItemSegment:
    """Values of an attribute of n items: sets of indices of ``names``, by fold, or one if folds are alike.

    The last of the n + 1 sets is for items without attributes.
    """

    names: Sequence[str]
    sets: Sequence[Sets]

    def values_of(self, index: Ints, fold: Ints) -> tuple[Ints, Ints]:
        """Return the values of relevant pairs: the pair's number, and the value's code.

        ``index`` are catalogue indices of the pairs' items, ``fold`` rows of the catalogue's tables. A pair
        without a value has the code after all names.
        """
        pairs, codes = [], []
        for number, sets in enumerate(self.sets):
            chosen = np.arange(len(index)) if len(self.sets) == 1 else np.flatnonzero(fold == number)
            owner, member = sets.member_indices(index[chosen])
            lacking = chosen[sets.sizes[index[chosen]] == 0]
            pairs += [chosen[owner], lacking]
            codes += [sets.members[member], np.full(len(lacking), len(self.names))]
        return np.concatenate(pairs), np.concatenate(codes)


def built_in_segment(name: str, n_rows: Ints) -> ItemSegment:
    """Return a built-in segment of items, from their training interactions by fold; shape (f, n + 1).

    Items are in the order of their ids.
    """
    if name == ItemBuiltIn.COLD:
        return ItemSegment(COLD, [single_values((rows > 0).astype(np.int64)) for rows in n_rows])
    return ItemSegment(POPULARITY, [single_values(popularity(rows)) for rows in n_rows])


def single_values(codes: Ints) -> Sets:
    """Return sets of one member each."""
    return Sets(np.arange(len(codes) + 1), codes)


def popularity(n_rows: Ints) -> Ints:
    """Return the index in POPULARITY of each item, from its number of training interactions.

    Items are sorted by this number, descending, equal ones as they come. The head are the first that together
    hold a third of all rows, the torso the next up to two thirds; the item that reaches the bound is in.

    >>> popularity(np.array([5, 3, 2, 1, 1, 0])).tolist()
    [0, 1, 2, 2, 2, 3]
    """
    order = np.argsort(-n_rows, kind="stable")
    before = np.cumsum(n_rows[order]) - n_rows[order]
    total = int(n_rows.sum())
    codes = np.empty(len(n_rows), dtype=np.int64)
    codes[order] = (3 * before >= total).astype(np.int64) + (3 * before >= 2 * total)
    codes[n_rows == 0] = POPULARITY.index("cold")
    return codes


def check_number_of_values(name: str, n_values: int) -> None:
    """Raise DataError TOO_MANY_SEGMENTS for an attribute with too many values."""
    if n_values > MOST_VALUES:
        message = f"items: segment {name!r} has {n_values} values, at most {MOST_VALUES}; group them"
        raise DataError("TOO_MANY_SEGMENTS", message)


@dataclass(frozen=True)
class ItemPopulation:
    """The n users of each value of an attribute: those with a relevant item of this value, once per value.

    ``truth`` are their relevant items of the value, ``user`` (n,) their indices in the bucket, ``segment``
    their values. ``pairs`` are the pairs of ``truth`` in the order of the bucket's pairs; the bucket's pair i
    has ``n_pairs[i]`` of them.
    """

    truth: Truth
    user: Ints
    segment: Segment
    pairs: Ints
    n_pairs: Ints
    truth_depth: int | None

    @classmethod
    def of(
        cls, truth: Truth, segment: ItemSegment, index: Ints, fold: Ints, truth_depth: int | None
    ) -> "ItemPopulation":
        """Return the users of a bucket's truth, by value; see ``ItemSegment.values_of``."""
        pair, code = segment.values_of(index, fold)
        n_values = len(segment.names) + 1
        keys, user = unique_sorted(truth.user[pair] * n_values + code)
        order = lexsort(user, pair)
        pair, user = pair[order], user[order]
        restricted = Truth(
            len(keys),
            user,
            truth.item[pair],
            None if truth.relevance is None else truth.relevance[pair],
        )
        return cls(
            restricted,
            keys // n_values,
            Segment(keys % n_values, [*segment.names, None]),
            np.argsort(pair, kind="stable"),
            count_by_code(pair, len(truth.user)),
            truth_depth,
        )

    @cached_property
    def ideal(self) -> Ragged:
        """Relevant items of each user, best first."""
        return self.truth.ideal(self.truth_depth)

    def lists(self, lists: BucketLists) -> BucketLists:
        """Return the whole lists of these users; hits are in the restricted truth."""
        n_users = max(lists.truth.n_users, 1)
        hit, at = expand_ranges(
            (np.cumsum(self.n_pairs) - self.n_pairs)[lists.hits.pair], self.n_pairs[lists.hits.pair]
        )
        hits, pair = lists.hits.take(hit), self.pairs[at]
        of_list = hits.of_list // n_users * len(self.user) + self.truth.user[pair]
        order = lexsort(of_list, hits.rank, pair)
        hits = replace(hits, of_list=of_list, pair=pair).take(order)
        models = np.arange(lists.n_models)[:, np.newaxis] * lists.truth.n_users
        return lists.with_truth(self.truth, (models + self.user).ravel(), hits)
