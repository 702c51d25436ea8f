"""Ranking metrics of pairs of items: in-list AUC and the fraction of concordant pairs."""

import numpy as np

from spark_eval.conventions import AucTies, Conventions, OneClass
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import divide
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import Weight, ranking_metric
from spark_eval.statistics.exact import Floats, Ints


def impressions(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Count the items in the top k if in-list AUC is defined, else NaN; shape (n,)."""
    return np.where(np.isnan(auc(lists, k, conventions)), np.nan, lists.length(k))


def positives(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Count the hits in the top k if in-list AUC is defined, else NaN; shape (n,)."""
    return np.where(np.isnan(auc(lists, k, conventions)), np.nan, lists.n_hits(k))


@ranking_metric(
    "auc",
    run_name="gauc",
    formula="share of (hit, miss) pairs of the top k with the hit first, ties 1/2",
    conventions=("one_class", "auc_ties"),
    needs={Need.HITS, Need.LENGTHS_BY_RANK, Need.TIES},
    weights={
        "gauc_by_impressions": Weight("auc_impressions", impressions),
        "gauc_by_positives": Weight("auc_positives", positives),
    },
)
def auc(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Probability that a hit ranks before a miss in the top k; equal scores count one half.

    Only ranks that have an item count, and a repeated item counts once, at its best rank. Undefined if the
    top k has only hits, or none. Hits at ranks 1 and 3 of 4: three of the four pairs are in order; two and a
    half if the items at ranks 3 and 4 tie.

    >>> auc(Lists.of([[1, 0, 1, 0], [0, 0, 0, 0]]), 4, Conventions())
    array([0.75,  nan])
    >>> auc(Lists.of([[1, 0, 1, 0]], scores=[[9, 8, 7, 7]]), 4, Conventions())
    array([0.625])

    With ``ties=as_ranked`` equal scores count in the order of their ranks:

    >>> conventions = Conventions(auc_ties=AucTies.AS_RANKED)
    >>> auc(Lists.of([[1, 0, 1, 0]], scores=[[9, 8, 7, 7]]), 4, conventions)
    array([0.75])

    Source: Mann, Whitney, 1947; RePlay's RocAuc (``one_class=extremes``).
    """
    h, length = lists.n_hits(k), lists.length(k)
    misses = length - h
    before = lists.hits.total(mid_ranks(lists, length, conventions.auc_ties), k) - h * (h + 1) / 2
    value = 1 - divide(before, h * misses)
    two_classes = (h > 0) & (misses > 0)
    match conventions.one_class:
        case OneClass.UNDEFINED:
            return np.where(two_classes, value, np.nan)
        case OneClass.EXTREMES:
            return np.where(two_classes, value, (h > 0).astype(np.float64))


def mid_ranks(lists: Lists, length: Ints, ties: AucTies) -> Floats:
    """Return the position of each hit among the items of its list; shape (hits,).

    Tied hits have the mean position of their ties within the first ``length`` items.
    """
    if lists.filled_ranks is not None:
        return lists.filled_ranks.up_to_hit.astype(np.float64)
    if ties is AucTies.AS_RANKED:
        return lists.hits.rank.astype(np.float64)
    middle: Floats = (lists.tie_first + np.minimum(lists.tie_last, length[lists.hits.row])) / 2
    return middle


def pairs(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Count comparable pairs of hits in the top k, NaN if there are none; shape (n,)."""
    concordant, discordant = compared_pairs(lists, k)
    total = concordant + discordant
    return np.where(total > 0, total, np.nan)


@ranking_metric(
    "fcp",
    formula="concordant / (concordant + discordant) pairs of hits in the top k",
    needs={Need.HITS, Need.TIES},
    weights={"fcp_micro": Weight("fcp_pairs", pairs)},
)
def fraction_of_concordant_pairs(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of the pairs of relevant items in the list that are in the order of their relevance.

    Pairs of equal relevance are not counted; pairs of equal scores count for neither side. Undefined without
    a pair. Relevances 3, 1, 2 in rank order: (3, 1) and (3, 2) are concordant, (1, 2) is not.

    >>> fraction_of_concordant_pairs(Lists.of([[3, 1, 2], [1, 1, 0]]), 3, Conventions()).round(6)
    array([0.666667,      nan])

    Source: Koren, Sill, Collaborative filtering on ordinal user feedback, 2013.
    """
    concordant, discordant = compared_pairs(lists, k)
    total = concordant + discordant
    return np.where(total > 0, divide(concordant, total), np.nan)


def compared_pairs(lists: Lists, k: int | None) -> tuple[Floats, Floats]:
    """Count the concordant and the discordant pairs of hits in the top k; two arrays of shape (n,).

    One pass for each distance between hits of a list, over all lists at once.
    """
    hits = lists.hits
    within = np.ones(len(hits.row), dtype=bool) if k is None else hits.rank <= k
    row, relevance, first = hits.row[within], hits.relevance[within], lists.tie_first[within]
    concordant, discordant = np.zeros(hits.n_rows), np.zeros(hits.n_rows)
    for distance in range(1, longest_run(row)):
        same_list = row[distance:] == row[:-distance]
        differ = same_list & (first[distance:] != first[:-distance])
        rise = relevance[distance:] - relevance[:-distance]
        concordant += np.bincount(row[distance:][differ & (rise < 0)], minlength=hits.n_rows)
        discordant += np.bincount(row[distance:][differ & (rise > 0)], minlength=hits.n_rows)
    return concordant, discordant


def longest_run(row: Ints) -> int:
    """Return the largest number of entries of a list."""
    return int(np.bincount(row).max(initial=0))
