"""The runner of verbs: from the sources of a config to published tables."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace as replaced
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from spark_eval.accounting import Entry
from spark_eval.arrow.footers import read_footer
from spark_eval.config.inputs import Source
from spark_eval.errors import ConfigError, DataError, collect_errors
from spark_eval.evaluation.wanted import local_tables
from spark_eval.predictions.wanted import local_predictions
from spark_eval.publishing.attempt import Attempt
from spark_eval.results.driver_tables import SmallRows, small_table, write_rows, write_small
from spark_eval.runners.engine import parse_engine, reason_for_spark, refuse_or_explain, say_local, say_spark
from spark_eval.runners.quarantine import quarantined
from spark_eval.runners.spread import write_frame, write_union
from spark_eval.runs.job import Job, Run
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import LocalInput, Verb, Work
from spark_eval.runs.verbs import VERBS, evaluate, linkage, online
from spark_eval.runtime import events
from spark_eval.runtime.any_session import OpenSession
from spark_eval.runtime.versions import LOCAL
from spark_eval.schema import INPUT_COLUMNS, KIND, MODEL, TIMESTAMP, USER, Outcome, Table
from spark_eval.sources.plain import open_plain
from spark_eval.sources.snapshots import pinned
from spark_eval.splits.local_log import local_log
from spark_eval.tables.columns import check_mapping, missing_column
from spark_eval.tables.conformed import Rows, check_id_types
from spark_eval.tables.local_tables import LocalTable, NotPlain

Given = TypeVar("Given")
# Tables whose ids need not have the types of those of other tables.
ALONE: Final = ("interactions", "predictions")
# Columns that a table of experiments has, whatever is measured.
ALWAYS: Final = {online.EXPOSURES: (USER, TIMESTAMP), online.EVENTS: (USER, TIMESTAMP, KIND)}
# Settings of the session that change how files are read.
READERS: Final = ("spark.sql.files.", "spark.sql.parquet.", "spark.hadoop.")


def run_verb(verb: Verb, session: OpenSession, config: Config, run_id: str | None, replace: bool) -> Run:
    """Do the work of a verb and publish its tables, all of them or none.

    Args:
        verb: The record of the verb.
        session: Opens the session of Spark, at the first call.
        config: The validated config.
        run_id: The id of the run; by default it follows from config, inputs and code.
        replace: Whether a run of this id with other content may be replaced.

    Returns:
        The published run; ``is_new`` is false if exactly this content was published already.

    Raises:
        ConfigError: MISSING_SECTION, RUN_EXISTS, or an error of the config that only inputs show.
        DataError: The inputs break the contract, or changed during the run.
        BusyError: RUN_BUSY if another attempt is at work.
    """
    verb.check_sections(config)
    job, tables = verb.job(verb, config, run_id, session), verb.tables_of(config)
    with job.attempt(session) as attempt, ExitStack() as resources:
        if attempt.is_published(job.fingerprint, tables, replace):
            published = attempt.records[verb.name].job["tables"]
            return job.already(attempt, [one.name for one in verb.tables if one.name in published])
        work = Work(session, config, job, attempt, resources)
        work = replaced(work, local=local_input(verb, work) if verb.opens_spark else None)
        if verb.opens_spark and work.local is None:
            session()
        events.stage("start", then=verb.phases[0])
        computed = verb.compute(work)
        rows = {table: computed.rows[table] for table in computed.rows if table in tables}
        written = {**computed.written, **stage_rows(session, rows, attempt, verb.by_model)}
        events.stage(verb.phases[-1], computed.n_rows, then="publish")
        if job.sources:  # without any, entries add up those of other runs, which have quarantined the rows
            written |= stage_quarantine(computed.entries, computed.judged, attempt)
        job.check_rest(session)
        return job.publish(attempt, written, computed.entries, computed.expected, **computed.facts)


def local_input(verb: Verb, work: Work) -> Any:
    """Return the input of a verb as tables of this process; None if the run is on Spark. Log which and why.

    Raises ConfigError NEEDS_SPARK if ``engine`` is ``local`` and only Spark can do the work.
    """
    engine = parse_engine(work.config.engine)
    reason = reason_for_spark(engine, ()) or reason_of_run(work)
    if reason is None and verb.open_locally is not None:
        try:
            local = verb.open_locally(work)
        except NotPlain as fault:
            reason = str(fault)
        else:
            say_local(local.n_rows, "plain Parquet")
            return local.tables
    say_spark(refuse_or_explain(engine, reason or f"{verb.name} has no other engine"))
    return None


def reason_of_run(work: Work) -> str | None:
    """Return why a run is on Spark, whatever its inputs hold; None if this process may take it."""
    spark = work.config.spark
    if not LOCAL.match(spark.master):
        return f"spark.master is {spark.master}"
    if setting := next((name for name in spark.conf if name.startswith(READERS)), None):
        return f"spark.conf has {setting}"
    if work.config.output.table is not None:
        return "output.table is of a catalog"
    if not work.attempt.store.is_local:
        return "output.path is not on this machine"
    return None


def taken_here(verb: Verb, job: Job, config: Config, session: OpenSession) -> Any:
    """Return the inputs of a verb, with checked columns and types, if this process takes them; else None."""
    attempt = Attempt(job.store, job.run_id, verb.name)  # never begun
    with ExitStack() as resources:
        return local_input(verb, Work(session, config, job, attempt, resources))


def check_inputs(session: OpenSession, config: Config, verb: Verb | None = None) -> list[str]:
    """Check the sources of a verb, or all that the config has, whatever it lacks; return their names.

    A session is opened only for sources that this process does not take. One DataError lists all faults.
    """
    verbs = VERBS.values() if verb is None else [verb]
    sections = dict.fromkeys(name for one in verbs for name in one.sections)
    given = [name for name in sections if isinstance(getattr(config, name), Source)]
    of_links = [name for name in given if name in linkage.VERB.sections]
    of_experiments = [name for name in given if name in (*online.SOURCES, online.INTERLEAVING)]
    others = [name for name in given if name not in (*of_links, *of_experiments)]
    checks = {check_lists: others, check_links: of_links, check_experiments: of_experiments}
    collect_errors(
        {check.__name__: partial(check, session, config, names) for check, names in checks.items() if names}
    )
    return given


def check_lists(session: OpenSession, config: Config, names: Sequence[str]) -> None:
    """Check logs, lists and predictions; tables of columns that only their own verb knows are just read."""
    job = job_with(evaluate.VERB, config, names, session)
    if taken_here(replaced(evaluate.VERB, open_locally=open_lists), job, config, session) is not None:
        return
    from spark_eval.sources.read import read_each

    known = {name: source for name, source in job.sources.items() if name in INPUT_COLUMNS}
    frames = read_each(session(), known, job.timezone, config.plan, {}, config.split.rule().timed)
    check_id_types({name: conformed for name, (_, conformed) in frames.items() if name not in ALONE})
    for name in job.sources.keys() - known.keys():
        job.read(session(), name)


def job_with(verb: Verb, config: Config, names: Collection[str], session: OpenSession) -> Job:
    """Return the job of a verb with these sources alone."""
    job = Job.of(verb, config, None, session)
    sources = {name: pinned(getattr(config, name).at(job.splits), session) for name in names}
    return replaced(job, sources=sources, inputs={name: job.inputs.get(name, ()) for name in names})


def open_lists(work: Work) -> LocalInput:
    """Return logs, lists and predictions as tables of this process; NotPlain if only Spark can take one."""
    tables = collect_errors({name: partial(open_list, work, name) for name in work.job.sources})
    check_id_types({name: table for name, table in tables.items() if name not in ALONE})
    return LocalInput(tables, sum(table.n_rows for table in tables.values()))


def open_list(work: Work, name: str) -> LocalTable:
    """Return a log, lists or predictions as a table of this process."""
    source: Any = work.job.sources[name]
    plan = work.config.plan
    if name not in INPUT_COLUMNS:
        raise NotPlain(f"{name} is known to its own verb alone")
    segments = {"users": plan.user_columns, "predictions": getattr(source, "segments", ())}.get(name, ())
    opened = partial(open_plain, source, name, segments, None, work.session)
    match name:
        case "interactions":
            return local_log(opened(), source.columns, source.timestamp_unit, work.config.split.rule())
        case "predictions":
            found = local_predictions(opened(), source.columns, source.model, source.checked())
            rows: LocalTable = found.rows
            return rows
    return local_tables({name: opened}, work.job.sources, plan)[name]


def check_links(session: OpenSession, config: Config, _names: Sequence[str]) -> None:
    """Check pairs, clusters and reviews; the sample that was reviewed need not be published."""
    from spark_eval.runs.linkage import check_tables

    check_tables(linkage.VERB, Job.of(linkage.VERB, config, None, session), config, session)


def check_experiments(session: OpenSession, config: Config, names: Sequence[str]) -> None:
    """Check tables of experiments, each alone if the config lacks the experiments or the other table."""
    is_whole = config.online is not None and set(online.SOURCES) <= set(names)
    if is_whole or online.INTERLEAVING in names:
        part = config if is_whole else config.model_copy(update={"online": None})
        online.check(online.VERB, part, session)
    job = job_with(online.VERB, config, [] if is_whole else [*ALWAYS.keys() & {*names}], session)
    collect_errors({name: partial(check_alone, session, config, job, name) for name in sorted(job.sources)})


def check_alone(session: OpenSession, config: Config, job: Job, name: str) -> None:
    """Check that a table of experiments has the columns that it always has, and those that are mapped."""
    source = job.sources[name]
    check_mapping(name, source.columns)

    def check(columns: Sequence[str]) -> None:
        known = {column.lower() for column in columns}
        DataError.raise_all(
            [
                missing_column(name, ours, source.columns, columns)
                for ours in dict.fromkeys((*ALWAYS[name], *source.columns))
                if source.columns.get(ours, ours).split(".")[0].lower() not in known
            ]
        )

    def open_locally(work: Work) -> LocalInput:
        _, paths, schema = open_plain(source, name, (), None, work.session)
        check(schema.names)
        return LocalInput(paths, sum(read_footer(path).num_rows for path in paths))

    if taken_here(replaced(online.VERB, open_locally=open_locally), job, config, session) is None:
        check(job.read(session(), name).columns)


def needed(section: Given | None, name: str) -> Given:
    """Return the section; raise ConfigError MISSING_SECTION if it is None."""
    if section is None:
        raise ConfigError("MISSING_SECTION", f"the config has no section {name!r}, which this verb reads")
    return section


def stage_frame(frame: Rows, attempt: Attempt, table: str, *partitions: str) -> None:
    """Write a table to its staging folder, which must not exist; in this process by model if at all."""
    if isinstance(frame, LocalTable):
        write_rows(frame.table(), Path(attempt.staged(table)), by_model=MODEL in partitions)
        return
    write_frame(frame, attempt.staged(table), *partitions)


def stage_rows(
    session: OpenSession, tables: Mapping[str, SmallRows], attempt: Attempt, by_model: Iterable[str]
) -> dict[str, int]:
    """Stage small tables, with Spark only if the store is remote; return the number of rows of each.

    Tables in ``by_model`` have a folder for each model.
    """
    for table, (rows, schema) in tables.items():
        if attempt.store.is_local:
            write_small(rows, schema, Path(attempt.staged(table)), by_model=table in by_model)
        else:
            frame = small_table(session(), rows, schema).coalesce(1)
            stage_frame(frame, attempt, table, *([MODEL] if table in by_model else []))
    return {table: len(rows) for table, (rows, _) in tables.items()}


def stage_quarantine(
    entries: Iterable[Entry], sources: Mapping[str, Any], attempt: Attempt
) -> dict[str, int]:
    """Stage the quarantined rows if the accounting has any; return their number."""
    bad = Counter[str]()
    for entry in entries:
        if entry.outcome == Outcome.QUARANTINED:
            bad[entry.source] += entry.rows
    if not bad:
        return {}
    frames = [quarantined(source, sources[source]) for source in sorted(bad)]
    write_union(frames, attempt.staged(Table.QUARANTINE))
    return {Table.QUARANTINE: bad.total()}
