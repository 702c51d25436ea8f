"""Days merged into a window: exact sums added, standard errors clustered by user."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import ClassVar, Final

from spark_eval.accounting import ACCOUNTING, USERS, Entry, check_closed
from spark_eval.conventions.presets import request_rules
from spark_eval.errors import DataError
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.summary import (
    METRICS,
    SUMS,
    MetricRow,
    SumRow,
    everybody_first,
    mean_of,
    merge_sum_rows,
    metric_rows,
)
from spark_eval.kernels.means import WeightedMean, means_of_users
from spark_eval.kernels.values import UNCUT
from spark_eval.monitoring.plan import Errors, Unit, WindowPlan
from spark_eval.monitoring.published import (
    Day,
    check_models,
    check_same_question,
    item_segments_of,
    map_ranges,
    segments_of,
)
from spark_eval.monitoring.requests import check_requests, check_same_lists, is_of_users, request_sums
from spark_eval.monitoring.sums import refuse_repeats
from spark_eval.monitoring.worker.user_sums import Cell, MeanColumns, UserSums, item_sums, user_sums
from spark_eval.names import summarize_names
from spark_eval.predictions.tables import PredictionRow, PredictionSumRow
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import Exported, SmallFrame
from spark_eval.schema import ALL, SEGMENT, SEGMENT_VALUE, USER, Outcome, Table
from spark_eval.statistics.intervals import normal_interval, summarise

# Sums over the users of a model, by mean and cell.
OfModel = Mapping[MeanColumns, Mapping[Cell, UserSums]]
# Reasons with a number; a window has the largest.
LARGEST: Final = "rows="


@dataclass(frozen=True)
class Window(Exported):
    """Window of days: rows of its tables, and what could not be merged.

    ``absent`` names the metrics that cannot be merged; ``unclustered`` is true if standard errors are null
    because ``per_user`` of a day was removed.

    Examples:
        ``daily`` is an output path with two published days:

        >>> from spark_eval import window
        >>> window(daily, first="2024-03-01", last="2024-03-02").models
        ['als']
    """

    run_id: str
    days: Mapping[str, str]
    metric_rows: Sequence[MetricRow | PredictionRow]
    sum_rows: Sequence[SumRow | PredictionSumRow]
    entries: Sequence[Entry]
    conventions: str
    models: Sequence[str]
    absent: Sequence[str]
    unclustered: bool
    tables: ClassVar[tuple[str, ...]] = ("metrics", "sums", "accounting")

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """Rows of its tables, with their schemas."""
        return {
            Table.METRICS: (self.metric_rows, METRICS),
            Table.SUMS: (self.sum_rows, SUMS),
            Table.ACCOUNTING: (self.entries, ACCOUNTING),
        }

    metrics = SmallFrame(Table.METRICS, "a mean per model, metric and k over all days.")
    sums = SmallFrame(Table.SUMS, "exact sums per model, metric and k over all days.")
    accounting = SmallFrame(Table.ACCOUNTING, "what became of every row of all days.")


def merge_days(days: Sequence[Day], plan: WindowPlan) -> Window:
    """Merge the evaluations of days; the result does not depend on their order.

    Raises:
        DataError: MIXED_CONVENTIONS if conventions, config or code of the days differ; MISSING_DAYS if a
            model has not all days, unless the plan allows it; NO_PER_USER if each user is to count once
            and ``per_user`` was removed; NOT_BY_REQUEST for options that lists by request do not have;
            NOT_BY_REPEAT for models with repeats.
    """
    days = sorted(days, key=lambda day: day.run_id)
    check_same_question(days)
    check_requests(days[0], plan)
    models = sorted({model for day in days for model in day.models})
    if not plan.allow_missing:
        check_models(days, models)
    for day in days:
        refuse_repeats(day.sum_rows, day.run_id)
    merged = in_order(chain.from_iterable(day.sum_rows for day in days), days[0].plan)
    without = [day.run_id for day in days if not day.has_users]
    if without and (plan.unit is Unit.USERS or is_of_users(days[0])):
        message = f"per_user of {summarize_names(without)} was removed; means where users count once need it"
        raise DataError("NO_PER_USER", message)
    merge = merge_lists if request_rules(days[0].conventions) else merge_users
    merged, rows, n_users = merge(days, [] if without else models, merged, plan)
    return Window(
        run_id=plan.run_id,
        days={day.run_id: day.fingerprint for day in days},
        metric_rows=rows,
        sum_rows=merged,
        entries=merge_entries([day.entries for day in days], n_users),
        conventions=days[0].conventions,
        models=models,
        absent=absent_names(days, rows),
        unclustered=bool(without) and plan.errors is Errors.CLUSTERED,
    )


# Rows of the tables ``sums`` and ``metrics``, and the number of distinct users of each model.
Merged = tuple[list[SumRow], list[MetricRow], Mapping[str, int]]


def merge_users(days: Sequence[Day], models: Sequence[str], merged: list[SumRow], plan: WindowPlan) -> Merged:
    """Return the rows of users with one list a day; ``models`` are those whose ``per_user`` is read.

    ``merged`` are the sums of the days, added.
    """
    of_models = {model: users_of(days, model, plan.unit) for model in models}
    n_users = distinct_users(of_models)
    if plan.unit is Unit.USERS:
        return *rows_of_users(merged, of_models, days[0].plan), n_users
    return merged, rows_of_days(merged, of_models, days[0].plan, plan.errors), n_users


def merge_lists(days: Sequence[Day], models: Sequence[str], merged: list[SumRow], plan: WindowPlan) -> Merged:
    """Return the rows of users with a list per request; see ``merge_users``."""
    of_models = {model: request_sums(days, model) for model in models}
    n_users = {model: number for model, (_, number) in of_models.items()}
    if of_models:
        one_job = in_order(chain.from_iterable(rows for rows, _ in of_models.values()), days[0].plan)
        check_same_lists(merged, one_job)
        if plan.errors is Errors.CLUSTERED:
            return one_job, metric_rows(one_job), n_users
    return merged, rows_of_days(merged, {}, days[0].plan, plan.errors), n_users


def in_order(rows: Iterable[SumRow], plan: Plan) -> list[SumRow]:
    """Add rows of equal keys; sort by model and segment, all users first, then as metrics are requested."""
    names = [(name, value.k) for value in plan.metrics for name in (value.name, *value.weights)]
    index = {name: number for number, name in enumerate(names)}
    return sorted(
        merge_sum_rows(rows),
        key=lambda row: (*everybody_first(row.key[:1] + row.key[3:5]), index[row.metric, row.k]),
    )


def mean_columns(plan: Plan) -> dict[tuple[str, int | None], MeanColumns]:
    """Return the columns of ``per_user`` of each mean, by its name and k in ``metrics``."""
    return {
        (mean.name, mean.k): MeanColumns(mean.column, mean.weight if isinstance(mean, WeightedMean) else None)
        for mean in means_of_users(plan.metrics)
    }


def users_of(days: Sequence[Day], model: str, unit: Unit) -> OfModel:
    """Return the sums over the users of a model: the files of all days are read a range of users at once."""
    means, segments = list(mean_columns(days[0].plan).values()), segments_of(days)
    columns = [USER, *segments, *dict.fromkeys(name for mean in means for name in mean if name is not None)]
    sums: dict[MeanColumns, dict[Cell, UserSums]] = {}
    make = partial(user_sums, segments=segments, means=means, of_users=unit is Unit.USERS)
    parts = map_ranges(days, model, columns, make)
    if item_segments := item_segments_of(days):
        plan = replace(days[0].plan, requested=days[0].plan.item_metrics)
        means = list(mean_columns(plan).values())
        values = dict.fromkeys(name for mean in means for name in mean if name is not None)
        item_parts = partial(item_sums, segments=item_segments, means=means, of_users=unit is Unit.USERS)
        columns = [USER, SEGMENT, SEGMENT_VALUE, *values]
        parts = chain(parts, map_ranges(days, model, columns, item_parts, Table.ITEM_SEGMENTS))
    for part in parts:
        for mean, cells in part.items():
            known = sums.setdefault(mean, {})
            for cell, more in cells.items():
                known[cell] = known.get(cell, UserSums()) + more
    return sums


def rows_of_days(
    merged: Iterable[SumRow], of_models: Mapping[str, OfModel], plan: Plan, errors: Errors
) -> list[MetricRow]:
    """Return the means of user-days, with standard errors clustered by user, or as if independent."""
    columns, rows = mean_columns(plan), []
    for row in merged:
        summary = mean_of(row)
        if errors is Errors.CLUSTERED:
            error = None
            if of_models:
                of_users = of_models[row.model][columns[row.metric, row.k]]
                sums = of_users.get((row.segment, row.segment_value), UserSums())
                if sums.total != row.sums[0]:
                    message = f"{row.metric} of {row.model!r}: sums and per_user of the days differ"
                    raise DataError("INCOMPLETE_RUN", f"{message}; make them again, with --replace")
                error = sums.ratio.std_error
            summary = normal_interval(exact_mean(row), error, row.n_defined)
        rows.append(MetricRow.of_summary(row, summary))
    return rows


def rows_of_users(
    merged: Iterable[SumRow], of_models: Mapping[str, OfModel], plan: Plan
) -> tuple[list[SumRow], list[MetricRow]]:
    """Return sums and means where each user counts once; weighted means have none."""
    columns, sums, rows = mean_columns(plan), list[SumRow](), list[MetricRow]()
    for row in merged:
        of_users = of_models[row.model].get(columns[row.metric, row.k])
        if of_users is not None:
            of_cell = of_users.get((row.segment, row.segment_value), UserSums())
            exact = (of_cell.total, of_cell.squares, None, None, None)
            sums.append(SumRow.of(row.key, of_cell.n_users, of_cell.n, exact))
            rows.append(MetricRow.of_summary(sums[-1], summarise(of_cell.total, of_cell.squares, of_cell.n)))
    return sums, rows


def exact_mean(sums: SumRow) -> Fraction | None:
    """Return the mean of exact sums; None without users."""
    total, weight = sums.sums[0] or Fraction(), sums.n_defined if sums.weight is None else sums.sums[2]
    return total / weight if weight else None


def distinct_users(of_models: Mapping[str, OfModel]) -> dict[str, int]:
    """Return the number of distinct users of each model."""
    return {
        model: next((cells[ALL, ALL].n_users for cells in means.values() if (ALL, ALL) in cells), 0)
        for model, means in of_models.items()
    }


def merge_entries(of_days: Iterable[Sequence[Entry]], n_users: Mapping[str, int]) -> list[Entry]:
    """Add up the accounting of days; ``n_users`` are the distinct users of each model.

    ``users`` of other lines are user-days. The longest list of a window is that of its days.
    """
    lines: dict[tuple[str, str | None, str, str | None], Entry] = {}
    for entry in chain.from_iterable(of_days):
        is_largest = entry.outcome == Outcome.LARGEST
        key = (entry.source, entry.model, entry.outcome, None if is_largest else entry.reason)
        other = lines.get(key)
        if other is None:
            lines[key] = entry
        elif is_largest:
            lines[key] = max(other, entry, key=lambda one: int(str(one.reason).removeprefix(LARGEST)))
        else:
            users = None if None in (other.users, entry.users) else (other.users or 0) + (entry.users or 0)
            lines[key] = entry._replace(rows=entry.rows + other.rows, users=users)
    entries = list(lines.values())
    entries += [Entry(USERS, model, Outcome.DISTINCT, None, 0, number) for model, number in n_users.items()]
    check_closed(entries)
    return entries


def absent_names(days: Sequence[Day], rows: Sequence[MetricRow]) -> list[str]:
    """Return the metrics of the days that cannot be merged, such as ``catalog_coverage@10``."""
    there = {(row.metric, row.k) for row in rows}
    names = dict.fromkeys(chain.from_iterable(day.metric_names for day in days))
    folds = ["mean and deviation over folds"] if any(is_of_folds for *_, is_of_folds in names) else []
    weighted = ((row.metric, row.k) for day in days for row in day.sum_rows)
    alone = [(metric, k) for metric, k, is_of_folds in names if not is_of_folds]
    lacking = [name for name in dict.fromkeys([*alone, *weighted]) if name not in there]
    return [f"{metric}@{UNCUT if k is None else k}" for metric, k in lacking] + folds
