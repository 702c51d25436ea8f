"""Metrics of relevant items by propensity: the less likely an item was seen, the more it counts."""

import math
from typing import Final

import numpy as np

from spark_eval.conventions import Conventions
from spark_eval.conventions.beyond import Popularity, Propensity, PropensityFloor, PropensityPower
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import Catalog, cached_on_first_argument, divide, require_fact
from spark_eval.kernels.beyond.popularity import popularity_counts
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import Weight, ranking_metric
from spark_eval.statistics.exact import Floats

POWERS: Final = {
    PropensityPower.SQRT: 1 / 2,
    PropensityPower.LINEAR: 1.0,
    PropensityPower.GAMMA_1_5: 5 / 4,
    PropensityPower.GAMMA_2: 3 / 2,
    PropensityPower.GAMMA_2_5: 7 / 4,
    PropensityPower.GAMMA_3: 2.0,
}
FLOORS: Final = {
    PropensityFloor.TENTH: 1 / 10,
    PropensityFloor.HUNDREDTH: 1 / 100,
    PropensityFloor.THOUSANDTH: 1 / 1000,
    PropensityFloor.NONE: 0.0,
}
CHOICES: Final = ("propensity", "propensity_power", "propensity_floor", "popularity")


def relevant_weight(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Return the sum of 1 / propensity of the relevant items; NaN if all are unknown, 0 without any; (n,)."""
    del k
    total, n_known = weight_totals(lists, *(getattr(conventions, name) for name in CHOICES))
    return np.where((n_known == 0) & (lists.n_relevant > 0), np.nan, total)


@ranking_metric(
    "snips_recall",
    formula="sum over hits of 1 / propensity, over that of all relevant items",
    conventions=CHOICES,
    needs={Need.HITS, Need.RELEVANT},
    weights={"snips_recall_micro": Weight("snips_recall_weight", relevant_weight)},
)
def self_normalised_recall(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Recall without the bias to popular items: each relevant item counts by 1 / its propensity.

    A log has what users were shown, and popular items were shown more often. The propensity of an item is the
    probability that those who like it had seen it: a power of its popularity in training, as a share of the
    largest one, or the column ``propensity`` of ``items``. It is at least ``propensity_floor``, for one rare
    item must not decide a mean. Items with an unknown propensity are left out; a user without any other is
    undefined. ``snips_recall_micro`` is over the items of all users together.

    Item 0 has four training users, item 1 one: their propensities are 1 and 1/2, their weights 1 and 2. Of
    these the list has item 0, and recall is 1/2:

    >>> lists = Lists.of_items([[0], []], truth=[[0, 1], [1]], train=[[0, 1], [0], [0], [0]])
    >>> self_normalised_recall(lists, 1, Conventions()).round(6)
    array([0.333333, 0.      ])

    Source: Yang, Cui, Xuan and others, Unbiased offline recommender evaluation for missing-not-at-random
    implicit feedback, RecSys 2018; SNIPSRecall of WarpRec, whose propensities are those of Saito and others,
    WSDM 2020.
    """
    choices = tuple(getattr(conventions, name) for name in CHOICES)
    weights = np.nan_to_num(lists.of_hits(inverse_propensities(lists.items.catalog, *choices)))
    total = relevant_weight(lists, k, conventions)
    share = divide(lists.hits.total(weights, k), np.nan_to_num(total))
    return np.where(np.isnan(total), np.nan, np.minimum(share, 1.0))


@cached_on_first_argument
def weight_totals(
    lists: Lists,
    propensity: Propensity,
    power: PropensityPower,
    floor: PropensityFloor,
    popularity: Popularity,
) -> tuple[Floats, Floats]:
    """Return the sum of the weights of each user's relevant items, and the number of known ones; (n,)."""
    relevant = require_fact(lists.items.relevant)
    table = inverse_propensities(lists.items.catalog, propensity, power, floor, popularity)
    weights = lists.items.of_entries(table, relevant)
    is_known = ~np.isnan(weights)
    row, weights = relevant.row[is_known], weights[is_known]
    order = np.lexsort((weights, row))  # the order of the sum must not follow from ids
    total = np.bincount(row[order], weights[order], minlength=relevant.n_rows).astype(np.float64, copy=False)
    return total, np.bincount(row, minlength=relevant.n_rows).astype(np.float64)


@cached_on_first_argument
def inverse_propensities(
    catalog: Catalog,
    propensity: Propensity,
    power: PropensityPower,
    floor: PropensityFloor,
    popularity: Popularity,
) -> Floats:
    """Return 1 / propensity of all items, NaN if unknown; shape (f, n + 1)."""
    if propensity is Propensity.GIVEN:
        shares = require_fact(catalog.propensities)[None, :]
        return 1 / np.maximum(np.tile(shares, (n_folds(catalog), 1)), FLOORS[floor])
    counts = popularity_counts(catalog, popularity)
    if floor is PropensityFloor.NONE:
        counts = np.maximum(counts, 1)
    weights = np.ones(counts.shape)
    for fold, of_fold in enumerate(counts):
        numbers, which = np.unique(of_fold, return_inverse=True)
        most = int(numbers[-1])
        if most:
            shares = np.array([math.pow(number / most, POWERS[power]) for number in numbers.tolist()])
            weights[fold] = (1 / np.maximum(shares, FLOORS[floor]))[which]
    return weights


def n_folds(catalog: Catalog) -> int:
    """Return the number of rows of the catalogue's tables."""
    return len(require_fact(catalog.is_listed))
