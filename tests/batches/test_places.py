"""Ranks, repeats and ties of whole lists against sorting them one by one."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.batches.ids import Ids
from spark_eval.batches.order import places_by_score, sharing_rank
from spark_eval.conventions import Ties

RANDOM = np.random.default_rng(7)
CUTS = (1, 3, 10)


def drawn(has_text: bool) -> tuple[np.ndarray[Any, Any], pa.Array, np.ndarray[Any, Any]]:
    of_list = np.sort(RANDOM.integers(0, 60, 800))
    of_list = np.cumsum(np.append(0, np.diff(of_list) > 0))
    items = RANDOM.integers(-20, 20, len(of_list))
    named = pa.array([f"ü{item}" for item in items]) if has_text else pa.array(items)
    return of_list, named, RANDOM.integers(0, 4, len(of_list)) / 4


def by_bytes(item: Any) -> Any:
    return item.encode() if isinstance(item, str) else item


@pytest.mark.parametrize("ties", [Ties.ITEM_DESC, Ties.ITEM_ASC])
@pytest.mark.parametrize("has_text", [False, True])
def test_lists_are_those_sorted_one_by_one(has_text: bool, ties: Ties) -> None:
    of_list, items, scores = drawn(has_text)
    places = places_by_score(of_list, Ids.of(items), -scores, ties, CUTS)
    assert places.kept is not None
    for number in range(of_list[-1] + 1):
        rows = np.flatnonzero(of_list == number)
        best: dict[Any, float] = {}
        for row in rows:
            item = by_bytes(items[row].as_py())
            best[item] = max(best.get(item, -1), scores[row])
        ordered = sorted(best, reverse=ties is Ties.ITEM_DESC)
        ordered.sort(key=lambda item: -best[item])
        kept = {by_bytes(items[row].as_py()): row for row in rows if places.kept[row]}
        assert [item for item, _ in sorted(kept.items(), key=lambda pair: places.rank[pair[1]])] == ordered
        assert sorted(places.rank[list(kept.values())]) == list(range(1, len(ordered) + 1))
        in_order = [best[item] for item in ordered]
        for item, row in kept.items():
            assert scores[row] == best[item]
            assert places.tie_first[row] == in_order.index(best[item]) + 1
            assert places.tie_last[row] == len(in_order) - in_order[::-1].index(best[item])
        tied = [cut < len(in_order) and in_order[cut - 1] == in_order[cut] for cut in CUTS]
        assert [bool(places.tied_cuts[number] >> bit & 1) for bit in range(len(CUTS))] == tied


def test_lists_without_repeats_keep_every_row() -> None:
    places = places_by_score(
        np.array([0, 0, 1]), Ids.of(pa.array([1, 2, 1])), -np.array([0.5, 0.7, 0.1]), Ties.ITEM_ASC, ()
    )
    assert places.kept is None
    assert places.rank.tolist() == [2, 1, 1]


def test_items_that_share_a_rank_are_found_with_their_repeats() -> None:
    of_list = np.array([0, 0, 0, 0, 1, 1])
    items = Ids.of(pa.array([1, 2, 1, 3, 1, 2]))
    # Item 1 has the ranks 1 and 4 in the first list, item 2 the rank 1.
    shared = sharing_rank(of_list, items, np.array([1, 1, 4, 4, 1, 2]))
    assert shared is not None
    assert shared.tolist() == [True, True, True, False, False, False]
    assert sharing_rank(of_list, items, np.array([1, 2, 2, 3, 1, 2])) is None


def test_a_list_of_one_item_before_one_that_repeats_it() -> None:
    items = Ids.of(pa.array([5, 5, 5]))
    places = places_by_score(np.array([0, 1, 1]), items, -np.array([0.1, 0.2, 0.3]), Ties.ITEM_ASC, ())
    assert places.kept is not None
    assert places.kept.tolist() == [True, False, True]
