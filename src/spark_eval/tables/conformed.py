"""Conformed tables, whatever runs: Spark frames, or tables of this process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.errors import DataError
from spark_eval.schema import ITEM, REQUEST, UNIT, USER
from spark_eval.tables.local_tables import LocalTable

# A Spark frame or a ``LocalTable``, where only functions below tell them apart.
Rows = Any
# Bytes of a number in memory.
NUMBER_BYTES: Final = 8
# Spark's names of the types of ids.
NAMES: Final = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
}


def session_of(table: Rows) -> Any:
    """Return the Spark session of a table; None in this process."""
    return None if isinstance(table, LocalTable) else table.sparkSession


def arrow_type(table: Rows, name: str) -> pa.DataType:
    """Return the Arrow type of a column."""
    if isinstance(table, LocalTable):
        return table.schema.field(name).type
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(table.schema[name].dataType)


def id_type(table: Rows, name: str) -> pa.DataType:
    """Return the Arrow type of ids in the engine: text, or integers of 64 bits."""
    return pa.string() if pa.types.is_string(arrow_type(table, name)) else pa.int64()


def has_text_ids(table: Rows) -> bool:
    """Return True if users are text."""
    return bool(arrow_type(table, USER) == pa.string())


def type_name(table: Rows, name: str) -> str:
    """Return Spark's name of the type of a column."""
    if isinstance(table, LocalTable):
        of_arrow = table.schema.field(name).type
        return NAMES.get(of_arrow, str(of_arrow))
    kind: str = table.schema[name].dataType.simpleString()
    return kind


def check_id_types(tables: Mapping[str, Rows]) -> None:
    """Raise DataError ID_TYPE_MISMATCH if an id is text in one table and an integer in another.

    Spark would silently cast one of them, and '007', ' 7' and 7 would be the same user.
    """
    faults = []
    for name in (USER, ITEM, REQUEST, UNIT):
        given = {table: frame for table, frame in tables.items() if name in frame.columns}
        if len({id_type(frame, name) for frame in given.values()}) > 1:
            types = " and ".join(f"{type_name(frame, name)} in {table}" for table, frame in given.items())
            message = f"{name} is {types}; write all with one type"
            faults.append(DataError("ID_TYPE_MISMATCH", message))
    DataError.raise_all(faults)


def align_ids(recommendations: Rows, truth: Rows) -> tuple[Rows, Rows]:
    """Return both tables with ids of one type: integers are widened exactly, and never cast to text."""
    check_id_types({"recommendations": recommendations, "truth": truth})
    for name in (USER, ITEM, REQUEST):
        if name not in recommendations.columns or name not in truth.columns:
            continue
        if arrow_type(recommendations, name) != arrow_type(truth, name):
            recommendations, truth = widened(recommendations, name), widened(truth, name)
    return recommendations, truth


def widened(table: Rows, name: str) -> Rows:
    """Return the table with integers of 64 bits in a column."""
    if isinstance(table, LocalTable):
        return table.cast(name, pa.int64())
    return table.withColumn(name, table[name].cast("long"))


def rows_equal(table: Rows, name: str, values: Sequence[str]) -> Rows:
    """Return the rows whose text in a column is one of these values."""
    if not isinstance(table, LocalTable):
        return table.where(table[name].isin(list(values)))
    if name in table.folders:
        return table.in_folders(name, values)
    rows = table.table()
    is_chosen = pc.is_in(rows[name].cast(pa.string()), value_set=pa.array(values, pa.string()))
    has_all = pc.all(is_chosen, min_count=0).as_py()  # most often: then nothing is copied
    return LocalTable(table.schema, rows if has_all else rows.filter(is_chosen))


def rows_here(tables: Sequence[Rows], most_bytes: int) -> list[pa.Table] | None:
    """Return the rows of tables of this process, if those of files take at most so many bytes of memory.

    None otherwise, and for Spark frames.
    """
    if not all(isinstance(table, LocalTable) for table in tables):
        return None
    n_bytes = sum(NUMBER_BYTES * len(table.columns) * table.n_rows for table in tables if table.rows is None)
    return [table.table() for table in tables] if n_bytes <= most_bytes else None


def check_unchanged(tables: Sequence[Rows]) -> Callable[[], None] | None:
    """Return a check that raises DataError INPUT_CHANGED_DURING_RUN if files that Spark listed have changed.

    None for tables of this process: their files are checked as they are read.
    """
    of_spark = [table for table in tables if not isinstance(table, LocalTable)]
    if not of_spark:
        return None
    from spark_eval.tables.listed import ListedFiles

    return ListedFiles.of(*of_spark).check_here
