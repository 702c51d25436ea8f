"""Sums over users who have a list per request: the lists of a user are one cluster."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from spark_eval.arrow.codes import run_starts
from spark_eval.evaluation.plan import ListWeight
from spark_eval.evaluation.worker.lists import (
    N_DEFINED,
    N_USERS,
    PRODUCTS,
    SQUARES,
    TOTAL,
    WEIGHT_SQUARES,
    Group,
    SegmentTotals,
)
from spark_eval.kernels.columns import weighted
from spark_eval.kernels.values import MetricValue
from spark_eval.schema import ALL
from spark_eval.statistics.exact import (
    LARGEST_FACTOR,
    MOST_SUMMED,
    DigitSums,
    ExactSums,
    Floats,
    Groups,
    Ints,
    add,
    sums_of_runs,
    two_product,
)
from spark_eval.statistics.totals import limbs_of_sums


def means_of(metrics: Iterable[MetricValue]) -> dict[str, Sequence[str]]:
    """Return the means over lists: names, with the columns that are multiplied, value and weight."""
    means: dict[str, Sequence[str]] = {}
    for value in metrics:
        means[value.column] = (value.column,)
        means |= {weighted(value, weight): (value.column, weight) for weight in value.columns[1:]}
    return means


def sums_of_users(
    means: Mapping[str, Sequence[str]],
    weight: ListWeight,
    columns: Mapping[str, Floats],
    user: Ints,
    models: Group,
    segments: Mapping[str, Group],
    *,
    has_all: bool = True,
) -> SegmentTotals:
    """Sum the lists of each user, then over the users of each model: all of them, and each segment value.

    Without ``has_all``, only by segment value.

    ``means`` are as of ``means_of``. ``columns`` have the values of n lists, NaN where undefined; ``user``
    (n,) is the user of each list. The lists of a user may have several values of a segment: each value then
    has a cluster of its own.
    """
    model, names = models
    everybody = {ALL: (np.zeros_like(model), [ALL])} if has_all else {}
    totals = SegmentTotals([], (len(means),))
    for segment, (code, values) in (everybody | dict(segments)).items():
        key = (model * len(values) + code) * (int(user.max(initial=0)) + 1) + user
        order = stable_order(key)
        starts = np.flatnonzero(run_starts(key[order]))
        cells = [(name, segment, value) for name in names for value in values]
        part = SegmentTotals(cells, totals.shape)
        cell = (model * len(values) + code)[order][starts]
        squares = WeightSquares()
        for column, factors in enumerate(means.values()):
            is_mean = weight is ListWeight.USERS and len(factors) == 1
            clusters = clusters_of([columns[factor][order] for factor in factors], starts, is_mean=is_mean)
            add_clusters(part, column, clusters, cell, squares, has_total=is_mean)
        totals += part
    return totals


def stable_order(keys: Ints) -> Ints | slice:
    """Return the order that sorts keys; lists are mostly in order already."""
    return slice(None) if (keys[1:] >= keys[:-1]).all() else np.argsort(keys, kind="stable")


def clusters_of(factors: Sequence[Floats], starts: Ints, *, is_mean: bool) -> tuple[Floats, Floats]:
    """Return the total of each user's values, NaN without any, and the total of the weights.

    ``factors`` are values, and weights of a weighted mean; else a list counts 1. With ``is_mean``, a user has
    the mean of the lists, and the weight 1. A user's sums are exact, and rounded once: the order of the lists
    does not matter, and windows of days add up to the same.
    """
    if not len(starts):
        return np.zeros(0), np.zeros(0)
    values = prod(factors[1:], start=factors[0])
    is_defined = np.isfinite(values)
    if is_all := bool(is_defined.all()):
        number = np.diff(starts, append=len(values))
    else:
        number = np.add.reduceat(is_defined, starts, dtype=np.int64)
        values = np.where(is_defined, values, 0.0)
    total = sums_of_runs(values, starts)
    if is_mean:
        total, weight = total / np.maximum(number, 1), (number > 0).astype(np.float64)
    else:
        weight = sums_of_runs(np.nan_to_num(factors[1]), starts) if factors[1:] else number * 1.0
    if not is_all:
        total[number == 0] = np.nan
    return total, weight


class WeightSquares:
    """Sums of the squares of weights, which most columns have in common: the numbers of lists."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Floats, Mapping[int, Ints]]] = {}

    def of(self, start: int, weight: Floats, groups: Groups) -> Mapping[int, Ints]:
        """Return the limbs of the weights from ``start`` on; the last column's if they are equal."""
        last = self.known.get(start)
        if last is None or not np.array_equal(last[0], weight):
            squares = ExactSums.of(weight, groups, has_total=False).squares
            last = self.known[start] = (weight, limbs_of_sums(squares))
        return last[1]


def add_clusters(
    totals: SegmentTotals,
    column: int,
    clusters: tuple[Floats, Floats],
    cell: Ints,
    weight_squares: WeightSquares,
    *,
    has_total: bool,
) -> None:
    """Add totals, squares, products with the weight, and squares of the weights of users to their cells.

    Only means over users need the totals: those of ratios are the totals of lists.
    """
    for start in range(0, len(cell), MOST_SUMMED):
        part = slice(start, start + MOST_SUMMED)
        (total, weight), where = (values[part] for values in clusters), (slice(None), column)
        # A single cell has all users, whose sums are quicker without codes.
        n_cells = len(totals.cells)
        groups = Groups([(cell[part], n_cells)], groups_only=True) if n_cells > 1 else Groups()
        is_defined = ~np.isnan(total)
        totals.put_count(N_USERS, where, groups.sums(np.ones(len(total), dtype=bool)))
        totals.put_count(N_DEFINED, where, groups.sums(is_defined))
        known = np.where(is_defined, total, 0.0)
        is_whole = bool((weight < LARGEST_FACTOR).all() and (weight == np.rint(weight)).all())
        factors = weight if is_whole else None
        exact = ExactSums.of(known, groups, has_total=has_total, factors=factors)
        products = exact.products if is_whole else sums_of_products(known, weight, groups)
        for name, sums in ((TOTAL, exact.total), (SQUARES, exact.squares), (PRODUCTS, products)):
            totals.put_sums(name, where, sums)
        totals.put_limbs(WEIGHT_SQUARES, where, weight_squares.of(start, weight, groups))


def sums_of_products(one: Floats, other: Floats, groups: Groups) -> DigitSums:
    """Return the exact sums of products in each cell."""
    products = DigitSums()
    for part in two_product(one, other):
        for position, amounts in ExactSums.of(part, groups, has_squares=False).total.items():
            add(products, position, amounts)
    return products
