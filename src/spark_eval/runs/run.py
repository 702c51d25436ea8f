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

from spark_eval.accounting import ACCOUNTING, AccountingRow
from spark_eval.config.sections import Config, Source
from spark_eval.engine.segments import user_columns
from spark_eval.engine.summary import METRICS
from spark_eval.errors import ConfigError, DataError
from spark_eval.metrics.options import Plan
from spark_eval.publishing.local import Attempt
from spark_eval.publishing.remote import RemoteAttempt
from spark_eval.publishing.verify import Expected
from spark_eval.runs.job import SECTIONS, Job, Run
from spark_eval.runtime import events
from spark_eval.schema import MODEL, Outcome, Table
from spark_eval.sources.conform import read_each
from spark_eval.sources.read import read_source
from spark_eval.transforms.conform import check_id_types
from spark_eval.transforms.plain_files import plain_recommendations, plain_truth
from spark_eval.verbs.evaluate import measure_lists
from spark_eval.verbs.evaluation import Tables
from spark_eval.verbs.leakage import LEAKAGE
from spark_eval.verbs.quarantine import quarantined, share_faults
from spark_eval.verbs.small import small_table, write_small
from spark_eval.verbs.split import split

# What each verb publishes at least.
SPLIT_TABLES: Final = (Table.SPLITS, Table.LEAKAGE, Table.ACCOUNTING)
EVALUATE_TABLES: Final = (Table.PER_USER, Table.METRICS, Table.ACCOUNTING)


def run_split(session: Callable[[], SparkSession], config: Config, run_id: str | None, replace: bool) -> Run:
    """Label the log and publish ``splits``, ``leakage`` and ``accounting``: one write, counted on the way."""
    source = needed(config.interactions, "interactions")
    job = Job.of("split", config, run_id, session)
    with job.attempt(session) as attempt:
        if attempt.is_published(job.fingerprint, SPLIT_TABLES, replace):
            return job.already(attempt, SPLIT_TABLES)
        spark, rule = session(), config.split.rule()
        events.stage("start", then="read")
        before = job.names_before("interactions")
        log = read_source(spark, source, "interactions", job.splits, rule.timezone, before=before)
        events.stage("read", then="cuts")
        parts = split(log, rule, columns=source.columns, timestamp_unit=source.timestamp_unit)
        events.stage("cuts", then="splits")
        folder = attempt.staged(Table.SPLITS)
        facts = parts.write(folder)
        ledger = facts.accounting()
        events.stage("splits", facts.n_rows, then="leakage")
        shares = share_faults(ledger, {"interactions": parts.labelled}, job.most_quarantined)
        DataError.raise_all(shares)
        found, of_folds = parts.compared(facts, folder)
        ledger += of_folds
        write_rows(spark, found, LEAKAGE, attempt, Table.LEAKAGE)
        events.stage("leakage", then="publish")
        tables = {
            Table.SPLITS: facts.n_written,
            Table.LEAKAGE: len(found),
            Table.ACCOUNTING: write_accounting(spark, ledger, attempt),
            **write_quarantine({"interactions": parts.labelled}, ledger, attempt),
        }
        job.check_rest(session)
        return job.publish(attempt, tables, ledger, timeline=parts.timeline and asdict(parts.timeline))


def run_evaluate(
    session: Callable[[], SparkSession], config: Config, run_id: str | None, replace: bool
) -> Run:
    """Measure the recommendations and publish ``per_user``, ``metrics`` and ``accounting``."""
    needed(config.recommendations, "recommendations")
    plan = config.evaluate.checked()
    job = Job.of("evaluate", config, run_id, session)
    with job.attempt(session) as attempt:
        if attempt.is_published(job.fingerprint, EVALUATE_TABLES, replace):
            return job.already(attempt, EVALUATE_TABLES)
        spark = session()
        events.stage("start", then="read")
        tables = read_tables(spark, job, plan)
        events.stage("read", then="measure")
        evaluation = measure_lists(tables, plan, attempt.staged(Table.PER_USER))
        with closing(evaluation.kept):
            write_rows(spark, evaluation.metric_rows, METRICS, attempt, Table.METRICS, MODEL)
            events.stage("metrics", len(evaluation.metric_rows), then="publish")
            ledger = [entry.row() for entry in evaluation.entries]
            written = {
                Table.PER_USER: evaluation.n_per_user,
                Table.METRICS: len(evaluation.metric_rows),
                Table.ACCOUNTING: write_accounting(evaluation.spark, ledger, attempt),
                **write_quarantine(tables.given(), ledger, attempt),
            }
            facts = {"conventions": plan.stamp, "models": list(evaluation.models)}
            job.check_rest(session)
            most = {value.column: value.metric.upper or math.inf for value in plan.metrics}
            return job.publish(attempt, written, ledger, Expected(most, evaluation.keys), **facts)


def read_tables(spark: SparkSession, job: Job, plan: Plan) -> Tables:
    """What an evaluation reads, conformed."""
    unread = {"items"} if user_columns(plan.segments) else {"items", "users"}
    sources: dict[str, Any] = {name: job.sources[name] for name in job.sources if name not in unread}
    before = {name: job.names_before(name) for name in sources}
    found = read_each(spark, sources, job.splits, job.timezone, plan, before)
    lists, truth = sources["recommendations"], sources["truth"]
    return Tables(
        **{name: conformed for name, (_, conformed) in found.items()},
        model=lists.model,
        files=plain_recommendations(found["recommendations"][0], lists.columns, lists.model, lists.layout),
        truth_files=plain_truth(found["truth"][0], truth.columns, plan.conventions),
        most_quarantined=job.most_quarantined,
    )


def check_inputs(session: Callable[[], SparkSession], config: Config, verb: str | None = None) -> list[str]:
    """Check columns and types of what a verb reads, or of all sources in the config; return their names."""
    if verb is not None:
        needed(getattr(config, SECTIONS[verb][0]), SECTIONS[verb][0])
    plan, job = config.evaluate.checked(), Job.of(verb or "evaluate", config, None, session)
    names = SECTIONS[verb] if verb else chain.from_iterable(SECTIONS.values())
    sources = {name: source for name in names if isinstance(source := getattr(config, name), Source)}
    timed = config.split.rule().timed
    found = read_each(session(), sources, job.splits, job.timezone, plan, {}, timed)
    alone = ("interactions", "predictions")
    check_id_types({name: conformed for name, (_, conformed) in found.items() if name not in alone})
    return list(found)


def needed(section: Any, name: str) -> Any:
    """The section, or ConfigError MISSING_SECTION."""
    if section is None:
        raise ConfigError("MISSING_SECTION", f"the config has no section {name!r}, which this verb reads")
    return section


def write(frame: DataFrame, attempt: Attempt | RemoteAttempt, table: Table, *partitions: str) -> None:
    """Stage a table; nothing can be there yet."""
    frame.write.mode("error").partitionBy(*partitions).parquet(attempt.staged(table))


def write_rows(
    spark: SparkSession,
    rows: Sequence[Sequence[Any]],
    schema: str,
    attempt: Attempt | RemoteAttempt,
    table: Table,
    *partitions: str,
) -> None:
    """Stage rows that the driver holds; through Spark only where the folder is not on this machine."""
    if isinstance(attempt, Attempt):
        write_small(rows, schema, Path(attempt.staged(table)), by_model=MODEL in partitions)
    else:
        write(small_table(spark, rows, schema).coalesce(1), attempt, table, *partitions)


def write_accounting(
    spark: SparkSession, rows: Sequence[AccountingRow], attempt: Attempt | RemoteAttempt
) -> int:
    """Stage the ledger; the number of its rows."""
    write_rows(spark, rows, ACCOUNTING, attempt, Table.ACCOUNTING)
    return len(rows)


def write_quarantine(
    sources: Mapping[str, DataFrame], ledger: Sequence[AccountingRow], attempt: Attempt | RemoteAttempt
) -> dict[Table, int]:
    """Stage the rows that could not be used, if there are any: source, code, and the row as JSON.

    Their number is that of the ledger.
    """
    bad = Counter[str]()
    for source, _, outcome, _, n_rows, _ in ledger:
        if outcome == Outcome.QUARANTINED:
            bad[source] += n_rows
    if not bad:
        return {}
    frames = [quarantined(source, sources[source]) for source in sorted(bad)]
    write(reduce(DataFrame.unionAll, frames).coalesce(1), attempt, Table.QUARANTINE)
    return {Table.QUARANTINE: bad.total()}
