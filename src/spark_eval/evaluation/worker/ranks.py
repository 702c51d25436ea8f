"""Rank each list: ties, duplicate items, duplicate ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import (
    Array,
    Booleans,
    Codes,
    Hashes,
    SortKey,
    argsort_within_runs,
    combine_keys,
    lexsort,
    run_starts,
    stable_argsort,
    to_numpy,
    unique_in_order_of_appearance,
)
from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.conventions import Ties
from spark_eval.kernels.beyond.catalog import index_in_run
from spark_eval.statistics.exact import Ints

TIES_SEED = np.int32(20231)
# Sign bit of a double or integer.
SIGN = np.uint64(1 << 63)
# Rows are placed in a grid of lists and ranks without a sort if it has at most this many cells per row.
SPARSEST_GRID = 8


@dataclass(frozen=True)
class Ranks:
    """Ranks of n rows, and the first and last rank of their ties (rows of equal score); all of shape (n,).

    Without scores, or if not requested, ties are the ranks themselves. By list, ``tied_cuts`` has a bit for
    each cutoff that splits a tie, and ``last_rank`` is the largest given rank.
    """

    rank: Ints
    tie_first: Ints
    tie_last: Ints
    tied_cuts: Ints
    last_rank: Ints


def use_given_ranks(of_list: Ints, n_lists: int, ranks: Ints) -> Ranks:
    """Use the given ranks; there are no ties."""
    none, last_rank = np.zeros(n_lists, dtype=np.int64), np.zeros(n_lists, dtype=np.int64)
    np.maximum.at(last_rank, of_list, ranks)
    return Ranks(ranks, ranks, ranks, none, last_rank)


def rows_by_rank(of_list: Ints, n_lists: int, rank: Ints) -> Ints | None:
    """Return the row at each rank of each list, -1 if there is none; shape (n_lists, largest rank).

    None if most ranks have no row. If rows share a rank, one is found.
    """
    width = int(rank.max(initial=0))
    if n_lists * width > SPARSEST_GRID * max(len(rank), 1):
        return None
    grid = np.full(n_lists * width, -1, dtype=np.int64)
    grid[of_list * width + (rank - 1)] = np.arange(len(rank))
    return grid.reshape(n_lists, width)


def sort_by_list_and_rank(of_list: Ints, n_lists: int, rank: Ints, depth: int | None) -> Ints:
    """Return the rows at ranks up to ``depth``, sorted by list and rank; ranks of a list are distinct."""
    rows = np.arange(len(rank)) if depth is None else np.flatnonzero(rank <= depth)
    grid = rows_by_rank(of_list[rows], n_lists, rank[rows])
    if grid is None:
        return rows[lexsort(of_list[rows], rank[rows])]
    in_order: Ints = rows[grid[grid >= 0]]
    return in_order


def position_in_list(of_list: Ints, ranks: Ints) -> Ints:
    """Return the position of each row in its list by rank, from 1 and without gaps; shape (n,)."""
    order = lexsort(of_list, ranks)
    position = np.empty(len(ranks), dtype=np.int64)
    position[order] = index_in_run(run_starts(of_list[order])) + 1
    return position


def rank_by_score(
    of_list: Ints,
    n_lists: int,
    scores: Array,
    tie_order: Sequence[SortKey],
    cuts: Sequence[int],
    needs_ties: bool,
) -> Ranks:
    """Rank the rows of each list from 1, best score first; equal scores are sorted by ``tie_order``.

    ``of_list`` (n,) is the list of each row, below ``n_lists``.
    """
    n = len(scores)
    order = argsort_by_score(of_list, n_lists, scores, tie_order)
    listed = of_list[order]
    new_list = run_starts(listed)
    position = index_in_run(new_list) + 1
    new_score = new_list | run_starts(scores[order])
    rank = np.empty(n, dtype=np.int64)
    rank[order] = position
    tied_cuts = np.zeros(n_lists, dtype=np.int64)
    bit_of_rank = np.zeros(max(cuts, default=0) + 1, dtype=np.int64)
    bit_of_rank[list(cuts)] = np.left_shift(1, np.arange(len(cuts)))
    tied_next = np.flatnonzero(~np.append(new_score[1:], True) & (position < len(bit_of_rank)))
    np.bitwise_or.at(tied_cuts, listed[tied_next], bit_of_rank[position[tied_next]])
    none = np.zeros(n_lists, dtype=np.int64)
    if not needs_ties:
        return Ranks(rank, rank, rank, tied_cuts, none)
    groups = np.flatnonzero(new_score)
    size = np.diff(np.append(groups, n))
    ties = np.empty((2, n), dtype=np.int64)
    first = position[groups]
    ties[:, order] = np.repeat(first, size), np.repeat(first + size - 1, size)
    return Ranks(rank, ties[0], ties[1], tied_cuts, none)


def argsort_by_score(of_list: Ints, n_lists: int, scores: Array, tie_order: Sequence[SortKey]) -> Ints:
    """Return the rows sorted by list, then by descending score, then by ``tie_order``."""
    order, best_first = stable_argsort(of_list, n_lists), descending_keys(scores)
    argsort_within_runs(order, run_starts(of_list[order]), [lambda rows: best_first[rows], *tie_order])
    return order


def score_keys(scores: pa.ChunkedArray) -> Array:
    """Return numbers with the order of the scores, equal for equal scores; decimals are not rounded."""
    if not pa.types.is_decimal(scores.type):
        return to_numpy(scores)
    coded = scores.combine_chunks().dictionary_encode()
    key_of = np.empty(len(coded.dictionary), dtype=np.int64)
    key_of[to_numpy(pc.sort_indices(coded.dictionary))] = np.arange(len(key_of))
    in_order: Ints = key_of[to_numpy(coded.indices)]
    return in_order


def descending_keys(scores: Array) -> Hashes:
    """Return integers that ascend as scores fall; exact for doubles and integers."""
    if scores.dtype.kind == "i":
        return ~(scores.astype(np.int64).view(np.uint64) ^ SIGN)
    bits = (scores.astype(np.float64) + 0.0).view(np.int64)  # adding 0 turns -0.0 to 0.0
    ascending = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return ~(ascending.view(np.uint64) ^ SIGN)


def has_no_duplicates(grid: Ints | None, item: Ints) -> bool:
    """Return True if no two rows of a list share a rank or an item; also False if the check is costly.

    ``grid`` are the rows by list and rank. Usually every rank has one item: such lists are sorted as rows of
    one matrix, which is fast, of narrow numbers if they fit.
    """
    if grid is None:
        return False
    has_row = grid >= 0
    if np.count_nonzero(has_row) < len(item):
        return False
    least = int(item.min(initial=0))
    if int(item.max(initial=0)) - least < np.iinfo(np.uint32).max:
        numbers: Array = (item - least + 1).astype(np.uint32)
    elif least > np.iinfo(np.int64).min:
        numbers = item
    else:
        return False
    filler = np.iinfo(numbers.dtype).min
    by_item = np.append(numbers, np.asarray(filler, numbers.dtype))[grid]
    by_item.sort(axis=1)
    return not (by_item[:, 1:][by_item[:, 1:] == by_item[:, :-1]] > filler).any()


def is_duplicate_item(of_list: Ints, n_lists: int, item: Ints, before: Ints | Hashes) -> Ints:
    """Return the rows that are not the first of their list and item, by ``before``.

    One of several rows that are equal in all three counts as the first.
    """
    pairs = combine_keys(of_list, item)
    if pairs is not None and run_starts(np.sort(pairs)).all():
        return np.empty(0, dtype=np.int64)  # the usual case, without sorting the rows themselves
    rows = stable_argsort(of_list, n_lists)
    argsort_within_runs(rows, run_starts(of_list[rows]), [lambda some: item[some], lambda some: before[some]])
    again: Ints = rows[~(run_starts(of_list[rows]) | run_starts(item[rows]))]
    return again


def is_duplicate_rank(of_list: Ints, item: Ints, rank: Ints, is_again: Booleans) -> Booleans:
    """Return True for rows whose item shares its best rank with another item.

    ``is_again`` is True for rows that repeat an item of their list at a worse rank.
    """
    shares = np.zeros(len(rank), dtype=bool)
    rows = np.flatnonzero(~is_again)
    rows = rows[lexsort(of_list[rows], rank[rows])]
    is_new = run_starts(of_list[rows]) | run_starts(rank[rows])
    shares[rows[~is_new | ~np.append(is_new[1:], True)]] = True
    if is_again.any() and shares.any():
        # Repeated rows of such items are invalid for the same reason.
        rows = np.flatnonzero(shares | is_again)
        rows = rows[np.lexsort((~shares[rows], item[rows], of_list[rows]))]
        starts = np.flatnonzero(run_starts(of_list[rows]) | run_starts(item[rows]))
        shares[rows] = np.repeat(shares[rows[starts]], np.diff(np.append(starts, len(rows))))
    return shares


def tie_keys(items: Codes, item: Ints, ties: Ties) -> Sequence[SortKey]:
    """Return the sort keys for rows of equal score; ``item`` has the row's item codes in ``items``."""

    def in_order(rows: Ints) -> Ints:
        return items.in_order(item[rows])

    def last_first(rows: Ints) -> Ints:
        return ~in_order(rows)

    def drawn(rows: Ints) -> Ints:
        distinct, row = unique_in_order_of_appearance(item[rows])
        return id_hashes(items.ids(distinct), TIES_SEED).view(np.int64)[row]

    match ties:
        case Ties.ITEM_ASC:
            return [in_order]
        case Ties.ITEM_DESC:
            return [last_first]
    return [drawn, last_first]
