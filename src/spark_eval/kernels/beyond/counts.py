"""Metrics of the whole run, computed from the number of lists with each item.

Counts are integers and their sums are exact, so no value depends on the order of entries. Undefined values
are NaN.
"""

import math
from collections import Counter
from fractions import Fraction
from typing import Final

from spark_eval.conventions import (
    Conventions,
    CoverageVariant,
    EntropyWeights,
    GiniVariant,
    PersonalizationVariant,
)
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import ItemCounts
from spark_eval.kernels.registry import ranking_metric
from spark_eval.schema import Direction

UNDEFINED: Final = math.nan


@ranking_metric(
    "catalog_coverage",
    formula="items of the catalogue in any list / items of the catalogue",
    conventions=("catalog_coverage_variant",),
    upper=None,
    needs={Need.ITEM_COUNTS, Need.CATALOG},
)
def catalog_coverage(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Share of the catalogue that is recommended to any user in the top k.

    The lists have the items 1, 2 and 9; the catalogue has 1, 2, 3 and 4, training has 1 and 9.

    >>> counts = ItemCounts.of([[1, 9], [1, 2]], catalog=[1, 2, 3, 4], trained=[1, 9])
    >>> for variant in CoverageVariant:
    ...     print(variant, catalog_coverage(counts, 2, Conventions(catalog_coverage_variant=variant)))
    catalog 0.5
    recommended 0.75
    by_trained 1.5
    trained 1.0

    Undefined without a catalogue (of training: without training interactions). It grows with the number of
    users, so compare models on the same users.

    Source: Herlocker and others, Evaluating collaborative filtering recommender systems, 2004. RecTools
    (``recommended``), recommenders (``by_trained``), RePlay and Evidently (``trained``).
    """
    match conventions.catalog_coverage_variant:
        case CoverageVariant.CATALOG:
            return share_of(int(counts.n_items[counts.is_listed].sum()), counts.n_catalog)
        case CoverageVariant.RECOMMENDED:
            return share_of(int(counts.n_items.sum()), counts.n_catalog)
        case CoverageVariant.BY_TRAINED:
            return share_of(int(counts.n_items.sum()), counts.n_trained)
        case CoverageVariant.TRAINED:
            return share_of(int(counts.n_items[counts.is_trained].sum()), counts.n_trained)


@ranking_metric(
    "gini_catalog",
    formula="sum of (2j - n - 1) x_j / (n sum of x_j), x ascending: lists with each of the n items of C",
    conventions=("gini_variant",),
    direction=Direction.NONE,
    needs={Need.ITEM_COUNTS, Need.CATALOG},
)
def gini_catalog(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Inequality of the items of the catalogue by number of lists: 0 if all are in equally many.

    Items that are never recommended count with 0; items outside the catalogue are left out. Four items, of
    which one is in three lists and one in one:

    >>> counts = ItemCounts.of([[1, 2], [1], [1]], catalog=[1, 2, 3, 4])
    >>> for variant in GiniVariant:
    ...     print(variant, round(gini_catalog(counts, 2, Conventions(gini_variant=variant)), 6))
    n 0.625
    n_minus_1 0.833333
    equality 0.166667

    Undefined if no list has an item of the catalogue. Neither direction is better in itself; ``equality``
    turns it round.

    Source: Gini, 1912; LensKit. Elliot's is 1 - Gini with the divisor n - 1 (``equality``).
    """
    items = items_by_lists(counts, of_catalog=True)
    items[0] += counts.n_catalog - items.total()
    return gini(items, conventions.gini_variant)


@ranking_metric(
    "gini_recommended",
    formula="sum of (2j - n - 1) x_j / (n sum of x_j), x ascending: lists with each of n recommended items",
    conventions=("gini_variant",),
    direction=Direction.NONE,
    needs={Need.ITEM_COUNTS},
)
def gini_recommended(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Inequality of the recommended items by number of lists, whether in the catalogue or not.

    Items that are never recommended are left out, so a model that recommends the same items to all has 0.
    Of two items one is in three lists, one in one:

    >>> gini_recommended(ItemCounts.of([[1, 2], [1], [1]]), 2, Conventions())
    0.25

    Undefined if nothing is recommended; under ``n_minus_1`` also for a single item.

    Source: Evidently, which divides by n - 1 (``n_minus_1``).
    """
    return gini(items_by_lists(counts), conventions.gini_variant)


@ranking_metric(
    "entropy",
    formula="- sum over items of w log2(c/R), c lists with the item, R their sum; w = c/R",
    conventions=("entropy_weights",),
    direction=Direction.NONE,
    upper=None,
    needs={Need.ITEM_COUNTS},
)
def entropy(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Bits needed to encode the item of a recommendation: log2 of n for n equally frequent items.

    >>> entropy(ItemCounts.of([[1, 2], [3, 4]]), 2, Conventions())
    2.0

    With ``weights=slots`` it is the mean, over lists that are not empty, of the mean information of their
    items: w is the sum of 1 / length over the lists with the item, divided by the number of lists. The
    information is that of c/R all the same, so it is no entropy of one distribution:

    >>> counts = ItemCounts.of([[1, 2], [1]])
    >>> for weights in EntropyWeights:
    ...     print(weights, round(entropy(counts, 2, Conventions(entropy_weights=weights)), 6))
    lists 0.918296
    slots 0.834963

    Undefined if nothing is recommended.

    Source: Shannon, 1948; recommenders. Elliot (``slots``).
    """
    lists = items_by_lists(counts)
    n_recommended = sum(count * n_items for count, n_items in lists.items())
    match conventions.entropy_weights:
        case EntropyWeights.LISTS:
            weights = [(count, count * n_items) for count, n_items in lists.items()]
            total = n_recommended
        case EntropyWeights.SLOTS:
            weights = list(zip(counts.n_lists.tolist(), counts.slots.tolist(), strict=True))
            total = counts.n_filled
    if not total:
        return UNDEFINED
    return math.fsum(weight * math.log2(n_recommended / count) for count, weight in weights) / total


@ranking_metric(
    "entropy_norm",
    formula="entropy / log2 |C|",
    conventions=("entropy_weights",),
    direction=Direction.NONE,
    upper=None,
    needs={Need.ITEM_COUNTS, Need.CATALOG},
)
def entropy_norm(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Entropy as a share of its maximum, reached if all items of the catalogue are equally frequent.

    >>> entropy_norm(ItemCounts.of([[1, 2], [3, 4]], catalog=range(16)), 2, Conventions())
    0.5

    It exceeds 1 only if items outside the catalogue are recommended. Undefined if nothing is recommended,
    and for a catalogue of fewer than two items.

    Source: Shannon, 1948; the efficiency of a distribution.
    """
    if counts.n_catalog < 2:
        return UNDEFINED
    return entropy(counts, k, conventions) / math.log2(counts.n_catalog)


@ranking_metric(
    "personalization",
    formula="1 - (sum of c^2 - R) / (k n (n - 1)): mean of 1 - shared items / k over all pairs of n lists",
    conventions=("personalization_variant",),
    upper=None,
    needs={Need.ITEM_COUNTS},
)
def personalization(counts: ItemCounts, k: int | None, conventions: Conventions) -> float:
    """Mean dissimilarity of two users' lists: 1 if no two share an item, 0 if all have the same k.

    Over all pairs of lists, exactly, from counts alone: an item in c lists is shared by c (c - 1) / 2 pairs.
    Of the three pairs one shares one item of two:

    >>> counts = ItemCounts.of([[1, 2], [1, 3], [4]])
    >>> for variant in PersonalizationVariant:
    ...     print(variant, round(personalization(counts, 2, Conventions(personalization_variant=variant)), 6))
    exact 0.833333
    full_lists 0.916667

    Short lists cannot share k items, so they look personal; ``full_lists`` can even exceed 1. Undefined for
    fewer than two lists, and without a cutoff.

    Source: Zhou and others, Solving the apparent diversity-accuracy dilemma of recommender systems, 2010,
    inter-list diversity; Evidently (``full_lists``, the same where all lists have k items).
    """
    n, lists = counts.n_filled, items_by_lists(counts)
    if k is None or n < 2:
        return UNDEFINED
    squares = sum(count * count * n_items for count, n_items in lists.items())
    match conventions.personalization_variant:
        case PersonalizationVariant.EXACT:
            alone = sum(count * n_items for count, n_items in lists.items())
        case PersonalizationVariant.FULL_LISTS:
            alone = n * k
    return float(1 - Fraction(squares - alone, k * n * (n - 1)))


def items_by_lists(counts: ItemCounts, of_catalog: bool = False) -> Counter[int]:
    """Count the items by their number of lists, only items of the catalogue if ``of_catalog``."""
    items = Counter[int]()
    for count, n_items, is_listed in zip(
        counts.n_lists.tolist(), counts.n_items.tolist(), counts.is_listed.tolist(), strict=True
    ):
        items[count] += n_items if is_listed or not of_catalog else 0
    return items


def gini(items: Counter[int], variant: GiniVariant) -> float:
    """Return the Gini index of items, given as the number of items by number of lists."""
    n, total = items.total(), sum(count * n_items for count, n_items in items.items())
    divisor = n if variant is GiniVariant.N else n - 1
    if not total or not divisor:
        return UNDEFINED
    differences = fewer = 0
    for count, n_items in sorted(items.items()):
        # Items before these are in fewer lists, items after them in more; the items among each other cancel
        # out.
        differences += count * n_items * (2 * fewer + n_items - n)
        fewer += n_items
    value = Fraction(differences, divisor * total)
    return float(1 - value if variant is GiniVariant.EQUALITY else value)


def share_of(part: int, whole: int) -> float:
    """Return the share, NaN if the whole is 0."""
    return part / whole if whole else UNDEFINED
