"""One run of one verb: read the sources, call the data path, write and publish the tables."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.config.inputs import Source
from spark_eval.config.sections import Config
from spark_eval.engine.segments import user_columns
from spark_eval.engine.summary import METRICS, SUMS
from spark_eval.errors import ConfigError, DataError
from spark_eval.metrics.options import Plan
from spark_eval.pipeline.rows import FUNNEL, STAGE_TABLE
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.verify import Expected
from spark_eval.runs.job import SECTIONS, Job, Run
from spark_eval.runtime import events
from spark_eval.schema import MODEL, Outcome, Table
from spark_eval.sources.conform import read_each
from spark_eval.transforms.conform import check_id_types
from spark_eval.verbs.checks import quarantined, share_faults
from spark_eval.verbs.evaluate import measure_lists
from spark_eval.verbs.evaluation import Evaluation, Tables
from spark_eval.verbs.leakage import LEAKAGE
from spark_eval.verbs.small import small_table, write_small
from spark_eval.verbs.split import split

# What each verb publishes at least.
SPLIT_TABLES: Final = (Table.SPLITS, Table.LEAKAGE, Table.ACCOUNTING)
EVALUATE_TABLES: Final = (Table.PER_USER, Table.METRICS, Table.SUMS, Table.ACCOUNTING)
STAGE_TABLES: Final = (Table.STAGES, Table.FUNNEL)


def run_split(session: Callable[[], SparkSession], config: Config, run_id: str | None, replace: bool) -> Run:
    """Label the log and publish ``splits``, ``leakage`` and ``accounting``: one write, counted on the way."""
    source = needed(config.interactions, "interactions")
    job = Job.of("split", config, run_id, session)
    with job.attempt(session) as attempt:
        if attempt.is_published(job.fingerprint, SPLIT_TABLES, replace):
            return job.already(attempt, SPLIT_TABLES)
        spark, rule = session(), config.split.rule()
        events.stage("start", then="read")
        log = job.read(spark, "interactions")
        events.stage("read", then="cuts")
        parts = split(log, rule, columns=source.columns, timestamp_unit=source.timestamp_unit)
        events.stage("cuts", then="splits")
        folder = attempt.staged(Table.SPLITS)
        facts = parts.write(folder)
        entries = facts.accounting()
        events.stage("splits", facts.n_rows, then="leakage")
        shares = share_faults(entries, {"interactions": parts.labelled}, job.most_quarantined)
        DataError.raise_all(shares)
        leaks, of_folds = parts.compared(facts, folder)
        entries += of_folds
        write_rows(spark, leaks, LEAKAGE, attempt, Table.LEAKAGE)
        events.stage("leakage", then="publish")
        tables = {
            Table.SPLITS: facts.n_written,
            Table.LEAKAGE: len(leaks),
            **write_entries(spark, entries, {"interactions": parts.labelled}, attempt),
        }
        job.check_rest(session)
        return job.publish(attempt, tables, entries, timeline=parts.timeline and asdict(parts.timeline))


def run_evaluate(
    session: Callable[[], SparkSession], config: Config, run_id: str | None, replace: bool
) -> Run:
    """Measure the recommendations and publish ``per_user``, ``metrics``, ``sums`` and ``accounting``."""
    needed(config.recommendations, "recommendations")
    plan = config.plan
    job = Job.of("evaluate", config, run_id, session)
    published = (*EVALUATE_TABLES, *(STAGE_TABLES if plan.stages else ()))
    with job.attempt(session) as attempt:
        if attempt.is_published(job.fingerprint, published, replace):
            return job.already(attempt, published)
        spark = session()
        events.stage("start", then="read")
        tables = read_tables(spark, job, plan)
        events.stage("read", then="measure")
        evaluation = measure_lists(tables, plan, attempt.staged(Table.PER_USER))
        with closing(evaluation.held):
            write_rows(spark, evaluation.metric_rows, METRICS, attempt, Table.METRICS, MODEL)
            write_rows(spark, evaluation.sum_rows, SUMS, attempt, Table.SUMS, MODEL)
            events.stage("metrics", len(evaluation.metric_rows), then="publish")
            entries = evaluation.entries
            written = {
                Table.PER_USER: evaluation.n_per_user,
                Table.METRICS: len(evaluation.metric_rows),
                Table.SUMS: len(evaluation.sum_rows),
                **write_entries(spark, entries, tables.judged(entries, plan.conventions), attempt),
                **(write_stages(spark, evaluation, attempt) if plan.stages else {}),
            }
            facts = {
                "conventions": plan.stamp,
                "models": list(evaluation.models),
                "truth_digest": evaluation.truth_digest,
            }
            job.check_rest(session)
            most = {value.column: value.metric.upper or math.inf for value in plan.metrics}
            bounds = {value.column: value.metric.lower for value in plan.metrics}
            least = {column: -math.inf if lower is None else lower for column, lower in bounds.items()}
            return job.publish(attempt, written, entries, Expected(most, evaluation.keys, least), **facts)


def write_stages(spark: SparkSession, evaluation: Evaluation, attempt: Attempt) -> dict[Table, int]:
    """Stage what is known of the stages of a pipeline; return the number of rows of each table."""
    write_rows(spark, evaluation.stage_rows, STAGE_TABLE, attempt, Table.STAGES)
    write_rows(spark, evaluation.funnel_rows, FUNNEL, attempt, Table.FUNNEL)
    return {Table.STAGES: len(evaluation.stage_rows), Table.FUNNEL: len(evaluation.funnel_rows)}


def read_tables(spark: SparkSession, job: Job, plan: Plan) -> Tables:
    """Return what an evaluation reads, conformed."""
    unread = {"users"} - ({"users"} if user_columns(plan.segments) else set())
    unread |= set() if plan.needs_items else {"items"}
    sources: dict[str, Any] = {name: job.sources[name] for name in job.sources if name not in unread}
    frames = read_each(spark, sources, job.splits, job.timezone, plan, job.before)
    return Tables.of(frames, sources, plan, job.most_quarantined)


def check_inputs(session: Callable[[], SparkSession], config: Config, verb: str | None = None) -> list[str]:
    """Check columns and types of what a verb reads, or of all sources in the config; return their names."""
    if verb is not None:
        needed(getattr(config, SECTIONS[verb][0]), SECTIONS[verb][0])
    plan, job = config.plan, Job.of(verb or "evaluate", config, None, session)
    names = SECTIONS[verb] if verb else chain.from_iterable(SECTIONS.values())
    sources = {name: source for name in names if isinstance(source := getattr(config, name), Source)}
    timed = config.split.rule().timed
    frames = read_each(session(), sources, job.splits, job.timezone, plan, {}, timed)
    alone = ("interactions", "predictions")
    check_id_types({name: conformed for name, (_, conformed) in frames.items() if name not in alone})
    return list(frames)


def needed(section: Any, name: str) -> Any:
    """Return the section; raise ConfigError MISSING_SECTION where there is none."""
    if section is None:
        raise ConfigError("MISSING_SECTION", f"the config has no section {name!r}, which this verb reads")
    return section


def stage_frame(frame: DataFrame, attempt: Attempt, table: Table, *partitions: str) -> None:
    """Stage a table; nothing can be there yet."""
    frame.write.mode("error").partitionBy(*partitions).parquet(attempt.staged(table))


def write_rows(
    spark: SparkSession,
    rows: Sequence[Sequence[Any]],
    schema: str,
    attempt: Attempt,
    table: Table,
    *partitions: str,
) -> None:
    """Stage rows that the driver holds; through Spark only where the folder is not on this machine."""
    if attempt.store.is_local:
        write_small(rows, schema, Path(attempt.staged(table)), by_model=MODEL in partitions)
    else:
        stage_frame(small_table(spark, rows, schema).coalesce(1), attempt, table, *partitions)


def write_entries(
    spark: SparkSession, entries: Sequence[Entry], sources: Mapping[str, DataFrame], attempt: Attempt
) -> dict[Table, int]:
    """Stage the accounting, and the rows that it says are quarantined; return the number of rows of each."""
    write_rows(spark, entries, ACCOUNTING, attempt, Table.ACCOUNTING)
    bad = Counter[str]()
    for entry in entries:
        if entry.outcome == Outcome.QUARANTINED:
            bad[entry.source] += entry.rows
    if not bad:
        return {Table.ACCOUNTING: len(entries)}
    frames = [quarantined(source, sources[source]) for source in sorted(bad)]
    stage_frame(reduce(DataFrame.unionAll, frames).coalesce(1), attempt, Table.QUARANTINE)
    return {Table.ACCOUNTING: len(entries), Table.QUARANTINE: bad.total()}
