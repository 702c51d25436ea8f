"""Series of published values: a row per run, model, metric and segment, with its changes."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, cached_property, reduce
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.days.plan import HistoryPlan
from spark_eval.errors import ConfigError
from spark_eval.metrics.values import has_cutoff, parse_metric, published_name, split_metric_text
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.exported import Exported, SmallFrame
from spark_eval.results.leaderboard import measure_of
from spark_eval.runtime.local_files import check_path, write_file
from spark_eval.schema import ALL, ddl_of
from spark_eval.statistics.differences import Estimate
from spark_eval.statistics.intervals import normal_interval

WEEK: Final = timedelta(days=7)
METRICS_KEY: Final = "history.metrics"
# Normal quantile of an interval of 95 %.
Z95: Final = NormalDist().inv_cdf(0.975)
# Line of a history: model, metric, k, segment and its value.
Line = tuple[str, str, int | None, str, str]
# Columns of ``metrics`` that a history reads.
READ: Final = (
    *("model", "metric", "k", "segment", "segment_value", "value", "std_error", "ci_low", "ci_high"),
    *("n_users", "conventions"),
)


class HistoryRow(NamedTuple):
    """Row of HISTORY: the value of a metric of a model in a segment, in one run.

    ``series`` numbers the parts of a line between breaks; ``changed`` names what differs from the run before
    at a break. ``before`` is the previous run of the same part. ``difference`` is the value minus that of
    ``before``; ``week_difference`` is the value minus that of the same weekday a week before.
    """

    run_id: str
    model: str
    metric: str
    k: int | None
    segment: str
    segment_value: str
    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n_users: int | None
    conventions: str
    series: int
    changed: str | None
    before: str | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    week_difference: float | None
    week_low: float | None
    week_high: float | None
    failed_gates: int
    alarm: str | None

    @property
    def line(self) -> Line:
        """The line that the row belongs to."""
        return (self.model, self.metric, self.k, self.segment, self.segment_value)


HISTORY: Final = ddl_of(HistoryRow)


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
    rules: Mapping[str, Any]
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
        check_path(Path(path))
        write_file(Path(path), self.page)

    @cached_property
    def page(self) -> str:
        """The page as text."""
        # Imported here: pages need Jinja2, which may be missing on executors.
        from spark_eval.days.page import history_page

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
    chosen = {run.run_id: chosen_rows(run.metrics, plan) for run in runs}
    check_names(runs, plan)
    numbers, changes = numbered_series(runs)
    marks = {run.run_id: run.marks for run in runs}
    lines: dict[Line, dict[str, dict[str, Any]]] = {}
    for run_id, rows in chosen.items():
        for row in rows:
            line: Line = (row["model"], row["metric"], row["k"], row["segment"], row["segment_value"])
            lines.setdefault(line, {})[run_id] = row
    difference = Differences(paired)
    found: list[HistoryRow] = []
    for line, own in sorted(lines.items(), key=lambda one: line_order(one[0])):
        before: str | None = None
        for run_id, row in own.items():
            if before is not None and numbers[before] != numbers[run_id]:
                before = None
            week = (date.fromisoformat(run_id) - WEEK).isoformat()
            is_comparable = week in own and numbers[week] == numbers[run_id]
            of_model = [mark for mark in marks[run_id] if mark[:3] == line[:3]]
            cells = (
                *(run_id, *line, *(row[name] for name in READ[5:])),
                *(numbers[run_id], changes.get(run_id), before),
                *difference.between(line, before, run_id, own),
                *difference.between(line, week if is_comparable else None, run_id, own),
                sum(mark.alarm is None for mark in of_model),
                next((mark.alarm for mark in of_model if mark.alarm is not None), None),
            )
            found.append(HistoryRow._make(cells))
            before = run_id
    return History(found, [run.run_id for run in runs], damaged)


@dataclass(frozen=True)
class Differences:
    """Differences between two runs of a line; those of ``paired`` allow for users of both runs."""

    paired: PairedDifference | None

    def between(
        self, line: Line, earlier: str | None, later: str, rows: Mapping[str, Mapping[str, Any]]
    ) -> tuple[float | None, float | None, float | None]:
        """Return the difference, later minus earlier, and its interval of 95 %; None if undefined."""
        if earlier is None:
            return (None, None, None)
        estimate = None if self.paired is None else self.paired(earlier, later, line)
        if estimate is not None:
            found = normal_interval(estimate.value, estimate.std_error, 0)
            return (found.value, found.ci_low, found.ci_high)
        one, other = rows[earlier], rows[later]
        if one["value"] is None or other["value"] is None:
            return (None, None, None)
        value = other["value"] - one["value"]
        if one["std_error"] is None or other["std_error"] is None:
            return (value, None, None)
        margin = Z95 * math.hypot(one["std_error"], other["std_error"])
        return (value, value - margin, value + margin)


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


def chosen_rows(metrics: pa.Table, plan: HistoryPlan) -> list[dict[str, Any]]:
    """Return the rows of a run's table ``metrics`` that a history shows."""
    segments = pa.array([ALL, *plan.segments])
    is_shown = pc.is_in(metrics["segment"], value_set=segments)
    if plan.models is not None:
        is_shown = pc.and_(is_shown, pc.is_in(metrics["model"], value_set=pa.array(plan.models, pa.string())))
    if plan.metrics is not None:
        of_plan = [matches(metrics, text) for text in plan.metrics]
        is_shown = pc.and_(is_shown, reduce(pc.or_, of_plan))
    rows: list[dict[str, Any]] = metrics.filter(is_shown).to_pylist()
    return rows


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
    [value] = parse_metric(text, [None], METRICS_KEY)
    return name, pa.array([value.k], pa.int32()) if has_cutoff(form) else None


def check_names(runs: Sequence[PastRun], plan: HistoryPlan) -> None:
    """Raise ConfigError METRIC_NOT_MEASURED or UNKNOWN_MODEL for a name that no run has."""
    for text in plan.metrics or ():
        if not any(pc.any(matches(run.metrics, text)).as_py() for run in runs):
            keys = {(row["metric"], row["k"]) for run in runs for row in distinct(run.metrics, "metric", "k")}
            measured = {measure_of({"metric": metric, "k": k}) for metric, k in keys}
            raise ConfigError.unknown("METRIC_NOT_MEASURED", "metric", text, measured, METRICS_KEY)
    models = {row["model"] for run in runs for row in distinct(run.metrics, "model")}
    for model in plan.models or ():
        if model not in models:
            raise ConfigError.unknown("UNKNOWN_MODEL", "model", model, models, "history.models")


def distinct(table: pa.Table, *columns: str) -> list[dict[str, Any]]:
    """Return the distinct values of columns."""
    rows: list[dict[str, Any]] = table.select(columns).group_by(list(columns)).aggregate([]).to_pylist()
    return rows


def line_order(line: Line) -> tuple[Any, ...]:
    """Return the sort key of a line: by metric, all users first, then by model."""
    model, metric, k, segment, segment_value = line
    return (metric, k is None, k or 0, segment != ALL, segment, segment_value, model)
