"""The report of a published run: its tables read, one HTML file written beside them."""

import uuid
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.names import check_run_id
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import REPORT, place_of, published, records_of
from spark_eval.publishing.local import LocalStore
from spark_eval.publishing.places import check_places
from spark_eval.publishing.published import RUN_ID_COLUMN, read_places
from spark_eval.publishing.remote import HadoopStore
from spark_eval.reporting.facts import SMALL, RunFacts
from spark_eval.reporting.page import report_page
from spark_eval.reporting.spread import UserCount
from spark_eval.runs.measured import incomplete
from spark_eval.runtime.local_files import local_path, write_whole
from spark_eval.schema import Table
from spark_eval.verbs.results.spread import BY_MODEL, spread_in_folder, spread_in_spark


def write_report(store: Store, run_id: str, baseline: str | None = None, file: str | None = None) -> str:
    """Write the report of a run to ``report/<run_id>.html`` below the output, or to a file; return where.

    Raises DataError UNKNOWN_RUN for a run that is not published, INCOMPLETE_RUN for one that is not whole,
    and ConfigError OUTSIDE_OUTPUT where a link leads out of the output.
    """
    facts = facts_of(store, run_id, baseline)
    page = report_page(facts)
    if file is not None:
        return write_page(page, Path(file))
    if isinstance(store, LocalStore):
        check_places(Path(store.files.root), run_id)
        return write_page(page, Path(store.files.root, REPORT, f"{run_id}.html"))
    place = f"{store.files.root}/{REPORT}/{run_id}.html"
    store.files.remove(place)
    store.files.write_new(place, page, f"{store.files.root}/{REPORT}/_{uuid.uuid4().hex}")
    return place


def write_page(page: str, path: Path) -> str:
    """Write a page whole: whoever opens the file sees the old one or this."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page, path.with_name(f"_{path.name}.{uuid.uuid4().hex}"))
    return str(path)


def store_at(path: str) -> LocalStore:
    """Return the output at a path of this machine, which needs no Spark.

    Raises ConfigError UNSUPPORTED_OUTPUT for a store elsewhere, DataError MISSING_INPUT where nothing is.
    """
    local = local_path(path)
    if local is None:
        message = f"--path {path!r} is not on this machine; give --config, which knows how to reach it"
        raise ConfigError("UNSUPPORTED_OUTPUT", message)
    if not local.is_dir():
        raise DataError("MISSING_INPUT", f"--path {path!r}: no such folder; give the output.path of a config")
    return LocalStore(local.absolute())


def facts_of(store: Store, run_id: str, baseline: str | None = None) -> RunFacts:
    """Read what a report is made of: records, small tables, how users spread; another run's means."""
    records = dict(sorted(records_of(store.files, check_run_id(run_id)).items()))
    if not records:
        raise missing_run(store, run_id)
    places = {
        (verb, Table(name)): place_of(store.files.root, run_id, verb, name, record)
        for verb, record in records.items()
        for name in record.job["tables"]
    }
    tables: dict[Table, list[dict[str, Any]]] = {}
    users: list[UserCount] = []
    for (verb, table), place in places.items():
        job = records[verb].job
        if not store.files.is_there(place):
            raise incomplete(run_id, f"its table {table} is gone from {place!r}")
        n_rows = n_published = job["tables"][table]["rows"]
        if table in SMALL:
            rows = small_rows(store, place)
            n_rows = len(rows)
            tables.setdefault(table, []).extend(rows)
        elif table is Table.PER_USER:
            users, n_rows = spread_at(store, place)
        if n_rows != n_published:
            raise incomplete(run_id, f"its table {table} has {n_rows} rows, {n_published} were published")
    jobs = {verb: record.job for verb, record in records.items()}
    other = None if baseline is None else facts_of(store, baseline)
    return RunFacts(run_id, jobs, tables, lambda _: users, other)


def small_rows(store: Store, place: str) -> list[dict[str, Any]]:
    """Return the rows of a small table, with its model as text."""
    if isinstance(store, HadoopStore):
        frame = read_places(store.files.spark, [place]).drop(RUN_ID_COLUMN)
        return [row.asDict() for row in frame.collect()]
    read: list[dict[str, Any]] = (
        ds.dataset(place, partitioning=BY_MODEL, format="parquet").to_table().to_pylist()
    )
    return read


def spread_at(store: Store, place: str) -> tuple[list[UserCount], int]:
    """Return how the users of ``per_user`` spread, and the number of its rows."""
    if isinstance(store, HadoopStore):
        per_user = read_places(store.files.spark, [place])
        return spread_in_spark(per_user), per_user.count()
    return spread_in_folder(place)


def missing_run(store: Store, run_id: str) -> DataError:
    """Return the error of a run without a record: not whole where tables lie there, else unknown."""
    files = store.files
    for table in Table:
        if files.is_there(f"{files.root}/{table}/{RUN_ID_COLUMN}={run_id}"):
            return incomplete(run_id, f"its table {table} is there, and no commit record")
    runs = {run for run, *_ in published(files)}
    known = nearest(run_id, runs) if runs else "none is"
    return DataError("UNKNOWN_RUN", f"no run {run_id!r} is published below {files.root!r}; {known}")
