"""Changes that a reranker makes to a list: rank-biased overlap, share replaced, largest promotion."""

from typing import Final

import numpy as np

from spark_eval.arrow.codes import lexsort, run_starts
from spark_eval.kernels.beyond.catalog import Entries, divide
from spark_eval.statistics.exact import Floats, Ints

# A reader goes on to the next rank with this probability, as in LensKit.
PERSISTENCE: Final = 0.85


def changes_of_lists(earlier: Entries, later: Entries, k: int) -> tuple[Floats, Floats, Floats]:
    """Return rank-biased overlap at k, share of the later list replaced, and largest promotion.

    ``later`` goes down to rank k, ``earlier`` as deep as its stage hands on. Each is of shape (n,), NaN where
    undefined: the overlap of two empty lists, the share of an empty list, promotions if no item is in both.
    """
    row, before, after = common_items(earlier, later)
    n_lists, is_kept = later.n_rows, before <= k
    n_kept, n_both = np.bincount(row[is_kept], minlength=n_lists), np.bincount(row, minlength=n_lists)
    n_later = later.count(None)
    replaced = divide(n_later - n_kept, n_later, np.nan)
    promotion = np.zeros(n_lists)
    np.maximum.at(promotion, row, before - after)
    promotion[n_both == 0] = np.nan
    depth = np.maximum(np.minimum(last_rank(earlier), k), last_rank(later))
    shared_at = np.maximum(before, after)[is_kept]
    return rank_biased_overlap(row[is_kept], shared_at, depth), replaced, promotion


def rank_biased_overlap(row: Ints, shared_at: Ints, depth: Ints) -> Floats:
    """Return the mean over depths d of |items in both top d| / d, weighted by PERSISTENCE ** d; (n,).

    Each item that two lists have in common has the pair's index, ``row``, and the first depth where both have
    it, ``shared_at``. ``depth`` (n,) is the largest depth of each pair of lists.

    Two lists of two items share one, at rank 2 of both: (0 + .85 * 1/2) / (1 + .85).

    >>> rank_biased_overlap(np.array([0]), np.array([2]), np.array([2, 0])).round(6)
    array([0.22973,     nan])

    Source: Webber, Moffat, Zobel, A similarity measure for indefinite rankings, 2010; LensKit.
    """
    deepest = int(depth.max(initial=0))
    weights = np.append(1.0, np.full(deepest, PERSISTENCE)).cumprod()[:deepest]
    until = np.append(0.0, weights.cumsum())
    overlap = np.append(0.0, (weights / np.arange(1, deepest + 1)).cumsum())
    order = lexsort(row, shared_at)  # the order of the sum must not follow from ids
    row, shared_at = row[order], shared_at[order]
    gained = overlap[depth[row]] - overlap[shared_at - 1]
    total = np.bincount(row, gained, minlength=len(depth))
    return np.minimum(divide(total, until[depth], np.nan), 1.0)


def common_items(earlier: Entries, later: Entries) -> tuple[Ints, Ints, Ints]:
    """Return the list, the earlier rank and the later rank of each item that is in both lists."""
    row = np.concatenate([earlier.row, later.row])
    item, rank = np.concatenate([earlier.item, later.item]), np.concatenate([earlier.rank, later.rank])
    is_later = np.repeat([0, 1], [len(earlier.row), len(later.row)])
    order = lexsort(row, item, is_later)
    row, item, rank = row[order], item[order], rank[order]
    second = np.flatnonzero(~(run_starts(row) | run_starts(item)))
    return row[second], rank[second - 1], rank[second]


def last_rank(entries: Entries) -> Ints:
    """Return the largest rank of each list, 0 if it is empty; shape (n,)."""
    last = np.zeros(entries.n_rows, dtype=np.int64)
    np.maximum.at(last, entries.row, entries.rank)
    return last
