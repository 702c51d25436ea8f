"""Lists compared with the users' training history: popularity and groups."""

import math

import numpy as np

from spark_eval.conventions import Conventions, Discount
from spark_eval.conventions.beyond import ArpScale, CalibrationWeights, Popularity
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import (
    Entries,
    ItemContext,
    cached_on_first_argument,
    divide,
    index_in_sorted,
    require_fact,
)
from spark_eval.kernels.beyond.popularity import average_popularity, in_unit
from spark_eval.kernels.discounts import discounts
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import Weight, ranking_metric
from spark_eval.schema import Direction
from spark_eval.statistics.exact import Floats, Ints
from spark_eval.statistics.logarithm import log

# Weight of the history when the list's group shares are smoothed, so that no share is 0.
ALPHA = 0.01


def profile_popularity(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Return the mean popularity of the history if the lift is defined, else NaN; shape (n,)."""
    of_history = history_popularity(lists.items, conventions.popularity)
    return np.where(lists.listed.count(k) == 0, np.nan, of_history)


@cached_on_first_argument
def history_popularity(context: ItemContext, popularity: Popularity) -> Floats:
    """Return the mean popularity of each user's training items, NaN without any; shape (n,)."""
    history = require_fact(context.profile)
    values = context.of_entries(in_unit(context.catalog, popularity, ArpScale.COUNT), history)
    means = divide(history.total(values, None), history.count(None))
    return np.where(means > 0, means, np.nan)


@ranking_metric(
    "pop_lift",
    run_name="mean_pop_lift",
    formula="mean popularity of the list / that of the user's history - 1",
    conventions=("popularity",),
    direction=Direction.NONE,
    lower=-1.0,
    upper=None,
    needs={Need.HISTORY, Need.POPULARITY},
    weights={"pop_lift": Weight("pop_lift_profile", profile_popularity)},
)
def popularity_lift(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Relative increase of the mean popularity from the user's history to the list: 0 if equal.

    Undefined for an empty list, and without a history. ``pop_lift`` of a run is the ratio of the means over
    users, ``mean_pop_lift`` the mean of the ratios. The history's item has one user, the recommended two:

    >>> popularity_lift(Lists.of_items([[1], [0], [0]], train=[[0], [1], [], [1]]), 1, Conventions())
    array([ 1. , -0.5,  nan])

    Source: Abdollahpouri et al., The unfairness of popularity bias in recommendation, 2019.
    """
    plain = conventions.changed({"arp_scale": Conventions.arp_scale, "arp_unseen": Conventions.arp_unseen})
    return average_popularity(lists, k, plain) / profile_popularity(lists, k, conventions) - 1


@ranking_metric(
    "calibration_kl",
    formula="sum over groups of p ln(p / (0.99 q + 0.01 p)), p of the history, q of the list",
    conventions=("calibration_kl_weights",),
    direction=Direction.LOWER,
    upper=-math.log(ALPHA),
    needs={Need.HISTORY, Need.GROUPS},
)
def calibration_kl(lists: Lists, k: int | None, conventions: Conventions) -> Floats:
    """Divergence of the groups of the list from those of the user's history: 0 for equal shares.

    An item of several groups counts for each in equal parts; items without groups are left out. Undefined for
    an empty list, and if the history has no group; a list without groups has the largest value, 4.60517. The
    history is half a, half b; so is one list, another is all a:

    >>> groups, train = [["a"], ["b"], ["a", "b"], ["a"], []], [[0, 1]] * 4
    >>> lists = Lists.of_items([[2], [0, 3], [4], []], groups=groups, train=train)
    >>> calibration_kl(lists, 2, Conventions()).round(6)
    array([0.      , 1.958518, 4.60517 ,      nan])

    Source: Steck, Calibrated recommendations, RecSys 2018. With ``weights=disc`` early ranks count for more.
    """
    listed = lists.listed
    row, _, p = history_shares(lists.items)
    q = list_shares(lists.items, conventions.calibration_kl_weights, k)
    mixed = (1 - ALPHA) * q + ALPHA * p
    divergence = np.bincount(row, weights=p * log(p / mixed), minlength=listed.n_rows)
    is_defined = (np.bincount(row, minlength=listed.n_rows) > 0) & (listed.count(k) > 0)
    return np.where(is_defined, np.clip(divergence, 0.0, -math.log(ALPHA)), np.nan)


@cached_on_first_argument
def history_shares(context: ItemContext) -> tuple[Ints, Ints, Floats]:
    """Return the list, the cell and its share of the history, for each group in a history.

    Cells are those of ``Sets.cells``, ascending.
    """
    history = require_fact(context.profile)
    entry, cell, part = group_parts(context, history)
    cells, first, which = np.unique(cell, return_index=True, return_inverse=True)
    row = history.row[entry[first]]
    shares = np.bincount(which, weights=part, minlength=len(cells)).astype(np.float64)
    n_grouped = np.bincount(row, weights=shares, minlength=history.n_rows)
    return row, cells, shares / n_grouped[row]


def list_shares(context: ItemContext, weights: CalibrationWeights, k: int | None) -> Floats:
    """Return the share of the top k of each cell of ``history_shares``."""
    listed, groups = require_fact(context.listed), require_fact(context.catalog.groups)
    weight = np.ones(len(listed.row))
    if weights is CalibrationWeights.DISC:
        weight = discounts(listed.rank, Discount.LOG2)
    if k is not None:
        weight = np.where(listed.rank <= k, weight, 0.0)
    entry, part, index = parts_in_history(context)
    row, _, _ = history_shares(context)
    shares = np.bincount(index, weights=part * weight[entry], minlength=len(row)).astype(np.float64)
    is_grouped = groups.sizes[listed.index] > 0
    return divide(shares, listed.total(np.where(is_grouped, weight, 0.0), None)[row])


@cached_on_first_argument
def parts_in_history(context: ItemContext) -> tuple[Ints, Floats, Ints]:
    """Return entry, part and index in ``history_shares`` of each group of a recommended item, if present."""
    entry, cell, part = group_parts(context, require_fact(context.listed))
    _, cells, _ = history_shares(context)
    index = index_in_sorted(cells, cell)
    is_there = index >= 0
    return entry[is_there], part[is_there], index[is_there]


def group_parts(context: ItemContext, entries: Entries) -> tuple[Ints, Ints, Floats]:
    """Return the groups of entries: entry, cell, and the part of the entry (1 / number of its groups)."""
    groups = require_fact(context.catalog.groups)
    entry, cell = groups.cells(entries.row, entries.index)
    return entry, cell, 1 / groups.sizes[entries.index[entry]]
