"""Days of predictions merged into a window: exact sums added, standard errors clustered by user."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import ClassVar, Final

from spark_eval.errors import ConfigError, DataError
from spark_eval.monitoring.plan import Errors, Unit, WindowPlan
from spark_eval.monitoring.published import PublishedDay, check_models, check_same_question, map_ranges
from spark_eval.monitoring.window import Window, merge_entries
from spark_eval.monitoring.worker.influences import CellInfluences, influences_of
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.tables import (
    CURVES,
    METRICS,
    NOT_ADDITIVE,
    SUMS,
    CurveRow,
    MeasuredPredictions,
    PredictionRow,
    PredictionSumRow,
)
from spark_eval.predictions.task import Clusters, PredictionPlan
from spark_eval.predictions.worker.clusters import (
    InfluenceSums,
    column_of,
)
from spark_eval.predictions.worker.totals import Cell, Totals
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import SmallFrame
from spark_eval.schema import ALL, FOLD, FOLDS, SEGMENT, SEGMENT_VALUE, USER, Table
from spark_eval.statistics.exact import digits_of_sums
from spark_eval.statistics.slopes import SumKey

# Columns of a published sum.
READ: Final = PredictionSumRow._fields


@dataclass(frozen=True, kw_only=True)
class ScoredDay(PublishedDay):
    """Published predictions of a day."""

    plan: PredictionPlan

    @cached_property
    def sum_rows(self) -> list[PredictionSumRow]:
        """Rows of its table ``sums``."""
        rows = self.open(Table.SUMS).rows()
        return [PredictionSumRow(**{name: row[name] for name in READ}) for row in rows]


@dataclass(frozen=True)
class ScoredWindow(Window):
    """Window of days of predictions; ``curve_rows`` are the points of its calibration curves."""

    curve_rows: Sequence[CurveRow] = ()
    tables: ClassVar[tuple[str, ...]] = (*Window.tables, "curves")

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """Rows of its tables, with their schemas."""
        return super().small_tables | {
            Table.METRICS: (self.metric_rows, METRICS),
            Table.SUMS: (self.sum_rows, SUMS),
            Table.CURVES: (self.curve_rows, CURVES),
        }

    curves = SmallFrame(Table.CURVES, "the points of calibration curves over all days; empty without bins.")


def merge_scored_days(days: Sequence[ScoredDay], plan: WindowPlan) -> ScoredWindow:
    """Merge the predictions of days; the result does not depend on their order.

    Raises:
        ConfigError: INVALID_WINDOW if each user is to count once.
        DataError: MIXED_CONVENTIONS or MISSING_DAYS, as ``window.merge_days``; INCOMPLETE_RUN if sums and
            users of a day differ.
    """
    days = sorted(days, key=lambda day: day.run_id)
    check_same_question(days)
    if plan.unit is Unit.USERS:
        message = "window.unit: users is of lists; rows of predictions have weights of their own"
        raise ConfigError("INVALID_WINDOW", message)
    models = sorted({model for day in days for model in day.models})
    if not plan.allow_missing:
        check_models(days, models)
    of_days = days[0].plan
    mergeable = [name for name in of_days.metrics if not NOT_ADDITIVE & set(PREDICTION_METRICS[name].needs)]
    of_window = replace(of_days, metrics=mergeable, rules=())
    totals = Totals()
    for day in days:
        add_rows(totals, day.sum_rows)
    measured = MeasuredPredictions(of_window, totals, defaultdict(list), Totals())
    has_errors = of_days.intervals is Clusters.USER
    without = [day.run_id for day in days if not day.has_users] if has_errors else []
    n_users: dict[str, int] = {}
    if has_errors and not without:
        by_user = plan.errors is Errors.CLUSTERED
        influences, n_rows = InfluenceSums(), Counter[Cell]()
        for own in chain.from_iterable(users_of(days, model, measured, by_user=by_user) for model in models):
            influences += own.influences
            n_rows[own.cell] += own.n_rows
            if by_user and own.cell[1] == ALL:
                n_users[str(own.cell[0])] = n_users.get(str(own.cell[0]), 0) + own.n_users
        check_users(measured, n_rows)
        measured = replace(measured, influences=influences.totals)
    rows = [row for row in measured.metric_rows if row.segment != FOLDS]
    return ScoredWindow(
        run_id=plan.run_id,
        days={day.run_id: day.fingerprint for day in days},
        metric_rows=rows,
        sum_rows=measured.sum_rows,
        entries=merge_entries([day.entries for day in days], n_users),
        conventions=days[0].conventions,
        models=models,
        absent=absent_names(of_days, rows),
        unclustered=bool(without),
        curve_rows=measured.curve_rows,
    )


def add_rows(totals: Totals, rows: Sequence[PredictionSumRow]) -> None:
    """Add published sums to the totals of their cells; indices of a name are those of its rows, in order."""
    by_name: dict[tuple[Cell, str], list[PredictionSumRow]] = defaultdict(list)
    for row in rows:
        by_name[row.cell, row.key[0]].append(row)
    for (cell, name), own in by_name.items():
        numbers = [row.number for row in sorted(own, key=lambda row: row.key)]
        totals.add_sums(cell, name, digits_of_sums(numbers))


def users_of(
    days: Sequence[ScoredDay], model: str, measured: MeasuredPredictions, *, by_user: bool
) -> Iterator[CellInfluences]:
    """Yield the influences of each cell and range of users of a model; only sums that they need are read."""
    keys = needed_sums(measured, model)
    columns = [USER, SEGMENT, SEGMENT_VALUE, *map(column_of, keys)]
    slopes = {cell: values for cell, values in measured.slopes.items() if cell[0] == model}
    make = partial(influences_of, model=model, columns=columns, keys=keys, slopes=slopes, by_user=by_user)
    return chain.from_iterable(map_ranges(days, model, columns, make))


def needed_sums(measured: MeasuredPredictions, model: str) -> list[SumKey]:
    """Return the sums that the standard errors of a model need, and the number of rows."""
    of_cells = (values for cell, values in measured.slopes.items() if cell[0] == model)
    slopes = chain.from_iterable(chain.from_iterable(of_cells))
    return sorted({("rows", 0), *chain.from_iterable(slopes)})


def check_users(measured: MeasuredPredictions, n_rows: Mapping[Cell, int]) -> None:
    """Raise DataError INCOMPLETE_RUN if the rows of all users of a cell are not those of its sums."""
    for cell, n_of_users in n_rows.items():
        [n_of_cell] = measured.totals.of(cell)["rows"]
        if n_of_users != n_of_cell:
            message = f"rows of {cell[0]!r}: sums and per_user of the days differ"
            raise DataError("INCOMPLETE_RUN", f"{message}; make them again, with --replace")


def absent_names(plan: PredictionPlan, rows: Sequence[PredictionRow]) -> list[str]:
    """Return the metrics of the days that cannot be merged."""
    lacking = [name for name in plan.metrics if NOT_ADDITIVE & set(PREDICTION_METRICS[name].needs)]
    lacking += [f"threshold {rule}" for rule in plan.rules]
    if plan.curves:
        lacking.append("curves other than calibration")
    if any(row.segment == FOLD for row in rows):
        lacking.append("mean and deviation over folds")
    lacking += [f"bootstrap interval of {name}" for name in sorted(plan.bootstrapped - {*lacking})]
    if plan.intervals is Clusters.ROW:
        lacking.append("standard errors by row")
    return lacking
