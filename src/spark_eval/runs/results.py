"""A report of what verbs gave in Python, published or not."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_eval.comparing.sentences import Row
from spark_eval.errors import ConfigError
from spark_eval.reporting.facts import RunFacts
from spark_eval.reporting.page import report_page
from spark_eval.runs.report import store_at, write_page, write_report
from spark_eval.schema import Table
from spark_eval.verbs.compare import Comparison
from spark_eval.verbs.evaluation import Evaluation
from spark_eval.verbs.predictions import PredictionMetrics
from spark_eval.verbs.results.shown import UNPUBLISHED
from spark_eval.verbs.split import Split

Result = Evaluation | Comparison | PredictionMetrics | Split


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
    """Return what a report of several results is made of, as if they had been published in one run."""
    records: dict[str, Mapping[str, Any]] = {}
    tables: dict[Table, list[Row]] = {}
    count_users = None
    for facts in (one.facts_of_run() for one in results):
        [verb] = facts.records
        if verb in records or any(table in tables for table in facts.tables if table is not Table.ACCOUNTING):
            raise ConfigError("INVALID_REPORT", f"two results have tables of {verb}; make a report of each")
        records |= facts.records
        for table, rows in facts.tables.items():
            tables.setdefault(table, []).extend(rows)
        count_users = count_users or facts.count_users
    return RunFacts(UNPUBLISHED, records, tables, count_users)
