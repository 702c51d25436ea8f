"""From exact sums to the rows of the table ``metrics``."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import mul
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.metrics import MetricValue
from spark_eval.metrics.values import summed, weighted
from spark_eval.schema import ALL, MODEL, SEGMENT, SEGMENT_VALUE
from spark_eval.stats.intervals import LARGEST, from_limbs, summarise

METRICS: Final = (
    "model string, metric string, k int, segment string, segment_value string, value double, "
    "std_error double, ci_low double, ci_high double, n_users long, n_undefined long, conventions string"
)
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
