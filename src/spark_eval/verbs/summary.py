"""From exact sums to the rows of the table ``metrics``."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import mul
from statistics import mean, stdev
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.metrics import MetricValue
from spark_eval.metrics.values import summed, weighted
from spark_eval.schema import ALL, FOLD, FOLDS, MODEL, SEGMENT, SEGMENT_VALUE
from spark_eval.stats.intervals import LARGEST, from_limbs, summarise

METRICS: Final = (
    "model string, metric string, k int, segment string, segment_value string, value double, "
    "std_error double, ci_low double, ci_high double, n_users long, n_undefined long, conventions string"
)
# Of a row of ``metrics``: before it lie model, metric and k.
SEGMENT_PLACE: Final = 3
Sums = Mapping[str, Any]
# The sums of a model without users.
NOBODY: Final[Sums] = {"n_users": 0, "n_defined": 0}


def summed_columns(metrics: Sequence[MetricValue]) -> dict[str, Column]:
    """What is summed over users, by name."""
    return {name: reduce(mul, map(F.col, factors)) for name, factors in summed(metrics).items()}


def metric_rows(
    sums: Iterable[Sums], models: Sequence[str], metrics: Sequence[MetricValue], stamp: str
) -> list[tuple[Any, ...]]:
    """Rows of METRICS, one per model, segment and metric value, from ``transforms.aggregate.limb_sums``.

    ``n_users`` counts the users in the mean, ``n_undefined`` those for whom the metric is undefined.
    A model without a single user in the population has null values over 0 users. Weighted means, such as
    the micro average, have no standard error.
    """
    found = {(row[MODEL], row[SEGMENT], row[SEGMENT_VALUE], row["column"]): row for row in sums}
    cells = {key[:3] for key in found} | {(model, ALL, ALL) for model in models}
    rows: list[tuple[Any, ...]] = []
    for cell, value in product(sorted(cells, key=everybody_first), metrics):
        model, *segment = cell
        row = found.get((*cell, value.column), NOBODY)
        n_defined = row["n_defined"]
        mean = summarise(exact(row, "total", value.column), exact(row, "squares", value.column), n_defined)
        interval = (mean.std_error, mean.ci_low, mean.ci_high)
        users = (n_defined, row["n_users"] - n_defined)
        rows.append((model, value.name, value.k, *segment, mean.value, *interval, *users, stamp))
        for name, weight in zip(value.weights, value.columns[1:], strict=True):
            sum_of_weights = exact(found.get((*cell, weight), NOBODY), "total", weight)
            product_sum = exact(found.get((*cell, weighted(value, weight)), NOBODY), "total", weight)
            weighted_mean = float(product_sum / sum_of_weights) if sum_of_weights else None
            rows.append((model, name, value.k, *segment, weighted_mean, None, None, None, *users, stamp))
    return rows


def fold_rows(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Of rows of ``metrics`` by fold: two more per model, metric and k, the mean and deviation over folds.

    The mean of the folds' values, each fold counting the same, and their standard deviation with the divisor
    n - 1, over the folds where the metric is defined; null where these are none, or for the deviation one.
    Counts are the sums of the folds'.
    """
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        if row[SEGMENT_PLACE] == FOLD:
            groups.setdefault(row[:SEGMENT_PLACE], []).append(row)
    found: list[tuple[Any, ...]] = []
    for key, of_folds in groups.items():
        _, _, values, _, _, _, n_users, n_undefined, stamps, *n_rows = zip(
            *(row[SEGMENT_PLACE:] for row in of_folds), strict=True
        )
        defined = [value for value in values if value is not None]
        counts, more = map(total, (n_users, n_undefined)), map(total, n_rows)
        numbers = {"mean": mean(defined) if defined else None, "sd": stdev(defined) if defined[1:] else None}
        rest = (None, None, None, *counts, stamps[0], *more)
        found += [(*key, FOLDS, name, number, *rest) for name, number in numbers.items()]
    return found


def total(counts: Sequence[int | None]) -> int | None:
    """The sum of counts; None where one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def population(rows: Iterable[Sequence[Any]]) -> dict[str, int]:
    """The users of each model, by rows of METRICS."""
    names = [field.split()[0] for field in METRICS.split(", ")]
    found = (dict(zip(names, row, strict=True)) for row in rows)
    return {row[MODEL]: row["n_users"] + row["n_undefined"] for row in found if row[SEGMENT] == ALL}


def everybody_first(cell: tuple[str, str, str]) -> tuple[str, bool, str, str]:
    """Order of the rows: by model, everybody before the segments."""
    model, segment, segment_value = cell
    return (model, segment != ALL, segment, segment_value)


def exact(row: Sums, what: str, column: str) -> Fraction:
    """The exact sum over users of a metric (``total``), or of its squares.

    Raises DataError METRIC_OVERFLOW where a sum outgrew 64 bits (relevances of absurd size).
    """
    if row["n_defined"] == 0:
        return Fraction(0)
    if None in row[what] or not row["max"] < math.sqrt(LARGEST):  # not a number is no less
        raise DataError(
            "METRIC_OVERFLOW", f"the sum of {column} is too large; check the relevances of the truth"
        )
    return from_limbs(row[what])
