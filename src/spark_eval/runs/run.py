"""The runner of verbs: from the sources of a config to published tables."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any, Final, TypeVar

from spark_eval.accounting import Entry
from spark_eval.errors import ConfigError
from spark_eval.publishing.attempt import Attempt
from spark_eval.results.driver_tables import SmallRows, small_table, write_rows, write_small
from spark_eval.runners.engine import parse_engine, reason_for_spark, refuse_or_explain, say_local, say_spark
from spark_eval.runners.quarantine import quarantined
from spark_eval.runners.rows import Rows, SparkRows, write_frame
from spark_eval.runs.job import Job, Run
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import Computed, Verb, Work
from spark_eval.runtime import events
from spark_eval.runtime.any_session import OpenSession
from spark_eval.runtime.versions import LOCAL
from spark_eval.schema import MODEL, Outcome, Table
from spark_eval.tables.spec import NotPlain

Given = TypeVar("Given")
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
        facts = {**computed.facts, **results_of_gates(computed)}
        return job.publish(attempt, written, computed.entries, computed.expected, **facts)


def results_of_gates(computed: Computed) -> dict[str, dict[str, int]]:
    """Return the results of gates for the commit record; empty for a verb without gates."""
    if computed.rows.keys().isdisjoint((Table.GATES, Table.DECISIONS)):
        return {}
    # Imported here: most runs have no gates.
    from spark_eval.runs.verdict import gate_results

    tables: Mapping[str, tuple[Sequence[Any], str]] = computed.rows
    rows = {table: [row._asdict() for row in of_table] for table, (of_table, _) in tables.items()}
    return {"gates": gate_results(rows)}


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
            say_local(local.n_rows, "files")
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


def needed(section: Given | None, name: str) -> Given:
    """Return the section; raise ConfigError MISSING_SECTION if it is None."""
    if section is None:
        raise ConfigError("MISSING_SECTION", f"the config has no section {name!r}, which this verb reads")
    return section


def stage_frame(frame: Rows, attempt: Attempt, table: str, *partitions: str) -> None:
    """Write a table to its staging folder, which must not exist; in this process by model if at all."""
    if frame.session is not None:
        write_frame(frame.result(), attempt.staged(table), *partitions)
    else:
        write_rows(frame.table(), Path(attempt.staged(table)), by_model=MODEL in partitions)


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
            stage_frame(SparkRows(frame), attempt, table, *([MODEL] if table in by_model else []))
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
    frames[0].concat(frames[1:]).write_one_file(attempt.staged(Table.QUARANTINE))
    return {Table.QUARANTINE: bad.total()}
