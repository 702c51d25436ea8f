"""Calibration of offline metrics: how well their differences have predicted those of experiments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Unpack

from spark_eval.calibration.effects import (
    EXPERIMENT,
    GOAL,
    METRIC,
    MOST,
    Effects,
    covariances_of,
    effects_of,
    programme_rows,
    rows_of,
    stamps_of,
)
from spark_eval.calibration.plan import CalibrateOptions, CalibratePlan, known_name, make_calibrate_plan
from spark_eval.calibration.rows import PROGRAMME_TABLE, ProgrammeRow, calibration_row
from spark_eval.comparison.compare import Comparison
from spark_eval.errors import ConfigError
from spark_eval.experiments.evaluate import Experiments
from spark_eval.options import check_kind, checked_call, documented, number_in_range
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import SmallFrame
from spark_eval.results.forecasts import (
    CALIBRATION_TABLE,
    SHIPPED,
    SHOWN,
    CalibrationRow,
    sentence,
    shipped_lines,
    shown_lines,
)
from spark_eval.results.shown import TextTable, Writable
from spark_eval.runtime import events
from spark_eval.schema import ALL, Direction, Row, Table
from spark_eval.statistics.true_effects import Forecast
from spark_eval.tables.arrow_frames import Frame

NUMBERS: Final = ("difference", "std_error")
AT_MOST: Final = number_in_range(f"0 to {MOST:g}", lambda given: 0 <= given <= MOST)


@dataclass(frozen=True, repr=False)
class Calibration(Writable):
    """Result of ``calibrate``: a row per offline metric and goal, and the experiments that it rests on.

    Examples:
        ``calibration`` is the result of the example of ``calibrate``:

        >>> calibration.to_pandas()[["metric", "goal", "n", "n_decided", "agree"]]
            metric goal   n  n_decided  agree
        0  ndcg@10  ctr  16          8      7
    """

    rows: Sequence[CalibrationRow]
    programme_rows: Sequence[ProgrammeRow]
    verb: ClassVar[str] = "calibrate"
    tables: ClassVar[tuple[str, ...]] = ("calibration", "programme")
    offers: ClassVar[tuple[str, ...]] = ("predict", "table")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - {"models"})

    def __repr__(self) -> str:
        return "\n".join(sentence(row._asdict()) for row in self.rows)

    def shown(self) -> list[TextTable]:
        """Return the correlations with a sentence for each, and what shipping by the metric has brought."""
        rows = [row._asdict() for row in self.rows]
        return [
            TextTable("Calibration", SHOWN, shown_lines(rows), list(map(sentence, rows))),
            TextTable("Shipped if certainly better offline", SHIPPED, shipped_lines(rows)),
        ]

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """Rows of its tables, with their schemas."""
        return {
            Table.CALIBRATION: (self.rows, CALIBRATION_TABLE),
            Table.PROGRAMME: (self.programme_rows, PROGRAMME_TABLE),
        }

    calibration = SmallFrame(Table.CALIBRATION, "a row per offline metric and goal.")
    programme = SmallFrame(Table.PROGRAMME, "a row per experiment, offline metric and goal.")

    def predict(
        self, difference: float, std_error: float, metric: str | None = None, goal: str | None = None
    ) -> Forecast:
        """Return the true online effect to expect behind an offline difference of a new candidate.

        The fitted values count as known: their own uncertainty is left out.

        Args:
            difference: The offline difference, turned so that more is better.
            std_error: Its standard error; 0 for a difference without noise.
            metric: The offline metric; it may be left out if there is one.
            goal: The goal; it may be left out if there is one.

        Returns:
            ``expected``, the mean of the true online effect; ``deviation``, its standard deviation; and
            ``p_win``, the probability that it is above 0.

        Raises:
            ConfigError: METRIC_NOT_MEASURED if the metric or the goal is unknown, or left out where there
                are several; NOT_CALIBRATED if nothing was estimated; OUT_OF_RANGE.

        Examples:
            With the ``calibration`` of the example of ``calibrate``:

            >>> forecast = calibration.predict(0.8, 0.25)
            >>> round(forecast.expected, 6), round(forecast.p_win, 6)
            (0.447716, 0.774728)
        """
        for name, given in (("difference", difference), ("std_error", std_error)):
            check_kind(float, given, f"predict.{name}")
        AT_MOST(abs(difference), "predict.difference")
        AT_MOST(std_error, "predict.std_error")
        row = row_of(self.rows, metric, goal)
        if row.fitted is None:
            message = f"{row.metric} and {row.goal} have no estimate: {row.reason}"
            raise ConfigError("NOT_CALIBRATED", message)
        return row.fitted.predict(difference, std_error)


def row_of(rows: Iterable[CalibrationRow], metric: str | None, goal: str | None) -> CalibrationRow:
    """Return the row of a metric and a goal; raise ConfigError METRIC_NOT_MEASURED unless there is one."""
    name = None if metric is None else known_name(metric)
    known = {f"{row.metric} and {row.goal}": row for row in rows}
    matching = [row for row in known.values() if name in (None, row.metric) and goal in (None, row.goal)]
    if len(matching) != 1:
        pair = f"{metric} and {goal}"
        raise ConfigError.unknown("METRIC_NOT_MEASURED", "pair", pair, known, "predict")
    return matching[0]


def calibrate_rows(
    offline: Sequence[Row],
    online: Effects,
    plan: CalibratePlan,
    covariances: Mapping[Any, float],
) -> Calibration:
    """Return the calibration of rows of the offline side by online effects; see ``calibrate``."""
    stamps = stamps_of(offline, plan)
    effects = effects_of("offline", offline, METRIC, plan.sign_of)
    rows = programme_rows(effects, online, plan, covariances)
    pairs: dict[tuple[str, str], list[ProgrammeRow]] = {}
    for row in rows:
        pairs.setdefault((row.metric, row.goal), []).append(row)
    calibrated = [calibration_row(*pair, of_pair, stamps.get(pair[0], "")) for pair, of_pair in pairs.items()]
    return Calibration(calibrated, rows)


def comparison_rows(comparison: Comparison, experiment: str | None = None) -> list[Row]:
    """Return rows of a comparison, as those of an experiment; by default the candidate names it."""
    rows = [row._asdict() for row in comparison.rows]
    first = next((row["test"] for row in rows if row["std_error"] is not None), None)
    return [
        {name: row[name] for name in ("metric", "k", "segment", "conventions", *NUMBERS)}
        | {EXPERIMENT: experiment or row["candidate"]}
        for row in rows
        if row["test"] == first and row["segment"] == ALL
    ]


def offline_rows(given: Any) -> list[Row]:
    """Return the rows of the offline side, from results of ``compare`` or a table."""
    if isinstance(given, Comparison):
        return comparison_rows(given)
    if isinstance(given, Mapping):
        return [row for name, one in given.items() for row in comparison_rows(one, name)]
    return rows_of("offline", given, (EXPERIMENT, METRIC, *NUMBERS))


def online_rows(given: Any) -> list[Row]:
    """Return the rows of the online side, from results of ``evaluate_experiments`` or a table."""
    if isinstance(given, Experiments):
        given = [given]
    if isinstance(given, Sequence) and not isinstance(given, str):
        rows = [row._asdict() for one in given for row in one.experiment_rows]
        return [row | {GOAL: row[METRIC]} for row in rows if row["segment"] == ALL]
    return rows_of("online", given, (EXPERIMENT, GOAL, *NUMBERS))


def lower_of(given: Any) -> set[str]:
    """Return the metrics of experiments whose lower values are better."""
    several = given if isinstance(given, Sequence) else [given]
    results = [one for one in several if isinstance(one, Experiments)]
    return {
        metric.name for one in results for metric in one.plan.metrics if metric.direction is Direction.LOWER
    }


@events.timed_call("calibrate")
@documented(CalibrateOptions)
@checked_call
def calibrate(
    offline: Comparison | Mapping[str, Comparison] | Frame,
    online: Experiments | Sequence[Experiments] | Frame,
    *,
    covariance: Frame | None = None,
    **options: Unpack[CalibrateOptions],
) -> Calibration:
    """Tell which offline metric has predicted the effects of experiments, and what a gain of it is worth.

    Offline and online effects are noisy. Their true values are taken as a bivariate normal distribution,
    whose correlation is estimated with the noise taken off; its interval is by profile likelihood.

    Args:
        offline: A row per past experiment and metric: ``experiment``, ``metric`` (``ndcg@10``, or ``ndcg``
            with a column ``k``), ``difference`` between the two models that were tested, and its
            ``std_error``; ``treatment`` if an experiment has several; optionally ``conventions``. A pandas,
            polars or Spark frame, an Arrow table or the path of Parquet files. Or results of ``compare`` by
            the name of their experiment; of a single result each candidate names its experiment.
        online: A row per past experiment and goal: ``experiment``, ``goal``, ``difference``, ``std_error``,
            and ``treatment`` as above. Or one or several results of ``evaluate_experiments``. Experiments
            that are not trusted are left out.
        covariance: Of offline values that were computed on the experiment's own users, the covariance of
            both errors: ``experiment``, ``metric``, ``goal``, ``covariance``. By default 0.

    Returns:
        A ``Calibration``: ``calibration``, ``programme``, ``predict(difference, std_error)``; ``summary()``,
        ``plot()``, ``write()``.

    Raises:
        ConfigError: NOT_A_FRAME; METRIC_NOT_MEASURED for a metric or a goal that no experiment has.
        DataError: MISSING_COLUMN, UNSUPPORTED_TYPE, NULL_ID, DUPLICATE_EXPERIMENT, VALUE_NOT_FINITE,
            INVALID_STD_ERROR, INVALID_COVARIANCE, MIXED_CONVENTIONS if a metric was measured by several, or
            NOTHING_IN_COMMON if no experiment has both sides.

    Examples:
        Sixteen experiments:

        >>> import pandas as pd
        >>> from spark_eval import calibrate
        >>> x = [1.2, 0.4, -0.3, 2.0, 0.7, 1.5, -0.6, 0.1, 0.9, 1.8, 0.3, 1.1, -0.9, 0.6, 1.4, -0.2]
        >>> x_error = [0.2, 0.2, 0.3, 0.3, 0.2, 0.3, 0.2, 0.2, 0.3, 0.3, 0.2, 0.3, 0.2, 0.3, 0.2, 0.2]
        >>> y = [0.9, -0.6, 0.4, 1.9, -0.4, 1.5, -0.8, 0.8, -0.2, 1.0, 0.9, 0.1, -1.3, 1.2, 0.3, -0.7]
        >>> y_error = [0.3, 0.2, 0.3, 0.4, 0.3, 0.2, 0.3, 0.2, 0.3, 0.4, 0.2, 0.3, 0.3, 0.4, 0.3, 0.2]
        >>> names = [f"e{number}" for number in range(16)]
        >>> past = pd.DataFrame({"experiment": names, "metric": "ndcg@10", "difference": x})
        >>> live = pd.DataFrame({"experiment": names, "goal": "ctr", "difference": y})
        >>> calibration = calibrate(past.assign(std_error=x_error), live.assign(std_error=y_error))
        >>> for sentence in str(calibration).split("; "):
        ...     print(sentence)
        ndcg@10 and ctr: of 8 decided experiments 7 had the sign of ndcg@10
        true effects correlate by .77 (.38 to .93), observed ones by .71
    """
    plan = make_calibrate_plan(**options)
    lower = {*plan.lower, *lower_of(online)}

    def goal_sign(goal: str) -> int:
        return -1 if goal in lower else 1

    return calibrate_rows(
        offline_rows(offline),
        effects_of("online", online_rows(online), GOAL, goal_sign),
        plan,
        covariances_of(covariance, plan, goal_sign),
    )
