"""A report of what verbs gave in Python, published or not."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from spark_eval.errors import ConfigError
from spark_eval.publishing.published import dataset_at
from spark_eval.reporting.facts import RunFacts
from spark_eval.reporting.page import report_page
from spark_eval.reporting.spread import UserCount, spread_of
from spark_eval.runs.report import spread_in_spark, store_at, write_page, write_report
from spark_eval.runtime.versions import versions
from spark_eval.schema import Table
from spark_eval.verbs.compare import Comparison
from spark_eval.verbs.evaluation import Evaluation
from spark_eval.verbs.predictions import PredictionMetrics
from spark_eval.verbs.split import Split

Result = Evaluation | Comparison | PredictionMetrics | Split
# What a report of results that are not published calls them.
UNPUBLISHED: Final = "not published"


def report(
    result: Result | list[Result] | str | Path,
    path: str | Path,
    *,
    run_id: str | None = None,
    baseline: str | None = None,
) -> str:
    """Write one HTML file on a result of ``evaluate``, ``compare``, ``evaluate_predictions`` or ``split``.

    ``result`` may be several of them, of different verbs. Or it is the output path below which the run
    ``run_id`` is published, to be shown beside the run ``baseline`` if that is given.

    Returns where the file is. Raises ConfigError INVALID_REPORT for a path without a run id, a result with
    one, or two results of one verb; DataError UNKNOWN_RUN and INCOMPLETE_RUN for runs.
    """
    if isinstance(result, str | Path):
        if run_id is None:
            raise ConfigError("INVALID_REPORT", "of an output path, say which run: run_id='...'")
        return write_report(store_at(str(result)), run_id, baseline, str(path))
    if run_id is not None or baseline is not None:
        message = "run_id and baseline are of published runs; give the output path in the place of a result"
        raise ConfigError("INVALID_REPORT", message)
    results = result if isinstance(result, list) else [result]
    return write_page(report_page(facts_of_results(results)), Path(path))


def facts_of_results(results: Sequence[Result]) -> RunFacts:
    """Return what a report is made of, as if the results had been published."""
    records: dict[str, dict[str, Any]] = {}
    tables: dict[Table, list[dict[str, Any]]] = {}
    users: list[UserCount] = []
    for one in results:
        verb, facts, rows = tables_of_result(one)
        if verb in records or any(table in tables for table in rows if table is not Table.ACCOUNTING):
            raise ConfigError("INVALID_REPORT", f"two results have tables of {verb}; make a report of each")
        records[verb] = {**facts, "versions": versions()}
        for table, of_table in rows.items():
            tables.setdefault(table, []).extend(row._asdict() for row in of_table)
        if isinstance(one, Evaluation):
            if one.folder is None:
                users, _ = spread_in_spark(one.per_user)
            else:
                users, _ = spread_of(dataset_at(one.folder))
    return RunFacts(UNPUBLISHED, records, tables, users)


def tables_of_result(result: Result) -> tuple[str, dict[str, Any], dict[Table, Sequence[Any]]]:
    """Return the verb of a result, what a commit record would say of it, and the rows of its tables."""
    match result:
        case Evaluation():
            facts = {"conventions": result.plan.stamp, "truth_digest": result.truth_digest}
            rows: dict[Table, Sequence[Any]] = {Table.METRICS: result.metric_rows}
            rows |= {Table.STAGES: result.stage_rows, Table.FUNNEL: result.funnel_rows}
            return "evaluate", facts, rows | {Table.ACCOUNTING: result.entries}
        case Comparison():
            rows = {Table.COMPARISONS: result.rows, Table.GATES: result.gate_rows}
            return "compare", {}, rows | {Table.ACCOUNTING: result.entries}
        case PredictionMetrics():
            rows = {Table.METRICS: result.metric_rows, Table.CURVES: result.curve_rows}
            rows |= {Table.THRESHOLDS: result.threshold_rows, Table.ACCOUNTING: result.entries}
            return "predictions", {"conventions": result.plan.stamp}, rows
        case Split():
            facts_of_rows = result.facts()
            leaks, of_folds = result.compared(facts_of_rows)
            entries = [*facts_of_rows.accounting(), *of_folds]
            timeline = result.timeline and asdict(result.timeline)
            return "split", {"timeline": timeline}, {Table.LEAKAGE: leaks, Table.ACCOUNTING: entries}
