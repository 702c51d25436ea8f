"""Popularity in training, and novelty, of recommended items.

Kernels as in ``metrics.binary``, but they need whole lists: an empty list has no value unless the docstring
says otherwise. An item without training interactions is unseen: its popularity is 0.
"""

import math
from collections.abc import Callable

import numpy as np

from spark_eval.conventions import Conventions
from spark_eval.conventions.beyond import (
    ArpScale,
    ArpUnseen,
    CoveredPlaces,
    NoveltyDenominator,
    NoveltyScale,
    NoveltyUnseen,
    Popularity,
)
from spark_eval.conventions.choice import Choice, Need
from spark_eval.kernels.beyond.catalog import Catalog, cached_on_first_argument, divide, require_fact
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import Weight, ranking_metric
from spark_eval.schema import Direction
from spark_eval.statistics.exact import Floats, Ints

# The head: the most popular items that together have 4 / 5 of the training users summed over all items.
HEAD_SHARE = (4, 5)
# Values of lists (n,) as a function of k, None for whole lists.
ByCut = Callable[[int | None], Floats]


@ranking_metric(
    "user_coverage",
    formula="1 if the top k has an item else 0",
    conventions=("user_coverage_places",),
    needs={Need.LENGTHS_BY_RANK},
)
def user_coverage(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """1 if the user got a recommendation, 0 otherwise; with ``places=all``, 1 if they got k of them.

    Lists of three items, of one and of none:

    >>> lists = Lists.of([[0, 0, 0], [0], []])
    >>> for places in CoveredPlaces:
    ...     print(places, user_coverage(lists, 3, Conventions(user_coverage_places=places)))
    any [1. 1. 0.]
    all [1. 0. 0.]

    Source: Ge, Delgado-Battenfeld, Jannach, Beyond accuracy, RecSys 2010; Elliot counts such users.
    """
    n_items = lists.length(k)
    match conventions.user_coverage_places:
        case CoveredPlaces.ANY:
            return (n_items > 0).astype(np.float64)
        case CoveredPlaces.ALL:
            return ((n_items > 0) & (n_items >= lists.n_ranks(k))).astype(np.float64)


@ranking_metric(
    "arp",
    formula="mean over the list of an item's training users",
    conventions=("popularity", "arp_scale", "arp_unseen"),
    direction=Direction.NONE,
    upper=None,
    needs={Need.ITEMS, Need.POPULARITY},
)
def average_popularity(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Mean popularity of the recommended items; undefined for an empty list.

    Items 0 and 1 have training users 0 and 1, item 2 has both, item 3 has none:

    >>> lists = Lists.of_items([[0, 2, 3], []], train=[[0, 2], [1, 2]])
    >>> average_popularity(lists, 3, Conventions())
    array([ 1., nan])
    >>> for scale in ArpScale:
    ...     conventions = Conventions(arp_scale=scale, arp_unseen=ArpUnseen.DROP)
    ...     print(scale, average_popularity(lists, 3, conventions)[0])
    count 1.5
    share 0.375
    max 0.75

    Source: Yin et al., Challenging the long tail recommendation, VLDB 2012; RecTools, Evidently.
    """
    total = sums_by_cut(lists, in_unit, conventions.popularity, conventions.arp_scale)(k)
    match conventions.arp_unseen:
        case ArpUnseen.ZERO:
            return divide(total, lists.listed.count(k), math.nan)
        case ArpUnseen.ONE:
            choices = (conventions.popularity, conventions.arp_scale)
            return divide(sums_by_cut(lists, in_unit_or_one, *choices)(k), lists.listed.count(k), math.nan)
        case ArpUnseen.DROP:
            return divide(total, sums_by_cut(lists, is_seen, conventions.popularity)(k), math.nan)


def count_of_novelty(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Return the divisor of novelty if it is defined, else NaN; shape (n,)."""
    n_counted = lists.listed.count(k).astype(np.float64)
    if conventions.novelty_unseen is NoveltyUnseen.DROP:
        n_counted = sums_by_cut(lists, is_seen, conventions.novelty_popularity)(k)
    n_divided = n_counted
    if conventions.novelty_denominator is NoveltyDenominator.K and k is not None:
        n_divided = np.full(len(n_counted), float(k))
    return np.where(n_counted > 0, n_divided, np.nan)


@ranking_metric(
    "novelty",
    formula="mean over the list of -log2(an item's training users / all)",
    conventions=("novelty_popularity", "novelty_unseen", "novelty_scale", "novelty_denominator"),
    upper=None,
    needs={Need.ITEMS, Need.POPULARITY},
    weights={"novelty_micro": Weight("novelty_items", count_of_novelty)},
)
def novelty(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Mean self-information of the recommended items, in bits: high for items with few training users.

    Undefined for an empty list, and without training. ``novelty_micro`` is the mean over all items of all
    lists. Item 0 has one of two users, item 2 has both, item 3 has none:

    >>> lists = Lists.of_items([[0, 2, 3], []], train=[[0, 2], [1, 2]])
    >>> for unseen in NoveltyUnseen:
    ...     print(unseen, novelty(lists, 3, Conventions(novelty_unseen=unseen)).round(6))
    one [0.666667      nan]
    drop [0.5 nan]
    zero [0.333333      nan]

    Source: Zhou et al., Solving the apparent diversity-accuracy dilemma, PNAS 2010; Evidently's Novelty,
    RePlay's Surprisal, novelty of Microsoft recommenders (``novelty_micro``).
    """
    choices = (conventions.novelty_popularity, conventions.novelty_unseen, conventions.novelty_scale)
    return sums_by_cut(lists, bits_of_items, *choices)(k) / count_of_novelty(lists, k, conventions)


@ranking_metric(
    "long_tail",
    formula="share of the list outside the head: the most popular items with 4/5 of all training users",
    needs={Need.ITEMS, Need.POPULARITY},
)
def long_tail(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of recommended items that are not among the most popular ones; undefined for an empty list.

    The head takes items by falling number of training users (of equal ones the larger id first) until their
    users are 4/5 of the sum over all items. Here item 1 has three of four users, less than 4/5, so the larger
    of the other two is also in the head:

    >>> lists = Lists.of_items([[0, 1], [2]], train=[[1], [1], [1], [2], [0]])
    >>> long_tail(lists, 2, Conventions())
    array([0.5, 0. ])

    Source: Abdollahpouri et al., Managing popularity bias, FLAIRS 2019; APLT in Elliot.
    """
    return divide(sums_by_cut(lists, is_in_tail)(k), lists.listed.count(k), math.nan)


@ranking_metric(
    "outside_catalog",
    formula="share of the list outside the catalogue",
    direction=Direction.LOWER,
    needs={Need.ITEMS, Need.CATALOG},
)
def outside_catalog(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of recommended items that the catalogue does not have; undefined for an empty list.

    Generative models make items up; a catalogue of one country lacks those of another. Items 0 and 1 are the
    catalogue:

    >>> lists = Lists.of_items([[0, 2, 1], [0], []], listed=[0, 1])
    >>> outside_catalog(lists, 2, Conventions())
    array([0.5, 0. , nan])

    Source: ours; ``accounting`` counts the users who have such an item.
    """
    return divide(sums_by_cut(lists, is_outside)(k), lists.listed.count(k), math.nan)


@ranking_metric(
    "violations",
    formula="share of the list with false in a column of items",
    direction=Direction.LOWER,
    needs={Need.ITEMS, Need.FLAGS},
    column_option="violations_column",
)
def violations(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Share of recommended items that break a constraint: a boolean column of ``items`` is false.

    ``column`` names it, by default ``available``. An item is left out if its value is null, or if ``items``
    lacks it: it is not known to break anything. A list without any other item is undefined. Item 1 is not
    available, of item 2 nothing is known:

    >>> lists = Lists.of_items([[0, 1, 2], [2], []], flags={"available": [True, False, None]})
    >>> violations(lists, 3, Conventions())
    array([0.5, nan, nan])

    Source: ours.
    """
    column = conventions.violations_column
    n_known = sums_by_cut(lists, is_flagged, column, 0)(k) + sums_by_cut(lists, is_flagged, column, 1)(k)
    return divide(sums_by_cut(lists, is_flagged, column, 0)(k), n_known, math.nan)


@cached_on_first_argument
def sums_by_cut(lists: Lists, table: Callable[..., Floats], *choices: Choice | str | int) -> ByCut:
    """Return a function of k that sums ``table(catalog, *choices)`` (f, n + 1) over the top k; shape (n,)."""
    return lists.items.totals(table(lists.items.catalog, *choices))


def popularity_counts(catalog: Catalog, popularity: Popularity) -> Ints:
    """Return the popularity of all items; shape (f, n + 1)."""
    match popularity:
        case Popularity.USERS:
            return require_fact(catalog.n_takers)
        case Popularity.ROWS:
            return require_fact(catalog.n_rows)


def is_seen(catalog: Catalog, popularity: Popularity) -> Floats:
    """Return 1 for items with training interactions, else 0; shape (f, n + 1)."""
    return (popularity_counts(catalog, popularity) > 0).astype(np.float64)


@cached_on_first_argument
def in_unit(catalog: Catalog, popularity: Popularity, scale: ArpScale) -> Floats:
    """Return the popularity of all items in a unit; shape (f, n + 1)."""
    counts = popularity_counts(catalog, popularity)
    match scale:
        case ArpScale.COUNT:
            return counts.astype(np.float64)
        case ArpScale.SHARE:
            unit = counts.sum(axis=1, keepdims=True)
        case ArpScale.MAX:
            unit = counts.max(axis=1, keepdims=True)
    # In a fold without training no item has a share.
    return divide(counts, unit, math.nan)


def in_unit_or_one(catalog: Catalog, popularity: Popularity, scale: ArpScale) -> Floats:
    """Return the popularity of all items in a unit, of unseen ones that of one user; shape (f, n + 1)."""
    counts, own = popularity_counts(catalog, popularity), in_unit(catalog, popularity, scale)
    most = counts.argmax(axis=1)[:, None]
    one = divide(np.take_along_axis(own, most, axis=1), np.take_along_axis(counts, most, axis=1), math.nan)
    return np.where(counts > 0, own, one)


@cached_on_first_argument
def bits_of_items(
    catalog: Catalog, popularity: Popularity, unseen: NoveltyUnseen, scale: NoveltyScale
) -> Floats:
    """Return the novelty of all items, 0 for those that are left out; shape (f, n + 1)."""
    counts = popularity_counts(catalog, popularity)
    of_all = require_fact(catalog.n_users) if popularity is Popularity.USERS else counts.sum(axis=1)
    bits = self_information(counts, of_all)
    if scale is NoveltyScale.SHARE:
        largest = self_information(np.ones((len(bits), 1), dtype=np.int64), of_all)
        # With a single user, every item has 0 of at most 0 bits.
        bits = np.divide(bits, largest, out=bits, where=largest != 0)
    return bits if unseen is NoveltyUnseen.ONE else np.where(counts > 0, bits, 0.0)


def self_information(counts: Ints, of_all: Ints) -> Floats:
    """Return -log2(count / all) of counts (f, ...) and all (f,), with 0 counted as 1; NaN if all is 0.

    By the C library's scalar function (see ``metrics.discounts``), once per distinct count.
    """
    bits = np.full(counts.shape, np.nan)
    for fold, n_all in enumerate(of_all.tolist()):
        numbers, which = np.unique(np.maximum(counts[fold], 1), return_inverse=True)
        if n_all:
            # Adding 0 turns -0 to 0.
            bits[fold] = np.array([0.0 - math.log2(number / n_all) for number in numbers.tolist()])[which]
    return bits


def is_outside(catalog: Catalog) -> Floats:
    """Return 1 for items outside the catalogue, else 0; shape (f, n + 1)."""
    return (~require_fact(catalog.is_listed)).astype(np.float64)


def is_flagged(catalog: Catalog, column: str, value: int) -> Floats:
    """Return 1 for items with this value in a boolean column, else 0; shape (f, n + 1)."""
    flags = (require_fact(catalog.flags)[column] == value).astype(np.float64)
    return np.tile(flags, (len(require_fact(catalog.is_listed)), 1))


def is_in_tail(catalog: Catalog) -> Floats:
    """Return 0 for the head, the most popular items with HEAD_SHARE of all users and items, else 1."""
    n_takers = require_fact(catalog.n_takers)
    share, of = HEAD_SHARE
    tail = np.ones(n_takers.shape)
    for fold, counts in enumerate(n_takers):
        order = np.lexsort((-np.arange(len(counts)), -counts))
        before = np.cumsum(counts[order]) - counts[order]
        tail[fold, order] = of * before >= share * counts.sum()
    return tail
