"""Sums over users who have a list per request: the lists of a user are one cluster."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from spark_eval.arrow.codes import run_starts
from spark_eval.evaluation.plan import ListWeight, Plan
from spark_eval.evaluation.worker.lists import Group, SegmentTotals, sums
from spark_eval.metrics.columns import weighted
from spark_eval.schema import ALL
from spark_eval.statistics.exact import Floats, Ints

# Sums of a mean: of the users' totals S, of their weights W, and of S * W. W is the number of lists, or the
# total weight of a weighted mean. Squares are summed as well.
WEIGHT: Final = "{} weight"
PRODUCT: Final = "{} product"


def means_of(plan: Plan) -> dict[str, Sequence[str]]:
    """Return the means over lists: names, with the columns that are multiplied, value and weight."""
    means: dict[str, Sequence[str]] = {}
    for value in plan.metrics:
        means[value.column] = (value.column,)
        means |= {weighted(value, weight): (value.column, weight) for weight in value.columns[1:]}
    return means


def summed_of_users(plan: Plan) -> list[str]:
    """Return the names of the sums over users."""
    names = []
    for name, factors in means_of(plan).items():
        is_ratio = plan.weight is ListWeight.REQUESTS or len(factors) > 1
        names += [name, WEIGHT.format(name), PRODUCT.format(name)] if is_ratio else [name]
    return names


def sums_of_users(
    plan: Plan, columns: Mapping[str, Floats], user: Ints, models: Group, segments: Mapping[str, Group]
) -> SegmentTotals:
    """Sum the lists of each user, then over the users of each model: all of them, and each segment value.

    ``columns`` have the values of n lists, NaN where undefined; ``user`` (n,) is the user of each list. The
    lists of a user may have several values of a segment: each value then has a cluster of its own.
    """
    model, names = models
    everybody: Group = (np.zeros_like(model), [ALL])
    totals = SegmentTotals([], (len(summed_of_users(plan)),))
    for segment, (code, values) in ({ALL: everybody} | dict(segments)).items():
        key = (model * len(values) + code) * (int(user.max(initial=0)) + 1) + user
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(run_starts(key[order]))
        first = order[starts]
        of_users = columns_of_users(plan, columns, order, starts)
        summed = {name: (name,) for name in of_users}
        of_segment = {} if segment == ALL else {segment: (code[first], values)}
        totals.add(sums(of_users, summed, (model[first], names), of_segment, has_all=segment == ALL))
    return totals


def columns_of_users(
    plan: Plan, columns: Mapping[str, Floats], order: Ints, starts: Ints
) -> dict[str, Floats]:
    """Return the columns to sum, NaN for users without a defined list; see ``summed_of_users``.

    ``order`` sorts the lists by user, and ``starts`` are the offsets of the users in it. A user's lists are
    added in the order of their requests.
    """
    found: dict[str, Floats] = {}
    for name, factors in means_of(plan).items():
        parts = [columns[factor][order] for factor in factors]
        values = prod(parts[1:], start=parts[0])
        is_defined = np.isfinite(values)
        weights = np.nan_to_num(parts[1]) if parts[1:] else is_defined.astype(np.float64)
        total = added(np.where(is_defined, values, 0.0), starts)
        total[added(is_defined.astype(np.float64), starts) == 0] = np.nan
        weight = added(weights, starts)
        if plan.weight is ListWeight.USERS and not parts[1:]:
            found[name] = total / np.maximum(weight, 1.0)
        else:
            found |= {name: total, WEIGHT.format(name): weight, PRODUCT.format(name): total * weight}
    return found


def added(values: Floats, starts: Ints) -> Floats:
    """Return the sum of each user's values."""
    total: Floats = np.add.reduceat(values, starts) if len(starts) else np.zeros(0)
    return total
