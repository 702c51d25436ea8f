"""Days of predictions merged into a window: exact sums added, standard errors clustered by user."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_eval.arrow.codes import to_numpy
from spark_eval.arrow.files import named_read_errors
from spark_eval.arrow.user_files import check_no_nan
from spark_eval.days.plan import Errors, Unit, WindowPlan
from spark_eval.days.published import PublishedDay, check_models, check_same_question
from spark_eval.days.window import Window, merge_entries
from spark_eval.errors import ConfigError, DataError
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
    UserSums,
    column_of,
    influence_sums,
)
from spark_eval.predictions.worker.totals import Cell, Totals
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import SmallFrame
from spark_eval.schema import ALL, FOLD, FOLDS, MODEL, SEGMENT, USER, Table
from spark_eval.statistics.exact import digits_of_sums, sums_by_group
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
        sums = [users_of(days, model, measured, by_user=by_user) for model in models]
        influences = InfluenceSums()
        for own in sums:
            check_users(measured, own)
            influences.merge(influence_sums(own, measured.slopes))
        measured = replace(measured, influences=influences.totals)
        n_users = {str(own.cell[0]): len(own) for own in sums} if by_user else {}
    rows = [row for row in measured.metric_rows if row.segment != FOLDS]
    return ScoredWindow(
        run_id=plan.run_id,
        days={day.run_id: day.fingerprint for day in days},
        metric_rows=rows,
        sum_rows=measured.sum_rows,
        entries=merge_entries([day.entries for day in days], n_users),
        conventions=days[0].conventions,
        models=models,
        absent=absent_names(of_days, rows, has_errors=has_errors and not without),
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
) -> UserSums:
    """Return the sums of each user of a model over all days, or of each user of each day.

    They are exact sums of the users' sums, rounded once; only those that a standard error needs are read.
    """
    cell: Cell = (model, ALL, ALL)
    keys = needed_sums(measured, cell)
    columns = [USER, *map(column_of, keys)]
    tables = [read_users(day, model, columns) for day in days if model in day.models]
    kinds = {str(table.schema.field(USER).type) for table in tables}
    if len(kinds) > 1:
        message = f"users are of types {' and '.join(sorted(kinds))}; write them with one type on all days"
        raise DataError("MIXED_CONVENTIONS", message)
    rows = pa.concat_tables(tables, promote_options="permissive")
    users = rows[USER].combine_chunks()
    values = {key: to_numpy(rows[column_of(key)].combine_chunks()) for key in keys}
    if not by_user:
        return UserSums(cell, users, values)
    encoded = pc.dictionary_encode(users)
    groups, n_users = to_numpy(encoded.indices).astype("int64"), len(encoded.dictionary)
    sums = {key: sums_by_group(own, groups, n_users) for key, own in values.items()}
    return UserSums(cell, encoded.dictionary, sums)


def needed_sums(measured: MeasuredPredictions, cell: Cell) -> list[SumKey]:
    """Return the sums that the standard errors of a cell need, and the number of rows."""
    slopes = chain.from_iterable(measured.slopes.get(cell, ()))
    return sorted({("rows", 0), *chain.from_iterable(slopes)})


def read_users(day: ScoredDay, model: str, columns: Sequence[str]) -> pa.Table:
    """Return columns of the sums of users of a model on a day, over all their rows."""
    table = day.open(Table.PER_USER)
    with named_read_errors(table.path):
        published, is_wanted = table.dataset(), ds.field(MODEL) == model
        if SEGMENT in published.schema.names:
            is_wanted &= ds.field(SEGMENT) == ALL
        rows = published.to_table(columns=list(columns), filter=is_wanted)
    check_no_nan(rows, table.path)
    return rows


def check_users(measured: MeasuredPredictions, users: UserSums) -> None:
    """Raise DataError INCOMPLETE_RUN if the rows of all users are not those of the model's sums."""
    [n_rows] = measured.totals.of(users.cell)["rows"]
    if int(users.sums["rows", 0].sum()) != n_rows:
        message = f"rows of {users.cell[0]!r}: sums and per_user of the days differ"
        raise DataError("INCOMPLETE_RUN", f"{message}; make them again, with --replace")


def absent_names(plan: PredictionPlan, rows: Sequence[PredictionRow], *, has_errors: bool) -> list[str]:
    """Return the names of what the days have and the window lacks."""
    lacking = [name for name in plan.metrics if NOT_ADDITIVE & set(PREDICTION_METRICS[name].needs)]
    lacking += [f"threshold {rule}" for rule in plan.rules]
    if plan.curves:
        lacking.append("curves other than calibration")
    if any(row.segment == FOLD for row in rows):
        lacking.append("mean and deviation over folds")
    lacking += [f"bootstrap interval of {name}" for name in sorted(plan.bootstrapped - {*lacking})]
    if plan.intervals is Clusters.ROW:
        lacking.append("standard errors by row")
    elif has_errors and any(row.segment != ALL for row in rows):
        lacking.append("standard errors of segments")
    return lacking
