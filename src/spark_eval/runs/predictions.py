"""One run of the verb ``predictions``: as ``runs``, for rows of a label and a score."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

from spark_eval.config.sections import Config
from spark_eval.pointwise.tables import CURVES, METRICS, THRESHOLDS
from spark_eval.runs.job import Job, Run
from spark_eval.runs.run import needed, write_accounting, write_quarantine, write_rows
from spark_eval.runtime import events
from spark_eval.schema import MODEL, Table
from spark_eval.sources.read import read_source
from spark_eval.transforms.predictions import SOURCE
from spark_eval.verbs.predictions import measure_predictions, read_predictions

# What is published at least; with ``curves`` and ``choose`` also the tables of these names.
PREDICTION_TABLES: Final = (Table.METRICS, Table.ACCOUNTING)


def run_predictions(
    session: Callable[[], SparkSession], config: Config, run_id: str | None, replace: bool
) -> Run:
    """Measure the predictions and publish ``metrics``, ``accounting``, and what else is asked for."""
    source = needed(config.predictions, SOURCE)
    plan = source.checked()
    job = Job.of(SOURCE, config, run_id, session)
    asked = {Table.CURVES: plan.curves, Table.THRESHOLDS: bool(plan.rules)}
    tables = (*PREDICTION_TABLES, *(table for table, is_asked in asked.items() if is_asked))
    with job.attempt(session) as attempt:
        if attempt.is_published(job.fingerprint, tables, replace):
            return job.already(attempt, tables)
        spark = session()
        events.stage("start", then="metrics")
        before = job.names_before(SOURCE)
        frame = read_source(spark, source, SOURCE, job.splits, job.timezone, plan.segments, before)
        found = read_predictions(frame, source.columns, source.model, plan)
        measured = measure_predictions(found, job.most_quarantined)
        events.stage("metrics", len(measured.metric_rows), then="publish")
        write_rows(spark, measured.metric_rows, METRICS, attempt, Table.METRICS, MODEL)
        written = {Table.METRICS: len(measured.metric_rows)}
        if plan.curves:
            write_rows(spark, measured.curve_rows, CURVES, attempt, Table.CURVES, MODEL)
            written[Table.CURVES] = len(measured.curve_rows)
        if plan.rules:
            write_rows(spark, measured.threshold_rows, THRESHOLDS, attempt, Table.THRESHOLDS, MODEL)
            written[Table.THRESHOLDS] = len(measured.threshold_rows)
        ledger = measured.entries
        written[Table.ACCOUNTING] = write_accounting(measured.spark, ledger, attempt)
        written |= write_quarantine({SOURCE: found.given}, ledger, attempt)
        job.check_rest(session)
        return job.publish(attempt, written, ledger, conventions=plan.stamp, models=measured.models)
