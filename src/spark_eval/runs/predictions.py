"""One run of the verb ``predictions``: as ``runs.run``, for rows of a label and a score."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

from spark_eval.config.sections import Config
from spark_eval.pointwise.tables import CURVES, PREDICTION_METRICS, THRESHOLDS
from spark_eval.runs.job import Job, Run
from spark_eval.runs.run import needed, write_entries, write_rows
from spark_eval.runtime import events
from spark_eval.schema import MODEL, Table
from spark_eval.transforms.predictions import PREDICTIONS
from spark_eval.verbs.predictions import measure_predictions, read_predictions

# What is published at least; with ``curves`` and ``choose`` also the tables of these names.
PREDICTION_TABLES: Final = (Table.METRICS, Table.ACCOUNTING)


def run_predictions(
    session: Callable[[], SparkSession], config: Config, run_id: str | None, replace: bool
) -> Run:
    """Measure the predictions and publish ``metrics``, ``accounting``, and what else is asked for."""
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
        rows = read_predictions(frame, source.columns, source.model, plan)
        measured = measure_predictions(rows, job.most_quarantined)
        events.stage("metrics", len(measured.metric_rows), then="publish")
        written = {}
        for table, table_rows, schema in (
            (Table.METRICS, measured.metric_rows, PREDICTION_METRICS),
            (Table.CURVES, measured.curve_rows, CURVES),
            (Table.THRESHOLDS, measured.threshold_rows, THRESHOLDS),
        ):
            if table in tables:
                write_rows(spark, table_rows, schema, attempt, table, MODEL)
                written[table] = len(table_rows)
        written |= write_entries(spark, measured.entries, {PREDICTIONS: rows.given}, attempt)
        job.check_rest(session)
        return job.publish(attempt, written, measured.entries, conventions=plan.stamp, models=measured.models)
