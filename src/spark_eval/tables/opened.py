"""Tables as they are given: rows of a frame, or Parquet files of this machine with columns that folders name.

Anything else is Spark's to read.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.footers import (
    columns_of_spark,
    flat_columns,
    readable_type,
    unsigned_columns,
    unsigned_in_all,
)
from spark_eval.arrow.sound_footers import EncryptedFile, read_footer
from spark_eval.errors import DataError, raise_if_of_machine
from spark_eval.names import NO_NAME, folder_name
from spark_eval.runtime.file_kinds import NAMES, kind_of_file
from spark_eval.runtime.local_files import is_hidden, local_path
from spark_eval.tables.arrow_frames import as_arrow
from spark_eval.tables.conditions import Condition
from spark_eval.tables.spec import NotPlain

# Summaries: Spark takes the columns of a folder from them.
SUMMARIES: Final = ("_metadata", "_common_metadata")
# Value of a column that folders name.
FolderValue = str | int | None
NOTHING: Final[Mapping[str, str | None]] = MappingProxyType({})


@dataclass(frozen=True)
class OpenedTable:
    """A table as it is given.

    Attributes:
        schema: Its columns, those that folders name last; their type is null if only Spark reads them.
        rows: Rows of a frame; None for files.
        paths: The files.
        folders: Of each column that folders name, the value in each file.
        conditions: The ``Condition`` that all rows meet which are read.
    """

    schema: pa.Schema
    rows: pa.Table | None = None
    paths: Sequence[str] = ()
    folders: Mapping[str, Mapping[str, FolderValue]] = field(default_factory=dict)
    conditions: Sequence[Condition] = ()

    def at(self, paths: Sequence[str]) -> Self:
        """Return the table with these of its files alone."""
        return replace(self, paths=paths)

    def without(self, column: str) -> Self:
        """Return the table without a column that folders name."""
        index = self.schema.get_field_index(column)
        folders = {name: values for name, values in self.folders.items() if name != column}
        return replace(self, schema=self.schema.remove(index), folders=folders)

    def values(self, column: str) -> pa.ChunkedArray:
        """Return the values of a column in memory, or one for each file."""
        if self.rows is not None:
            return self.rows[column]
        index = self.schema.get_field_index(column)
        return pa.chunked_array([list(self.folders[column].values())], self.schema.field(index).type)

    def with_column(self, column: str, values: pa.ChunkedArray) -> Self:
        """Return the table with other values of a column; see ``values``."""
        index = self.schema.get_field_index(column)
        schema = self.schema.set(index, pa.field(column, values.type))
        if self.rows is not None:
            return replace(self, schema=schema, rows=self.rows.set_column(index, column, values))
        by_file = dict(zip(self.folders[column], values.to_pylist(), strict=True))
        return replace(self, schema=schema, folders={**self.folders, column: by_file})


def open_table(name: str, given: Any) -> OpenedTable:
    """Return a frame, or the files at a path, as a table to be conformed.

    Raises NotPlain if only Spark can judge it, and the errors of ``as_arrow`` and ``open_files``.
    """
    if isinstance(given, str | Path):
        return open_files(str(given))
    rows = as_arrow(name, given)
    return OpenedTable(rows.schema, rows)


def open_files(path: str) -> OpenedTable:
    """Return the Parquet files at a path: a file, or a folder of files or of folders ``COLUMN=VALUE``.

    Such columns are text. Raises NotPlain for anything else, and the errors of ``file_schema``.
    """
    named = named_files(path)
    schema = file_schema(list(named))
    columns = list(next(iter(named.values())))
    check_distinct(path, schema.names, columns)
    for column in columns:
        schema = schema.append(pa.field(column, pa.string()))
    folders = {column: {file: values[column] for file, values in named.items()} for column in columns}
    return OpenedTable(schema, None, list(named), folders)


def named_files(path: str) -> dict[str, Mapping[str, str | None]]:
    """Return the files with rows at a path, each with the columns and values of the folders above it.

    Raises NotPlain if there is none, and for files that are named otherwise than all by the same columns.
    """
    named = {file: values for file, values in files_below(path_here(path)) if Path(file).stat().st_size}
    if not named:
        raise NotPlain(f"{path} has no rows")
    columns = next(iter(named.values())).keys()
    if any(values.keys() != columns for values in named.values()):
        raise NotPlain(f"{path} has folders of different columns")
    return named


def check_distinct(path: str, in_files: Collection[str], of_folders: Collection[str]) -> None:
    """Raise NotPlain if a column of folders is in the files, too, to Spark, which ignores case."""
    names = [name.lower() for name in (*in_files, *of_folders)]
    if of_folders and len({*names}) < len(names):
        raise NotPlain(f"{path} has a column in files and in folders")


def path_here(path: str) -> Path:
    """Return a path of this machine; NotPlain for anything else."""
    local = local_path(path)
    top = None if local is None else local.absolute()
    if top is None or not top.exists() or is_hidden(top.name):
        raise NotPlain(f"{path} is not on this machine")
    return top


def files_below(
    top: Path, named: Mapping[str, str | None] = NOTHING
) -> Iterator[tuple[str, Mapping[str, str | None]]]:
    """Yield the files at a path, each with the columns and values of the folders above it.

    Raises NotPlain for a folder with both files and folders, or with folders that name no column.
    """
    if top.is_file():
        yield str(top), named
        return
    inside = listed_in(top)
    if all(one.is_file() for one in inside):
        yield from ((str(one), named) for one in inside)
        return
    if not all(one.is_dir() and not one.is_symlink() and "=" in one.name for one in inside):
        raise NotPlain(f"{top} is neither a folder of files alone nor one of partitions")
    for one in inside:
        column, value = partition_of(one)
        if column in named:
            raise NotPlain(f"{one} names {column} twice")
        yield from files_below(one, {**named, column: value})


def listed_in(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden.

    Raises NotPlain if Spark would take the columns from a summary in their folder.
    """
    if any((folder / name).exists() for name in SUMMARIES):
        raise NotPlain(f"{folder} has a summary of its columns")
    return [one for one in sorted(folder.iterdir()) if not is_hidden(one.name)]


def partition_of(folder: Path) -> tuple[str, str | None]:
    """Return the column and the value that a folder names; NotPlain if Spark might read another one.

    >>> partition_of(Path("model=a%2Fb")), partition_of(Path("day=__HIVE_DEFAULT_PARTITION__"))
    (('model', 'a/b'), ('day', None))
    """
    column, _, written = folder.name.partition("=")
    value = unquote(written)
    is_sure = column and written and folder_name(column) == column and folder_name(value) == written
    if not is_sure or not folder.name.isprintable():
        raise NotPlain(f"{folder} is not named as Spark writes it")
    return column, None if value == NO_NAME else value


def file_schema(paths: Sequence[str]) -> pa.Schema:
    """Return the columns of Parquet files that all have the same ones; NotPlain otherwise.

    Raises DataError CORRUPT_FILE for a damaged footer, and SCHEMA_DRIFT as ``unsigned_in_all`` does.
    """
    footers = []
    for path in paths:
        try:
            footers.append(read_footer(path))
        except (OSError, EncryptedFile, pa.ArrowException) as error:
            raise_if_of_machine(error, path)
            is_sound = isinstance(error, EncryptedFile | pa.ArrowNotImplementedError)
            if not is_sound and kind_of_file(path) == NAMES["parquet"]:
                raise DataError("CORRUPT_FILE", f"{path!r}: {error}; write the file again") from error
            raise NotPlain(f"{path} is not plain Parquet") from None
    for path, footer in zip(paths, footers, strict=True):
        check_spark_columns(path, footer)
    schemas = [schema_of(footer) for footer in footers]
    if any(schema != schemas[0] for schema in schemas):
        raise NotPlain(f"other files than {paths[0]} have other columns")
    unsigned = {path: unsigned_columns(footer) for path, footer in zip(paths, footers, strict=True)}
    unsigned_in_all(unsigned, str(Path(paths[0]).parent))
    return schemas[0]


def check_spark_columns(path: str, footer: pq.FileMetaData) -> None:
    """Raise NotPlain if Spark, which wrote a schema of its own to the footer, would see other columns.

    Raises DataError CORRUPT_FILE if that schema is damaged.
    """
    try:
        names = columns_of_spark(footer)
    except ValueError as error:
        raise DataError("CORRUPT_FILE", f"{path!r}: {error}; write it again") from error
    if names is not None and names != list(footer.schema.to_arrow_schema().names):
        raise NotPlain(f"{path} has columns that its writer does not name")


def schema_of(footer: pq.FileMetaData) -> pa.Schema:
    """Return the columns of a file with the types to read them with; null for those that are not plain."""
    flat = flat_columns(footer)
    names = footer.schema.to_arrow_schema().names
    kinds = [readable_type(footer.schema.column(flat[name])) if name in flat else None for name in names]
    return pa.schema([pa.field(name, kind or pa.null()) for name, kind in zip(names, kinds, strict=True)])
