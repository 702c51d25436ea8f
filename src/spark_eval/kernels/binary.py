"""Ranking metrics of hits and misses, one pure kernel each; ``graded`` and ``pairwise`` have the others.

Every kernel takes a batch of lists and a cutoff k (None: the whole list) and returns one value per list. Its
docstring has the meaning, the undefined case, an example that distinguishes the variants, and the source.
Unless it says otherwise, a list without hits scores 0, and so does a user without truth, if the population
rules count such users.
"""

import numpy as np

from spark_eval.conventions import (
    AverageDenominator,
    AverageVariant,
    Conventions,
    PrecisionDenominator,
    RecallDenominator,
    TieOrder,
)
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import divide
from spark_eval.kernels.discounts import harmonic
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import ranking_metric
from spark_eval.statistics.exact import Floats


@ranking_metric("precision", formula="h / k", conventions=("precision_denominator",))
def precision(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of the k ranks with a relevant item; ranks beyond the end of a short list count.

    Hits at ranks 1 and 3 of 3, k = 5:

    >>> for denominator in PrecisionDenominator:
    ...     conventions = Conventions(precision_denominator=denominator)
    ...     print(denominator, precision(Lists.of([[1, 0, 1]]), 5, conventions).round(4)[0])
    k 0.4
    min_k_length 0.6667

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.4.
    """
    match conventions.precision_denominator:
        case PrecisionDenominator.K:
            return divide(lists.n_hits(k), lists.n_ranks(k))
        case PrecisionDenominator.MIN_K_LENGTH:
            return divide(lists.n_hits(k), lists.filled(k))


@ranking_metric("recall", formula="h / m", conventions=("recall_denominator",))
def recall(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of relevant items found in the top k; cannot reach 1 when a user has more relevant items than k.

    Hits at ranks 1 and 3, m = 8, k = 2:

    >>> for denominator in RecallDenominator:
    ...     conventions = Conventions(recall_denominator=denominator)
    ...     print(denominator, recall(Lists.of([[1, 0, 1]], truth=[[1] * 8]), 2, conventions)[0])
    relevant 0.125
    min_relevant_k 0.5
    retrieved 0.5

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.4.
    """
    match conventions.recall_denominator:
        case RecallDenominator.RELEVANT:
            return divide(lists.n_hits(k), lists.n_relevant)
        case RecallDenominator.MIN_RELEVANT_K:
            return divide(lists.n_hits(k), lists.fillable(k))
        case RecallDenominator.RETRIEVED:
            return divide(lists.n_hits(k), lists.n_hits(None))


@ranking_metric("recall_capped", formula="h / min(m, k)")
def recall_capped(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Recall relative to min(m, k), the most hits possible: a perfect top k scores 1 even if m > k.

    >>> recall_capped(Lists.of([[1, 0, 1]], truth=[[1] * 8]), 2, Conventions())
    array([0.5])

    Source: Ekstrand, LensKit for Python, 2020: its recall divides by the same.
    """
    return divide(lists.n_hits(k), lists.fillable(k))


@ranking_metric(
    "f1",
    formula="2 P R / (P + R), 0 if both are 0",
    conventions=("precision_denominator", "recall_denominator"),
)
def f1(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Harmonic mean of this user's precision and recall, never of the means over users.

    Precision 2/5 and recall 2/8:

    >>> f1(Lists.of([[1, 0, 1]], truth=[[1] * 8]), 5, Conventions()).round(6)
    array([0.307692])

    Source: van Rijsbergen, Information Retrieval, 1979.
    """
    of_indices, of_relevant = precision(lists, k, conventions), recall(lists, k, conventions)
    return divide(2 * of_indices * of_relevant, of_indices + of_relevant)


@ranking_metric(
    "hit_rate",
    formula="1 if h > 0 else 0",
    over_repeats={
        "pass_all": lambda values: np.asarray(values.min(axis=0)),
        "pass_any": lambda values: np.asarray(values.max(axis=0)),
    },
)
def hit_rate(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """1 if the top k has a relevant item, 0 otherwise.

    >>> hit_rate(Lists.of([[0, 0, 1], [0, 0, 0]]), 3, Conventions())
    array([1., 0.])

    Source: Deshpande, Karypis, Item-based top-N recommendation algorithms, 2004.
    """
    return (lists.n_hits(k) > 0).astype(np.float64)


@ranking_metric(
    "ap",
    run_name="map",
    formula="sum over hits of P@rank / min(m, k)",
    conventions=("ap_denominator", "ap_variant"),
)
def average_precision(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Mean of the precisions at the ranks of the hits; early hits count for more.

    The convention ``ap_denominator`` defines the divisor of the mean. Hits at ranks 1 and 3 of 3, m = 8:

    >>> lists = Lists.of([[1, 0, 1]], truth=[[1] * 8])
    >>> for denominator in AverageDenominator:
    ...     value = average_precision(lists, 5, Conventions(ap_denominator=denominator))
    ...     print(denominator, value.round(4)[0])
    min_relevant_k 0.3333
    relevant 0.2083
    hits 0.8333
    k 0.3333
    min_relevant_length 0.5556
    retrieved 0.8333

    As a *window* it is the mean of the precisions at all ranks, (1/1 + 1/2 + 2/3 + 2/4 + 2/5) / 5:

    >>> average_precision(lists, 5, Conventions(ap_variant=AverageVariant.WINDOW)).round(4)
    array([0.6133])

    With ``tie_order=shared`` a hit has the precision at the last rank of the items that it ties with.

    Source: Buckley, Voorhees, Evaluating evaluation measure stability, 2000, cut at k as Spark and RePlay
    do. Window: Anelli and others, Elliot, 2021.
    """
    hits, n_ranks = lists.hits, lists.n_ranks(k)
    if conventions.ap_variant is AverageVariant.WINDOW:
        # The i-th precision counts the hits up to i: a hit at rank r adds 1/r + 1/(r+1) + ... + 1/k.
        reach = np.maximum(harmonic(n_ranks)[hits.row] - harmonic(hits.rank - 1), 0)
        # The value of a perfect list can be rounded to just above 1.
        return np.minimum(divide(hits.total(reach, k), n_ranks), 1.0)
    at_hits = hits.number / hits.rank
    if conventions.tie_order is TieOrder.SHARED:
        at_hits = hits_up_to_ties(lists) / lists.tie_last
    return divide(hits.total(at_hits, k), average_denominator(lists, k, conventions.ap_denominator))


def hits_up_to_ties(lists: Lists) -> Floats:
    """Count the hits up to the last rank of each hit's ties; shape (hits,)."""
    hits = lists.hits
    # Ranks of a list stay below the ranks of the next list, so one search serves all lists.
    step = int(lists.tie_last.max(initial=0)) + 1
    up_to = np.searchsorted(hits.row * step + hits.rank, hits.row * step + lists.tie_last, side="right")
    before = np.arange(len(hits.row)) - hits.number + 1
    return (up_to - before).astype(np.float64)


def average_denominator(lists: Lists, k: int | None, denominator: AverageDenominator) -> Floats:
    """Return the divisor of a sum over hits; shape (n,)."""
    match denominator:
        case AverageDenominator.MIN_RELEVANT_K:
            return lists.fillable(k).astype(np.float64)
        case AverageDenominator.RELEVANT:
            return lists.n_relevant.astype(np.float64)
        case AverageDenominator.HITS:
            return lists.n_hits(k)
        case AverageDenominator.K:
            return lists.n_ranks(k).astype(np.float64)
        case AverageDenominator.MIN_RELEVANT_LENGTH:
            return np.minimum(lists.n_relevant, lists.filled(k)).astype(np.float64)
        case AverageDenominator.RETRIEVED:
            return lists.n_hits(None)


@ranking_metric(
    "ar",
    run_name="mar",
    formula="sum over hits of R@rank / min(m, k)",
    conventions=("ar_denominator", "ar_variant"),
)
def average_recall(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Mean of the recalls at the ranks of the hits (*gated*): R@i counts only where rank i is a hit.

    Hits at ranks 1 and 4, m = 2: recalls 1/2 and 2/2, over min(2, 6); as a *window* the mean of the
    recalls at all ranks, (1/2 + 1/2 + 1/2 + 1 + 1 + 1) / 6.

    >>> lists = Lists.of([[1, 0, 0, 1, 0, 0]])
    >>> for variant in AverageVariant:
    ...     print(variant, average_recall(lists, 6, Conventions(ar_variant=variant))[0])
    gated 0.75
    window 0.75
    >>> average_recall(lists, 3, Conventions(ar_variant=AverageVariant.WINDOW))
    array([0.5])

    Source: average precision with recalls instead; that at the i-th hit is i / m, whatever its rank. Window:
    Anelli and others, Elliot, 2021.
    """
    hits, n_ranks = lists.hits, lists.n_ranks(k)
    is_retrieved = conventions.ar_denominator is AverageDenominator.RETRIEVED
    relevant = lists.n_hits(None) if is_retrieved else lists.n_relevant
    if conventions.ar_variant is AverageVariant.WINDOW:
        reach = np.maximum(n_ranks[hits.row] - hits.rank + 1, 0).astype(np.float64)
        return divide(divide(hits.total(reach, k), relevant), n_ranks)
    at_hits = divide(hits.total(hits.number.astype(np.float64), k), relevant)
    return divide(at_hits, average_denominator(lists, k, conventions.ar_denominator))


@ranking_metric("rr", run_name="mrr", formula="1 / rank of the first hit, 0 without one")
def reciprocal_rank(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Reciprocal rank of the first relevant item; later hits do not matter.

    >>> reciprocal_rank(Lists.of([[1, 0, 0], [0, 0, 1], [0, 0, 0]]), 3, Conventions()).round(6)
    array([1.      , 0.333333, 0.      ])

    Source: Voorhees, The TREC-8 question answering track report, 1999.
    """
    return lists.hits.total((lists.hits.number == 1) / lists.hits.rank, k)


@ranking_metric("rhr", run_name="arhr", formula="sum over hits of 1 / rank", upper=None)
def reciprocal_hit_rate(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Sum of the reciprocal ranks of all hits; not bounded by 1.

    >>> reciprocal_hit_rate(Lists.of([[1, 1, 0]]), 3, Conventions())
    array([1.5])

    Source: Deshpande, Karypis, Item-based top-N recommendation algorithms, 2004.
    """
    return lists.hits.total(1 / lists.hits.rank, k)


@ranking_metric("rhr_norm", run_name="arhr_norm", formula="RHR / (1 + 1/2 + ... + 1/min(m, k))")
def reciprocal_hit_rate_norm(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Reciprocal hit rate as a share of the best possible in k ranks; a perfect list scores 1.

    Hits at ranks 1 and 3, m = 2: (1 + 1/3) / (1 + 1/2).

    >>> reciprocal_hit_rate_norm(Lists.of([[1, 0, 1]]), 3, Conventions()).round(6)
    array([0.888889])

    Source: RHR over its ideal, as nDCG is DCG over its ideal (Järvelin, Kekäläinen, 2002).
    """
    share = divide(reciprocal_hit_rate(lists, k, conventions), harmonic(lists.fillable(k)))
    return np.minimum(share, 1.0)


@ranking_metric(
    "r_precision", formula="hits in the top m / m, whatever k", needs={Need.HITS, Need.WHOLE_LIST}
)
def r_precision(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Precision where it equals recall, at rank m; the same for every k.

    Hits at ranks 1 and 4, m = 3: one in the top 3.

    >>> r_precision(Lists.of([[1, 0, 0, 1]], truth=[[1] * 3]), 1, Conventions()).round(6)
    array([0.333333])

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 8.4; trec_eval's Rprec.
    """
    hits = lists.hits
    in_top_m = (hits.rank <= lists.n_relevant[hits.row]).astype(np.float64)
    return divide(hits.total(in_top_m, None), lists.n_relevant)
