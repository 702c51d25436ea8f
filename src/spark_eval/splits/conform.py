"""Columns of an interaction log."""

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.arrow.row_faults import inexact_relevance
from spark_eval.names import quote_column
from spark_eval.schema import FAULT, ITEM, RELEVANCE, TIMESTAMP, USER, Fault
from spark_eval.splits.local_log import OURS, RESERVED
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.inputs import Input, first_fault_column, instant, is_any_null, open_input
from spark_eval.tables.plain_files import PLAIN_TYPES, plain_files, source_columns

LOG_TYPES: Final = (*PLAIN_TYPES, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)


def conform_interactions(
    frame: DataFrame,
    names: Mapping[str, str] | None,
    timestamp_unit: str | None,
    timezone: str,
    timed: bool = True,
    added: Collection[str] = (),
) -> DataFrame:
    """Return user, item, timestamp (an instant), relevance (default 1), the other columns, and ``fault``.

    If ``timed`` is false, timestamps may be null and the column may be missing. ``added`` are columns that
    the split adds.
    """
    table = open_input(frame, "interactions", names)
    user, item = table.id(USER), table.id(ITEM)
    has_time = timed or table.has(TIMESTAMP)
    when = instant(table, timestamp_unit, timezone) if has_time else F.lit(None).cast("timestamp")
    relevance = F.lit(1.0)
    if table.has(RELEVANCE):
        # The rows are published: their reader could not know that a relevance was rounded.
        refused = F.raise_error(F.lit(str(inexact_relevance())))
        number = table.number(RELEVANCE, "RELEVANCE_NOT_NUMERIC")
        relevance = F.when(table.is_inexact(RELEVANCE), refused).otherwise(number)
    mapped = {table.names.get(name, name) for name in OURS}
    others = [name for name in frame.columns if name not in mapped]
    for name in others:
        if name.lower() in {*RESERVED, *added}:
            table.fault("RESERVED_COLUMN", f"column {name!r} would clash with ours; rename it or map it")
    faults = {Fault.NULL_ID: is_any_null(user, item)}
    if timed:
        faults[Fault.NULL_TIMESTAMP] = when.isNull()
    columns = dict(zip(OURS, (user, item, when, relevance), strict=True))
    columns |= {name: other_column(table, name) for name in others}
    return table.conformed(columns | {FAULT: first_fault_column(faults)})


def other_column(table: Input, name: str) -> Column:
    """Return any other column of a log unchanged; text must be UTF-8."""
    column, is_text = F.col(quote_column(name)), isinstance(table.frame.schema[name].dataType, T.StringType)
    return table.readable(name, column) if is_text else column


def plain_log(frame: DataFrame, names: Mapping[str, str], timezone: str) -> PlainFiles | None:
    """Return the files of a log with all its columns if they are plain and have instants, otherwise None."""
    ours = source_columns(frame, names, [], OURS)
    others = {name: name for name in frame.columns if name not in ours.values()}
    files = plain_files(frame, ours | others, LOG_TYPES)
    if files is None or TIMESTAMP not in ours:
        return files
    kind = frame.schema[ours[TIMESTAMP]].dataType
    tells_instants = isinstance(kind, T.TimestampType | T.IntegralType) or (
        isinstance(kind, T.TimestampNTZType) and timezone == "UTC"
    )
    return files if tells_instants else None
