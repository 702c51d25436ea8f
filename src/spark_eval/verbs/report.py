"""Reports: one HTML file on a published run, or on results in Python."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.result import spread_in_spark
from spark_eval.names import check_run_id
from spark_eval.options import checked_call
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.catalog import CatalogStore
from spark_eval.publishing.commits import published, records_of
from spark_eval.publishing.local import LocalStore
from spark_eval.publishing.published import RUN_ID_COLUMN, incomplete, open_table, unknown_run
from spark_eval.publishing.remote import MOST_HOURS, HadoopStore
from spark_eval.publishing.stores import check_output_paths
from spark_eval.results.report.data import RunFacts, share_texts
from spark_eval.results.report.page import report_page
from spark_eval.results.report.spread import UserCount, spread_of
from spark_eval.results.shown import UNPUBLISHED, Displayable
from spark_eval.runtime.local_files import check_file, local_path, write_file
from spark_eval.schema import REPORT, Row, Table
from spark_eval.verbs import VERBS


def write_report(
    store: Store,
    run_id: str,
    baseline: str | None = None,
    file: str | None = None,
    primary: str | None = None,
) -> str:
    """Write the report of a run to a file; return its path.

    The file is ``report/<run_id>.html`` below the output by default. The report begins with the metric
    ``primary``, if given.

    Raises DataError UNKNOWN_RUN for a run that is not published, INCOMPLETE_RUN for an incomplete one and
    CORRUPT_FILE for a damaged file. Raises ConfigError OUTSIDE_OUTPUT if a link leads out of the output,
    INVALID_PATH if ``file`` is among published runs or cannot be a file, and METRIC_NOT_MEASURED for
    ``primary``.
    """
    if file is not None:
        check_file(Path(file))
    page = report_page(replace(facts_of(store, run_id, baseline), asked_primary=primary))
    if file is not None:
        return write_page(page, Path(file))
    if isinstance(store, LocalStore):
        check_output_paths(Path(store.files.root), run_id, Table)
        return write_page(page, Path(store.files.root, REPORT, f"{run_id}.html"))
    if isinstance(store, CatalogStore):
        raise ConfigError("UNSUPPORTED_OUTPUT", "a catalog has no place for pages; name a file by --to")
    return write_to_store(store, page, f"{run_id}.html")


def write_page(page: str, path: Path) -> str:
    """Write a page to a local file; return its path."""
    write_file(path, page)
    return str(path)


def write_to_store(store: HadoopStore, page: str, name: str) -> str:
    """Write a page to a remote store, which cannot replace a file atomically; return its path."""
    folder = f"{store.files.root}/{REPORT}"
    for path, _, moment in list(store.files.files_below(folder)):
        is_draft = path.rpartition("/")[2].startswith("_")
        if is_draft and time.time() - moment / 1000 > MOST_HOURS * 3600:
            store.files.remove(path)
    draft = f"{folder}/_{uuid.uuid4().hex}"
    try:
        store.files.remove(f"{folder}/{name}")
        store.files.write_new(f"{folder}/{name}", page, draft)
    finally:
        store.files.remove(draft)
    return f"{folder}/{name}"


def store_at(path: str) -> LocalStore:
    """Return the local output at a path; this needs no Spark.

    Raises ConfigError UNSUPPORTED_OUTPUT for a remote path, DataError MISSING_INPUT for a missing folder.
    """
    local = local_path(path)
    if local is None:
        message = f"--path {path!r} is not on this machine; give --config, which knows how to reach it"
        raise ConfigError("UNSUPPORTED_OUTPUT", message)
    if not local.is_dir():
        raise DataError("MISSING_INPUT", f"--path {path!r}: no such folder; give the output.path of a config")
    return LocalStore(local.absolute())


def facts_of(store: Store, run_id: str, baseline: str | None = None) -> RunFacts:
    """Read the data of a report: commit records, small tables, user histograms, and the baseline's means."""
    records = dict(sorted(records_of(store.files, check_run_id(run_id)).items()))
    if not records:
        raise missing_run(store, run_id)
    tables: dict[str, list[dict[str, Any]]] = {}
    users: list[UserCount] = []
    of_verbs = [(record, name) for record in records.values() for name in record.job["tables"]]
    for record, table in of_verbs:
        if record.verb in VERBS and table in VERBS[record.verb].reported:
            rows = open_table(store.files, record, table).rows()
            share_texts(rows)
            tables.setdefault(table, []).extend(rows)
        elif table == Table.PER_USER:
            per_user = open_table(store.files, record, table)
            if not isinstance(store, LocalStore):
                users = spread_in_spark(per_user.frame(store.files.spark))
            else:
                users, _ = spread_of(per_user.dataset(), is_published=True)
    jobs = {verb: record.job for verb, record in records.items()}
    other = None if baseline is None else facts_of(store, baseline)
    return RunFacts(run_id, jobs, tables, lambda _: users, other, prediction_metrics=PREDICTION_METRICS)


def missing_run(store: Store, run_id: str) -> DataError:
    """Return the error for a run without a commit record: incomplete if it has tables, otherwise unknown."""
    files = store.files
    for table in Table:
        if files.is_there(f"{files.root}/{table}/{RUN_ID_COLUMN}={run_id}"):
            return incomplete(run_id, f"its table {table} is there, and no commit record")
    return unknown_run(run_id, {record.run_id for record in published(files)}, files.root)


@checked_call
def report(
    result: Displayable | Sequence[Displayable] | str | Path,
    path: str | Path,
    *,
    run_id: str | None = None,
    baseline: str | None = None,
    primary: str | None = None,
) -> str:
    """Write one self-contained HTML file on results, or on a published run.

    Args:
        result: The result of ``evaluate``, ``compare``, ``evaluate_predictions`` or ``split``, or a list of
            results of different verbs; or an output path.
        path: The file to write.
        run_id: The published run below the output path.
        baseline: Another run below the output path; the report shows its means as well.
        primary: The metric of the verdict, which also orders the models, such as ``ndcg@10``. By default nDCG
            at its largest k, else MAP, else the first metric.

    Returns:
        The path of the file.

    Raises:
        ConfigError: INVALID_REPORT for a path without a run id, a result with one, or two results of one
            verb; METRIC_NOT_MEASURED for ``primary``.
        DataError: UNKNOWN_RUN or INCOMPLETE_RUN for a run.

    Examples:
        With the ``result`` of the example of ``evaluate``:

        >>> from spark_eval import report
        >>> report(result, "als.html")
        'als.html'
    """
    if isinstance(result, str | Path):
        if run_id is None:
            raise ConfigError("INVALID_REPORT", "of an output path, say which run: run_id='...'")
        return write_report(store_at(str(result)), run_id, baseline, str(path), primary)
    if run_id is not None or baseline is not None:
        message = "run_id and baseline are of published runs; give the output path instead of a result"
        raise ConfigError("INVALID_REPORT", message)
    results = [result] if isinstance(result, Displayable) else result
    facts = replace(facts_of_results(results), asked_primary=primary)
    return write_page(report_page(facts), Path(path))


def facts_of_results(results: Sequence[Displayable]) -> RunFacts:
    """Return the data of a report on several results, as if they had been published in one run.

    Raises ConfigError INVALID_REPORT if two of them have the same tables.
    """
    records: dict[str, Row] = {}
    tables: dict[str, list[Row]] = {}
    count_users = None
    for facts in (one.facts_of_run() for one in results):
        [verb] = facts.records
        if verb in records or any(table in tables for table in facts.tables if table != Table.ACCOUNTING):
            raise ConfigError("INVALID_REPORT", f"two results have tables of {verb}; make a report of each")
        records |= facts.records
        for table, rows in facts.tables.items():
            tables.setdefault(table, []).extend(rows)
        count_users = count_users or facts.count_users
    return RunFacts(UNPUBLISHED, records, tables, count_users, prediction_metrics=PREDICTION_METRICS)
