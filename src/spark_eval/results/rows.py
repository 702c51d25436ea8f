"""Rows of the table ``metrics``, and their means over folds."""

import math
from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple, Self

from spark_eval.schema import FOLD, FOLDS

# model, metric, k, segment, segment_value, conventions
Key = tuple[str, str, int | None, str, str, str]


class MetricRow(NamedTuple):
    """Row of METRICS; predictions also have ``n_rows``, pipelines the ``stage``.

    ``n_users`` counts the users in the mean, ``n_undefined`` those without a value.
    ``model`` is None for a stage that is a union of several models.
    """

    model: str | None
    metric: str
    k: int | None
    segment: str
    segment_value: str
    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n_users: int | None
    n_undefined: int | None
    conventions: str
    n_rows: int | None = None
    stage: str | None = None

    @classmethod
    def of_run(cls, key: Key, value: float, n_users: int) -> Self:
        """Return the row of a metric of the whole run, without values per user; NaN means undefined."""
        known = None if math.isnan(value) else value
        return cls(*key[:5], known, None, None, None, n_users, 0, key[5])


def fold_rows(rows: Iterable[MetricRow]) -> list[MetricRow]:
    """Return the mean and the standard deviation over folds: two rows per model, metric and k.

    Every fold has the same weight; the standard deviation has the divisor n - 1. Folds without a value are
    left out: the mean over none is null, and so is the standard deviation over fewer than two. Counts are
    summed over the folds.
    """
    groups: dict[tuple[Any, ...], list[MetricRow]] = {}
    for row in rows:
        if row.segment == FOLD:
            groups.setdefault((row.model, row.metric, row.k), []).append(row)
    over_folds: list[MetricRow] = []
    for folds in groups.values():
        values = [row.value for row in folds if row.value is not None]
        counts: dict[str, Any] = {
            name: sum_or_none([getattr(row, name) for row in folds])
            for name in ("n_users", "n_undefined", "n_rows")
        }
        whole = folds[0]._replace(segment=FOLDS, std_error=None, ci_low=None, ci_high=None, **counts)
        over_folds.append(whole._replace(segment_value="mean", value=mean(values) if values else None))
        over_folds.append(whole._replace(segment_value="sd", value=stdev(values) if values[1:] else None))
    return over_folds


def sum_or_none(counts: Sequence[int | None]) -> int | None:
    """Sum counts; None if any is None."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
