"""Tables of this process, conformed: plain Parquet files of this machine, or frames as Arrow tables.

A table is taken if the workers would read it themselves: Spark judges every other one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.files import INSTANT, check_text, named_read_errors
from spark_eval.arrow.footers import is_plain, is_read_alike
from spark_eval.arrow.user_files import open_file, read_all
from spark_eval.errors import DataError, lacks_memory
from spark_eval.runners.local_rows import LocalTable, in_words, normal
from spark_eval.schema import MODEL
from spark_eval.tables.arrow_frames import as_arrow
from spark_eval.tables.columns import DIVIDER, NO_TIMESTAMP_UNIT
from spark_eval.tables.conditions import meeting
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.opened import OpenedTable, open_files
from spark_eval.tables.spec import TIMES, TOO_LONG, Column, Kind, NotPlain, SpecOf, TableSpec, spec_for

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


def is_label(kind: pa.DataType) -> bool:
    """Return True for types of labels: sets, integers and booleans."""
    return is_set(kind) or is_whole(kind) or kind == pa.bool_()


def is_vector(kind: pa.DataType) -> bool:
    """Return True for types of vectors: lists of numbers."""
    return pa.types.is_list(kind) and kind.value_type in NUMBERS


Takes = Callable[[pa.DataType], bool]
# Types that this process takes for a column of each kind: those that the workers read of files.
TAKES: Final[Mapping[Kind, Takes]] = {
    Kind.ID: is_id,
    Kind.TEXT: lambda kind: is_id(kind) or kind == pa.bool_(),
    Kind.WHOLE: is_whole,
    Kind.NUMBER: is_number_or_boolean,
    Kind.SCORE: is_number_or_boolean,
    Kind.VECTOR: is_vector,
    Kind.CLASS_NAME: lambda kind: kind == pa.string(),
    Kind.CLASS_NUMBER: is_number_or_boolean,
    Kind.EXACT: is_number_or_boolean,
    Kind.VALUE: is_value,
    Kind.STRATUM: lambda kind: is_id(kind) or kind == pa.bool_(),
    Kind.ORDERED: is_number_or_boolean,
    Kind.RANK: is_number,
    Kind.SET: is_set,
    Kind.LABELS: is_label,
    Kind.EMBEDDING: is_vector,
    Kind.FLAG: lambda kind: kind == pa.bool_(),
    Kind.SCALAR: lambda kind: is_id(kind) or is_number_or_boolean(kind),
    Kind.ORIGINAL: lambda _: True,
}


# Columns of conditions, in addition to ours.
CONDITION: Final = "spark_eval_condition_{}"
KEEPS_NUMBER: Final = "double keeps it here (in pandas: astype(float))"
KEEPS_TEXT: Final = "text keeps it here (in pandas: astype(str))"
KEEPS_TIME: Final = "timestamps of a zone keep it here (in pandas: dt.tz_localize)"
KEEPS_LIST: Final = "lists of a frame keep it here (pandas.read_parquet)"
# What keeps a column of each kind in this process.
KEPT_HERE: Final[Mapping[Kind, str]] = {
    **dict.fromkeys((Kind.NUMBER, Kind.SCORE, Kind.EXACT, Kind.ORDERED, Kind.CLASS_NUMBER), KEEPS_NUMBER),
    **dict.fromkeys((Kind.ID, Kind.WHOLE, Kind.RANK), "integers keep it here (in pandas: astype('Int64'))"),
    **dict.fromkeys((Kind.TEXT, Kind.SCALAR, Kind.STRATUM, Kind.CLASS_NAME, Kind.LABELS), KEEPS_TEXT),
    **dict.fromkeys(TIMES, KEEPS_TIME),
    **dict.fromkeys((Kind.VECTOR, Kind.EMBEDDING, Kind.SET), KEEPS_LIST),
    Kind.FLAG: "booleans keep it here (in pandas: astype('boolean'))",
    **dict.fromkeys((Kind.VALUE, Kind.ORIGINAL), "text or a number keeps it here"),
}


def conformed_here(spec_of: SpecOf, name: str, opened: OpenedTable, names: Mapping[str, str]) -> LocalTable:
    """Return a table with the columns of its spec; ``names`` map our columns to theirs.

    Raises NotPlain if only Spark can judge it, and DataError for columns that are missing or of other types.
    """
    schema = opened.schema
    spec = spec_for(spec_of, name, schema.names, names)
    if spec.only_spark is not None:
        raise NotPlain(f"{name} {spec.only_spark}")
    columns = [one for one in spec.there(schema.names, names) if is_kept(one, schema, names)]
    theirs = theirs_of(spec, columns, schema.names, names)
    others = {one.kind for one in columns if not is_taken(one, schema.field(theirs[one.name]).type)}
    if opened.rows is None and others and others <= {Kind.NUMBER, Kind.ID}:
        opened = read_whole(name, opened, [*theirs.values(), *(one.column for one in opened.conditions)])
    if opened.rows is not None:
        rows = with_doubles(with_longs(name, opened.rows, columns, theirs), columns, theirs)
        opened = replace(opened, schema=rows.schema, rows=rows)
    check_kinds(name, columns, theirs, opened.schema)
    for one in columns:
        if not is_taken(one, opened.schema.field(theirs[one.name]).type):
            kind = opened.schema.field(theirs[one.name]).type
            raise NotPlain(left_to_spark(name, one, theirs[one.name], normal(kind)))
    conditions = {CONDITION.format(number): one for number, one in enumerate(opened.conditions)}
    hidden = {key: condition.column for key, condition in conditions.items()}
    if lacking := [column for column in hidden.values() if column not in opened.schema.names]:
        raise NotPlain(f"{name} has no column {lacking[0]}")
    table = local_table(name, opened, theirs | hidden)
    if conditions:
        rows = meeting(table.table(), conditions).select(list(theirs))
        table = LocalTable(rows.schema, rows)
    return with_kinds(table, columns)


def with_kinds(table: LocalTable, columns: Sequence[Column]) -> LocalTable:
    """Return a table whose text is text, whose numbers are numbers, and whose lists have one type."""
    for one in columns:
        kind = table.kind(one.name)
        if one.kind is Kind.TEXT and kind != pa.string():
            table = table.cast(one.name, pa.string())
        elif one.kind in (Kind.NUMBER, Kind.SCORE, Kind.ORDERED) and kind == pa.bool_():
            table = table.cast(one.name, pa.float64())
        elif one.kind in (Kind.SET, Kind.LABELS):
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
    """Return sets as lists of text; text, and other values as text, are divided by ``|``."""
    if pa.types.is_list(column.type):
        return column.cast(pa.list_(pa.string()))
    return pc.split_pattern(column.cast(pa.string()), DIVIDER)


def left_to_spark(name: str, column: Column, theirs: str, kind: pa.DataType) -> str:
    """Return why only Spark takes a column of this type, and what would keep it here.

    >>> left_to_spark("users", Column("country", Kind.TEXT), "land", pa.float64())
    "users: column 'land' is double; text keeps it here (in pandas: astype(str))"
    """
    what = "of a type that only Spark reads" if pa.types.is_null(kind) else in_words(kind)
    return f"{name}: column {theirs!r} is {what}; {KEPT_HERE[column.kind]}"


def is_taken(column: Column, kind: pa.DataType) -> bool:
    """Return True for a type that this process takes for a column."""
    return takes_of(column)(normal(kind))


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


def read_whole(name: str, opened: OpenedTable, columns: Sequence[str]) -> OpenedTable:
    """Return columns of files as a frame is taken, with types that the workers do not read.

    Raises NotPlain if only Spark can judge a file, and the errors of ``as_arrow``.
    """
    parts = []
    columns = list(dict.fromkeys(columns))
    for path in opened.paths:
        if opened.folders or not is_read_alike(path, columns):
            raise NotPlain(f"{path} is not plain Parquet")
        with named_read_errors(path), open_file(path, path) as file:
            parts.append(read_all(file, columns).replace_schema_metadata())
    if any(part.schema != parts[0].schema for part in parts):
        raise NotPlain(f"other files than {opened.paths[0]} have other types")
    if any(pa.types.is_null(one) for one in parts[0].schema.types):
        raise NotPlain(f"{opened.paths[0]} has a column without values or type")
    rows = as_arrow(name, pa.concat_tables(parts))
    return replace(opened, schema=rows.schema, rows=rows, paths=())


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
            return (is_fraction and not is_whole_decimal(found)) or is_flag or is_other
        case Kind.WHOLE:
            return is_fraction or is_flag or is_other or is_text
        case Kind.NUMBER | Kind.SCORE | Kind.EXACT | Kind.ORDERED | Kind.CLASS_NUMBER:
            return is_text or is_other
        case Kind.FLAG:
            return is_fraction or is_other or is_text or is_whole(found)
        case Kind.RANK:
            return is_text or is_other or is_flag
        case Kind.SET:
            return is_fraction or is_flag or is_other or is_whole(found)
        case Kind.LABELS:
            return bool(pa.types.is_list(found) and pa.types.is_floating(found.value_type))
        case Kind.CLASS_NAME:
            return is_fraction or is_flag or is_other or is_whole(found)
        case Kind.VECTOR | Kind.EMBEDDING:
            return is_fraction or is_flag or is_other or is_text or is_whole(found)
    return False


def is_whole_decimal(kind: pa.DataType) -> bool:
    """Return True for decimals without places."""
    return bool(pa.types.is_decimal(kind) and kind.scale == 0)


def with_longs(name: str, rows: pa.Table, columns: Sequence[Column], theirs: Mapping[str, str]) -> pa.Table:
    """Return rows with integers for ids that are decimals without places.

    Raises DataError UNSUPPORTED_TYPE for one of more than 64 bits.
    """
    for one in (theirs[one.name] for one in columns if one.kind is Kind.ID):
        for index in rows.schema.get_all_field_indices(one):
            if is_whole_decimal(rows.schema.field(index).type):
                try:
                    rows = rows.set_column(index, one, rows.column(index).cast(pa.int64()))
                except pa.ArrowInvalid as error:
                    message = f"{name}: column {one!r} {TOO_LONG}"
                    raise DataError("UNSUPPORTED_TYPE", message) from error
    return rows


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


def local_table(name: str, opened: OpenedTable, theirs: Mapping[str, str]) -> LocalTable:
    """Return a table with our columns, in plain types; ``theirs`` are their columns by ours.

    Raises NotPlain if only Spark can judge it.
    """
    rows, kinds = opened.rows, {ours: normal(opened.schema.field(one).type) for ours, one in theirs.items()}
    fields = pa.schema(kinds)
    if rows is None:
        in_files = {ours: one for ours, one in theirs.items() if one not in opened.folders}
        kinds_of_files = pa.schema({one: kinds[ours] for ours, one in in_files.items()})
        if not all(is_plain(path, kinds_of_files) for path in opened.paths):
            raise NotPlain(f"{name} is not plain Parquet")
        folders = {ours: opened.folders[one] for ours, one in theirs.items() if one in opened.folders}
        return LocalTable(fields, files=PlainFiles.of(opened.paths, in_files), folders=folders)
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
    spec: TableSpec, columns: Sequence[Column], there: Sequence[str], names: Mapping[str, str]
) -> dict[str, str]:
    """Return their columns by ours, of a table with the columns ``there``; ``names`` map ours to theirs.

    Raises NotPlain for fields and case, and one DataError for all missing columns and faults of the spec.
    """
    theirs, faults = {}, [*spec.faults]
    for column in columns:
        one = column.theirs(names)
        alike = [name for name in there if name.lower() in (one.lower(), one.split(".")[0].lower())]
        if alike == [one]:
            theirs[column.name] = one
        elif alike:
            raise NotPlain(f"{spec.name} has {', '.join(alike)} for {one}")
        else:
            faults.append(spec.missing(column, there, names))
    DataError.raise_all(faults)
    return theirs


def table_by_model(name: str, path: str) -> LocalTable:
    """Return all columns of plain Parquet files below a folder that has a folder for each model.

    Raises NotPlain for any other folder.
    """
    opened = open_files(path)
    if set(opened.folders) != {MODEL}:
        raise NotPlain(f"{path} has no folders of models")
    return local_table(name, opened, {column: column for column in opened.schema.names})
