"""Ranking metrics at a cutoff k, one pure kernel each.

Every kernel takes a batch of lists and gives one value per list. Its docstring holds meaning, the
undefined case, an example that tells the variants apart, and the source. A list without hits scores 0
in all of them, and so does a user without truth, should the population rules let him in.
"""

import math
from functools import cache

import numpy as np

from spark_eval.conventions import ApDenominator, Conventions, Gain
from spark_eval.metrics.lists import Floats, Ints, Lists, Ragged, divide
from spark_eval.metrics.registry import ranking_metric


@ranking_metric("precision", formula="h / k")
def precision(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Share of the k places that hold a relevant item; the places a short list leaves empty count.

    >>> precision(Lists.of([[1, 0, 1]]), 5, Conventions())
    array([0.4])

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.4.
    """
    return lists.n_hits(k) / k


@ranking_metric("recall", formula="h / m", perfect=False)
def recall(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Share of the user's relevant items found in the top k; below 1 by force where m > k.

    >>> recall(Lists.of([[1, 0, 1]], truth=[[1] * 8]), 2, Conventions())
    array([0.125])

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.4.
    """
    return divide(lists.n_hits(k), lists.n_relevant)


@ranking_metric("recall_capped", formula="h / min(k, m)")
def recall_capped(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Recall of what k places can hold: a perfect top k scores 1 even where m > k.

    >>> recall_capped(Lists.of([[1, 0, 1]], truth=[[1] * 8]), 2, Conventions())
    array([0.5])

    Source: seed document 004; LensKit's recall.
    """
    return divide(lists.n_hits(k), np.minimum(lists.n_relevant, k))


@ranking_metric("f1", formula="2 P R / (P + R), 0 if both are 0", perfect=False)
def f1(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Harmonic mean of this user's precision and recall, never of the means over users.

    >>> f1(Lists.of([[1, 0, 1]], truth=[[1] * 8]), 5, Conventions()).round(6)
    array([0.307692])

    Source: van Rijsbergen, Information Retrieval, 1979. 2PR / (P + R) = 2h / (k + m).
    """
    return 2 * lists.n_hits(k) / (k + lists.n_relevant)


@ranking_metric("hit_rate", formula="1 if h > 0 else 0")
def hit_rate(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Whether any relevant item is in the top k.

    >>> hit_rate(Lists.of([[0, 0, 1], [0, 0, 0]]), 3, Conventions())
    array([1., 0.])

    Source: Deshpande, Karypis, Item-based top-N recommendation algorithms, 2004.
    """
    return (lists.n_hits(k) > 0).astype(np.float64)


@ranking_metric("ap", run_name="map", formula="sum over hits of P@rank / min(m, k)")
def average_precision(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Mean of the precisions at the ranks of the hits; early hits count for more.

    The convention ``ap_denominator`` decides what the mean is over. Hits at ranks 1 and 3 of 3, m = 8:

    >>> lists = Lists.of([[1, 0, 1]], truth=[[1] * 8])
    >>> for denominator in ApDenominator:
    ...     value = average_precision(lists, 5, Conventions(ap_denominator=denominator))
    ...     print(denominator, value.round(4)[0])
    min_relevant_k 0.3333
    relevant 0.2083
    hits 0.8333
    k 0.3333

    Source: seed document 000, second formula; Spark and RePlay divide by the same.
    """
    at_hits = lists.hits.total(lists.hits.number / lists.hits.rank, k)
    match conventions.ap_denominator:
        case ApDenominator.MIN_RELEVANT_K:
            return divide(at_hits, np.minimum(lists.n_relevant, k))
        case ApDenominator.RELEVANT:
            return divide(at_hits, lists.n_relevant)
        case ApDenominator.HITS:
            return divide(at_hits, lists.n_hits(k))
        case ApDenominator.K:
            return at_hits / k


@ranking_metric("ar", run_name="mar", formula="sum over hits of R@rank / min(m, k)", perfect=False)
def average_recall(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Mean of the recalls at the ranks of the hits (*gated*): R@i counts only where rank i is a hit.

    Hits at ranks 1 and 4, m = 2: recalls 1/2 and 2/2, over min(2, 6).

    >>> average_recall(Lists.of([[1, 0, 0, 1, 0, 0]]), 6, Conventions())
    array([0.75])

    Source: seed document 000. The recall at the i-th hit is i / m, whatever its rank.
    """
    at_hits = divide(lists.hits.total(lists.hits.number.astype(np.float64), k), lists.n_relevant)
    return divide(at_hits, np.minimum(lists.n_relevant, k))


@ranking_metric("rr", run_name="mrr", formula="1 / rank of the first hit, 0 without one")
def reciprocal_rank(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """How early the first relevant item comes; what follows it does not matter.

    >>> reciprocal_rank(Lists.of([[1, 0, 0], [0, 0, 1], [0, 0, 0]]), 3, Conventions()).round(6)
    array([1.      , 0.333333, 0.      ])

    Source: seed document 002; Voorhees, TREC-8 question answering track, 1999.
    """
    return lists.hits.total((lists.hits.number == 1) / lists.hits.rank, k)


@ranking_metric("rhr", run_name="arhr", formula="sum over hits of 1 / rank", upper=None, perfect=False)
def reciprocal_hit_rate(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Sum of the reciprocal ranks of all hits; not bounded by 1.

    >>> reciprocal_hit_rate(Lists.of([[1, 1, 0]]), 3, Conventions())
    array([1.5])

    Source: seed document 000.
    """
    return lists.hits.total(1 / lists.hits.rank, k)


@ranking_metric("dcg", formula="sum over hits of gain(relevance) / log2(rank + 1)", upper=None, perfect=False)
def dcg(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """Relevance found, discounted by the logarithm of the rank; the convention ``gain`` says its worth.

    >>> lists = Lists.of([[3, 2, 3, 0, 1, 2]])
    >>> dcg(lists, 6, Conventions(gain=Gain.EXP2)).round(6), dcg(lists, 6, Conventions()).round(6)
    (array([13.848264]), array([6.861127]))

    Source: Jarvelin, Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.
    """
    return discounted(lists.hits, k, conventions.gain)


@ranking_metric("ndcg", formula="DCG / DCG of the user's whole truth, best first, cut at k")
def ndcg(lists: Lists, k: int, conventions: Conventions) -> Floats:
    """DCG as a share of the best that any list of k items could reach for this user.

    >>> lists = Lists.of([[3, 2, 3, 0, 1, 2]])
    >>> ndcg(lists, 6, Conventions(gain=Gain.EXP2)), ndcg(lists, 6, Conventions()).round(6)
    (array([0.94881075]), array([0.960808]))

    Source: Jarvelin, Kekalainen, 2002; the ideal is that of trec_eval: all relevant items, found or not.
    """
    share = divide(discounted(lists.hits, k, conventions.gain), discounted(lists.ideal, k, conventions.gain))
    # Nearly equal relevances, added in another order than the ideal's, can round to just above 1.
    return np.minimum(share, 1.0)


def discounted(entries: Ragged, k: int, gain: Gain) -> Floats:
    """Per list, the sum of gain / log2(rank + 1) over its entries in the top k."""
    return entries.total(gains(entries.relevance, gain) * discounts(entries.rank), k)


def gains(relevance: Floats, gain: Gain) -> Floats:
    """What each entry is worth; same shape."""
    match gain:
        case Gain.LINEAR:
            return relevance
        case Gain.EXP2:
            grades, of_entry = np.unique(relevance, return_inverse=True)
            return np.array([math.exp2(grade) - 1 for grade in grades])[of_entry]
        case Gain.BINARY:
            return np.ones(len(relevance))


def discounts(rank: Ints) -> Floats:
    """1 / log2(rank + 1) of each entry; same shape."""
    return discount_table(int(rank.max(initial=0)).bit_length())[rank]


@cache
def discount_table(bits: int) -> Floats:
    """The discounts of all ranks below 2^bits, at their ranks.

    Like ``gains``, by the C library's scalar function: numpy's vector ones may differ in the last bit
    from one kind of processor to another.
    """
    return np.array([0.0] + [1 / math.log2(rank + 1) for rank in range(1, 2**bits)])
