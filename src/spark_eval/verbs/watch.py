"""The verb ``watch``: judge a day by the days before, as a gate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Unpack

import pyarrow as pa

from spark_eval.comparison.rows import GATES, GateRow
from spark_eval.conventions.comparison import Decision
from spark_eval.errors import ConfigError, DataError, GateFailure
from spark_eval.monitoring.history import PastRun, make_history
from spark_eval.monitoring.plan import WatchOptions, WatchPlan, make_watch_plan, parse_day
from spark_eval.monitoring.rows import HistoryRow
from spark_eval.monitoring.watch import Judgement, Point, judge
from spark_eval.names import counted, summarize_names
from spark_eval.options import checked_call, documented, meanings
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.stores import store_of
from spark_eval.results.driver_tables import arrow_table
from spark_eval.results.leaderboard import is_list_metric, list_direction, measure_of
from spark_eval.results.sentences import where
from spark_eval.runs.job import Job, JobKind, Run, fingerprints_of
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import Computed, Published, Screen, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import WATCH, Direction, Row, Table
from spark_eval.verbs.history import WATCHED, UserPairs, past_runs
from spark_eval.verbs.kinds import MEASURING
from spark_eval.verbs.measured import known_runs
from spark_eval.verbs.report import store_at


def compute(work: Work) -> Computed:
    """Judge the metrics of the day; alarms are published as well."""
    plan = work.config.watch.checked()
    day = work.job.run_id.removesuffix(WATCHED)
    found, others = watch_published(work.job.store, date.fromisoformat(day), plan)
    rows = [one.gate_row(plan) for one in found]
    return Computed(
        rows={Table.GATES: (rows, GATES)},
        entries=[],
        facts={"parts": dict(work.job.runs), "not_comparable": others},
        n_rows=len(rows),
    )


def show(run: Run, screen: Screen) -> None:
    """Print the judgement of each metric."""
    header = ("metric", "model", "moved", "passed", "decision")
    rows = run.rows(Table.GATES)
    cells = [
        [where(row), row["model"], row["watch"] or "-", "yes" if row["passed"] else "NO", row["decision"]]
        for row in rows
    ]
    screen.grid(header, cells, f"watch of run {run.run_id}", of=Table.GATES)
    for row in rows:
        screen.say(f"{where(row)} of {row['model']}: {row['reason']}")
    if others := run.record.job["not_comparable"]:
        screen.say(f"not comparable, left out: {summarize_names(others)}")


def check(_verb: Verb, config: Config, _session: OpenSession) -> list[str]:
    """Check the metrics of the config; the day is known to the command alone."""
    return [f"metric {name}" for name in config.watch.checked().metrics]


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    return meanings(WatchOptions)


MODEL: Final = "model"
WORLD: Final = "world"
# Maximum number of alarms that an error names.
MOST_NAMED: Final = 5


@dataclass(frozen=True)
class Watched:
    """Judgements of a day by a model's metric, or by its difference to the reference.

    ``of_reference`` judges the reference itself.
    """

    row: HistoryRow
    judgement: Judgement
    of_reference: Judgement | None
    reference: str | None

    @property
    def moved(self) -> str | None:
        """The part that moved: the model, or the world as the reference shows it, if there is one."""
        if self.of_reference is None:
            return None
        if self.judgement.is_alarm:
            return MODEL
        return WORLD if self.of_reference.is_alarm else None

    @property
    def decision(self) -> Decision:
        """The decision of the gate."""
        if self.judgement.is_alarm:
            return Decision.WORSE
        return Decision.NOT_WORSE if self.judgement.is_decided else Decision.UNDECIDED

    @property
    def reason(self) -> str:
        """Both lines in words."""
        if self.of_reference is None:
            return str(self.judgement)
        return f"difference to {self.reference}: {self.judgement}; {self.reference}: {self.of_reference}"

    def gate_row(self, plan: WatchPlan) -> GateRow:
        """Return the row of the table ``gates``."""
        row, judgement = self.row, self.judgement
        usual = None if judgement.level is None else judgement.level.value
        difference = None if usual is None else judgement.point.value - usual
        margin = None if judgement.deviation is None else judgement.limit * judgement.deviation
        is_known = difference is not None and margin is not None
        return GateRow(
            *(row.metric, row.k, row.model, None, self.reference or row.model, 0.0, "absolute", WATCH),
            *(1 - plan.alpha, row.segment, row.segment_value, 0, 0.0),
            "none" if self.reference is None else "user",
            baseline_value=usual,
            candidate_value=judgement.point.value,
            difference=difference,
            bound_low=(difference or 0.0) - (margin or 0.0) if is_known else None,
            bound_high=(difference or 0.0) + (margin or 0.0) if is_known else None,
            n_users=row.n_users or 0,
            decision=str(self.decision),
            passed=not judgement.is_alarm,
            reason=self.reason,
            p_worse=judgement.p_value,
            p_adjusted=None,
            users_needed=None,
            watch=self.moved,
        )


def job_of_day(verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job of a watch; ``run_id`` is the day, and the watch is a run of its own, DAY_watch."""
    plan = config.watch.checked()
    if not plan.metrics:
        raise ConfigError("MISSING_SECTION", "watch.metrics is empty; name the metrics to watch: [ndcg@10]")
    day = parse_day(run_id, "--run-id")
    store = store_of(config.output, session)
    span = plan.days_before(day)
    known = past_runs(store, span)[0]
    runs = fingerprints_of(store, sorted({run.run_id for run in known} | {day.isoformat()}), MEASURING)
    if runs[day.isoformat()] is None:
        raise DataError("MISSING_DAYS", f"no run of evaluate for {day}; {known_runs(store, day.isoformat())}")
    return Job.of_runs(verb, config, f"{day}{WATCHED}", store, runs, MEASURING)


def watch_published(store: Store, day: date, plan: WatchPlan) -> tuple[list[Watched], list[str]]:
    """Judge the metrics of a day; also return the days before that do not compare with it.

    Raises:
        DataError: MISSING_DAYS if the day is not published; NO_PER_USER if a day has no values by user, and
            the plan has a reference.
        ConfigError: METRIC_NOT_MEASURED, UNKNOWN_MODEL, NO_DIRECTION or NO_INTERVAL.
    """
    runs, damaged = past_runs(store, plan.days_before(day))
    today = next((run for run in runs if run.run_id == day.isoformat()), None)
    if today is None:
        reason = damaged.get(day.isoformat(), "it is not published")
        raise DataError("MISSING_DAYS", f"{day} cannot be watched: {reason}")
    alike = [run for run in runs if run.rules == today.rules]
    others = sorted({run.run_id for run in runs} - {run.run_id for run in alike} | set(damaged))
    rows = make_history(alike, plan.days_before(day), {}).rows
    pairs = None if plan.reference is None else UserPairs(store)
    return list(judged(rows, today, plan, pairs)), others


def judged(
    rows: Sequence[HistoryRow], today: PastRun, plan: WatchPlan, pairs: UserPairs | None
) -> Iterator[Watched]:
    """Yield the judgement of each watched line of a day."""
    lines: dict[tuple[str, str, int | None], list[HistoryRow]] = {}
    for row in rows:
        lines.setdefault((row.model, row.metric, row.k), []).append(row)
    if pairs is not None and all(model != plan.reference for model, *_ in lines):
        models = {model for model, *_ in lines}
        raise ConfigError.unknown("UNKNOWN_MODEL", "model", str(plan.reference), models, "watch.reference")
    for (model, metric, k), line in lines.items():
        if model == plan.reference or line[-1].run_id != today.run_id:
            continue
        is_lower = direction_of(metric, k) is Direction.LOWER
        if plan.reference is None or pairs is None:
            yield Watched(line[-1], judge(points_of(line), plan, is_lower_better=is_lower), None, None)
            continue
        of_reference = {row.run_id: row for row in lines.get((plan.reference, metric, k), [])}
        if today.run_id not in of_reference:
            message = f"{plan.reference!r} was not measured on {today.run_id}"
            raise DataError("MISSING_DAYS", f"{message}; watch.reference is measured each day")
        both = [row for row in line if row.run_id in of_reference]
        yield Watched(
            line[-1],
            judge(differences_of(both, plan.reference, pairs), plan, is_lower_better=is_lower),
            judge(points_of(list(of_reference.values())), plan, is_lower_better=is_lower, is_reference=True),
            plan.reference,
        )


def direction_of(metric: str, k: int | None) -> Direction:
    """Return the direction of a published metric; raise ConfigError NO_DIRECTION if there is none."""
    if is_list_metric(metric):
        direction = list_direction(metric)
    else:
        direction = PREDICTION_METRICS[metric.partition("(")[0]].direction
    if direction is Direction.NONE:
        message = f"watch: no value of {measure_of({'metric': metric, 'k': k})} is better than another"
        raise ConfigError("NO_DIRECTION", message)
    return direction


def points_of(rows: Sequence[HistoryRow]) -> list[Point]:
    """Return the values of a line; raise ConfigError NO_INTERVAL if the newest has no standard error."""
    check_newest(rows[-1], rows[-1].value, rows[-1].std_error)
    return [
        Point(date.fromisoformat(row.run_id), row.value, row.std_error)
        for row in rows
        if row.value is not None and row.std_error is not None
    ]


def differences_of(rows: Sequence[HistoryRow], reference: str, pairs: UserPairs) -> list[Point]:
    """Return the differences of a model to the reference on each day; errors are those of paired users."""
    points, lacking = [], []
    for row in rows:
        sides = ((row.run_id, reference), (row.run_id, row.model))
        difference = pairs.between(sides, row.metric, row.k)
        if difference is None:
            lacking.append(row.run_id)
        elif difference.value is not None and difference.std_error is not None:
            points.append(
                Point(date.fromisoformat(row.run_id), float(difference.value), difference.std_error)
            )
        elif row is rows[-1]:
            check_newest(row, None, None)
    if lacking:
        message = f"{summarize_names(lacking)}: no values of {where(row_of(rows[-1]))} by user"
        raise DataError("NO_PER_USER", f"{message}; watch.reference compares users, from per_user")
    return points


def row_of(row: HistoryRow) -> Row:
    """Return a row as a mapping."""
    return row._asdict()


def check_newest(row: HistoryRow, value: float | None, std_error: float | None) -> None:
    """Raise ConfigError NO_INTERVAL if the value of the watched day has no standard error."""
    if value is None or std_error is None:
        message = f"watch: {where(row_of(row))} of {row.model!r} has no standard error on {row.run_id}"
        raise ConfigError("NO_INTERVAL", f"{message}; watch means over users")


def check_alarms(run: Run) -> None:
    """Raise GateFailure GATE_FAILED if a published watch has an alarm, in this call or in an earlier one."""
    failed = [row for row in run.rows(Table.GATES) if not row["passed"]]
    if failed:
        named = [f"{where(row)} of {row['model']!r}: {row['reason']}" for row in failed[:MOST_NAMED]]
        more = f"; and {len(failed) - MOST_NAMED} more" if failed[MOST_NAMED:] else ""
        message = f"{counted(len(failed), 'alarm')}: {'; '.join(named)}{more}; see the table gates"
        raise GateFailure("GATE_FAILED", message)


@documented(WatchOptions)
@checked_call
def watch(path: str, day: str, **options: Unpack[WatchOptions]) -> pa.Table:
    """Judge the metrics of a published day by the days before; nothing is published, no Spark is needed.

    Args:
        path: A local output path; its runs have days as ids, such as ``2024-03-01``.
        day: The day to judge.

    Returns:
        An Arrow table with the columns of ``gates``, a row per model and metric. ``passed`` is false for an
        alarm; ``watch`` names what moved, ``model`` or ``world``, if there is a reference.

    Raises:
        ConfigError: INVALID_WINDOW for a day that is no date; METRIC_NOT_MEASURED, UNKNOWN_MODEL,
            NO_DIRECTION or NO_INTERVAL.
        DataError: MISSING_DAYS if the day is not published; NO_PER_USER for a reference without ``per_user``.

    Examples:
        ``daily`` is an output path with two published days; seven before are needed:

        >>> from spark_eval import watch
        >>> watch(daily, "2024-03-02", metrics=["map@2"])["decision"].to_pylist()
        ['undecided']
    """
    plan = make_watch_plan(**options)
    judged, _ = watch_published(store_at(path), parse_day(day, "day"), plan)
    return arrow_table([one.gate_row(plan) for one in judged], GATES)


VERB = Verb(
    name="watch",
    about="--run-id is the day. The watch is a run of its own, DAY_watch.",
    sections=("watch",),
    tables=(Published(Table.GATES),),
    phases=("watch",),
    compute=compute,
    show=show,
    job=job_of_day,
    check=check,
    judge=check_alarms,
    options=options,
    opens_spark=False,
    has_verdict=True,
)
