"""Read published runs: each table is first checked against its commit record, on any store."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from spark_eval.arrow.files import named_read_errors
from spark_eval.arrow.user_files import nan_in, open_dataset, read_dataset
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.kernels.aliases import as_list
from spark_eval.names import literal_path, quote_column, summarize_names
from spark_eval.options import checked_call
from spark_eval.publishing.columns import differences, kinds_in_arrow, kinds_in_spark, united_kinds
from spark_eval.publishing.commits import Files, OnDamage, Record, published, warn_of_damage
from spark_eval.publishing.local import manifest_of
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.local_files import LocalFiles, is_hidden, local_path, uri_of
from spark_eval.runtime.spark_errors import is_of_spark, named_spark_error
from spark_eval.schema import MODEL, Table
from spark_eval.tables.catalog_tables import CatalogTables, is_place
from spark_eval.tables.plain_files import CHECKSUMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = TypeVar("Read")
FooterOf = Callable[[Path], pq.FileMetaData]
RUN_ID_COLUMN: Final = "run_id"
# Number of runs that are checked concurrently: on a store each waits for two short Spark jobs.
RUNS_AT_ONCE: Final = 8
# Tables with columns of the user's own, which may have NaN.
WITH_OTHER_COLUMNS: Final = (Table.SPLITS, Table.QUARANTINE)


@dataclass(frozen=True)
class PublishedTable:
    """A table of a published run that was checked to be complete.

    ``folder`` is its local path, None elsewhere.
    ``opened`` are the rows of a table of a catalog.
    """

    files: Files
    record: Record
    table: str
    folder: Path | None
    opened: "DataFrame | None" = None

    @property
    def path(self) -> str:
        """Path of the table."""
        return self.record.path_of(self.table)

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return its rows, with models as text."""
        if self.opened is not None:
            return self.opened if self.table in WITH_OTHER_COLUMNS else without_nan(self.opened, self.table)
        return read_tables(spark, self.table, [self.path])

    def dataset(self) -> ds.Dataset:
        """Return its local files as a dataset, with models as text."""
        return open_dataset(str(self.folder))

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a small table, with models as text."""
        if not isinstance(self.files, LocalFiles):
            frame = self.frame(self.files.spark).drop(RUN_ID_COLUMN)
            return [row.asDict() for row in with_named_errors(self.path, frame.collect)]
        rows: list[dict[str, Any]] = read_dataset(self.dataset()).to_pylist()
        return rows


def open_table(
    files: Files, record: Record, table: str, footer_of: FooterOf = pq.read_metadata
) -> PublishedTable:
    """Return a table of a published run after comparing files, rows and columns with the commit record.

    ``footer_of`` reads the footer of a local file.

    Raises:
        DataError: CORRUPT_FILE for an unreadable file; INCOMPLETE_RUN for a table that differs from its
            record in another way. Both name the file, or the table if no file exists.
    """
    check_is_there(files, record, table)
    path = record.path_of(table)
    folder = local_path(path)
    if isinstance(files, CatalogTables):
        return open_rows(files, record, table)
    if folder is not None:
        check_files(record, table, folder, footer_of)
        return PublishedTable(files, record, table, folder)
    if isinstance(files, HadoopFiles):
        frame = with_named_errors(path, lambda: read_paths(files.spark, [path]))
        n_files = sum(one.endswith(".parquet") for one, *_ in files.files_below(path))
        check_sizes(record, table, n_files, with_named_errors(path, frame.count))
        check_columns(record, table, path, kinds_in_spark(frame.schema))
    return PublishedTable(files, record, table, None)


def open_rows(files: CatalogTables, record: Record, table: str) -> PublishedTable:
    """Return a table of a catalog, checked as above, whose rows stay those of the newest snapshot."""
    from pyspark.sql import functions as F

    path, size = record.path_of(table), record.job["tables"][table]
    rows = with_named_errors(path, lambda: files.rows(path))
    check_columns(record, table, path, kinds_in_spark(rows.schema))
    check_sizes(record, table, size["files"], with_named_errors(path, rows.count))
    rows = rows.select(*map(quote_column, size["columns"])).withColumn(RUN_ID_COLUMN, F.lit(record.run_id))
    return PublishedTable(files, record, table, None, rows)


def damage_of(
    files: Files, record: Record, check: Callable[[Files, Record, str], object] = open_table
) -> DataError | None:
    """Return the first error of the tables of a record; None if they are complete."""
    try:
        for name in record.job["tables"]:
            check(files, record, name)
    except DataError as fault:
        return fault
    return None


def check_is_there(files: Files, record: Record, table: str) -> None:
    """Raise DataError INCOMPLETE_RUN unless the record has the table and its path exists."""
    if table not in record.job["tables"]:
        raise incomplete(record.run_id, f"its commit record of {record.verb} has no table {table}")
    if not files.is_there(record.path_of(table)):
        raise incomplete(record.run_id, f"its table {table} is missing from {record.path_of(table)!r}")


def check_files(record: Record, table: str, folder: Path, footer_of: FooterOf) -> None:
    """Raise DataError unless the footers of the local files of a table are as in its record."""
    footers: dict[str, pq.FileMetaData] = {}
    for path in data_files(folder):
        with named_read_errors(str(path)):
            footers[str(path).removeprefix(f"{folder}/")] = footer_of(path)
    manifest = manifest_of(folder).get("files")
    published_rows = manifest if isinstance(manifest, dict) else {}
    faults = [f"{name!r} is missing" for name in published_rows if name not in footers]
    for name, footer in footers.items():
        if footer.num_rows != published_rows.get(name, footer.num_rows):
            faults.append(f"{name!r} has {footer.num_rows} rows, not {published_rows[name]}")
        elif published_rows and name not in published_rows:
            faults.append(f"{name!r} was not published")
    if faults:
        raise incomplete(record.run_id, f"its table {table} in {str(folder)!r}: {summarize_names(faults)}")
    check_sizes(record, table, len(footers), sum(footer.num_rows for footer in footers.values()))
    kinds = kinds_by_schema(footers)
    of_all = united_kinds(of_files for _, of_files in kinds)
    for name, of_files in kinds:
        check_columns(record, table, str(folder / name), of_files, of_all)


def kinds_by_schema(footers: Mapping[str, pq.FileMetaData]) -> list[tuple[str, dict[str, str]]]:
    """Return the kinds of the columns of files, with the name of the first of those that are alike in turn.

    Most tables have one schema in all files, which is looked at once.
    """
    kinds: list[tuple[str, dict[str, str]]] = []
    before: pq.ParquetSchema | None = None
    for name, footer in footers.items():
        if before is None or not footer.schema.equals(before):
            kinds.append((name, kinds_in_arrow(footer.schema.to_arrow_schema())))
        before = footer.schema
    return kinds


def check_sizes(record: Record, table: str, n_files: int, n_rows: int) -> None:
    """Raise DataError INCOMPLETE_RUN unless the numbers of files and rows are those of the commit record."""
    size = record.job["tables"][table]
    for actual, wanted, what in ((n_files, size["files"], "files"), (n_rows, size["rows"], "rows")):
        if actual != wanted:
            message = (
                f"its table {table} has {actual} {what} in {record.path_of(table)!r}, {wanted} were published"
            )
            raise incomplete(record.run_id, message)


def check_columns(
    record: Record,
    table: str,
    path: str,
    kinds: Mapping[str, str],
    of_all: Mapping[str, str] | None = None,
) -> None:
    """Raise DataError INCOMPLETE_RUN unless a file has the published columns.

    Records of earlier versions have no columns; all files must then have the columns ``of_all``.
    """
    recorded = record.job["tables"][table].get("columns") or of_all or {}
    if changed := differences(recorded, kinds):
        raise incomplete(record.run_id, f"its table {table}: {path!r} {summarize_names(changed)}")


def data_files(path: Path) -> list[Path]:
    """Return the files of a table: all files of a folder that readers do not skip, or the one file."""
    if path.is_file():
        return [path]
    files: list[str] = []
    for folder, below, names in os.walk(path):
        below[:] = [name for name in below if not is_hidden(name)]
        files += [f"{folder}/{name}" for name in names if not is_hidden(name)]
    return list(map(Path, sorted(files)))


def incomplete(run_id: str, what: str) -> DataError:
    """Return the error of an incomplete run."""
    return DataError("INCOMPLETE_RUN", f"run {run_id!r} is incomplete: {what}; run it again with --replace")


@checked_call
def read_published(
    spark: "SparkSession", path: str, table: str, run_ids: Collection[str] | str | None = None
) -> "DataFrame":
    """Return a table of the runs published below an output path, with a column ``run_id``.

    A run is visible with all its tables once its commit record is written. Columns that a run lacks are null.
    Run ids and models are always text.

    Args:
        spark: The session that reads.
        path: The output path, local or on a store, or ``catalog://CATALOG.SCHEMA`` for ``output.table``.
        table: Name of the table.
        run_ids: Runs to read. By default all; damaged runs are then skipped, each with a warning.

    Returns:
        The rows of all runs, one below the other.

    Raises:
        ConfigError: UNKNOWN_TABLE for an unknown table name.
        DataError: UNKNOWN_RUN or MISSING_TABLE if a run in ``run_ids`` is not published, or not with this
            table; INCOMPLETE_RUN or CORRUPT_FILE if it is damaged; MISSING_INPUT if no run has the table.

    Examples:
        ``out`` is the output path of a config, with the published run ``clicks``:

        >>> from spark_eval import read_published
        >>> metrics = read_published(spark, out, "metrics")
        >>> [row.run_id for row in metrics.select("run_id").distinct().collect()]
        ['clicks']
    """
    if table not in set(Table):
        raise ConfigError.unknown("UNKNOWN_TABLE", "table", table, set(Table), "read_published")
    local = local_path(path)
    files: Files
    if is_place(path):
        files = CatalogTables(spark, path)
    else:
        files = HadoopFiles(spark, uri_of(path)) if local is None else LocalFiles(str(local.absolute()))
    damaged: dict[str, DataError] = {}
    tables = published_tables(files, damaged.__setitem__)
    chosen = list(tables) if run_ids is None else as_list(run_ids)
    if run_ids is not None:
        check_runs([run_id for run_id in chosen if run_id not in damaged], tables, table, path)

    def opened(run_id: str) -> list[PublishedTable]:
        try:
            records = tables.get(run_id, {}).get(table, ())
            return [open_table(files, record, table) for record in records]
        except DataError as fault:
            damaged[run_id] = fault
            return []

    with ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
        found = list(chain.from_iterable(pool.map(opened, chosen)))
    if run_ids is not None:
        DataError.raise_all([damaged.pop(run_id) for run_id in chosen if run_id in damaged])
    for run_id, fault in damaged.items():
        warn_of_damage(run_id, fault)
    if not found:
        raise DataError("MISSING_INPUT", f"no run published below {path!r} has a table {table!r}")
    return frame_of(spark, found)


def frame_of(spark: "SparkSession", tables: Sequence[PublishedTable]) -> "DataFrame":
    """Return the rows of a table of some runs, at least one, one below the other."""
    if isinstance(tables[0].files, CatalogTables):
        return reduce(united, (one.frame(spark) for one in tables))
    return read_tables(spark, tables[0].table, [one.path for one in tables])


def united(one: "DataFrame", other: "DataFrame") -> "DataFrame":
    """Return the rows of both; columns that one lacks are null."""
    return one.unionByName(other, allowMissingColumns=True)


def check_runs(
    run_ids: Sequence[str], tables: Mapping[str, Mapping[str, object]], table: str, path: str
) -> None:
    """Raise one DataError for all runs that are not published, or not with this table."""
    faults = []
    for run_id in run_ids:
        if run_id not in tables:
            faults.append(unknown_run(run_id, tables, path))
        elif table not in tables[run_id]:
            has = ", ".join(sorted(tables[run_id]))
            faults.append(DataError("MISSING_TABLE", f"run {run_id!r} has no table {table!r}; it has {has}"))
    DataError.raise_all(faults)


def unknown_run(run_id: str, known: Collection[str], path: str) -> DataError:
    """Return the error of a run that is not published."""
    hint = nearest(run_id, known) if known else "none is"
    return DataError("UNKNOWN_RUN", f"no run {run_id!r} is published below {path!r}; {hint}")


def published_tables(
    files: Files, on_damage: OnDamage = warn_of_damage
) -> dict[str, dict[str, list[Record]]]:
    """Return the records with each table, per run."""
    tables: dict[str, dict[str, list[Record]]] = {}
    for record in published(files, on_damage):
        for table in record.job["tables"]:
            tables.setdefault(record.run_id, {}).setdefault(table, []).append(record)
    return tables


def base_of(path: str) -> str:
    """Return the folder that has one subfolder per run."""
    return path.partition(f"/{RUN_ID_COLUMN}=")[0]


def read_tables(spark: "SparkSession", table: str, paths: Sequence[str]) -> "DataFrame":
    """Read folders and files of one table; NaN in a numeric column is an error."""
    by_base: dict[str, list[str]] = {}
    for path in paths:
        by_base.setdefault(base_of(path), []).append(path)
    frames = [read_paths(spark, of_base) for of_base in by_base.values()]
    frame = reduce(united, frames)
    return frame if table in WITH_OTHER_COLUMNS else without_nan(frame, table)


def without_nan(frame: "DataFrame", table: str) -> "DataFrame":
    """Return the rows; a query that finds NaN in a numeric column raises DataError INCOMPLETE_RUN."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    columns = []
    for given in frame.schema:
        column = F.col(quote_column(given.name))
        if isinstance(given.dataType, T.FloatType | T.DoubleType):
            fault = DataError("INCOMPLETE_RUN", f"table {table}: {nan_in(given.name)}")
            column = F.when(F.isnan(column), F.raise_error(F.lit(str(fault)))).otherwise(column)
        columns.append(column.alias(given.name))
    return frame.select(columns)


def read_paths(spark: "SparkSession", paths: Sequence[str]) -> "DataFrame":
    """Read folders and files of one table, below one base folder, with run ids and models as text."""
    from pyspark.sql import types as T

    names = [literal_path(path) for path in paths]
    reader = spark.read.options(basePath=base_of(paths[0]), mergeSchema=True).option(CHECKSUMS, value=True)
    # Without a schema, Spark would read the models 1 and 01 as the same number.
    fields = [
        T.StructField(one.name, T.StringType() if one.name in (RUN_ID_COLUMN, MODEL) else one.dataType)
        for one in reader.parquet(*names).schema
    ]
    return reader.schema(T.StructType(fields)).parquet(*names)


def with_named_errors(path: str, read: Callable[[], Read]) -> Read:
    """Return the result of ``read``; convert Spark's exceptions to named errors."""
    try:
        return read()
    except Exception as error:
        if is_of_spark(error):
            raise named_spark_error(error, path) from error
        raise
