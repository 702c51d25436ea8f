"""The verb ``online``: compare the variants of experiments, check trust, and decide."""

from typing import TYPE_CHECKING

from spark_eval.runs.verb import ACCOUNTING, Computed, LocalInput, Published, Screen, Verb, Work
from spark_eval.schema import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_eval.experiments.plan import ExperimentPlan
    from spark_eval.runs.job import Job, Run
    from spark_eval.runs.sections import Config
    from spark_eval.runtime.any_session import OpenSession

ONLINE = "online"
SOURCES = ("exposures", "events")


def read_tables(
    config: "Config", job: "Job", spark: "SparkSession"
) -> tuple["ExperimentPlan", dict[str, "DataFrame"]]:
    """Return the plan, and the conformed exposures and events.

    Raises ConfigError MISSING_SECTION if there is none.
    """
    from spark_eval.experiments.conform import conform_events, conform_exposures
    from spark_eval.experiments.evaluate import with_unit
    from spark_eval.experiments.wanted import own_columns
    from spark_eval.runs.run import needed
    from spark_eval.sources.read import read_source

    sources = {name: needed(getattr(config, name), name) for name in SOURCES}
    online = needed(config.online, ONLINE)
    columns = {name: one.columns for name, one in sources.items()}
    plan, names = with_unit(online.checked(config.gates), columns)
    tables = {}
    for name, conform in zip(SOURCES, (conform_exposures, conform_events), strict=True):
        source, own = sources[name], own_columns(name, plan)
        frame = read_source(spark, job.sources[name], name, plan.timezone, own, job.before[name])
        tables[name] = conform(frame, names[name], source.timestamp_unit, plan)
    return plan, tables


def compute(work: Work) -> Computed:
    """Sum all units in one shuffle by user, and decide."""
    from spark_eval.experiments.evaluate import judged, measure_experiments
    from spark_eval.runs.run import needed

    config, job = work.config, work.job
    if work.local is None:
        plan, tables = read_tables(config, job, work.spark)
        units = {}  # Spark's timestamps are instants
    else:
        plan, tables = work.local
        units = {name: needed(getattr(config, name), name).timestamp_unit for name in SOURCES}
    measured = measure_experiments(tables, plan, job.most_quarantined, units)
    return Computed(
        rows=measured.small_tables,
        entries=measured.entries,
        judged=judged(tables, plan, measured.entries, units),
        facts={"conventions": plan.stamp},
        n_rows=len(measured.experiment_rows),
    )


def open_locally(work: Work) -> LocalInput:
    """Return the plan, and the exposures and events as tables of this process."""
    from functools import partial

    from spark_eval.experiments.evaluate import with_unit
    from spark_eval.experiments.wanted import local_tables, own_columns
    from spark_eval.runs.run import needed
    from spark_eval.sources.plain import open_plain

    config, job = work.config, work.job
    sources = {name: needed(getattr(config, name), name) for name in SOURCES}
    columns = {name: source.columns for name, source in sources.items()}
    plan, names = with_unit(needed(config.online, ONLINE).checked(config.gates), columns)
    opened = {
        name: partial(
            open_plain, job.sources[name], name, own_columns(name, plan), job.before[name], work.session
        )
        for name in SOURCES
    }
    units = {name: source.timestamp_unit for name, source in sources.items()}
    tables = local_tables(opened, names, units, plan)
    return LocalInput((plan, tables), sum(table.n_rows for table in tables.values()))


def show(run: "Run", screen: Screen) -> None:
    """Print a line per experiment, metric and treatment; then the decisions."""
    from spark_eval.experiments.tables import SHOWN, decision_lines, shown_lines

    lines = shown_lines(run.rows(Table.EXPERIMENTS))
    screen.grid(SHOWN, lines, f"experiments of run {run.run_id}", of=Table.EXPERIMENTS)
    for text in decision_lines(run.rows(Table.DECISIONS)):
        screen.say(text)


def check(verb: Verb, config: "Config", session: "OpenSession") -> list[str]:
    """Check columns and types of both tables; return their names."""
    from spark_eval.runs.job import Job
    from spark_eval.tables.conformed import check_id_types

    if config.online is not None:
        _, tables = read_tables(config, Job.of(verb, config, None, session), session())
        check_id_types(tables)
    return list(SOURCES)


def judge(run: "Run") -> None:
    """Raise GateFailure EXPERIMENT_FAILED if an experiment is not trusted, or a gated one lost or blocked."""
    from spark_eval.experiments.analysis import failure_of
    from spark_eval.experiments.tables import DecisionRow

    rows = run.rows(Table.DECISIONS)
    failure = failure_of([DecisionRow(*(row[name] for name in DecisionRow._fields)) for row in rows])
    if failure is not None:
        raise failure


VERB = Verb(
    name=ONLINE,
    order=6,
    about="""Compare the variants of online experiments; publish estimates, checks, decisions and accounting.

    Exit code 5 if an experiment cannot be trusted, or if one with a gate is lost or blocked.
    """,
    sections=(ONLINE, *SOURCES, "gates"),
    tables=(
        Published(Table.EXPERIMENTS),
        Published(Table.CHECKS),
        Published(Table.DECISIONS),
        ACCOUNTING,
    ),
    phases=("experiments",),
    compute=compute,
    show=show,
    check=check,
    judge=judge,
    open_locally=open_locally,
    has_verdict=True,
)
