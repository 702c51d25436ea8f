"""Histories that a config or a call requests: their runs, read without Spark where the output is local."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Unpack
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.files import named_read_errors
from spark_eval.arrow.user_files import UserFile, check_no_nan, overlapping_groups, read_files, user_files
from spark_eval.errors import DataError
from spark_eval.monitoring.history import COLUMNS, READ, History, Mark, PastRun, make_history
from spark_eval.monitoring.plan import HistoryOptions, HistoryPlan, make_history_plan
from spark_eval.monitoring.requests import is_of_users
from spark_eval.monitoring.rows import Line
from spark_eval.monitoring.spread import ModelUsers, map_users
from spark_eval.monitoring.window import mean_columns
from spark_eval.monitoring.worker.pairs import PairTotals, item_pair_totals, pair_totals
from spark_eval.monitoring.worker.user_sums import MeanColumns
from spark_eval.options import checked_call, documented
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import Record, published
from spark_eval.publishing.published import PublishedTable, open_table
from spark_eval.schema import ALL, MODEL, OF_ITEMS, SEGMENT, SEGMENT_VALUE, USER, Row, Table
from spark_eval.statistics.differences import Estimate
from spark_eval.verbs.kinds import MEASURING
from spark_eval.verbs.measured import MeasuredRun
from spark_eval.verbs.report import store_at

# End of the id of the run of a watch, after its day.
WATCHED: Final = "_watch"
# Keys of the section ``truth`` that say where it is, not what it is.
PLACES: Final = ("path", "table", "max_quarantined")


def history_of(store: Store, plan: HistoryPlan) -> History:
    """Return the history of the runs published in a store; damaged runs are left out, and named.

    Raises:
        DataError: UNKNOWN_RUN if no run of a day is published.
        ConfigError: METRIC_NOT_MEASURED or UNKNOWN_MODEL.
    """
    runs, damaged = past_runs(store, plan)
    if not runs:
        hint = "days are runs whose ids are dates, such as 2024-03-01"
        raise DataError("UNKNOWN_RUN", f"no run of a day is published below {store.files.root!r}; {hint}")
    return make_history(runs, plan, damaged, UserPairs(store).difference if plan.paired else None)


def past_runs(store: Store, plan: HistoryPlan) -> tuple[list[PastRun], dict[str, str]]:
    """Return the runs of a history, and the reasons of those that are damaged."""
    damaged: dict[str, str] = {}
    records: dict[str, list[Record]] = {}
    for record in published(store.files, lambda run_id, fault: damaged.update({run_id: fault.message})):
        day = record.run_id.removesuffix(WATCHED)
        if plan.has(day):
            records.setdefault(day, []).append(record)

    def past_run(run_id: str) -> PastRun | DataError | None:
        measured = next((record for record in records[run_id] if record.verb in MEASURING), None)
        if measured is None:
            return None
        try:
            metrics = metrics_of(store, measured)
            return PastRun(run_id, metrics, rules_of(measured), list(marks_of(store, records[run_id])))
        except DataError as fault:
            return fault

    # One after the other: threads of so many small files wait for each other's Python.
    opened = {run_id: past_run(run_id) for run_id in records}
    damaged |= {run_id: one.message for run_id, one in opened.items() if isinstance(one, DataError)}
    runs = [one for one in opened.values() if isinstance(one, PastRun)]
    return runs, {run_id: reason for run_id, reason in damaged.items() if plan.has(run_id)}


def metrics_of(store: Store, record: Record) -> pa.Table:
    """Return the columns of a run's ``metrics`` that a history reads; columns that it lacks are null."""
    opened: dict[str, pq.ParquetFile] = {}

    def footer_of(path: Path) -> pq.FileMetaData:
        """Open a small file once, for its footer and its rows."""
        file = pq.ParquetFile(pa.py_buffer(path.read_bytes()), page_checksum_verification=True)
        opened[str(path)] = file
        return file.metadata

    table = open_table(store.files, record, Table.METRICS, footer_of)
    if table.folder is None:
        return pa.Table.from_pylist(table.rows(), schema=COLUMNS)
    parts = {path: rows_of(file, path, model_of(table, path)) for path, file in opened.items()}
    whole = pa.concat_tables(parts.values(), promote_options="permissive")
    try:
        check_no_nan(whole, str(table.folder))
    except DataError:
        for path, part in parts.items():
            check_no_nan(part, path)
        raise
    for lacking in (one for one in COLUMNS if one.name not in whole.column_names):
        whole = whole.append_column(lacking.name, pa.nulls(len(whole), lacking.type))
    return whole.select(READ).cast(COLUMNS)


def rows_of(file: pq.ParquetFile, path: str, model: str) -> pa.Table:
    """Return the columns of a file of ``metrics`` of a model that a history reads."""
    names = file.schema.names
    with named_read_errors(path):
        part = file.read(columns=[name for name in READ if name in names], use_threads=False)
    return part.append_column(MODEL, pa.repeat(model, len(part)))


def model_of(table: PublishedTable, path: str) -> str:
    """Return the model that a file's folder names; empty if the only model has no name."""
    below = path.removeprefix(f"{table.folder}/")
    folder, _, _ = below.rpartition("/")
    return unquote(folder.removeprefix(f"{MODEL}="))


def rules_of(record: Record) -> dict[str, Any]:
    """Return the rules of the values: conventions, options, rules of the truth, version of the code."""
    config: Row = record.job.get("config", {})
    truth: Row = config.get("truth") or {}
    options: Row = config.get(record.verb) or {}
    return {
        "conventions": record.job.get("conventions"),
        "options": {key: options[key] for key in options if key not in PLACES},
        "stages": config.get("stages"),
        "truth rules": {key: truth[key] for key in truth if key not in PLACES},
        "code": record.job.get("versions", {}).get("spark_eval"),
    }


def marks_of(store: Store, records: Iterable[Record]) -> Iterator[Mark]:
    """Yield the failed gates and the alarms of a run."""
    for record in records:
        if Table.GATES in record.job["tables"]:
            for row in open_table(store.files, record, Table.GATES).rows():
                if not row["passed"] or row.get("watch") is not None:
                    yield Mark(row["model"], row["metric"], row["k"], row.get("watch"))


class RunUsers(NamedTuple):
    """A run of ``evaluate`` and its ``per_user``; ``files`` are its files on this machine."""

    run: MeasuredRun
    table: PublishedTable
    files: Sequence[UserFile]


@dataclass(frozen=True)
class UserPairs:
    """Differences between the users of two runs of ``evaluate``, read from their ``per_user``.

    Spark reads those on a store.
    """

    store: Store
    known: dict[tuple[str, Table], RunUsers | None] = field(default_factory=dict)

    def difference(self, earlier: str, later: str, line: Line) -> Estimate | None:
        """Return the difference of a line between two runs; None if one has no values of it by user."""
        model, metric, k, *cell = line
        return self.between(((earlier, model), (later, model)), metric, k, *cell)

    def between(
        self,
        sides: Sequence[tuple[str, str]],
        metric: str,
        k: int | None,
        segment: str = ALL,
        segment_value: str = ALL,
    ) -> Estimate | None:
        """Return the difference between two models of runs, second minus first; see ``difference``.

        Users with a list per request are clusters of their lists, or count once, as the run's weight says.
        Raises DataError MIXED_CONVENTIONS if the users of the runs have different types.
        """
        users: list[ModelUsers] = []
        files: list[list[UserFile]] = []
        means: list[MeanColumns] = []
        for run_id, model in sides:
            of_run = self.users_of(run_id, table_of(segment))
            mean = None if of_run is None else mean_columns(of_run.run.plan).get((metric, k))
            if of_run is None or mean is None:
                return None
            segments = [] if segment == ALL else [*segment_columns(segment)]
            columns = list(dict.fromkeys([USER, *filter(None, mean), *segments]))
            users.append(ModelUsers(of_run.table, model, columns))
            files.append([file for file in of_run.files if file.model == model])
            means.append(mean)
            of_users = is_of_users(of_run.run)
        totals_of_users = pair_totals if table_of(segment) == Table.PER_USER else item_pair_totals
        make = partial(totals_of_users, means=means, cell=(segment, segment_value), of_users=of_users)
        totals = PairTotals()
        if self.store.is_local:
            parts: Iterator[PairTotals] = map(make, local_ranges(files, [one.columns for one in users]))
        else:
            parts = map_users(users, make)
        for part in parts:
            totals += part
        return totals.difference

    def users_of(self, run_id: str, name: Table) -> RunUsers | None:
        """Return the rows by user of a run of ``evaluate``; None without this table, or of unknown files."""
        key = (run_id, name)
        if key not in self.known:
            self.known[key] = None
            run = MeasuredRun.of(self.store, run_id)
            is_published = run is not None and name in run.record.job["tables"]
            if run and is_published and self.store.files.is_there(run.record.path_of(name)):
                table = run.open(name)
                files = user_files(str(table.folder)) if self.store.is_local else []
                if files is not None:
                    self.known[key] = RunUsers(run, table, files)
        return self.known[key]


def table_of(segment: str) -> Table:
    """Return the table with the rows by user of a segment."""
    return Table.ITEM_SEGMENTS if segment.startswith(OF_ITEMS) else Table.PER_USER


def segment_columns(segment: str) -> tuple[str, ...]:
    """Return the columns of a segment in its table."""
    return (segment,) if table_of(segment) == Table.PER_USER else (SEGMENT, SEGMENT_VALUE)


def local_ranges(
    files: Sequence[Sequence[UserFile]], columns: Sequence[Sequence[str]]
) -> Iterator[list[list[pa.Table]]]:
    """Yield the rows of each side of a range of users, from its files."""
    for group in overlapping_groups({file.path: file for of_side in files for file in of_side}.values()):
        paths = [[file.path for file in group if file in of_side] for of_side in files]
        yield [read_files(*one) for one in zip(paths, columns, strict=True)]


@documented(HistoryOptions)
@checked_call
def history(path: str, **options: Unpack[HistoryOptions]) -> History:
    """Return the values of the runs published below a local output path over time; no Spark is needed.

    Args:
        path: The output path; runs whose ids are dates, such as ``2024-03-01``, are its days.

    Returns:
        A ``History``: ``table()`` has a row per run, model, metric and segment; ``write(path)`` makes a page.

    Raises:
        ConfigError: INVALID_WINDOW for days that are no dates; METRIC_NOT_MEASURED or UNKNOWN_MODEL.
        DataError: UNKNOWN_RUN if no run of a day is published.

    Examples:
        ``daily`` is an output path with two published days:

        >>> from spark_eval import history
        >>> rows = history(daily, metrics=["map@2"]).rows
        >>> [(row.run_id, row.value, row.difference) for row in rows]
        [('2024-03-01', 0.75, None), ('2024-03-02', 0.125, -0.625)]
    """
    return history_of(store_at(path), make_history_plan(**options))
