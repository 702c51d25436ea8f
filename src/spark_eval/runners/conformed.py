"""Ids of conformed tables: one type in all of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from spark_eval.errors import DataError
from spark_eval.runners.rows import Rows
from spark_eval.schema import ITEM, REQUEST, UNIT, USER
from spark_eval.tables.listed import ListedFiles

# Bytes of a number in memory.
NUMBER_BYTES: Final = 8


def id_type(table: Rows, name: str) -> pa.DataType:
    """Return the Arrow type of ids in the engine: text, or integers of 64 bits."""
    return pa.string() if pa.types.is_string(table.kind(name)) else pa.int64()


def has_text_ids(table: Rows) -> bool:
    """Return True if users are text."""
    return bool(table.kind(USER) == pa.string())


def check_id_types(tables: Mapping[str, Rows]) -> None:
    """Raise DataError ID_TYPE_MISMATCH if an id is text in one table and an integer in another.

    Spark would silently cast one of them, and '007', ' 7' and 7 would be the same user.
    """
    faults = []
    for name in (USER, ITEM, REQUEST, UNIT):
        given = {table: frame for table, frame in tables.items() if name in frame.columns}
        if len({id_type(frame, name) for frame in given.values()}) > 1:
            types = " and ".join(f"{frame.kind_in_words(name)} in {table}" for table, frame in given.items())
            message = f"{name} is {types}; write all with one type"
            faults.append(DataError("ID_TYPE_MISMATCH", message))
    DataError.raise_all(faults)


def align_ids(recommendations: Rows, truth: Rows) -> tuple[Rows, Rows]:
    """Return both tables with ids of one type: integers are widened exactly, and never cast to text."""
    check_id_types({"recommendations": recommendations, "truth": truth})
    for name in (USER, ITEM, REQUEST):
        if name not in recommendations.columns or name not in truth.columns:
            continue
        if recommendations.kind(name) != truth.kind(name):
            recommendations, truth = (table.cast(name, pa.int64()) for table in (recommendations, truth))
    return recommendations, truth


def rows_here(tables: Sequence[Rows], most_bytes: int) -> list[pa.Table] | None:
    """Return the rows of tables of this process, if reading them takes at most ``most_bytes`` of memory.

    None otherwise, and for tables on Spark.
    """
    if any(table.session is not None or table.n_rows is None for table in tables):
        return None
    n_values = sum(len(table.columns) * (table.n_rows or 0) for table in tables if not table.is_in_memory)
    return [table.table() for table in tables] if NUMBER_BYTES * n_values <= most_bytes else None


def check_unchanged(tables: Sequence[Rows]) -> Callable[[], None] | None:
    """Return a check that raises DataError INPUT_CHANGED_DURING_RUN if files that Spark listed have changed.

    None for tables of this process: their files are checked as they are read.
    """
    frames = [table.result() for table in tables if table.session is not None]
    return ListedFiles.of(*frames).check_here if frames else None
