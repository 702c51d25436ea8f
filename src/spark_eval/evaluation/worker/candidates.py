"""Sign of sampled candidates: lists that rank each user's relevant items among a few others."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Final

import numpy as np

from spark_eval.evaluation.worker.lists import BucketLists
from spark_eval.statistics.additive import Additive, added_by
from spark_eval.statistics.exact import Ints

# Fewer lists than these are no evidence.
LEAST_LISTS: Final = 100
# Sampled lists have less than this share of the items of all lists; full rankings have more.
MOST_OF_ITEMS: Final = 0.5


def common_length(one: int | None, other: int | None) -> int | None:
    """Return the length of all lists, 0 for none, None if they differ.

    >>> common_length(0, 5), common_length(5, 5), common_length(5, 4)
    (5, 5, None)
    """
    lengths = {one, other} - {0}
    return next(iter(lengths), 0) if len(lengths) < 2 else None


@dataclass(frozen=True)
class CandidateSign(Additive):
    """Sign of one model's lists in a bucket, or in all of them.

    ``length`` is that of every list, 0 without any and None if lengths differ or a list with truth lacks a
    relevant item. ``n_lists`` have truth, ``n_below`` relevant items have a rank that a perfect list would
    not give them, and ``n_items`` is the number of distinct items in the lists of a bucket, at most.
    """

    length: int | None = field(metadata=added_by(common_length), default=0)
    n_lists: int = 0
    n_below: int = 0
    n_items: int = field(metadata=added_by(max), default=0)

    @property
    def looks_sampled(self) -> bool:
        """True if lists of one length hold all of their truth, though neither perfect nor full."""
        if not self.length or not self.n_below or self.n_lists < LEAST_LISTS:
            return False
        return self.length < MOST_OF_ITEMS * self.n_items


def candidate_signs(lists: BucketLists, count_items: Callable[[], int]) -> list[CandidateSign]:
    """Return the sign of each model's lists; ``count_items`` counts the distinct items of all lists."""
    lengths, n_found = lists.by_model(lists.n_valid), lists.by_model(lists.n_found)
    n_below = lists.by_model(lists.n_below).sum(axis=1)
    signs = []
    for of_model, found, below in zip(lengths, n_found, n_below.tolist(), strict=True):
        is_list = of_model > 0
        length = common_value(of_model[is_list])
        with_truth = is_list & (lists.truth.n_relevant > 0)
        if length is not None and (found[with_truth] < lists.truth.n_relevant[with_truth]).any():
            length = None
        n_items = count_items() if length else 0
        signs.append(CandidateSign(length, int(np.count_nonzero(with_truth)), below, n_items))
    return signs


def common_value(values: Ints) -> int | None:
    """Return the value that all have in common, 0 without any; None if they differ."""
    if not len(values):
        return 0
    return int(values[0]) if (values == values[0]).all() else None


def models_like_sampled(signs: Iterable[tuple[str | None, CandidateSign]]) -> list[str]:
    """Return the models whose lists look like sampled candidates, from signs of models in buckets."""
    by_model: dict[str, list[CandidateSign]] = {}
    for model, sign in signs:
        if model is not None:
            by_model.setdefault(model, []).append(sign)
    of_models = {model: reduce(add, parts) for model, parts in by_model.items()}
    return sorted(model for model, sign in of_models.items() if sign.looks_sampled)
