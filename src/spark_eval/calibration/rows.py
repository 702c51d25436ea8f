"""Rows of the tables ``calibration`` and ``programme``, from the effects of experiments."""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from spark_eval.calibration.fit import Points, fit
from spark_eval.results.forecasts import LEAST_EXPERIMENTS, CalibrationRow, NotFitted
from spark_eval.schema import ddl_of
from spark_eval.statistics.intervals import CERTAIN, wilson_interval


class NotUsed(StrEnum):
    """Reason why an experiment is not used."""

    NO_OFFLINE = "NO_OFFLINE"
    NO_ONLINE = "NO_ONLINE"
    NO_VALUE = "NO_VALUE"
    NOT_TRUSTED = "NOT_TRUSTED"


class ProgrammeRow(NamedTuple):
    """Row of ``programme``: an experiment, by an offline metric and a goal.

    Differences are turned so that more is better. ``reason`` says why the experiment is not used;
    None if it is.
    """

    experiment: str
    treatment: str | None
    metric: str
    goal: str
    offline_difference: float | None
    offline_std_error: float | None
    online_difference: float | None
    online_std_error: float | None
    covariance: float | None
    reason: str | None


PROGRAMME_TABLE: Final = ddl_of(ProgrammeRow)


def points_of(rows: Iterable[ProgrammeRow]) -> Points:
    """Return the effects of the rows that are used."""
    used = [row for row in rows if row.reason is None]
    columns = [
        [row.offline_difference for row in used],
        [row.offline_std_error for row in used],
        [row.online_difference for row in used],
        [row.online_std_error for row in used],
        [row.covariance or 0.0 for row in used],
    ]
    return Points(*(np.array(column, dtype=np.float64) for column in columns)).in_order()


def calibration_row(metric: str, goal: str, rows: Sequence[ProgrammeRow], conventions: str) -> CalibrationRow:
    """Return the calibration of a metric, of these conventions, by the experiments of a goal."""
    points = points_of(rows)
    n = len(points.x)
    is_certain = (abs(points.x) > CERTAIN * points.x_error) & (abs(points.y) > CERTAIN * points.y_error)
    n_decided, agree = int(is_certain.sum()), int((is_certain & (points.x * points.y > 0)).sum())
    is_shipped = points.x > CERTAIN * points.x_error
    counts = CalibrationRow(
        *(metric, goal, NotFitted.TOO_FEW_EXPERIMENTS.value, n, len(rows) - n, n_decided, agree),
        shipped=int(is_shipped.sum()),
        conventions=conventions,
    )
    if n < LEAST_EXPERIMENTS:
        return counts
    low, high = wilson_interval(agree, n_decided)
    counts = counts._replace(
        agree_low=low,
        agree_high=high,
        online_sum=math.fsum(points.y[is_shipped]),
        online_std_error=math.sqrt(math.fsum(points.y_error[is_shipped] ** 2)),
        online_all=math.fsum(points.y),
        online_best=math.fsum(points.y[points.y > 0]),
    )
    fitted = fit(points)
    if fitted is None:
        return counts._replace(reason=NotFitted.NO_SPREAD.value)
    return counts._replace(
        reason=None,
        rho=fitted.rho,
        rho_low=fitted.rho_low,
        rho_high=fitted.rho_high,
        slope=fitted.slope,
        naive_rho=float(np.corrcoef(points.x, points.y)[0, 1]),
        offline_mean=fitted.x_mean,
        offline_spread=fitted.x_spread,
        online_mean=fitted.y_mean,
        online_spread=fitted.y_spread,
    )
