"""Distances between the items of a list."""

import math
from typing import Final

import numpy as np

from spark_eval.arrow.codes import Booleans
from spark_eval.conventions import Conventions
from spark_eval.conventions.beyond import Distance, DistanceAverage, NoFeatures, ShortList
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import (
    Catalog,
    Entries,
    ItemContext,
    Sets,
    cached_on_first_argument,
    divide,
    require_fact,
)
from spark_eval.kernels.beyond.spread import distance_sums
from spark_eval.kernels.distances import lengths
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import ranking_metric
from spark_eval.statistics.exact import Floats, Ints

# Shorter vectors have lost too many bits to have a direction.
LEAST_LENGTH: Final = 1e-300


@ranking_metric(
    "ild",
    formula="mean distance of two items of the list",
    conventions=("ild_distance", "ild_average", "ild_short", "no_features"),
    upper=None,
    needs={Need.ITEMS},
)
def intra_list_distance(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Mean distance over the pairs of items in the top k; undefined if there is no pair.

    Items without a vector (or features) are left out. With ``short=zero`` a list of one item has 0, even if
    its vector is unknown; an empty list, and one with fewer than two comparable items, are undefined.
    Items 0 and 1 are orthogonal, 2 and 3 have the same direction; items 0 and 1 share one of three features:

    >>> vectors = [[1, 0], [0, 1], [1, 1], [2, 2]]
    >>> features = [["a", "b"], ["b", "c"], ["c"], ["c"]]
    >>> lists = Lists.of_items([[0, 1], [2, 3], [0, 1, 2], [0]], vectors=vectors, features=features)
    >>> for distance in Distance:
    ...     print(distance, intra_list_distance(lists, 3, Conventions(ild_distance=distance)).round(6))
    cosine [1.       0.       0.528595      nan]
    euclid [1.414214 1.414214 1.138071      nan]
    jaccard [0.666667 0.       0.722222      nan]
    hamming [ 2.  0.  2. nan]

    Source: Smyth, McClave, Similarity vs. diversity, ICCBR 2001; Castells, Hurley, Vargas, Novelty and
    diversity in recommender systems, 2015. RecTools: ``distance=hamming, short=zero``; Evidently:
    ``average=length``; Microsoft recommenders: ``no_features=unlike``.
    """
    context, listed = lists.items, lists.listed
    distance, no_features = conventions.ild_distance, conventions.no_features
    total = listed.total(distances_to_earlier(context, distance, no_features, k), k)
    n_compared = listed.total(comparable_entries(context, distance, no_features).astype(np.float64), k)
    match conventions.ild_average:
        case DistanceAverage.PAIRS:
            over = n_compared * (n_compared - 1) / 2
        case DistanceAverage.LENGTH:
            over = np.where(n_compared > 1, n_compared, 0)
    of_one = 0.0 if conventions.ild_short is ShortList.ZERO else math.nan
    return np.where(listed.count(k) == 1, of_one, divide(total, over, math.nan))


@cached_on_first_argument
def comparable_entries(context: ItemContext, distance: Distance, no_features: NoFeatures) -> Booleans:
    """Return True for recommended items whose distances count; shape (entries,)."""
    index = require_fact(context.listed).index
    if no_features is NoFeatures.UNLIKE:
        return np.ones(len(index), dtype=bool)
    return has_attribute(context.catalog, distance)[index]


@cached_on_first_argument
def has_attribute(catalog: Catalog, distance: Distance) -> Booleans:
    """Return True for items with a vector, or with features; shape (n + 1,)."""
    facts = distance_inputs(catalog, distance)
    return facts.sizes > 0 if isinstance(facts, Sets) else ~np.isnan(vector_lengths(catalog))


@cached_on_first_argument
def vector_lengths(catalog: Catalog) -> Floats:
    """Return the lengths of vectors, 0 if shorter than LEAST_LENGTH, NaN if unknown; shape (n + 1,)."""
    length = unrounded_lengths(require_vectors(catalog))
    return np.where(length < LEAST_LENGTH, 0.0, length)


def unrounded_lengths(vectors: "Floats | Sets") -> Floats:
    """Return the lengths of vectors, dense or sparse, NaN if unknown; shape (n + 1,)."""
    if not isinstance(vectors, Sets):
        # One block of items at a time keeps temporary arrays small.
        starts = range(0, len(vectors), 1 << 14)
        return np.concatenate([lengths(vectors[start : start + (1 << 14)]) for start in starts])
    owner, values = vectors.owner, require_fact(vectors.values)
    largest = np.zeros(len(vectors.sizes))
    np.maximum.at(largest, owner, np.abs(values))
    scale = np.where(largest > 0, largest, 1.0)
    squared = np.bincount(owner, weights=(values / scale[owner]) ** 2, minlength=len(scale))
    return np.where(vectors.sizes > 0, np.sqrt(squared) * scale, np.nan)


def distance_inputs(catalog: Catalog, distance: Distance) -> "Floats | Sets":
    """Return the attribute that a distance compares."""
    match distance:
        case Distance.COSINE | Distance.EUCLID:
            return require_vectors(catalog)
        case Distance.JACCARD | Distance.HAMMING:
            return require_fact(catalog.features)


def require_vectors(catalog: Catalog) -> "Floats | Sets":
    """Return the vectors of all items, dense or sparse."""
    if catalog.vectors is None:
        raise ValueError("a metric needs vectors of items, which these lists do not have")
    return catalog.vectors


def distances_to_earlier(
    context: ItemContext, distance: Distance, no_features: NoFeatures, k: int | None
) -> Floats:
    """Sum the distances of each item of the top k to the earlier ones of its list; shape (entries,)."""
    catalog, listed = context.catalog, require_fact(context.listed)
    is_compared = comparable_entries(context, distance, no_features)
    is_regular = has_attribute(catalog, distance)[listed.index]
    if distance is Distance.COSINE:
        is_regular &= vector_lengths(catalog)[listed.index] > 0
    # All other pairs have distance 1.
    n_compared, n_regular = (
        count_earlier_in_list(listed, is_compared),
        count_earlier_in_list(listed, is_regular),
    )
    distances = np.where(is_regular, n_compared - n_regular, n_compared).astype(np.float64)
    distances[~is_compared] = 0.0
    regular = np.flatnonzero(is_regular if k is None else is_regular & (listed.rank <= k))
    facts = distance_inputs(catalog, distance)
    length = None if distance in (Distance.JACCARD, Distance.HAMMING) else vector_lengths(catalog)
    distances[regular] += distance_sums(listed.row[regular], listed.index[regular], facts, distance, length)
    return distances


def count_earlier_in_list(listed: Entries, is_in: Booleans) -> Ints:
    """Count the earlier entries of the same list that are in; shape (entries,)."""
    before: Ints = np.append(0, np.cumsum(is_in))
    first = np.searchsorted(listed.row, np.arange(listed.n_rows))
    return before[:-1] - before[first][listed.row]
