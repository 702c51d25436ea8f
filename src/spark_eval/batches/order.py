"""Where the rows of lists stand: their ranks, repeated items, and which items tie."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.batches.ids import Booleans, Ids, Ints, changes, mixed, numbers
from spark_eval.conventions import Ties
from spark_eval.metrics.lists import Floats

# Cutoffs that one number has bits for.
MOST_CUTS = 62


@dataclass(frozen=True)
class Places:
    """Ranks (n,), which rows are kept (n,), and between which ranks items of equal score lie (n,).

    ``kept`` is None where no list repeats an item; other rows have rank 0. The ties are the ranks themselves
    where no scores are known. ``tied_cuts`` (lists,) has a bit for each cutoff that equal scores straddle.
    ``held`` (n,) are places among the items that a list holds, None where nobody asks.
    """

    rank: Ints
    kept: Booleans | None
    tie_first: Ints
    tie_last: Ints
    tied_cuts: Ints
    held: Ints | None = None


def places_by_rank(
    ranks: Ints, n_lists: int, kept: Booleans | None = None, held: Ints | None = None
) -> Places:
    """Ranks as they are given; nothing ties."""
    return Places(ranks, kept, ranks, ranks, np.zeros(n_lists, dtype=np.int64), held)


def held_places(of_list: Ints, ranks: Ints, kept: Booleans | None) -> Ints:
    """The place of each kept row among those of its list, by rank, from 1; others have 0; shape (n,).

    ``of_list`` numbers whole lists and ascends; the ranks of a list's kept rows are distinct.
    """
    starts = np.flatnonzero(changes(of_list))
    if kept is None and len(starts):
        sizes = np.diff(np.append(starts, len(of_list)))
        if (np.maximum.reduceat(ranks, starts) == sizes).all():
            return ranks  # no list has a gap
    rows = np.arange(len(ranks)) if kept is None else np.flatnonzero(kept)
    rows = rows[np.lexsort((ranks[rows], of_list[rows]))]
    starts = np.flatnonzero(changes(of_list[rows]))
    places = np.zeros(len(ranks), dtype=np.int64)
    places[rows] = np.arange(1, len(rows) + 1) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    return places


def unrounded(scores: pa.Array) -> Ints | Floats:
    """Numbers that order and tie as the scores do; shape (n,).

    Neither whole numbers beyond 2^53 nor decimals of any length are rounded to doubles.
    """
    if pa.types.is_decimal(scores.type):
        return by_value(scores.dictionary_encode())
    whole = pa.types.is_integer(scores.type)
    exact: Ints | Floats = numbers(scores.cast(pa.int64() if whole else pa.float64()))
    return exact


def places_by_score(
    of_list: Ints, items: Ids, scores: Ints | Floats, ties: Ties, cuts: Sequence[int]
) -> Places:
    """Ranks from 1, best score first; of a repeated item the row with the best score is kept.

    ``of_list`` numbers whole lists 0, 1, ... and ascends.
    """
    # The complement of whole numbers falls as they rise, also of the least one.
    order = ~scores.view(np.int64) if scores.dtype == np.int64 else -scores
    kept = best_of_repeated(of_list, items, order)
    if kept is None:
        return sorted_places(of_list, order, tie_order(items, ties), cuts)
    best = np.flatnonzero(kept)
    places = sorted_places(of_list[best], order[best], tie_order(items, ties)[best], cuts)
    spread = np.zeros((3, len(order)), dtype=np.int64)
    spread[:, best] = places.rank, places.tie_first, places.tie_last
    return Places(spread[0], kept, spread[1], spread[2], places.tied_cuts)


def sorted_places(of_list: Ints, falling: Ints | Floats, tie_order: Ints, cuts: Sequence[int]) -> Places:
    """Places of distinct items, by numbers that ascend from the best score to the worst."""
    n = len(falling)
    order = np.lexsort((tie_order, falling, of_list))
    new_list = changes(of_list)
    place = np.arange(n) - np.flatnonzero(new_list)[of_list]
    new_score = new_list | changes(falling[order])
    group = np.cumsum(new_score) - 1
    starts = np.flatnonzero(new_score)
    first = place[starts] + 1
    last = first + np.diff(np.append(starts, n)) - 1
    ranks = np.empty((3, n), dtype=np.int64)
    ranks[:, order] = place + 1, first[group], last[group]
    bit_of_rank = np.zeros(max(cuts, default=0) + 1, dtype=np.int64)
    bit_of_rank[list(cuts)] = np.left_shift(1, np.arange(len(cuts)))
    tied_next = np.flatnonzero(~np.append(new_score[1:], True) & (place + 1 < len(bit_of_rank)))
    tied_cuts = np.zeros(np.count_nonzero(new_list), dtype=np.int64)
    np.bitwise_or.at(tied_cuts, of_list[tied_next], bit_of_rank[place[tied_next] + 1])
    return Places(ranks[0], None, ranks[1], ranks[2], tied_cuts)


def best_of_repeated(of_list: Ints, items: Ids, order: Ints | Floats) -> Booleans | None:
    """Which rows have the smallest ``order`` of their list and item; None where no list repeats an item."""
    # Equal pairs have equal hashes; others hardly ever, and are told apart by their keys.
    if changes(np.sort(items.hash + mixed(of_list.view(np.uint64)))).all():
        return None
    by_item = np.lexsort((order, items.key, of_list))
    best = np.empty(len(order), dtype=bool)
    best[by_item] = changes(of_list[by_item]) | changes(items.key[by_item])
    return best


def sharing_rank(of_list: Ints, items: Ids, ranks: Ints) -> Booleans | None:
    """Which rows name an item whose best rank is that of another item, too; None where none does."""
    kept = best_of_repeated(of_list, items, ranks)
    rows = np.arange(len(ranks)) if kept is None else np.flatnonzero(kept)
    rows = rows[np.lexsort((ranks[rows], of_list[rows]))]
    is_new = changes(of_list[rows]) | changes(ranks[rows])
    if is_new.all():
        return None
    is_shared = ~is_new | ~np.append(is_new[1:], True)
    by_item = np.lexsort((items.key, of_list))
    item = np.empty(len(ranks), dtype=np.int64)
    item[by_item] = np.cumsum(changes(of_list[by_item]) | changes(items.key[by_item])) - 1
    return np.isin(item, item[rows[is_shared]])


def tie_order(items: Ids, ties: Ties) -> Ints:
    """Numbers that ascend in the order in which items of equal score stand; shape (n,)."""
    is_text = pa.types.is_dictionary(items.values.type)
    key = by_value(items.values) if is_text else items.key
    return ~key if ties is Ties.ITEM_DESC else key


def by_value(coded: pa.DictionaryArray) -> Ints:
    """The place of each entry's value among the sorted values; shape (n,)."""
    ascending = numbers(pc.sort_indices(coded.dictionary))
    place = np.empty(len(ascending), dtype=np.int64)
    place[ascending] = np.arange(len(ascending))
    places: Ints = place[numbers(coded.indices)]
    return places
