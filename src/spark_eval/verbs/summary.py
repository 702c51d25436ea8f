"""From exact sums to the rows of the table ``metrics``."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from spark_eval.errors import DataError
from spark_eval.metrics import RankingMetric
from spark_eval.schema import ALL, metric_column
from spark_eval.stats.intervals import from_limbs, summarise
from spark_eval.transforms.aggregate import LARGEST, SQUARES, TOTAL

METRICS: Final = (
    "model string, metric string, k int, segment string, segment_value string, value double, "
    "std_error double, ci_low double, ci_high double, n_users long, n_undefined long, conventions string"
)


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
    by_model = {row["model"]: row for row in sums}
    rows: list[tuple[Any, ...]] = []
    for model in sorted(models):
        for metric in metrics:
            for k in ks:
                name = metric_column(metric.name, k)
                row = by_model.get(model, {"n_users": 0, f"{name}.n": 0})
                defined = row[f"{name}.n"]
                mean = summarise(total(row, name, TOTAL), total(row, name, SQUARES), defined)
                interval = (mean.std_error, mean.ci_low, mean.ci_high)
                users = (defined, row["n_users"] - defined)
                rows.append((model, metric.run_name, k, ALL, ALL, mean.value, *interval, *users, stamp))
    return rows


def total(row: Mapping[str, Any], name: str, what: str) -> Fraction:
    """The exact sum over users of a metric, or of its squares.

    Raises DataError METRIC_OVERFLOW where a sum outgrew 64 bits (relevances of absurd size).
    """
    limbs = [row[column] for column in sorted(c for c in row if c.startswith(f"{name}.{what}."))]
    if row[f"{name}.n"] == 0:
        return Fraction(0)
    if None in limbs or not row[f"{name}.max"] < math.sqrt(LARGEST):  # not a number is no less
        raise DataError(
            "METRIC_OVERFLOW", f"the sum of {name} is too large; check the relevances of the truth"
        )
    return from_limbs(limbs)
