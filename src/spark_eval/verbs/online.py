"""The verb ``online``: compare the variants of experiments, or interleaved rankers; check trust, decide."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from spark_eval.accounting import ACCOUNTING as ACCOUNTING_COLUMNS
from spark_eval.accounting import Entry
from spark_eval.config.inputs import Source
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.analysis import failure_of
from spark_eval.experiments.evaluate import measure_experiments
from spark_eval.experiments.inputs import (
    Tables,
    judged,
    with_unit,
)
from spark_eval.experiments.interleaving import (
    SHOWN_INTERLEAVINGS,
    interleaving_lines,
    measure_interleaving,
    quarantined_impressions,
)
from spark_eval.experiments.plan import USER_DAYS, ExperimentPlan, names_of
from spark_eval.experiments.specs import Units, own_columns, spec_of_impressions, specs_of
from spark_eval.experiments.tables import DecisionRow
from spark_eval.experiments.user_days import measure_user_days, parse_day
from spark_eval.experiments.worker.bucket import earliest_of
from spark_eval.experiments.worker.clock import day_name, local_days
from spark_eval.names import summarize_names
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import Record, published, records_of
from spark_eval.publishing.published import (
    RUN_ID_COLUMN,
    PublishedTable,
    data_files,
    frame_of,
    open_table,
)
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.effects import SHOWN, decision_lines, effect_lines
from spark_eval.runners.conformed import check_id_types
from spark_eval.runners.door import Names, tables_here, tables_on_spark
from spark_eval.runners.rows import Rows
from spark_eval.runs.job import Job, JobKind, Run, digest_of, usual_id
from spark_eval.runs.run import needed, taken_here
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import ACCOUNTING, Computed, LocalInput, Published, Screen, Shortcut, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Table
from spark_eval.sources.plain import open_plain
from spark_eval.tables.opened import OpenedTable, file_schema
from spark_eval.tables.spec import SpecOf, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONLINE = "online"
EVENTS = "events"
EXPOSURES = "exposures"
SOURCES = (EXPOSURES, EVENTS)
INTERLEAVING = "interleaving"


class Inputs(NamedTuple):
    """Plan of the experiments with their conformed tables, both None without; and interleaved lists.

    ``names`` are those of the columns of each table.
    """

    plan: "ExperimentPlan | None"
    tables: Tables | None
    impressions: Rows | None
    names: Mapping[str, Mapping[str, str]]


def job(verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job: it reads published days if the config has the first and the last one."""
    plan, _, _ = plan_and_sources(config)
    if plan is None or not days_between(config):
        return Job.of(verb, config, run_id, session)
    return job_of_days(verb, config, plan, run_id, session)


def plan_and_sources(
    config: Config,
) -> "tuple[ExperimentPlan | None, dict[str, Source], Mapping[str, Mapping[str, str]]]":
    """Return the plan of the experiments, the sources of their tables, and the names of columns by table.

    The plan is None without experiments. Raises ConfigError MISSING_SECTION if they lack a table.
    """
    of_lists = {} if config.interleaving is None else {INTERLEAVING: config.interleaving.columns}
    if config.online is None:
        return None, {}, of_lists
    sources = {name: needed(getattr(config, name), name) for name in SOURCES}
    columns = {name: one.columns for name, one in sources.items()}
    plan, names = with_unit(config.online.checked(config.gates), columns)
    return plan, sources, {**names, **of_lists}


def read_tables(config: Config, job: Job, session: OpenSession) -> Inputs:
    """Return the plan, and the conformed tables on Spark."""
    plan, sources, names = plan_and_sources(config)
    frames = dict[str, Any]()
    if plan is not None:
        for name in SOURCES:
            if name in job.sources:
                frames[name] = job.read(session(), name, own_columns(name, plan), plan.timezone)
            else:
                frames[name] = read_days(job, session())
    if config.interleaving is not None:
        frames[INTERLEAVING] = job.read(session(), INTERLEAVING)
    units = units_of(job, sources)
    rows = tables_on_spark(frames, specs_of_tables(plan, names, units), names)
    return inputs_of(plan, rows, names, units)


def specs_of_tables(plan: ExperimentPlan | None, names: Mapping[str, Names], units: Units) -> SpecOf:
    """Return the specs of exposures, events and interleaved lists."""

    def spec_of(name: str, columns: Sequence[str]) -> TableSpec:
        if plan is None or name == INTERLEAVING:
            return spec_of_impressions(name, columns)
        return specs_of(plan, names, units)(name, columns)

    return spec_of


def inputs_of(
    plan: ExperimentPlan | None, rows: Mapping[str, Rows], names: Mapping[str, Names], units: Units
) -> Inputs:
    """Return opened tables by their part: experiments, and interleaved lists."""
    of_experiments = {name: one for name, one in rows.items() if name != INTERLEAVING}
    tables = None if plan is None else Tables.of(of_experiments, units)
    return Inputs(plan, tables, rows.get(INTERLEAVING), names)


def units_of(job: Job, sources: "Mapping[str, Source]") -> dict[str, str | None]:
    """Return the units of timestamps that are numbers; those of ``user_days`` are none."""
    return {name: one.timestamp_unit if name in job.sources else None for name, one in sources.items()}


def open_locally(work: Work) -> LocalInput:
    """Return the plan, and the tables of this process."""
    config, job = work.config, work.job
    plan, sources, names = plan_and_sources(config)

    def opened(name: str, own: Sequence[str] = ()) -> OpenedTable:
        if name not in job.sources:
            return open_days(job)
        zone = job.timezone if plan is None or name == INTERLEAVING else plan.timezone
        return open_plain(job.sources[name], name, zone, own, job.before[name], work.session)

    opening = dict[str, Callable[[], OpenedTable]]()
    if plan is not None:
        opening |= {name: partial(opened, name, own_columns(name, plan)) for name in SOURCES}
    if config.interleaving is not None:
        opening[INTERLEAVING] = partial(opened, INTERLEAVING)
    units = units_of(job, sources)
    tables = tables_here(opening, specs_of_tables(plan, names, units), names)
    return LocalInput(inputs_of(plan, tables, names, units), sum(table.n_rows for table in tables.values()))


def compute(work: Work) -> Computed:
    """Sum all units in one shuffle by user, and the impressions of interleaving; then decide."""
    config, most = work.config, {EVENTS: 1.0, **work.job.most_quarantined}
    written: dict[str, int] = {}
    inputs: Inputs = read_tables(config, work.job, work.session) if work.local is None else work.local
    plan, bad, facts = inputs.plan, dict[str, Any](), dict[str, Any]()
    found: list[Mapping[str, SmallRows]] = []
    entries: list[Entry] = []
    tables = inputs.tables
    if plan is not None and tables is not None and has_day(config):
        written[Table.USER_DAYS], of_day = stage_day(work, inputs)
        entries += of_day
        bad |= judged(tables, plan, of_day)
        facts |= {DAY: needed(config.online, ONLINE).day, USER_DAYS: plan.digest}
        found.append({Table.ACCOUNTING: (of_day, ACCOUNTING_COLUMNS)})
    elif plan is not None and tables is not None:
        measured = measure_experiments(tables, plan, most)
        found.append(measured.small_tables)
        entries += measured.entries
        bad |= judged(tables, plan, measured.entries)
        facts["conventions"] = plan.stamp
        if days := days_between(config):
            facts |= {"parts": dict(work.job.runs), "days": [days[0], days[-1]]}
            facts["days_before"] = days_before(days, plan)
    table = inputs.impressions
    if config.interleaving is not None and table is not None:
        drafts = measure_interleaving(table, config.interleaving.checked(), most[INTERLEAVING])
        found.append(drafts.small_tables)
        entries += drafts.entries
        bad |= quarantined_impressions(table, drafts.entries)
    rows: dict[str, SmallRows] = {}
    for small in found:
        for name, (more, columns) in small.items():
            rows[name] = ([*rows[name][0], *more] if name in rows else more), columns
    n_rows = sum(len(rows[name][0]) for name in (Table.EXPERIMENTS, Table.INTERLEAVINGS) if name in rows)
    n_rows += sum(written.values())
    return Computed(rows=rows, entries=entries, written=written, judged=bad, facts=facts, n_rows=n_rows)


def stage_day(work: Work, inputs: Inputs) -> "tuple[int, list[Entry]]":
    """Stage ``user_days`` of the day; return the number of its rows, and the accounting."""
    assert inputs.plan is not None
    assert inputs.tables is not None
    day = parse_day(needed(work.config.online, ONLINE).day)
    most = work.job.most_quarantined
    rows, n_rows, entries = measure_user_days(
        inputs.tables, inputs.plan, inputs.names[EVENTS], day, work.resources, most
    )
    rows.write(work.attempt.staged(Table.USER_DAYS))
    return n_rows, entries


def show(run: Run, screen: Screen) -> None:
    """Print a line per experiment, metric and treatment, or per analysis; then the decisions."""
    if Table.EXPERIMENTS in run.tables:
        lines = effect_lines(run.rows(Table.EXPERIMENTS))
        screen.grid(SHOWN, lines, f"experiments of run {run.run_id}", of=Table.EXPERIMENTS)
    if Table.INTERLEAVINGS in run.tables:
        lines = interleaving_lines(run.rows(Table.INTERLEAVINGS))
        title = f"interleavings of run {run.run_id}"
        screen.grid(SHOWN_INTERLEAVINGS, lines, title, of=Table.INTERLEAVINGS)
    for text in decision_lines(run.rows(Table.DECISIONS) if Table.DECISIONS in run.tables else ()):
        screen.say(text)
    if Table.USER_DAYS in run.tables:
        screen.say(f"user_days of {run.record.job['day']}; read the days by --from DAY --to DAY")
    if lacking := run.record.job.get("days_before"):
        screen.say(f"the pre-period lacks days that were not read: {lacking[0]} to {lacking[-1]}")


def check(verb: Verb, config: Config, session: OpenSession) -> list[str]:
    """Check columns and types of the tables; return their names."""
    work = job(verb, config, None, session)
    inputs: Inputs = taken_here(verb, work, config, session) or read_tables(config, work, session)
    rows = {} if inputs.tables is None else inputs.tables.rows
    check_id_types(rows)
    return [*rows, *([] if inputs.impressions is None else [INTERLEAVING])]


def judge(run: Run) -> None:
    """Raise GateFailure EXPERIMENT_FAILED if an experiment is not trusted, or a gated one lost or blocked."""
    rows = run.rows(Table.DECISIONS) if Table.DECISIONS in run.tables else []
    failure = failure_of([DecisionRow(*(row[name] for name in DecisionRow._fields)) for row in rows])
    if failure is not None:
        raise failure


def has_day(config: Config) -> bool:
    """Return True if a day of experiments is summed, and nothing decided."""
    return config.online is not None and config.online.day is not None


def has_experiments(config: Config) -> bool:
    """Return True if experiments are decided."""
    return config.online is not None and config.online.day is None


def decides(config: Config) -> bool:
    """Return True if anything is decided."""
    return has_experiments(config) or has_interleaving(config)


def has_interleaving(config: Config) -> bool:
    """Return True if the config has interleaved lists."""
    return config.interleaving is not None


# Fact of the commit record of a day: its date.
DAY: Final = "day"


def days_between(config: Config) -> Sequence[str]:
    """Return the days whose ``user_days`` a run reads; none if it reads events.

    Raises ConfigError OUT_OF_RANGE for days that are no dates, or in the wrong order.
    """
    online = config.online
    if online is None or online.first is online.last is None:
        return ()
    first, last = parse_day(online.first), parse_day(online.last)
    if first is None or last is None:
        raise ConfigError("OUT_OF_RANGE", "online.first and online.last: give both, --from and --to")
    if online.day is not None:
        message = "online.day sums a day, online.first and online.last read such days; give one or the other"
        raise ConfigError("OUT_OF_RANGE", message)
    if first > last:
        raise ConfigError("OUT_OF_RANGE", f"online.first {online.first} is after online.last {online.last}")
    return [day_name(day) for day in range(first, last + 1)]


def check_covered(days: Sequence[str], plan: ExperimentPlan) -> None:
    """Raise ConfigError OUT_OF_RANGE if an experiment begins before the first day: its events would lack."""
    for one in plan.experiments:
        [begins] = local_days(np.array([one.start]), plan.timezone).tolist()
        if days[0] > day_name(begins):
            message = f"online.first is {days[0]}, but {one.name!r} begins on {day_name(begins)}"
            raise ConfigError("OUT_OF_RANGE", f"{message}; give that day, or an earlier one")


def days_before(days: Sequence[str], plan: ExperimentPlan) -> Sequence[str]:
    """Return the days of the earliest pre-period that are before the first day: they are not read."""
    earliest = np.array([min(earliest_of(one, plan) for one in plan.experiments)])
    [begins] = local_days(earliest, plan.timezone).tolist()
    first = parse_day(days[0])
    return [] if first is None else [day_name(day) for day in range(begins, first)]


def job_of_days(
    verb: JobKind, config: Config, plan: ExperimentPlan, run_id: str | None, session: OpenSession
) -> Job:
    """Return the job of a run that reads published days instead of the events."""
    days = days_between(config)
    check_covered(days, plan)
    job = Job.of(verb, config.model_copy(update={"events": None}), run_id, session)
    records = records_of_days(job.store, days, plan)
    runs: dict[str, str | None] = {record.run_id: record.job["fingerprint"] for record in records}
    digest = digest_of(job=job.fingerprint, runs=runs)
    reads = (verb.name,)
    return replace(job, run_id=run_id or usual_id(verb, digest), fingerprint=digest, runs=runs, reads=reads)


def records_of_days(store: Store, days: Sequence[str], plan: ExperimentPlan) -> list[Record]:
    """Return the run of each day that was summed for this plan, the latest if there are several.

    Raises DataError MISSING_DAYS if a day is not published, INVALID_USER_DAYS if it was summed for another
    plan.
    """
    found: dict[str, Record] = {}
    others: dict[str, Record] = {}
    for record in sorted(published(store.files), key=lambda one: str(one.job["published_at"])):
        if Table.USER_DAYS in record.job["tables"] and record.job.get(DAY) in days:
            of_plan = found if record.job.get(USER_DAYS) == plan.digest else others
            of_plan[record.job[DAY]] = record
    lacking = [day for day in days if day not in found]
    missing = [day for day in lacking if day not in others]
    if missing:
        message = f"no user_days of {summarize_names(missing)} below {store.files.root!r}"
        raise DataError(
            "MISSING_DAYS", f"{message}; sum each first: `spark-eval online --config FILE --day {missing[0]}`"
        )
    if lacking:
        runs = summarize_names([f"{day} (run {others[day].run_id})" for day in lacking])
        message = f"user_days of {runs} were summed for another config of {names_of(plan.experiments)}"
        raise DataError("INVALID_USER_DAYS", f"{message}; sum these days again")
    return [found[day] for day in days]


def tables_of_days(job: Job) -> list[PublishedTable]:
    """Return ``user_days`` of each day; raise DataError for a damaged run, MISSING_DAYS for a removed one."""
    tables = []
    for run_id in job.runs:
        record = records_of(job.store.files, run_id).get(job.verb)
        if record is None:
            raise DataError("MISSING_DAYS", f"run {run_id!r} was removed during the run; start again")
        tables.append(open_table(job.store.files, record, Table.USER_DAYS))
    return tables


def open_days(job: Job) -> OpenedTable:
    """Return the local files of the days and their columns."""
    folders = [table.folder for table in tables_of_days(job)]
    paths = [str(path) for folder in folders if folder is not None for path in data_files(folder)]
    return OpenedTable(file_schema(paths), None, paths)


def read_days(job: Job, spark: "SparkSession") -> "DataFrame":
    """Return the rows of the days on Spark."""
    return frame_of(spark, tables_of_days(job)).drop(RUN_ID_COLUMN)


VERB = Verb(
    name=ONLINE,
    about="Exit code 5 if an experiment cannot be trusted, or if one with a gate is lost or blocked.",
    sections=(ONLINE, *SOURCES, INTERLEAVING, "gates"),
    instead=(INTERLEAVING,),
    tables=(
        Published(Table.EXPERIMENTS, is_asked=has_experiments),
        Published(Table.INTERLEAVINGS, is_asked=has_interleaving),
        Published(Table.CHECKS, is_asked=decides),
        Published(Table.DECISIONS, is_asked=decides),
        Published(Table.USER_DAYS, is_reported=False, is_asked=has_day),
        ACCOUNTING,
    ),
    phases=("experiments",),
    compute=compute,
    show=show,
    job=job,
    check=check,
    judge=judge,
    open_locally=open_locally,
    shortcuts=(
        Shortcut("--day", "DAY", "online.day", "Sum this day by user, publish user_days, decide nothing."),
        Shortcut("--from", "DAY", "online.first", "First day of user_days to read instead of the events."),
        Shortcut("--to", "DAY", "online.last", "Last day; both ends are included."),
    ),
    has_verdict=True,
)
