"""What docstrings say at the edges: short lists, equal popularity, lists that begin late."""

from dataclasses import replace

import numpy as np
import pytest

from spark_eval.conventions import Conventions, EntropyWeights
from spark_eval.conventions.beyond import ShortList
from spark_eval.kernels.beyond.catalog import ItemCounts
from spark_eval.kernels.beyond.counts import entropy
from spark_eval.kernels.beyond.discovery import serendipity, unexpectedness
from spark_eval.kernels.beyond.diversity import intra_list_distance
from spark_eval.kernels.lists import Lists


@pytest.mark.parametrize("lists", [[[1, 2], [1]], [[1, 2, 3], [3], [], [4, 1]], [[5]], [[7, 8], [8, 7]]])
def test_entropy_by_slots_is_the_mean_information_of_lists(lists: list[list[int]]) -> None:
    everything = [item for items in lists for item in items]
    information = {item: -np.log2(everything.count(item) / len(everything)) for item in everything}
    expected = np.mean([np.mean([information[item] for item in items]) for items in lists if items])
    conventions = Conventions(entropy_weights=EntropyWeights.SLOTS)
    assert entropy(ItemCounts.of(lists), 5, conventions) == pytest.approx(expected, abs=1e-12)


def test_short_lists_are_those_of_one_item_known_or_not() -> None:
    lists = Lists.of_items([[0], [2], [], [0, 2], [0, 1]], vectors=[[1, 0], [0, 1]])
    for short, expected in (
        (ShortList.ZERO, [0, 0, np.nan, np.nan, 1]),
        (ShortList.UNDEFINED, [np.nan] * 4 + [1]),
    ):
        found = intra_list_distance(lists, 3, Conventions(ild_short=short))
        np.testing.assert_array_equal(found, expected)


def test_ranks_by_popularity_are_dense() -> None:
    # Items 0 and 1 have two users each, 2 has one, 3 none: ranks 1, 1, 2; the catalogue has four items.
    train = [[0, 1], [0, 1, 2]]
    lists = Lists.of_items([[2], [3], [0]], truth=[[2], [3], [0]], train=[*train, []], listed=range(4))
    np.testing.assert_allclose(serendipity(lists, 1, Conventions()), [1 - 3 / 4, 1, 0])


def test_a_baseline_that_begins_beyond_k_shares_nothing() -> None:
    lists = Lists.of_items([[5, 7], [5, 7]], base=[[7, 8], [7, 8]])
    about = lists.items
    assert about.base is not None
    late = replace(about, base=replace(about.base, rank=about.base.rank + 2))
    assert unexpectedness(lists, 2, Conventions()).tolist() == [0.5, 0.5]
    assert unexpectedness(replace(lists, context=late), 2, Conventions()).tolist() == [1.0, 1.0]
