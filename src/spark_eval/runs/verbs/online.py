"""The verb ``online``: compare the variants of experiments, or interleaved rankers; check trust, decide."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_eval.runs.verb import ACCOUNTING, Computed, LocalInput, Published, Screen, Shortcut, Verb, Work
from spark_eval.schema import Table

if TYPE_CHECKING:
    from spark_eval.accounting import Entry
    from spark_eval.config.inputs import Source
    from spark_eval.experiments.inputs import Tables
    from spark_eval.experiments.plan import ExperimentPlan
    from spark_eval.results.driver_tables import SmallRows
    from spark_eval.runs.job import Job, Run
    from spark_eval.runs.sections import Config
    from spark_eval.runtime.any_session import OpenSession
    from spark_eval.tables.conformed import Rows

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
    tables: "Tables | None"
    impressions: "Rows"
    names: Mapping[str, Mapping[str, str]]


def job(verb: Verb, config: "Config", run_id: str | None, session: "OpenSession") -> "Job":
    """Return the job: it reads published days if the config has the first and the last one."""
    from spark_eval.runs.job import Job
    from spark_eval.runs.online_days import days_between, job_of_days

    plan, _, _ = plan_and_sources(config)
    if plan is None or not days_between(config):
        return Job.of(verb, config, run_id, session)
    return job_of_days(verb, config, plan, run_id, session)


def plan_and_sources(
    config: "Config",
) -> "tuple[ExperimentPlan | None, dict[str, Source], Mapping[str, Mapping[str, str]]]":
    """Return the plan of the experiments, and the sources of their tables with the names of columns.

    The plan is None without experiments. Raises ConfigError MISSING_SECTION if they lack a table.
    """
    from spark_eval.experiments.inputs import with_unit
    from spark_eval.runs.run import needed

    if config.online is None:
        return None, {}, {}
    sources = {name: needed(getattr(config, name), name) for name in SOURCES}
    columns = {name: one.columns for name, one in sources.items()}
    plan, names = with_unit(config.online.checked(config.gates), columns)
    return plan, sources, names


def read_tables(config: "Config", job: "Job", session: "OpenSession") -> Inputs:
    """Return the plan, and the conformed tables on Spark."""
    from spark_eval.experiments.conform import conform_impressions, conformed_tables
    from spark_eval.experiments.inputs import own_columns
    from spark_eval.runs.online_days import read_days
    from spark_eval.sources.read import read_source

    plan, sources, names = plan_and_sources(config)
    tables = impressions = None
    if plan is not None:
        frames = {
            name: read_source(
                session(),
                job.sources[name],
                name,
                plan.timezone,
                own_columns(name, plan),
                job.before[name],
            )
            if name in job.sources
            else read_days(job, session())
            for name in SOURCES
        }
        tables = conformed_tables(frames, names, units_of(job, sources), plan)
    if config.interleaving is not None:
        frame = job.read(session(), INTERLEAVING)
        impressions = conform_impressions(frame, config.interleaving.columns)
    return Inputs(plan, tables, impressions, names)


def units_of(job: "Job", sources: "Mapping[str, Source]") -> dict[str, str | None]:
    """Return the units of timestamps that are numbers; those of ``user_days`` are none."""
    return {name: one.timestamp_unit if name in job.sources else None for name, one in sources.items()}


def open_locally(work: Work) -> LocalInput:
    """Return the plan, and the tables of this process."""
    from functools import partial

    from spark_eval.experiments.inputs import Tables, local_impressions, local_tables, own_columns
    from spark_eval.runs.online_days import open_days
    from spark_eval.sources.plain import open_plain

    config, job = work.config, work.job
    plan, sources, names = plan_and_sources(config)

    def opened(name: str, own: Any = ()) -> Any:
        if name not in job.sources:
            return open_days(job)
        return open_plain(job.sources[name], name, own, job.before[name], work.session)

    tables = impressions = None
    n_rows = 0
    if plan is not None:
        opening = {name: partial(opened, name, own_columns(name, plan)) for name in SOURCES}
        units = units_of(job, sources)
        tables = Tables(local_tables(opening, names, units, plan), units)
        n_rows = sum(map(tables.n_rows, SOURCES))
    if config.interleaving is not None:
        impressions = local_impressions(opened(INTERLEAVING), config.interleaving.columns)
        n_rows += impressions.n_rows
    return LocalInput(Inputs(plan, tables, impressions, names), n_rows)


def compute(work: Work) -> Computed:
    """Sum all units in one shuffle by user, and the impressions of interleaving; then decide."""
    from spark_eval.accounting import ACCOUNTING as ACCOUNTING_COLUMNS
    from spark_eval.experiments.evaluate import measure_experiments
    from spark_eval.experiments.inputs import judged
    from spark_eval.experiments.interleaving import measure_interleaving, quarantined_impressions
    from spark_eval.experiments.plan import USER_DAYS
    from spark_eval.runs.online_days import DAY, days_before, days_between
    from spark_eval.runs.run import needed

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
    if config.interleaving is not None:
        table = inputs.impressions
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
    from spark_eval.experiments.user_days import measure_user_days, parse_day
    from spark_eval.runners.in_process import LocalBatches
    from spark_eval.runners.spread import write_frame, write_union
    from spark_eval.runs.run import needed

    assert inputs.plan is not None
    assert inputs.tables is not None
    day = parse_day(needed(work.config.online, ONLINE).day)
    most = work.job.most_quarantined
    rows, n_rows, entries = measure_user_days(
        inputs.tables, inputs.plan, inputs.names[EVENTS], day, work.resources, most
    )
    place = work.attempt.staged(Table.USER_DAYS)
    if isinstance(rows, LocalBatches):
        write_union([rows], place)
    else:
        write_frame(rows, place)
    return n_rows, entries


def show(run: "Run", screen: Screen) -> None:
    """Print a line per experiment, metric and treatment, or per analysis; then the decisions."""
    from spark_eval.experiments.interleaving import SHOWN_INTERLEAVINGS, interleaving_lines
    from spark_eval.experiments.tables import SHOWN, decision_lines, shown_lines

    if Table.EXPERIMENTS in run.tables:
        lines = shown_lines(run.rows(Table.EXPERIMENTS))
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


def check(verb: Verb, config: "Config", session: "OpenSession") -> list[str]:
    """Check columns and types of the tables; return their names."""
    from spark_eval.runs.run import taken_here
    from spark_eval.tables.conformed import check_id_types

    work = job(verb, config, None, session)
    inputs: Inputs = taken_here(verb, work, config, session) or read_tables(config, work, session)
    rows = {} if inputs.tables is None else inputs.tables.rows
    check_id_types(rows)
    return [*rows, *([] if inputs.impressions is None else [INTERLEAVING])]


def judge(run: "Run") -> None:
    """Raise GateFailure EXPERIMENT_FAILED if an experiment is not trusted, or a gated one lost or blocked."""
    from spark_eval.experiments.analysis import failure_of
    from spark_eval.experiments.tables import DecisionRow

    rows = run.rows(Table.DECISIONS) if Table.DECISIONS in run.tables else []
    failure = failure_of([DecisionRow(*(row[name] for name in DecisionRow._fields)) for row in rows])
    if failure is not None:
        raise failure


def has_day(config: "Config") -> bool:
    """Return True if a day of experiments is summed, and nothing decided."""
    return config.online is not None and config.online.day is not None


def has_experiments(config: "Config") -> bool:
    """Return True if experiments are decided."""
    return config.online is not None and config.online.day is None


def decides(config: "Config") -> bool:
    """Return True if anything is decided."""
    return has_experiments(config) or has_interleaving(config)


def has_interleaving(config: "Config") -> bool:
    """Return True if the config has interleaved lists."""
    return config.interleaving is not None


VERB = Verb(
    name=ONLINE,
    order=6,
    about="""Compare the variants of online experiments, or interleaved rankers; publish what is decided.

    Exit code 5 if an experiment cannot be trusted, or if one with a gate is lost or blocked.
    """,
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
