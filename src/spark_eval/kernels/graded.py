"""Ranking metrics of graded relevance: cumulated gain and its discounted forms."""

import numpy as np

from spark_eval.conventions import Conventions, Discount, Ideal, TieOrder
from spark_eval.kernels.beyond.catalog import divide
from spark_eval.kernels.discounts import discount_sums, discounts, gains
from spark_eval.kernels.lists import Lists, Ragged
from spark_eval.kernels.registry import ranking_metric
from spark_eval.statistics.exact import Floats


@ranking_metric("cg", formula="sum over hits of relevance", upper=None)
def cumulated_gain(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Relevance of the hits in the top k, whatever their ranks.

    >>> cumulated_gain(Lists.of([[3, 2, 3, 0, 1, 2]]), 3, Conventions())
    array([8.])

    Source: Jarvelin, Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.
    """
    return lists.hits.total(lists.hits.relevance, k)


@ranking_metric(
    "dcg",
    formula="sum over hits of gain(relevance) / log2(rank + 1)",
    conventions=("gain", "discount"),
    upper=None,
)
def dcg(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Gain of the hits, discounted by the logarithm of the rank; the convention ``gain`` defines the gain.

    >>> lists = Lists.of([[3, 2, 3, 0, 1, 2]])
    >>> from spark_eval.kernels import Gain
    >>> for gain in Gain:
    ...     print(gain, dcg(lists, 6, Conventions(gain=gain)).round(6)[0])
    linear 6.861127
    exp2 13.848264
    exp2_plus_1 30.570517
    binary 2.87399

    With ``discount=log2_clipped`` rank 2 counts as much as rank 1. Hits at ranks 2 and 4:

    >>> for discount in Discount:
    ...     print(discount, dcg(Lists.of([[0, 1, 0, 1]]), 4, Conventions(discount=discount)).round(6)[0])
    log2 1.061606
    log2_clipped 1.5

    With ``tie_order=shared`` a hit has the mean discount of the ranks of the items that it ties with.

    Source: Jarvelin, Kekalainen, 2002; McSherry, Najork, Computing IR measures with tied scores, 2008.
    """
    hits = lists.hits
    worth = gains(hits.relevance, conventions.gain)
    if conventions.tie_order is TieOrder.SHARED:
        shared = mean_discounts(lists, k, conventions.discount)
        return hits.total(worth * shared, None)
    return hits.total(worth * discounts(hits.rank, conventions.discount), k)


def mean_discounts(lists: Lists, k: int | None, discount: Discount) -> Floats:
    """Return for each hit the mean discount over the ranks of its ties, 0 beyond k; shape (hits,)."""
    first, last = lists.tie_first, lists.tie_last
    within = last if k is None else np.minimum(last, k)
    before = np.minimum(first - 1, within)
    total = discount_sums(within, discount) - discount_sums(before, discount)
    return total / (last - first + 1)


@ranking_metric("mdcg", formula="mean of DCG@1, ..., DCG@k", conventions=("gain", "discount"), upper=None)
def mean_dcg(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """DCG as a sliding window: its mean over all cutoffs from 1 to k.

    Hits at ranks 1 and 3, k = 3: DCG@1 = DCG@2 = 1, DCG@3 = 1.5.

    >>> mean_dcg(Lists.of([[1, 0, 1]]), 3, Conventions()).round(6)
    array([1.166667])

    Source: DCG of Järvelin, Kekäläinen, 2002, averaged. A hit at rank r is in the k - r + 1 windows that
    reach it.
    """
    hits, n_ranks = lists.hits, lists.n_ranks(k)
    windows = np.maximum(n_ranks[hits.row] - hits.rank + 1, 0)
    worth = gains(hits.relevance, conventions.gain) * discounts(hits.rank, conventions.discount)
    return divide(hits.total(worth * windows, k), n_ranks)


@ranking_metric(
    "ndcg",
    formula="DCG / DCG of the user's whole truth, best first, cut at k",
    conventions=("gain", "discount", "ideal"),
)
def ndcg(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """DCG as a share of the best that any list of k items could reach for this user.

    >>> from spark_eval.kernels import Gain
    >>> lists = Lists.of([[3, 2, 3, 0, 1, 2]])
    >>> ndcg(lists, 6, Conventions(gain=Gain.EXP2)), ndcg(lists, 6, Conventions()).round(6)
    (array([0.94881075]), array([0.960808]))

    The convention ``ideal`` defines the best. A hit at rank 2 of 3, and one relevant item missed:

    >>> lists = Lists.of([[0, 1, 0]], truth=[[1, 1]])
    >>> for ideal in Ideal:
    ...     print(ideal, ndcg(lists, 3, Conventions(ideal=ideal)).round(6)[0])
    truth 0.386853
    positions 0.296082
    list 0.63093

    Source: Jarvelin, Kekalainen, 2002; the ideal is that of trec_eval: all relevant items, found or not.
    """
    ideal = ideal_dcg(lists, k, conventions)
    with np.errstate(invalid="ignore"):
        share = divide(dcg(lists, k, conventions), ideal)
    # Nearly equal relevances, summed in another order than the ideal's, can be rounded to just above 1. If
    # the ideal overflows a double, the value is infinite and the run fails.
    return np.where(ideal < np.inf, np.minimum(share, 1.0), np.inf)


def ideal_dcg(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Return the DCG of the ideal list; shape (n,)."""
    match conventions.ideal:
        case Ideal.TRUTH:
            return discounted(lists.ideal, k, conventions)
        case Ideal.LIST:
            return discounted(lists.hits.best_first, k, conventions)
        case Ideal.POSITIONS:
            best = lists.ideal.total(gains(lists.ideal.relevance, conventions.gain), 1)
            return best * discount_sums(lists.n_ranks(k), conventions.discount)


def discounted(entries: Ragged, k: int | None, conventions: Conventions) -> Floats:
    """Return for each list the sum of gain times discount over its entries in the top k."""
    worth = gains(entries.relevance, conventions.gain)
    return entries.total(worth * discounts(entries.rank, conventions.discount), k)
