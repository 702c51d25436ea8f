"""Similarity of hits to their users' training history."""

import math
from typing import Final

import numpy as np

from spark_eval.arrow.codes import Booleans, run_starts
from spark_eval.conventions.beyond import Distance, NoFeatures, SerendipityVariant
from spark_eval.kernels.beyond.catalog import (
    Catalog,
    Entries,
    ItemContext,
    Sets,
    cached_on_first_argument,
    divide,
    expand_ranges,
    require_fact,
    slices_by_cost,
)
from spark_eval.kernels.beyond.diversity import has_attribute, require_vectors, vector_lengths
from spark_eval.kernels.beyond.spread import list_parts
from spark_eval.kernels.lists import Lists
from spark_eval.statistics.exact import Floats, Ints

# Maximum number of pairs of items, or of their members, compared at once.
MOST_COMPARED: Final = 1 << 20


@cached_on_first_argument
def mean_similarities(lists: Lists, variant: SerendipityVariant, no_features: NoFeatures) -> Floats:
    """Return the mean similarity of each hit to its user's history; shape (hits,).

    NaN if the hit, or the whole history, cannot be compared.
    """
    context, row = lists.items, lists.hits.row
    if variant is SerendipityVariant.RECOMMENDERS:
        total = similarities(context, row, by_takers=True)
    elif isinstance(require_vectors(context.catalog), Sets):
        total = similarities(context, row, by_takers=False)
    else:
        total = cosines(context.catalog, row, context.hits, require_fact(context.profile))
    is_out = ~is_comparable(context.catalog, variant, no_features)[context.hits]
    _, n_history = comparable_counts(lists, variant, no_features, None)
    return np.where(is_out, math.nan, divide(total, n_history[row], math.nan))


@cached_on_first_argument
def comparable_counts(
    lists: Lists, variant: SerendipityVariant, no_features: NoFeatures, k: int | None
) -> tuple[Floats, Floats]:
    """Count the comparable items of the top k, and of the history; both of shape (n,)."""
    is_in = is_comparable(lists.items.catalog, variant, no_features).astype(np.float64)
    listed, history = lists.listed, require_fact(lists.items.profile)
    return listed.total(is_in[listed.index], k), history.total(is_in[history.index], None)


def is_comparable(catalog: Catalog, variant: SerendipityVariant, no_features: NoFeatures) -> Booleans:
    """Return True for items that can be compared with others; shape (n + 1,)."""
    if variant is SerendipityVariant.RECOMMENDERS or no_features is NoFeatures.UNLIKE:
        return np.ones(catalog.n_items + 1, dtype=bool)
    return has_attribute(catalog, Distance.COSINE)


def cosines(catalog: Catalog, row: Ints, hits: Ints, history: Entries) -> Floats:
    """Sum the cosines of each hit with its user's history: the cosine with the sum of unit vectors.

    Items without a vector, or with a vector of zeros, add nothing.
    """
    vectors, length = require_vectors(catalog), vector_lengths(catalog)
    assert not isinstance(vectors, Sets)
    scale = divide(np.ones(len(length)), length)
    had, hit = np.flatnonzero(scale[history.index] > 0), np.flatnonzero(scale[hits] > 0)
    user, index = history.row[had], history.index[had]
    of_user = np.zeros((history.n_rows, vectors.shape[1]))
    for part in list_parts(user, np.full(len(user), vectors.shape[1])):
        first = np.flatnonzero(run_starts(user[part]))
        units = vectors[index[part]] * scale[index[part], None]
        of_user[user[part][first]] = np.add.reduceat(units, first, axis=0)
    sums = np.zeros(len(row))
    for part in list_parts(row[hit], np.full(len(hit), vectors.shape[1])):
        own = hit[part]
        units = vectors[hits[own]] * scale[hits[own], None]
        sums[own] = (units * of_user[row[own]]).sum(axis=1)
    return sums


def similarities(context: ItemContext, row: Ints, *, by_takers: bool) -> Floats:
    """Sum the similarities of each hit with its user's history, pair by pair; shape (hits,).

    By takers, the similarity is n_ij / sqrt(p_i p_j), with n_ij the number of training users of both items;
    else it is the cosine of sparse vectors. Equal pairs are compared once.
    """
    catalog, history = context.catalog, require_fact(context.profile)
    start = np.searchsorted(history.row, np.arange(history.n_rows + 1))
    n_pairs = np.diff(start)[row]
    sums = np.zeros(len(row))
    n_folds = len(require_fact(catalog.takers)) if by_takers else 1
    shape = (n_folds, catalog.n_items + 1, catalog.n_items + 1)
    for part in slices_by_cost(n_pairs, MOST_COMPARED):
        hit, where = expand_ranges(start[row[part]], n_pairs[part])
        fold = context.fold[row[part]][hit] if by_takers else np.zeros_like(hit)
        both = np.ravel_multi_index((fold, context.hits[part][hit], history.index[where]), shape, mode="wrap")
        pairs, which = np.unique(both, return_inverse=True)
        of_fold, one, other = np.unravel_index(pairs, shape)
        similar = np.zeros(len(pairs))
        for number in np.unique(of_fold).tolist():
            own = of_fold == number
            similar[own] = jaccard_of_pairs(catalog, number, one[own], other[own], by_takers=by_takers)
        sums[part] = np.bincount(hit, weights=similar[which], minlength=len(sums[part]))
    return sums


def jaccard_of_pairs(catalog: Catalog, fold: int, one: Ints, other: Ints, *, by_takers: bool) -> Floats:
    """Return the similarities of pairs of items in a fold, 0 if either has no members; shape (pairs,)."""
    if by_takers:
        sets = require_fact(catalog.takers)[fold]
        size = sets.sizes.astype(np.float64)
        return divide(shared_products(sets, None, one, other), np.sqrt(size[one] * size[other]))
    vectors = require_vectors(catalog)
    assert isinstance(vectors, Sets)
    units = divide(require_fact(vectors.values), vector_lengths(catalog)[vectors.owner])
    return shared_products(vectors, units, one, other)


def shared_products(sets: Sets, values: Floats | None, one: Ints, other: Ints) -> Floats:
    """Sum the products of values over shared members, 1 each without values; shape (pairs,).

    The members of the smaller set are searched in the larger one.
    """
    is_swapped = sets.sizes[one] > sets.sizes[other]
    small, large = np.where(is_swapped, other, one), np.where(is_swapped, one, other)
    sums = np.zeros(len(one))
    for part in slices_by_cost(sets.sizes[small], MOST_COMPARED):
        pair, where = sets.member_indices(small[part])
        index = index_in_set(sets, large[part][pair], sets.members[where])
        is_shared = index >= 0
        weight = None if values is None else (values[where] * values[index])[is_shared]
        sums[part] = np.bincount(pair[is_shared], weights=weight, minlength=len(sums[part]))
    return sums


def index_in_set(sets: Sets, thing: Ints, member: Ints) -> Ints:
    """Return the index of each member in its set, -1 if missing; by bisection."""
    low, high = sets.starts[thing], sets.starts[thing + 1]
    end = high
    for _ in range(int(sets.sizes.max(initial=0)).bit_length()):
        middle = (low + high) // 2
        is_below = (low < high) & (sets.members[np.minimum(middle, len(sets.members) - 1)] < member)
        low, high = np.where(is_below, middle + 1, low), np.where(is_below, high, middle)
        high = np.maximum(low, high)
    is_there = low < end
    is_there[is_there] = sets.members[low[is_there]] == member[is_there]
    return np.where(is_there, low, -1)
