"""Rows of the tables ``calibration`` and ``programme``, and their sentences."""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from spark_eval.calibration.fit import Fit, Points, fit
from spark_eval.results.sentences import short
from spark_eval.schema import Row, ddl_of
from spark_eval.statistics.intervals import CERTAIN, wilson_interval

# Names of the tables of a result.
CALIBRATION: Final = "calibration"
PROGRAMME: Final = "programme"
# Fewer experiments are counted, and nothing is estimated.
LEAST_EXPERIMENTS: Final = 8


class NotUsed(StrEnum):
    """Reason why an experiment is not used."""

    NO_OFFLINE = "NO_OFFLINE"
    NO_ONLINE = "NO_ONLINE"
    NO_VALUE = "NO_VALUE"
    NOT_TRUSTED = "NOT_TRUSTED"


class NotFitted(StrEnum):
    """Reason why a row of ``calibration`` has counts only."""

    TOO_FEW_EXPERIMENTS = "TOO_FEW_EXPERIMENTS"
    NO_SPREAD = "NO_SPREAD"


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


class CalibrationRow(NamedTuple):
    """Row of ``calibration``: an offline metric against a goal.

    ``n`` experiments are used, and ``left_out`` are not. ``agree`` of the ``n_decided`` that are certain on
    both sides (95 %) have one sign. ``rho`` is the correlation of the true effects, ``naive_rho`` of the
    observed ones. Means and spreads (standard deviations) are those of the true effects. ``shipped`` are
    certainly better offline: the sum of their online effects is ``online_sum``; ``online_all`` is the sum of
    all, ``online_best`` of those above 0. ``reason`` says why there is no estimate.
    """

    metric: str
    goal: str
    reason: str | None
    n: int
    left_out: int
    n_decided: int
    agree: int
    agree_low: float | None = None
    agree_high: float | None = None
    rho: float | None = None
    rho_low: float | None = None
    rho_high: float | None = None
    slope: float | None = None
    naive_rho: float | None = None
    offline_mean: float | None = None
    offline_spread: float | None = None
    online_mean: float | None = None
    online_spread: float | None = None
    shipped: int = 0
    online_sum: float | None = None
    online_std_error: float | None = None
    online_all: float | None = None
    online_best: float | None = None

    @property
    def fitted(self) -> Fit | None:
        """The distribution of the true effects; None if it was not estimated."""
        numbers = [
            *(self.offline_mean, self.online_mean, self.offline_spread, self.online_spread),
            *(self.rho, self.rho_low, self.rho_high),
        ]
        known = [number for number in numbers if number is not None]
        return Fit(*known) if len(known) == len(numbers) else None


class ForecastRow(NamedTuple):
    """Row of ``forecasts``: what to expect online of a new candidate.

    ``expected`` and ``deviation`` are mean and standard deviation of the true online effect, ``p_win`` is the
    probability that it is above 0. ``reason`` is that of the row of ``calibration`` without an estimate.
    """

    metric: str
    goal: str
    difference: float
    std_error: float
    reason: str | None
    expected: float | None = None
    deviation: float | None = None
    p_win: float | None = None


CALIBRATION_TABLE: Final = ddl_of(CalibrationRow)
PROGRAMME_TABLE: Final = ddl_of(ProgrammeRow)
FORECASTS_TABLE: Final = ddl_of(ForecastRow)
SHOWN: Final = ("metric", "goal", "n", "decided", "agree", "rho", "95 %", "naive rho", "slope")
FORECAST: Final = ("metric", "goal", "difference", "std_error", "expected", "deviation", "p_win")
SHIPPED: Final = ("metric", "goal", "shipped", "online", "std_error", "all", "best")


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


def calibration_row(metric: str, goal: str, rows: Sequence[ProgrammeRow]) -> CalibrationRow:
    """Return the calibration of a metric by the experiments of a goal."""
    points = points_of(rows)
    n = len(points.x)
    is_certain = (abs(points.x) > CERTAIN * points.x_error) & (abs(points.y) > CERTAIN * points.y_error)
    n_decided, agree = int(is_certain.sum()), int((is_certain & (points.x * points.y > 0)).sum())
    is_shipped = points.x > CERTAIN * points.x_error
    counts = CalibrationRow(
        *(metric, goal, NotFitted.TOO_FEW_EXPERIMENTS.value, n, len(rows) - n, n_decided, agree),
        shipped=int(is_shipped.sum()),
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


def sentence(row: Row) -> str:
    """Return a row of ``calibration`` as a sentence.

    >>> sentence(CalibrationRow("ndcg@10", "ctr", "TOO_FEW_EXPERIMENTS", 7, 2, 3, 3)._asdict())
    'ndcg@10 and ctr: 7 experiments are too few to tell, 8 are needed (2 left out)'
    """
    metric, left_out = row["metric"], f" ({row['left_out']:,} left out)" if row["left_out"] else ""
    if row["reason"] == NotFitted.TOO_FEW_EXPERIMENTS:
        count = f"{row['n']:,} experiments are too few to tell, {LEAST_EXPERIMENTS} are needed"
        return f"{metric} and {row['goal']}: {count}{left_out}"
    agreement = f"of {row['n_decided']:,} decided experiments {row['agree']:,} had the sign of {metric}"
    start = f"{metric} and {row['goal']}: {agreement}{left_out}"
    if row["reason"] is not None:
        return f"{start}; noise may explain all differences of one side, so no correlation can be told"
    numbers = [short(row[name], 2) for name in ("rho", "rho_low", "rho_high", "naive_rho")]
    correlation = f"true effects correlate by {numbers[0]} ({numbers[1]} to {numbers[2]})"
    return f"{start}; {correlation}, observed ones by {numbers[3]}"


def text_of(value: float | None) -> str:
    """Return a number with six digits; ``-`` if it is missing."""
    return "-" if value is None else f"{value:.6g}"


def shown_lines(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return a line of SHOWN for each row of ``calibration``."""
    return [
        (
            *(row["metric"], row["goal"], f"{row['n']:,}", f"{row['n_decided']:,}", f"{row['agree']:,}"),
            short(row["rho"], 2),
            "-" if row["rho"] is None else f"{short(row['rho_low'], 2)} to {short(row['rho_high'], 2)}",
            short(row["naive_rho"], 2),
            text_of(row["slope"]),
        )
        for row in rows
    ]


def shipped_lines(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return a line of SHIPPED for each row of ``calibration``."""
    names = ("online_sum", "online_std_error", "online_all", "online_best")
    return [
        (row["metric"], row["goal"], f"{row['shipped']:,}", *(text_of(row[name]) for name in names))
        for row in rows
    ]


def forecast_lines(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return a line of FORECAST for each row of ``forecasts``."""
    names = ("difference", "std_error", "expected", "deviation")
    return [
        (row["metric"], row["goal"], *(text_of(row[name]) for name in names), short(row["p_win"], 2))
        for row in rows
    ]


def forecast_sentence(row: Row) -> str:
    """Return a row of ``forecasts`` as a sentence.

    >>> forecast_sentence(ForecastRow("ndcg@10", "ctr", 0.8, 0.25, None, 0.4477, 0.593, 0.7747)._asdict())
    'ndcg@10 and ctr: a true gain online in about 77 of 100 candidates like this'
    """
    start = f"{row['metric']} and {row['goal']}:"
    if row["reason"] is not None:
        return f"{start} no forecast: {row['reason']}"
    return f"{start} a true gain online in about {100 * row['p_win']:.0f} of 100 candidates like this"
