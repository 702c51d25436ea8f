"""From exact sums to the rows of the table ``metrics``."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Final

from spark_eval.errors import DataError
from spark_eval.metrics import RankingMetric
from spark_eval.schema import ALL, MODEL, metric_column
from spark_eval.stats.intervals import from_limbs, summarise
from spark_eval.transforms.aggregate import LARGEST

METRICS: Final = (
    "model string, metric string, k int, segment string, segment_value string, value double, "
    "std_error double, ci_low double, ci_high double, n_users long, n_undefined long, conventions string"
)
# The sums of a model without users.
NOBODY: Final[Mapping[str, Any]] = {"n_users": 0, "n_defined": 0}


def metric_rows(
    sums: Iterable[Mapping[str, Any]],
    models: Sequence[str],
    metrics: Sequence[RankingMetric],
    ks: Sequence[int],
    stamp: str,
) -> list[tuple[Any, ...]]:
    """Rows of METRICS, one per model, metric and k, from ``transforms.aggregate.limb_sums``.

    ``n_users`` counts the users in the mean, ``n_undefined`` those for whom the metric is undefined.
    A model without a single user in the population has null values over 0 users.
    """
    found = {(row[MODEL], row["column"]): row for row in sums}
    rows: list[tuple[Any, ...]] = []
    for model, metric, k in product(sorted(models), metrics, ks):
        column = metric_column(metric.name, k)
        row = found.get((model, column), NOBODY)
        n_defined = row["n_defined"]
        mean = summarise(exact(row, "total", column), exact(row, "squares", column), n_defined)
        interval = (mean.std_error, mean.ci_low, mean.ci_high)
        users = (n_defined, row["n_users"] - n_defined)
        rows.append((model, metric.run_name, k, ALL, ALL, mean.value, *interval, *users, stamp))
    return rows


def exact(row: Mapping[str, Any], what: str, column: str) -> Fraction:
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
