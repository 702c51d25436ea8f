"""Discovery of relevant items: rare, unlike the baseline's, or unlike the user's history.

A metric of relevant items only scores an empty list 0; for the others it is undefined.
"""

import math

import numpy as np

from spark_eval.conventions import Conventions, Discount
from spark_eval.conventions.beyond import NoBase, Popularity, SerendipityVariant, UnexpectednessDenominator
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import (
    Catalog,
    ItemContext,
    cached_on_first_argument,
    divide,
    index_in_sorted,
    require_fact,
)
from spark_eval.kernels.beyond.popularity import popularity_counts, self_information
from spark_eval.kernels.beyond.similarity import comparable_counts, mean_similarities
from spark_eval.kernels.discounts import discount_sums, discounts
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import ranking_metric
from spark_eval.statistics.exact import Floats, Ints


@ranking_metric(
    "epc",
    formula="sum over hits of (1 - p / N) / log2(rank + 1), over that of 1 / log2(rank + 1) of all ranks",
    needs={Need.HITS, Need.LENGTHS_BY_RANK, Need.POPULARITY},
)
def expected_popularity_complement(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Probability that relevant recommended items are new to a random user; early ranks count for more.

    p of all N training users have the item. 0 without a hit, also for an empty list. One of two users has
    item 0, which is the hit at rank 2 of 2:

    >>> lists = Lists.of_items([[1, 0], []], truth=[[0], [1]], train=[[0, 1], [1]])
    >>> expected_popularity_complement(lists, 2, Conventions()).round(6)
    array([0.193426, 0.      ])

    Source: Vargas, Castells, Rank and relevance in novelty and diversity metrics, RecSys 2011; Elliot, where
    users without a list are left out.
    """
    return discounted_share(lists, lists.of_hits(rarity(lists.items.catalog)), k)


@ranking_metric(
    "efd",
    formula="as epc, of -log2(p / sum of p over all items)",
    upper=None,
    needs={Need.HITS, Need.LENGTHS_BY_RANK, Need.POPULARITY},
)
def expected_free_discovery(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Self-information of the relevant recommended items, in bits; early ranks count for more.

    An item without training counts as the rarest one. 0 without a hit, also for an empty list. Item 0 has
    one third of all training users, summed over items:

    >>> lists = Lists.of_items([[1, 0], []], truth=[[0], [1]], train=[[0, 1], [1]])
    >>> expected_free_discovery(lists, 2, Conventions()).round(6)
    array([0.613147, 0.      ])

    Source: Vargas, Castells, Rank and relevance in novelty and diversity metrics, RecSys 2011; Elliot, where
    users without a list are left out.
    """
    return discounted_share(lists, lists.of_hits(surprise(lists.items.catalog)), k)


def discounted_share(lists: Lists, worth: Floats, k: int | None) -> Floats:
    """Return the discounted sum of the hits' gains, divided by the discounts of the list's items."""
    discounted = lists.hits.total(worth * discounts(lists.hits.rank, Discount.LOG2), k)
    return divide(discounted, discount_sums(lists.length(k), Discount.LOG2))


@cached_on_first_argument
def rarity(catalog: Catalog) -> Floats:
    """Return the share of training users without an item, NaN without training; shape (f, n + 1)."""
    return 1 - divide(require_fact(catalog.n_takers), require_fact(catalog.n_users)[:, None], math.nan)


@cached_on_first_argument
def surprise(catalog: Catalog) -> Floats:
    """Return -log2 of an item's share of all training pairs, unseen as the rarest; shape (f, n + 1)."""
    counts = require_fact(catalog.n_takers)
    most = counts.max(axis=1, initial=1, keepdims=True)
    rarest = np.where(counts > 0, counts, most).min(axis=1, keepdims=True)
    return self_information(np.where(counts > 0, counts, rarest), counts.sum(axis=1))


@ranking_metric(
    "unexpectedness",
    formula="1 - items shared with the baseline model's top k / k",
    conventions=("unexpectedness_denominator", "unexpectedness_no_base"),
    needs={Need.ITEMS, Need.BASE},
)
def unexpectedness(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of the k ranks without an item that a baseline model also recommends to this user in its top k.

    Undefined for an empty list, and for users without recommendations of the baseline at any rank. A baseline
    list that begins beyond rank k shares no item: the value is 1. One of two items is also the baseline's;
    k is 4:

    >>> lists = Lists.of_items([[5, 7], [5], []], base=[[7, 8], None, [7]])
    >>> for denominator in UnexpectednessDenominator:
    ...     conventions = Conventions(unexpectedness_denominator=denominator)
    ...     print(denominator, unexpectedness(lists, 4, conventions))
    k [0.75  nan  nan]
    length [0.5 nan nan]

    Source: Ge, Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010; RePlay (``no_base=zero``).
    RecTools' Intersection is 1 - that of ``denominator=length, no_base=one``.
    """
    in_base = base_ranks(lists.items)
    is_shared = (in_base > 0) if k is None else (in_base > 0) & (in_base <= k)
    shared = lists.listed.total(is_shared.astype(np.float64), k)
    filled = lists.listed.count(k)
    is_over_k = conventions.unexpectedness_denominator is UnexpectednessDenominator.K
    over = filled if k is None or not is_over_k else np.full(len(filled), k)
    value = 1 - divide(shared, np.where(filled > 0, over, 0), math.nan)
    without = {NoBase.UNDEFINED: math.nan, NoBase.ZERO: 0.0, NoBase.ONE: 1.0}
    has_value = require_fact(lists.items.has_base) | (filled == 0)
    return np.where(has_value, value, without[conventions.unexpectedness_no_base])


@cached_on_first_argument
def base_ranks(context: ItemContext) -> Ints:
    """Return the rank of each recommended item in the baseline's list of the same user, 0 if missing."""
    listed, base = require_fact(context.listed), require_fact(context.base)
    step = 1 + max(listed.item.max(initial=0), base.item.max(initial=0))
    keys = base.row * step + base.item
    order = np.argsort(keys)
    # The last entry is for missing items.
    return np.append(base.rank[order], 0)[index_in_sorted(keys[order], listed.row * step + listed.item)]


@ranking_metric(
    "serendipity",
    formula="mean over the list of max(g(rank) - g(dense rank by popularity), 0) for hits; "
    "g(x) = max((C + 1 - x) / C, 0)",
    conventions=("serendipity_variant", "popularity", "no_features"),
    lower=None,
    upper=None,
    needs={Need.HITS, Need.LENGTHS_BY_RANK},
)
def serendipity(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of the list that is relevant and not obvious, weighted by how little obvious it is.

    C counts the items of the catalogue. Ranks by popularity are dense: equally popular items share one, and
    the next less popular ones have the next number, so that they end at the number of different
    popularities, not at C. g of an item without training is 0. An empty list scores 0. Other variants
    compare hits with the user's history; they are undefined without a history, *evidently* also without a
    hit. Item 2 is the only hit, at rank 1; by popularity it is third of three. Item 0 is the history: one of
    its three users also has item 2; their vectors are at 45 degrees:

    >>> train, vectors = [[0], [0, 1, 2], [0, 1]], [[1, 0], [0, 1], [1, 1]]
    >>> lists = Lists.of_items([[2, 1], []], truth=[[2], [1]], train=train, vectors=vectors)
    >>> for variant in SerendipityVariant:
    ...     print(variant, serendipity(lists, 2, Conventions(serendipity_variant=variant)).round(6))
    rectools [0.333333 0.      ]
    recommenders [0.211325 0.      ]
    recommenders_cosine [0.146447 0.      ]
    evidently [0.292893      nan]

    Source: RecTools' Serendipity, after Ge, Delgado-Battenfeld, Jannach, RecSys 2010; Microsoft recommenders,
    after Zhang et al., Auralist, WSDM 2012; Evidently.
    """
    variant, no_features = conventions.serendipity_variant, conventions.no_features
    if variant is SerendipityVariant.RECTOOLS:
        above = above_popularity(lists, conventions.popularity)
        return divide(lists.hits.total(above, k), lists.length(k))
    similarity = mean_similarities(lists, variant, no_features)
    is_compared = ~np.isnan(similarity)
    n_compared = lists.hits.total(is_compared.astype(np.float64), k)
    similar = lists.hits.total(np.where(is_compared, similarity, 0.0), k)
    n_listed, n_history = comparable_counts(lists, variant, no_features, k)
    if variant is SerendipityVariant.EVIDENTLY:
        return np.where((n_compared > 0) & (n_history > 0), 1 - similar, np.nan)
    unlike = divide(n_compared - similar, np.where(n_history > 0, n_listed, 0), math.nan)
    return np.where(lists.listed.count(k) > 0, unlike, 0.0)


@cached_on_first_argument
def above_popularity(lists: Lists, popularity: Popularity) -> Floats:
    """Return each hit's lead over its rank by popularity, as a share of the catalogue, or 0; (hits,)."""
    context = lists.items
    n_items = require_fact(context.catalog.is_listed).sum(axis=1)[context.fold][lists.hits.row]
    by_popularity = lists.of_hits(ranks_by_popularity(context.catalog, popularity))
    own = divide(np.maximum(n_items + 1.0 - lists.hits.rank, 0.0), n_items)
    popular = divide(np.maximum(n_items + 1.0 - by_popularity, 0.0), n_items)
    return np.maximum(own - popular, 0.0)


@cached_on_first_argument
def ranks_by_popularity(catalog: Catalog, popularity: Popularity) -> Floats:
    """Return the dense rank of items by descending popularity, infinity without training; (f, n + 1)."""
    of_folds = popularity_counts(catalog, popularity)
    ranks = np.full(of_folds.shape, np.inf)
    for fold, counts in enumerate(of_folds):
        numbers, which = np.unique(counts, return_inverse=True)
        ranks[fold] = np.where(counts > 0, len(numbers) - which, np.inf)
    return ranks
