"""Rows of the tables ``calibration`` and ``forecasts``, forecasts of online effects, and their sentences."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from spark_eval.errors import ConfigError, DataError
from spark_eval.names import summarize_names
from spark_eval.results.leaderboard import measure_of
from spark_eval.results.sentences import in_run, short
from spark_eval.schema import ALL, Direction, Row, ddl_of
from spark_eval.statistics.true_effects import Fit

# Fewer experiments are counted, and nothing is estimated.
LEAST_EXPERIMENTS: Final = 8


# Reason why a difference without a standard error has no forecast.
NO_VALUE: Final = "NO_VALUE"


class NotFitted(StrEnum):
    """Reason why a row of ``calibration`` has counts only."""

    TOO_FEW_EXPERIMENTS = "TOO_FEW_EXPERIMENTS"
    NO_SPREAD = "NO_SPREAD"


class CalibrationRow(NamedTuple):
    """Row of ``calibration``: an offline metric against a goal.

    ``n`` experiments are used, and ``left_out`` are not. ``agree`` of the ``n_decided`` that are certain on
    both sides (95 %) have one sign. ``rho`` is the correlation of the true effects, ``naive_rho`` of the
    observed ones. Means and spreads (standard deviations) are those of the true effects. ``shipped`` are
    certainly better offline: the sum of their online effects is ``online_sum``; ``online_all`` is the sum of
    all, ``online_best`` of those above 0. ``reason`` says why there is no estimate. ``conventions`` are those
    of the metric; empty if unknown.
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
    conventions: str = ""

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
    """Row of ``forecasts``: the online effect to expect behind an offline difference.

    ``difference`` is turned so that more is better. ``expected`` and ``deviation`` are mean and standard
    deviation of the true online effect, ``p_win`` is the probability that it is above 0. ``n_experiments``,
    ``n_decided`` and ``agree`` are of the row of ``calibration``. ``reason`` says why there is no forecast.
    Both models are None of a difference that no comparison has measured.
    """

    candidate: str | None
    baseline: str | None
    baseline_run: str | None
    metric: str
    goal: str
    difference: float | None
    std_error: float | None
    reason: str | None
    n_experiments: int
    n_decided: int
    agree: int
    expected: float | None = None
    deviation: float | None = None
    p_win: float | None = None


CALIBRATION_TABLE: Final = ddl_of(CalibrationRow)
FORECASTS: Final = ddl_of(ForecastRow)
FORECAST: Final = ("candidate", "baseline", "metric", "goal", "difference", "expected", "deviation", "p_win")
SHOWN: Final = ("metric", "goal", "n", "decided", "agree", "rho", "95 %", "naive rho", "slope")
SHIPPED: Final = ("metric", "goal", "shipped", "online", "std_error", "all", "best")


def sentence(row: Row) -> str:
    """Return a row of ``calibration`` as a sentence.

    >>> sentence(CalibrationRow("ndcg@10", "ctr", "TOO_FEW_EXPERIMENTS", 7, 2, 3, 3)._asdict())
    'ndcg@10 and ctr: 7 experiments are too few to tell, 8 are needed (2 left out)'
    """
    metric, left_out = row["metric"], f" ({row['left_out']:,} left out)" if row["left_out"] else ""
    if row["reason"] == NotFitted.TOO_FEW_EXPERIMENTS:
        count = f"{row['n']:,} experiments are too few to tell, {LEAST_EXPERIMENTS} are needed"
        return f"{metric} and {row['goal']}: {count}{left_out}"
    start = f"{metric} and {row['goal']}: {agreement(row, metric)}{left_out}"
    if row["reason"] is not None:
        return f"{start}; noise may explain all differences of one side, so no correlation can be told"
    numbers = [short(row[name], 2) for name in ("rho", "rho_low", "rho_high", "naive_rho")]
    correlation = f"true effects correlate by {numbers[0]} ({numbers[1]} to {numbers[2]})"
    return f"{start}; {correlation}, observed ones by {numbers[3]}"


def forecast_sentence(row: Row) -> str:
    """Return a row of ``forecasts`` as a sentence.

    >>> row = ForecastRow("als", "top", None, "ndcg@10", "ctr", 0.8, 0.25, None, 16, 8, 7)
    >>> row = row._replace(expected=0.448, deviation=0.593, p_win=0.775)
    >>> for part in forecast_sentence(row._asdict()).split("; "):
    ...     print(part)
    ndcg@10 of als against top, 0.8 ± 0.25: ctr is expected to rise by 0.448 ± 0.593
    of 8 decided experiments 7 had the sign of ndcg@10
    a gain like this has won in about 78 %
    """
    metric, goal = row["metric"], row["goal"]
    pair = f" of {row['candidate']} against {in_run(row['baseline'], row['baseline_run'])},"
    if row["reason"] == NO_VALUE:
        return f"{metric}{pair} has no standard error, so {goal} cannot be predicted"
    start = f"{metric}{pair if row['candidate'] else ' of'} {row['difference']:.3g} ± {row['std_error']:.3g}"
    if row["reason"] is not None:
        return f"{start}: {goal} cannot be predicted: {row['reason']}"
    effect = f"{abs(row['expected']):.3g} ± {row['deviation']:.3g}"
    moves = "rise" if row["expected"] >= 0 else "fall"
    moved = "gain" if row["difference"] >= 0 else "loss"
    share = f"a {moved} like this has won in about {100 * row['p_win']:.0f} %"
    return f"{start}: {goal} is expected to {moves} by {effect}; {agreement(row, metric)}; {share}"


def agreement(row: Row, metric: str) -> str:
    """Return the number of decided experiments, and of those with the sign of the metric, in words."""
    return f"of {row['n_decided']:,} decided experiments {row['agree']:,} had the sign of {metric}"


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
    return [
        (
            *(row["candidate"] or "-", in_run(row["baseline"] or "-", row["baseline_run"])),
            *(row["metric"], row["goal"]),
            *(text_of(row[name]) for name in ("difference", "expected", "deviation")),
            short(row["p_win"], 2),
        )
        for row in rows
    ]


def forecast_of(
    row: CalibrationRow,
    difference: float | None,
    std_error: float | None,
    pair: tuple[str | None, str | None, str | None] = (None, None, None),
) -> ForecastRow:
    """Return the forecast for a difference; ``pair`` is candidate, baseline and the baseline's run."""
    is_known = difference is not None and std_error is not None
    reason = row.reason if is_known else NO_VALUE
    counts = (row.n, row.n_decided, row.agree)
    forecast = ForecastRow(*pair, row.metric, row.goal, difference, std_error, reason, *counts)
    if row.fitted is None or difference is None or std_error is None:
        return forecast
    return forecast._replace(**row.fitted.predict(difference, std_error)._asdict())


def forecast_rows(
    compared: Iterable[Row], calibrated: Sequence[CalibrationRow], better: Callable[[str], Direction]
) -> list[ForecastRow]:
    """Return the online effects to expect behind the rows of ``comparisons`` over all users.

    Of several tests, the first one that has a standard error counts. ``better`` returns the direction of a
    metric.

    Raises ConfigError METRIC_NOT_MEASURED if no compared metric was calibrated, DataError MIXED_CONVENTIONS
    if one was calibrated by other conventions.
    """
    of_pairs: dict[tuple[tuple[str, str, str | None], str], Row] = {}
    for row in compared:
        if row["segment"] == ALL:
            key = (row["candidate"], row["baseline"], row["baseline_run"]), measure_of(row)
            if of_pairs.setdefault(key, row)["std_error"] is None:
                of_pairs[key] = row
    forecasts = []
    for (pair, measure), row in of_pairs.items():
        sign = -1 if better(row["metric"]) is Direction.LOWER else 1
        difference = None if row["difference"] is None else sign * row["difference"]
        for one in calibrated:
            if one.metric == measure:
                check_conventions(one, row["conventions"])
                forecasts.append(forecast_of(one, difference, row["std_error"], pair))
    if of_pairs and not forecasts:
        compared_names = summarize_names(sorted({measure for _, measure in of_pairs}))
        known = summarize_names(sorted({one.metric for one in calibrated}))
        message = f"compare.calibration has {known}, and none of what is compared: {compared_names}"
        raise ConfigError("METRIC_NOT_MEASURED", f"{message}; calibrate one of these")
    return forecasts


def check_conventions(row: CalibrationRow, conventions: str) -> None:
    """Raise DataError MIXED_CONVENTIONS if a metric was calibrated by other conventions."""
    if row.conventions != conventions and "" not in (row.conventions, conventions):
        message = f"{row.metric} was calibrated by the conventions {row.conventions}, and is compared by"
        raise DataError("MIXED_CONVENTIONS", f"{message} {conventions}; measure both alike")
