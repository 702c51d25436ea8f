"""Series of published values: a row per run, model, metric and segment, with its changes."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, cached_property, reduce
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import row_codes, to_numpy
from spark_eval.errors import ConfigError
from spark_eval.evaluation.summary import METRICS
from spark_eval.kernels.values import cutoff_of, has_cutoff, published_name, split_metric_text
from spark_eval.monitoring.page import history_page
from spark_eval.monitoring.plan import HistoryPlan
from spark_eval.monitoring.rows import HISTORY, HistoryRow, Line
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.results.driver_tables import SmallRows, arrow_schema
from spark_eval.results.exported import Exported, SmallFrame
from spark_eval.results.leaderboard import measure_of
from spark_eval.runtime.local_files import check_file, write_file
from spark_eval.schema import ALL, Row
from spark_eval.statistics.differences import Estimate
from spark_eval.statistics.exact import Floats, Ints
from spark_eval.statistics.intervals import normal_interval

WEEK: Final = timedelta(days=7)
METRICS_KEY: Final = "history.metrics"
# Normal quantile of an interval of 95 %.
Z95: Final = NormalDist().inv_cdf(0.975)
# Columns of ``metrics`` that a history reads: those of a line, and its values.
OF_LINE: Final = ("model", "metric", "k", "segment", "segment_value")
READ: Final = (*OF_LINE, "value", "std_error", "ci_low", "ci_high", "n_users", "conventions")
COLUMNS: Final = pa.schema([arrow_schema(METRICS).field(name) for name in READ])
RUN_ID: Final = pa.field("run_id", pa.string())


class Mark(NamedTuple):
    """A gate that failed, or an alarm: its model, metric and k, and for an alarm what moved."""

    model: str
    metric: str
    k: int | None
    alarm: str | None


@dataclass(frozen=True)
class PastRun:
    """A published run of a day: its rows of ``metrics``, the rules of its values, and its marks.

    ``rules`` maps the name of each rule to its value; a change of any of them is a break.
    """

    run_id: str
    metrics: pa.Table
    rules: Row
    marks: Sequence[Mark] = ()

    @property
    def day(self) -> date:
        """The day of the run."""
        return date.fromisoformat(self.run_id)


# Returns the difference of a line between two runs, the earlier one first, from users of both.
PairedDifference = Callable[[str, str, Line], Estimate | None]


@dataclass(frozen=True)
class History(Exported):
    """Values of published runs over time.

    ``rows`` are sorted by line, then by day. ``runs`` are the ids of all runs that were read, and ``damaged``
    maps those that could not be read to the reason.

    Examples:
        ``daily`` is an output path with two published days:

        >>> from spark_eval import history
        >>> history(daily, metrics=["map@2"]).runs
        ['2024-03-01', '2024-03-02']
    """

    rows: Sequence[HistoryRow]
    runs: Sequence[str]
    damaged: Mapping[str, str]
    tables: ClassVar[tuple[str, ...]] = ("history",)

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """The rows of its table."""
        return {"history": (self.rows, HISTORY)}

    history = SmallFrame("history", "a row per run, model, metric and segment.")

    def write(self, path: str | Path) -> None:
        """Write the page: one self-contained HTML file with a chart for each metric and segment.

        Args:
            path: Path of the file.

        Raises:
            ConfigError: INVALID_PATH if no file can be written there.

        Examples:
            ``daily`` is an output path with two published days, ``folder`` another path:

            >>> from spark_eval import history
            >>> history(daily, metrics=["map@2"]).write(f"{folder}/history.html")
        """
        check_file(Path(path))
        write_file(Path(path), self.page)

    @cached_property
    def page(self) -> str:
        """The page as text."""
        # Imported here: pages need Jinja2, which may be missing on executors.
        return history_page(self.rows, self.runs, self.damaged)


def make_history(
    runs: Iterable[PastRun],
    plan: HistoryPlan,
    damaged: Mapping[str, str],
    paired: PairedDifference | None = None,
) -> History:
    """Return the history of runs, in the order of their days.

    Differences are those of independent means unless ``paired`` returns an estimate.

    Raises:
        ConfigError: METRIC_NOT_MEASURED or UNKNOWN_MODEL if no run has a metric or model of the plan.
    """
    runs = sorted(runs, key=lambda run: run.run_id)
    whole = together(runs)
    check_names(whole, plan)
    rows = sorted_rows(chosen_rows(whole, plan))
    columns = {name: rows[name].to_pylist() for name in rows.column_names}
    lines, ids = list(zip(*(columns[name] for name in OF_LINE), strict=True)), columns[RUN_ID.name]
    numbers, changes = numbered_series(runs)
    before, week = earlier_rows(rows, runs, numbers)
    values, errors = (to_numpy(rows[name].fill_null(np.nan)) for name in ("value", "std_error"))
    difference = Differences(lines, ids, values, errors, paired)
    cells = (
        *(columns[name] for name in (RUN_ID.name, *READ)),
        *([numbers[run_id] for run_id in ids], [changes.get(run_id) for run_id in ids]),
        [None if at < 0 else ids[at] for at in before.tolist()],
        *difference.to(before),
        *difference.to(week),
        *mark_columns(runs, ids, lines),
    )
    made = map(HistoryRow._make, zip(*cells, strict=True))
    return History(list(made), [run.run_id for run in runs], damaged)


def mark_columns(
    runs: Iterable[PastRun], ids: Sequence[str], lines: Sequence[Line]
) -> tuple[list[int], list[str | None]]:
    """Return the number of failed gates of each row, and the first of its alarms."""
    marks = defaultdict[Any, list[Mark]](list)
    for run in runs:
        for mark in run.marks:
            marks[run.run_id, *mark[:3]].append(mark)
    failed, alarms = [0] * len(ids), list[str | None]([None]) * len(ids)
    for at, (run_id, line) in enumerate(zip(ids, lines, strict=True) if marks else ()):
        for mark in marks.get((run_id, *line[:3]), ()):
            failed[at] += mark.alarm is None
            alarms[at] = alarms[at] or mark.alarm
    return failed, alarms


def sorted_rows(rows: pa.Table) -> pa.Table:
    """Return rows sorted by line, then by run, below a first column ``line`` with the number of the line."""
    rows = rows.combine_chunks()
    coded = [rows[name].combine_chunks().dictionary_encode(null_encoding="encode") for name in OF_LINE]
    _, first, line = np.unique(
        row_codes(*(to_numpy(column.indices) for column in coded)), return_index=True, return_inverse=True
    )
    of_lines = rows.select(OF_LINE).take(pa.array(first)).to_pylist()
    order = sorted(range(len(first)), key=lambda at: line_order(tuple(of_lines[at].values())))
    number = np.empty(len(first), dtype=np.int64)
    number[order] = np.arange(len(first))
    line = number[line]
    by_line = np.argsort(line, kind="stable")  # rows come in the order of their runs
    return rows.take(pa.array(by_line)).add_column(0, "line", pa.array(line[by_line]))


def earlier_rows(rows: pa.Table, runs: Sequence[PastRun], numbers: Mapping[str, int]) -> tuple[Ints, Ints]:
    """Return for each row the index of that of the run before and of the run a week before; -1 if none.

    Both are of the same line and the same series.
    """
    days = {run.run_id: run.day.toordinal() for run in runs}
    ids = rows[RUN_ID.name].to_pylist()
    day = np.array([days[run_id] for run_id in ids], dtype=np.int64)
    series = np.array([numbers[run_id] for run_id in ids], dtype=np.int64)
    line = to_numpy(rows["line"])
    key = line * (date.max.toordinal() + 1) + day
    before = np.arange(-1, len(ids) - 1)
    week = np.searchsorted(key, key - WEEK.days)
    week[key[np.minimum(week, len(key) - 1)] != key - WEEK.days] = -1
    for earlier in (before, week):
        earlier[(line[earlier] != line) | (series[earlier] != series)] = -1
    return before, week


@dataclass(frozen=True)
class Differences:
    """Differences between rows of a line; those of ``paired`` allow for users of both runs."""

    lines: Sequence[Line]
    run_ids: Sequence[str]
    values: Floats
    std_errors: Floats
    paired: PairedDifference | None

    def to(self, earlier: Ints) -> Iterator[list[float | None]]:
        """Yield columns: differences of rows from earlier ones, and the ends of their intervals of 95 %."""
        is_known = earlier >= 0
        value = np.where(is_known, self.values - self.values[earlier], np.nan)
        errors = zip(self.std_errors.tolist(), self.std_errors[earlier].tolist(), strict=True)
        margin = np.where(is_known, Z95 * np.array([math.hypot(*both) for both in errors]), np.nan)
        columns = np.stack([value, value - margin, value + margin])
        if self.paired is not None:
            for other in np.flatnonzero(is_known).tolist():
                one = int(earlier[other])
                estimate = self.paired(self.run_ids[one], self.run_ids[other], self.lines[other])
                if estimate is not None:
                    interval = normal_interval(estimate.value, estimate.std_error, 0)
                    columns[:, other] = interval.value, interval.ci_low, interval.ci_high
        yield from (pa.array(column, from_pandas=True).to_pylist() for column in columns)


def numbered_series(runs: Sequence[PastRun]) -> tuple[dict[str, int], dict[str, str]]:
    """Return the number of the series of each run, and what changed at each run that begins a new one."""
    numbers: dict[str, int] = {}
    changes: dict[str, str] = {}
    number, before = 1, None
    for run in runs:
        if before is not None and run.rules != before.rules:
            number += 1
            names = {**before.rules, **run.rules}
            changes[run.run_id] = ", ".join(
                name for name in names if run.rules.get(name) != before.rules.get(name)
            )
        numbers[run.run_id], before = number, run
    return numbers, changes


def together(runs: Sequence[PastRun]) -> pa.Table:
    """Return the rows of all runs, in their order, below a first column with the ids of the runs."""
    parts = [pa.schema([RUN_ID, *COLUMNS]).empty_table()]
    for run in runs:
        ids = pa.repeat(run.run_id, len(run.metrics))
        parts.append(run.metrics.select(READ).add_column(0, RUN_ID, ids))
    return pa.concat_tables(parts)


def chosen_rows(metrics: pa.Table, plan: HistoryPlan) -> pa.Table:
    """Return the rows of the runs that a history shows."""
    segments = pa.array([ALL, *plan.segments])
    is_shown = pc.is_in(metrics["segment"], value_set=segments)
    if plan.models is not None:
        is_shown = pc.and_(is_shown, pc.is_in(metrics["model"], value_set=pa.array(plan.models, pa.string())))
    if plan.metrics is not None:
        of_plan = [matches(metrics, text) for text in plan.metrics]
        is_shown = pc.and_(is_shown, reduce(pc.or_, of_plan))
    return metrics.filter(is_shown)


def matches(metrics: pa.Table, text: str) -> Any:
    """Return for each row of ``metrics`` whether it is of a metric: ``ndcg``, ``ndcg@10``, ``auc``."""
    name, cutoffs = parsed(text)
    is_shown = pc.equal(metrics["metric"], name)
    return is_shown if cutoffs is None else pc.and_(is_shown, pc.is_in(metrics["k"], value_set=cutoffs))


@cache
def parsed(text: str) -> tuple[str, pa.Array | None]:
    """Return the published name of a metric, and its cutoff if the text has one."""
    if text.partition("(")[0] in PREDICTION_METRICS:
        return text, None
    name, form = published_name(text, METRICS_KEY), split_metric_text(text, METRICS_KEY)
    return name, pa.array([cutoff_of(form)], pa.int32()) if has_cutoff(form) else None


def check_names(metrics: pa.Table, plan: HistoryPlan) -> None:
    """Raise ConfigError METRIC_NOT_MEASURED or UNKNOWN_MODEL for a name that no run has."""
    for text in plan.metrics or ():
        if not pc.any(matches(metrics, text)).as_py():
            measured = {measure_of(row) for row in distinct(metrics, "metric", "k")}
            raise ConfigError.unknown("METRIC_NOT_MEASURED", "metric", text, measured, METRICS_KEY)
    models = [row["model"] for row in distinct(metrics, "model")]
    for model in plan.models or ():
        if model not in models:
            raise ConfigError.unknown("UNKNOWN_MODEL", "model", model, models, "history.models")


def distinct(table: pa.Table, *columns: str) -> list[dict[str, Any]]:
    """Return the distinct values of columns."""
    rows: list[dict[str, Any]] = (
        table.select(columns).group_by(list(columns), use_threads=False).aggregate([]).to_pylist()
    )
    return rows


def line_order(line: Line) -> tuple[Any, ...]:
    """Return the sort key of a line: by metric, all users first, then by model."""
    model, metric, k, segment, segment_value = line
    return (metric, k is None, k or 0, segment != ALL, segment, segment_value, model)
