"""Tables of this process, conformed: plain Parquet files of this machine, or frames as Arrow tables.

A table is taken if the workers would read it themselves: Spark judges every other one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_eval.arrow.files import INSTANT, check_text, named_read_errors
from spark_eval.arrow.footers import (
    columns_of_spark,
    flat_columns,
    is_plain,
    is_read_alike,
    readable_type,
    unsigned_columns,
    unsigned_in_all,
)
from spark_eval.arrow.sound_footers import EncryptedFile, read_footer
from spark_eval.arrow.user_files import open_file, read_all
from spark_eval.errors import DataError, lacks_memory, raise_if_of_machine
from spark_eval.names import folder_name
from spark_eval.runners.local_rows import LocalTable, in_words, normal
from spark_eval.runtime.file_kinds import NAMES, kind_of_file
from spark_eval.runtime.local_files import is_hidden, local_path
from spark_eval.schema import MODEL
from spark_eval.tables.arrow_frames import as_arrow
from spark_eval.tables.columns import DIVIDER, NO_TIMESTAMP_UNIT, missing_column
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.spec import TIMES, Column, Kind, SpecOf, spec_for

# Summaries: Spark takes the columns of a folder from them.
SUMMARIES: Final = ("_metadata", "_common_metadata")
# Rows of a part of a frame.
PART_ROWS: Final = 1 << 20
WHOLE: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
IDS: Final = (*WHOLE, pa.string())
NUMBERS: Final = (*WHOLE, pa.float32(), pa.float64())
# Instants, and times of a clock without a zone.
MOMENTS: Final = (INSTANT, pa.timestamp("us"))


def is_id(kind: pa.DataType) -> bool:
    """Return True for types of ids."""
    return kind in IDS


def is_whole(kind: pa.DataType) -> bool:
    """Return True for types of integers."""
    return kind in WHOLE


def is_number(kind: pa.DataType) -> bool:
    """Return True for types of numbers that workers read."""
    return kind in NUMBERS


def is_number_or_boolean(kind: pa.DataType) -> bool:
    """Return True for types of numbers, and booleans, which are 0 and 1."""
    return is_number(kind) or kind == pa.bool_()


def is_value(kind: pa.DataType) -> bool:
    """Return True for types of any column that workers read."""
    return kind in IDS or kind in NUMBERS or kind in MOMENTS or kind in (pa.bool_(), pa.date32())


def is_set(kind: pa.DataType) -> bool:
    """Return True for types of sets: text, lists of text or integers."""
    return kind == pa.string() or (pa.types.is_list(kind) and kind.value_type in IDS)


def is_vector(kind: pa.DataType) -> bool:
    """Return True for types of vectors: lists of numbers."""
    return pa.types.is_list(kind) and kind.value_type in NUMBERS


Takes = Callable[[pa.DataType], bool]
Missing = Callable[[str, Sequence[str]], DataError]
# Types that this process takes for a column of each kind: those that the workers read of files.
TAKES: Final[Mapping[Kind, Takes]] = {
    Kind.ID: is_id,
    Kind.TEXT: is_id,
    Kind.WHOLE: is_whole,
    Kind.NUMBER: is_number_or_boolean,
    Kind.SCORE: is_number_or_boolean,
    Kind.VECTOR: is_vector,
    Kind.CLASS_NAME: lambda kind: kind == pa.string(),
    Kind.CLASS_NUMBER: is_number_or_boolean,
    Kind.EXACT: is_number_or_boolean,
    Kind.VALUE: is_value,
    Kind.ORDERED: is_number_or_boolean,
    Kind.RANK: is_number,
    Kind.SET: is_set,
    Kind.EMBEDDING: is_vector,
    Kind.SCALAR: lambda kind: is_id(kind) or is_number_or_boolean(kind),
    Kind.ORIGINAL: lambda _: True,
}


@dataclass(frozen=True)
class Wanted:
    """Our columns that are read of a table, each with a test of its type; ``optional`` ones may be missing.

    ``missing`` returns the error for a missing one, from its name and the table's columns.
    """

    needed: Mapping[str, Takes]
    optional: Mapping[str, Takes]
    missing: Missing


class NotPlain(Exception):
    """Only Spark can take this table; the text says why."""


# Rows of a frame, or else the files at a path; and their columns.
OpenedTable = tuple[pa.Table | None, list[str], pa.Schema]


def columns_of(name: str, given: Any) -> OpenedTable:
    """Return the rows of a frame, or the files at a path, and their columns.

    Raises NotPlain if only Spark can judge them, and the errors of ``as_arrow``.
    """
    if isinstance(given, str | Path):
        paths = plain_paths(str(given))
        return None, paths, file_schema(paths)
    rows = as_arrow(name, given)
    return rows, [], rows.schema


def conformed_here(spec_of: SpecOf, name: str, opened: OpenedTable, names: Mapping[str, str]) -> LocalTable:
    """Return a table of ``columns_of`` with the columns of its spec; ``names`` map our columns to theirs.

    Raises NotPlain if only Spark can judge it, and DataError for columns that are missing or of other types.
    """
    rows, paths, schema = opened
    spec = spec_for(spec_of, name, schema.names, names)
    if spec.only_spark is not None:
        raise NotPlain(f"{name} {spec.only_spark}")
    columns = [one for one in spec.there(schema.names, names) if is_kept(one, schema, names)]
    takes = {one.name: takes_of(one) for one in columns}
    by_name = {one.name: one for one in columns}
    wanted = Wanted(takes, {}, lambda ours, theirs: spec.missing(by_name[ours], theirs, names))
    mapped = {one.name: one.theirs(names) for one in columns}
    theirs = theirs_of(name, schema.names, mapped, wanted, spec.faults)
    others = {one.kind for one in columns if not takes[one.name](normal(schema.field(theirs[one.name]).type))}
    if rows is None and others == {Kind.NUMBER}:
        rows = read_whole(name, paths, list(theirs.values()))
    if rows is not None:
        rows = with_doubles(rows, columns, theirs)
        schema = rows.schema
    check_kinds(name, columns, theirs, schema)
    table = local_table(name, (rows, paths, schema), mapped, wanted)
    return with_kinds(table, columns)


def with_kinds(table: LocalTable, columns: Sequence[Column]) -> LocalTable:
    """Return a table whose text is text, whose numbers are numbers, and whose lists have one type."""
    for one in columns:
        kind = table.kind(one.name)
        if one.kind is Kind.TEXT and kind != pa.string():
            table = table.cast(one.name, pa.string())
        elif one.kind in (Kind.NUMBER, Kind.SCORE, Kind.ORDERED) and kind == pa.bool_():
            table = table.cast(one.name, pa.float64())
        elif one.kind is Kind.SET:
            table = with_column(table, one.name, text_sets)
        elif one.kind is Kind.EMBEDDING and kind.value_type != pa.float32():
            table = with_column(table, one.name, lambda column: column.cast(pa.list_(pa.float64())))
    return table


def with_column(
    table: LocalTable, name: str, make: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> LocalTable:
    """Return a table in memory with another column made of one of its own."""
    rows = table.table()
    rows = rows.set_column(rows.column_names.index(name), name, make(rows[name]))
    return LocalTable(rows.schema, rows)


def text_sets(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return sets as lists of text; text is divided by ``|``."""
    if pa.types.is_string(column.type):
        return pc.split_pattern(column, DIVIDER)
    return column.cast(pa.list_(pa.string()))


def takes_of(column: Column) -> Takes:
    """Return the test of the types that this process takes for a column."""
    if column.kind in TIMES:
        return partial(tells_instants, column.unit, column.timezone)
    return TAKES[column.kind]


def tells_instants(unit: str | None, timezone: str, kind: pa.DataType) -> bool:
    """Return True for timestamps, and integers with a unit; without a zone they are in UTC."""
    if pa.types.is_timestamp(kind):
        return kind.tz is not None or timezone == "UTC"
    return is_whole(kind) and unit is not None


def is_kept(column: Column, schema: pa.Schema, names: Mapping[str, str]) -> bool:
    """Return False for an original column, which nothing reads, with a type that workers do not read."""
    index = schema.get_field_index(column.theirs(names))
    if column.kind is not Kind.ORIGINAL or index < 0:
        return True
    kind = normal(schema.field(index).type)
    return is_number(kind) or kind in (pa.string(), pa.bool_())


def read_whole(name: str, paths: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Return columns of files as a frame is taken, with types that the workers do not read.

    Raises NotPlain if only Spark can judge a file, and the errors of ``as_arrow``.
    """
    parts = []
    for path in paths:
        if not is_read_alike(path, columns):
            raise NotPlain(f"{path} is not plain Parquet")
        with named_read_errors(path), open_file(path, path) as file:
            parts.append(read_all(file, columns).replace_schema_metadata())
    if any(part.schema != parts[0].schema for part in parts):
        raise NotPlain(f"files beside {paths[0]} have other types")
    return as_arrow(name, pa.concat_tables(parts))


def check_kinds(name: str, columns: Sequence[Column], theirs: Mapping[str, str], schema: pa.Schema) -> None:
    """Raise one DataError for all columns of types that no engine takes for their kind."""
    faults = []
    for one in columns:
        kind = normal(schema.field(theirs[one.name]).type)
        if one.kind in TIMES and is_number(kind) and one.unit is None:
            faults.append(DataError("TIMESTAMP_UNIT_MISSING", f"{name}: {NO_TIMESTAMP_UNIT}"))
        elif is_refused(one.kind, kind):
            is_fraction = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            faults.append(one.fault(name, theirs[one.name], in_words(kind), is_fraction=is_fraction))
    DataError.raise_all(faults)


def is_refused(kind: Kind, found: pa.DataType) -> bool:
    """Return True for a type that no engine takes for a kind; others are taken here or left to Spark."""
    is_text, is_flag = found == pa.string(), found == pa.bool_()
    is_fraction = pa.types.is_floating(found) or pa.types.is_decimal(found)
    is_other = found in MOMENTS or found in (pa.date32(), pa.binary())
    match kind:
        case Kind.ID:
            return is_fraction or is_flag or is_other
        case Kind.WHOLE:
            return is_fraction or is_flag or is_other or is_text
        case Kind.NUMBER | Kind.SCORE | Kind.EXACT | Kind.ORDERED | Kind.CLASS_NUMBER:
            return is_text or is_other
        case Kind.RANK:
            return is_text or is_other or is_flag
        case Kind.SET:
            return is_fraction or is_flag or is_other or is_whole(found)
        case Kind.CLASS_NAME:
            return is_fraction or is_flag or is_other or is_whole(found)
        case Kind.VECTOR | Kind.EMBEDDING:
            return is_fraction or is_flag or is_other or is_text or is_whole(found)
    return False


def with_doubles(rows: pa.Table, columns: Sequence[Column], theirs: Mapping[str, str]) -> pa.Table:
    """Return rows with doubles for decimals that are numbers, as Spark casts them.

    They pass through text: it is rounded once, as by Spark, which Arrow's own cast does not promise. Decimals
    that order rows stay: Spark marks the ones that a double rounds.

    >>> score = Column("score", Kind.NUMBER)
    >>> rows = pa.table({"s": pa.array(["0.10", None]).cast(pa.decimal128(3, 2))})
    >>> with_doubles(rows, [score], {"score": "s"}).to_pydict()
    {'s': [0.1, None]}
    """
    for name in (theirs[one.name] for one in columns if one.kind is Kind.NUMBER):
        for index in rows.schema.get_all_field_indices(name):
            column = rows.column(index)
            if pa.types.is_decimal(column.type):
                rows = rows.set_column(index, name, column.cast(pa.string()).cast(pa.float64()))
    return rows


def local_table(
    name: str,
    opened: OpenedTable,
    columns: Mapping[str, str],
    wanted: Wanted,
) -> LocalTable:
    """Return a table of ``columns_of`` with our columns; ``columns`` maps our names to theirs.

    Raises NotPlain if only Spark can judge it, and DataError for columns that are missing.
    """
    rows, paths, schema = opened
    theirs = theirs_of(name, schema.names, columns, wanted)
    kinds = {ours: normal(schema.field(one).type) for ours, one in theirs.items()}
    takes = {**wanted.needed, **wanted.optional}
    for ours, one in theirs.items():
        if not takes[ours](kinds[ours]):
            raise NotPlain(f"{name}: column {one} is not plain")
    fields = pa.schema(kinds)
    if rows is None:
        of_files = pa.schema({one: kinds[ours] for ours, one in theirs.items()})
        if not all(is_plain(path, of_files) for path in paths):
            raise NotPlain(f"{name} is not plain Parquet")
        return LocalTable(fields, files=PlainFiles.of(paths, theirs))
    try:
        rows = pa.table([rows[one] for one in theirs.values()], names=list(theirs)).cast(fields)
    except pa.ArrowException as error:
        if lacks_memory(error):
            raise
        raise NotPlain(f"{name} cannot be read: {error}") from error
    for ours, one in theirs.items():
        for chunk in rows[ours].chunks:
            check_text(chunk, one, name)
    return LocalTable(fields, rows)


def theirs_of(
    name: str,
    names: Sequence[str],
    columns: Mapping[str, str],
    wanted: Wanted,
    found: Sequence[DataError] = (),
) -> dict[str, str]:
    """Return their columns by ours; raise NotPlain for fields and case.

    Raises one DataError for missing columns, and for ``found``, what was found of them before.
    """
    optional = [ours for ours in wanted.optional if ours in columns or ours in names]
    theirs, faults = {}, [*found]
    for ours in (*wanted.needed, *optional):
        one = columns.get(ours, ours)
        alike = [column for column in names if column.lower() in (one.lower(), one.split(".")[0].lower())]
        if alike == [one]:
            theirs[ours] = one
        elif alike:
            raise NotPlain(f"{name} has {', '.join(alike)} for {one}")
        else:
            faults.append(wanted.missing(ours, names))
    DataError.raise_all(faults)
    return theirs


def table_by_model(name: str, path: str) -> LocalTable:
    """Return all columns of plain Parquet files below a folder that has a folder for each model.

    Raises NotPlain for any other folder.
    """
    models = paths_by_folder(path, MODEL)
    if models is None:
        raise NotPlain(f"{path} has no folders of models")
    opened = (None, list(models), file_schema(list(models)))
    every = Wanted(
        {}, dict.fromkeys(opened[2].names, lambda _: True), partial(missing_column, name, mapped={})
    )
    return local_table(name, opened, {}, every).with_models(models, "")


def path_here(path: str) -> Path:
    """Return a path of this machine; NotPlain for anything else."""
    local = local_path(path)
    top = None if local is None else local.absolute()
    if top is None or not top.exists() or is_hidden(top.name):
        raise NotPlain(f"{path} is not on this machine")
    return top


def listed_in(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden.

    Raises NotPlain if Spark would take the columns from a summary beside them.
    """
    if any((folder / name).exists() for name in SUMMARIES):
        raise NotPlain(f"{folder} has a summary of its columns")
    return [one for one in sorted(folder.iterdir()) if not is_hidden(one.name)]


def paths_by_folder(path: str, column: str) -> dict[str, str] | None:
    """Return the value of each file below a folder that has a folder ``COLUMN=VALUE`` for each value.

    None for a file, and for another folder.
    """
    top = path_here(path)
    folders = listed_in(top) if top.is_dir() else []
    if not folders or not all(one.is_dir() and one.name.startswith(f"{column}=") for one in folders):
        return None
    values = dict[str, str]()
    for folder in folders:
        written = folder.name.removeprefix(f"{column}=")
        if folder_name(unquote(written)) != written:
            raise NotPlain(f"{path} has a folder {folder.name}")
        values |= dict.fromkeys(plain_paths(str(folder)), unquote(written))
    return values


def plain_paths(path: str) -> list[str]:
    """Return the files at a path of this machine, which is one file, or a folder of files alone.

    Raises NotPlain for anything else.
    """
    top = path_here(path)
    files = [top] if top.is_file() else listed_in(top)
    if not files or not all(one.is_file() for one in files):
        raise NotPlain(f"{path} is neither a file nor a folder of files alone")
    if not (files := [one for one in files if one.stat().st_size]):
        raise NotPlain(f"{path} has no rows")
    return list(map(str, files))


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
        raise NotPlain(f"files beside {paths[0]} have other columns")
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
