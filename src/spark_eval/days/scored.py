"""Days of predictions merged into a window: exact sums added, standard errors clustered by user."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_eval.arrow.codes import to_numpy, unique_sorted
from spark_eval.arrow.files import named_read_errors
from spark_eval.arrow.messages import partition_rows
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
from spark_eval.schema import ALL, FOLD, FOLDS, MODEL, SEGMENT, SEGMENT_VALUE, USER, Table
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
        influences = InfluenceSums()
        for own in chain.from_iterable(users_of(days, model, measured, by_user=by_user) for model in models):
            check_users(measured, own)
            influences.merge(influence_sums(own, measured.slopes))
            if by_user and own.cell[1] == ALL:
                n_users[str(own.cell[0])] = len(own)
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
) -> Iterator[UserSums]:
    """Yield for each cell of a model the sums of each user over all days, or of each user of each day.

    They are exact sums of the users' sums, rounded once; only those that a standard error needs are read.
    """
    keys = needed_sums(measured, model)
    columns = [USER, *map(column_of, keys)]
    tables = [read_users(day, model, columns) for day in days if model in day.models]
    kinds = {str(table.schema.field(USER).type) for table in tables}
    if len(kinds) > 1:
        message = f"users are of types {' and '.join(sorted(kinds))}; write them with one type on all days"
        raise DataError("MIXED_CONVENTIONS", message)
    for cell, rows in by_cell(model, pa.concat_tables(tables, promote_options="permissive")):
        values = {key: to_numpy(rows[column_of(key)]) for key in keys}
        if not by_user:
            yield UserSums(cell, rows[USER], values)
            continue
        encoded = pc.dictionary_encode(rows[USER])
        groups, n_users = to_numpy(encoded.indices).astype("int64"), len(encoded.dictionary)
        sums = {key: sums_by_group(own, groups, n_users) for key, own in values.items()}
        yield UserSums(cell, encoded.dictionary, sums)


def needed_sums(measured: MeasuredPredictions, model: str) -> list[SumKey]:
    """Return the sums that the standard errors of a model need, and the number of rows."""
    of_cells = (values for cell, values in measured.slopes.items() if cell[0] == model)
    slopes = chain.from_iterable(chain.from_iterable(of_cells))
    return sorted({("rows", 0), *chain.from_iterable(slopes)})


def by_cell(model: str, rows: pa.Table) -> Iterator[tuple[Cell, pa.RecordBatch]]:
    """Yield the rows of each value of each segment; without segments all rows are one cell."""
    if SEGMENT not in rows.column_names:
        yield (model, ALL, ALL), rows.combine_chunks().to_batches()[0]
        return
    segments, values = (rows[name].combine_chunks().dictionary_encode() for name in (SEGMENT, SEGMENT_VALUE))
    pairs = to_numpy(segments.indices).astype("int64") * len(values.dictionary) + to_numpy(values.indices)
    found, groups = unique_sorted(pairs)
    names, texts = segments.dictionary.to_pylist(), values.dictionary.to_pylist()
    for pair, part in zip(found.tolist(), partition_rows(rows, groups, len(found)), strict=True):
        yield (model, names[pair // len(texts)], texts[pair % len(texts)]), part


def read_users(day: ScoredDay, model: str, columns: Sequence[str]) -> pa.Table:
    """Return columns of the sums of users of a model on a day, with segments if the day has them."""
    table = day.open(Table.PER_USER)
    with named_read_errors(table.path):
        published = table.dataset()
        of_segments = [name for name in (SEGMENT, SEGMENT_VALUE) if name in published.schema.names]
        rows = published.to_table(columns=[*columns, *of_segments], filter=ds.field(MODEL) == model)
    check_no_nan(rows, table.path)
    return rows


def check_users(measured: MeasuredPredictions, users: UserSums) -> None:
    """Raise DataError INCOMPLETE_RUN if the rows of all users of a cell are not those of its sums."""
    [n_rows] = measured.totals.of(users.cell)["rows"]
    if int(users.sums["rows", 0].sum()) != n_rows:
        message = f"rows of {users.cell[0]!r}: sums and per_user of the days differ"
        raise DataError("INCOMPLETE_RUN", f"{message}; make them again, with --replace")


def absent_names(plan: PredictionPlan, rows: Sequence[PredictionRow]) -> list[str]:
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
    return lacking
