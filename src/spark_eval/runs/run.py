"""Run of one verb: read the sources, compute the result, write and publish the tables."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.config.sections import Config
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.evaluate import measure_lists
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.result import Tables
from spark_eval.evaluation.segments import tables_read
from spark_eval.predictions.evaluate import measure_predictions, read_predictions
from spark_eval.predictions.measure import PREDICTIONS
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.verify import Expected
from spark_eval.results.driver_tables import SmallRows, small_table, write_small
from spark_eval.results.subsets import SUBSET_TABLE
from spark_eval.runs.job import SECTIONS, Job, Run, sources_in
from spark_eval.runtime import events
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import MODEL, Outcome, Table
from spark_eval.sources.read import read_each
from spark_eval.splits.leakage import LEAKAGE
from spark_eval.splits.split import split
from spark_eval.tables.inputs import check_id_types
from spark_eval.tables.quarantine import quarantined, share_faults

# Tables that each verb always publishes.
SPLIT_TABLES: Final = (Table.SPLITS, Table.SUBSETS, Table.LEAKAGE, Table.ACCOUNTING)
EVALUATE_TABLES: Final = (Table.PER_USER, Table.METRICS, Table.SUMS, Table.ACCOUNTING)
PREDICTION_TABLES: Final = (Table.METRICS, Table.ACCOUNTING)
# Tables that are partitioned by model.
OF_MODELS: Final = (Table.METRICS, Table.SUMS, Table.CURVES, Table.THRESHOLDS)


def run_split(session: OpenSession, config: Config, run_id: str | None, replace: bool) -> Run:
    """Label the log and publish ``splits``, ``subsets``, ``leakage`` and ``accounting``, in one write."""
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
        rows: dict[Table, SmallRows] = {
            Table.SUBSETS: (parts.counted_subsets(folder), SUBSET_TABLE),
            Table.LEAKAGE: (leaks, LEAKAGE),
            Table.ACCOUNTING: (entries, ACCOUNTING),
        }
        tables = {Table.SPLITS: facts.n_written, **stage_rows(spark, rows, attempt)}
        events.stage("leakage", then="publish")
        tables |= stage_quarantine(entries, {"interactions": parts.labelled}, attempt)
        job.check_rest(session)
        return job.publish(attempt, tables, entries, timeline=parts.timeline and asdict(parts.timeline))


def run_evaluate(session: OpenSession, config: Config, run_id: str | None, replace: bool) -> Run:
    """Evaluate the recommendations and publish ``per_user``, ``metrics``, ``sums`` and ``accounting``."""
    needed(config.recommendations, "recommendations")
    plan = config.plan
    job = Job.of("evaluate", config, run_id, session)
    published = (*EVALUATE_TABLES, *((Table.STAGES, Table.FUNNEL) if plan.stages else ()))
    with job.attempt(session) as attempt:
        if attempt.is_published(job.fingerprint, published, replace):
            return job.already(attempt, published)
        spark = session()
        events.stage("start", then="read")
        tables = read_tables(spark, job, plan)
        events.stage("read", then="measure")
        evaluation = measure_lists(tables, attempt.staged(Table.PER_USER))
        with closing(evaluation.held):
            written = {
                Table.PER_USER: evaluation.n_per_user,
                **stage_rows(spark, evaluation.small_tables, attempt, published),
            }
            events.stage("metrics", len(evaluation.metric_rows), then="publish")
            entries = evaluation.entries
            written |= stage_quarantine(entries, tables.judged(entries), attempt)
            facts = {
                "conventions": plan.stamp,
                "models": list(evaluation.models),
                "truth_digest": evaluation.truth_digest,
            }
            job.check_rest(session)
            expected = Expected.of(plan.metrics, evaluation.keys)
            return job.publish(attempt, written, entries, expected, **facts)


def run_predictions(session: OpenSession, config: Config, run_id: str | None, replace: bool) -> Run:
    """Evaluate the predictions and publish ``metrics``, ``accounting`` and the requested tables."""
    source = needed(config.predictions, PREDICTIONS)
    plan = source.checked()
    job = Job.of(PREDICTIONS, config, run_id, session)
    asked = {Table.CURVES: plan.curves, Table.THRESHOLDS: bool(plan.rules)}
    tables = (*PREDICTION_TABLES, *(table for table, is_asked in asked.items() if is_asked))
    with job.attempt(session) as attempt:
        if attempt.is_published(job.fingerprint, tables, replace):
            return job.already(attempt, tables)
        spark = session()
        events.stage("start", then="metrics")
        frame = job.read(spark, PREDICTIONS, plan.segments)
        scored = read_predictions(frame, source.columns, source.model, plan)
        measured = measure_predictions(scored, job.most_quarantined)
        events.stage("metrics", len(measured.metric_rows), then="publish")
        written = stage_rows(spark, measured.small_tables, attempt, tables)
        written |= stage_quarantine(measured.entries, {PREDICTIONS: scored.given}, attempt)
        job.check_rest(session)
        return job.publish(attempt, written, measured.entries, conventions=plan.stamp, models=measured.models)


def read_tables(spark: SparkSession, job: Job, plan: Plan) -> Tables:
    """Return the conformed tables of an evaluation."""
    sources: dict[str, Any] = {name: job.sources[name] for name in tables_read(plan, job.sources)}
    frames = read_each(spark, sources, job.timezone, plan, job.before)
    return Tables.of(frames, sources, plan, job.most_quarantined)


def check_inputs(session: OpenSession, config: Config, verb: str | None = None) -> list[str]:
    """Check columns and types of a verb's sources, or of all sources of the config; return their names."""
    if verb is not None:
        needed(getattr(config, SECTIONS[verb][0]), SECTIONS[verb][0])
    plan, job = config.plan, Job.of(verb or "evaluate", config, None, session)
    names = SECTIONS[verb] if verb else chain.from_iterable(SECTIONS.values())
    sources, timed = sources_in(config, names, job.splits), config.split.rule().timed
    frames = read_each(session(), sources, job.timezone, plan, {}, timed)
    alone = ("interactions", "predictions")
    check_id_types({name: conformed for name, (_, conformed) in frames.items() if name not in alone})
    return list(frames)


def needed(section: Any, name: str) -> Any:
    """Return the section; raise ConfigError MISSING_SECTION if it is None."""
    if section is None:
        raise ConfigError("MISSING_SECTION", f"the config has no section {name!r}, which this verb reads")
    return section


def stage_frame(frame: DataFrame, attempt: Attempt, table: Table, *partitions: str) -> None:
    """Write a table to its staging folder, which must not exist."""
    frame.write.mode("error").partitionBy(*partitions).parquet(attempt.staged(table))


def stage_rows(
    spark: SparkSession,
    tables: Mapping[Table, SmallRows],
    attempt: Attempt,
    wanted: Collection[Table] = tuple(Table),
) -> dict[Table, int]:
    """Stage the wanted small tables, with Spark only if the store is remote.

    Return the number of rows of each.
    """
    chosen = {table: tables[table] for table in tables if table in wanted}
    for table, (rows, schema) in chosen.items():
        if attempt.store.is_local:
            write_small(rows, schema, Path(attempt.staged(table)), by_model=table in OF_MODELS)
        else:
            frame = small_table(spark, rows, schema).coalesce(1)
            stage_frame(frame, attempt, table, *([MODEL] if table in OF_MODELS else []))
    return {table: len(rows) for table, (rows, _) in chosen.items()}


def stage_quarantine(
    entries: Iterable[Entry], sources: Mapping[str, DataFrame], attempt: Attempt
) -> dict[Table, int]:
    """Stage the quarantined rows if the accounting has any; return their number."""
    bad = Counter[str]()
    for entry in entries:
        if entry.outcome == Outcome.QUARANTINED:
            bad[entry.source] += entry.rows
    if not bad:
        return {}
    frames = [quarantined(source, sources[source]) for source in sorted(bad)]
    stage_frame(reduce(DataFrame.unionAll, frames).coalesce(1), attempt, Table.QUARANTINE)
    return {Table.QUARANTINE: bad.total()}
