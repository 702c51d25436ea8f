"""From exact sums to the rows of the table ``metrics``."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from statistics import mean, stdev
from typing import Any, Final

from spark_eval.engine.means import SQUARES, TOTAL
from spark_eval.errors import DataError
from spark_eval.metrics import MetricValue
from spark_eval.metrics.values import weighted
from spark_eval.schema import ALL, FOLD, FOLDS, MODEL, SEGMENT, SEGMENT_VALUE
from spark_eval.stats.intervals import Summary, summarise

METRICS: Final = (
    "model string, metric string, k int, segment string, segment_value string, value double, "
    "std_error double, ci_low double, ci_high double, n_users long, n_undefined long, conventions string"
)
# Of a row of ``metrics``: before it lie model, metric and k.
SEGMENT_PLACE: Final = 3
Sums = Mapping[str, Any]
# The sums of a model without users.
NOBODY: Final[Sums] = {"n_users": 0, "n_defined": 0, "n_infinite": 0, TOTAL: Fraction(), SQUARES: Fraction()}


def metric_rows(
    sums: Iterable[Sums], models: Sequence[str], metrics: Sequence[MetricValue], stamp: str
) -> list[tuple[Any, ...]]:
    """Rows of METRICS, one per model, segment and metric value, from ``verbs.evaluation.sums_of_models``.

    ``n_users`` counts the users in the mean, ``n_undefined`` those for whom the metric is undefined.
    A model without a single user in the population has null values over 0 users. Weighted means, such as
    the micro average, have no standard error. Raises DataError METRIC_OVERFLOW for what no double holds.
    """
    found = {(row[MODEL], row[SEGMENT], row[SEGMENT_VALUE], row["column"]): row for row in sums}
    cells = {key[:3] for key in found} | {(model, ALL, ALL) for model in models}
    rows: list[tuple[Any, ...]] = []
    for cell, value in product(sorted(cells, key=everybody_first), metrics):
        model, *segment = cell
        row = found.get((*cell, value.column), NOBODY)
        n_defined = row["n_defined"]
        mean = summarise(row[TOTAL], row[SQUARES], n_defined)
        check_size(value.column, row, mean)
        interval = (mean.std_error, mean.ci_low, mean.ci_high)
        users = (n_defined, row["n_users"] - n_defined)
        rows.append((model, value.name, value.k, *segment, mean.value, *interval, *users, stamp))
        for name, weight in zip(value.weights, value.columns[1:], strict=True):
            weights, products = (
                found.get((*cell, column), NOBODY) for column in (weight, weighted(value, weight))
            )
            weighted_mean = float(products[TOTAL] / weights[TOTAL]) if weights[TOTAL] else None
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


def check_size(column: str, row: Sums, mean: Summary) -> None:
    """Raise DataError METRIC_OVERFLOW where a value, or an end of its interval, is larger than any double."""
    numbers = [number for number in (mean.value, mean.ci_low, mean.ci_high) if number is not None]
    if row["n_infinite"] or not all(map(math.isfinite, numbers)):
        message = f"{column} has a value or an interval larger than any double"
        raise DataError("METRIC_OVERFLOW", f"{message}; scale the relevances of the truth down")
