"""pandas and polars frames as Arrow tables, with types that Spark has. No Spark here."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.files import UNSIGNED, WIDE_UNSIGNED
from spark_eval.arrow.footers import MOST_DIGITS
from spark_eval.errors import ConfigError, DataError, lacks_memory, raise_if_of_machine
from spark_eval.options import Exporting, not_a_frame
from spark_eval.runtime.local_files import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Inputs of the verbs. Arrow tables are accepted as well, but have no static types. A text is the path of
# Parquet files.
Frame = Union["DataFrame", pd.DataFrame, Exporting, str, Path]
# Frame of a result: a Spark, pandas or polars frame, or an Arrow table.
AnyFrame = Any
# Arrow types that Spark lacks, and Spark's types with the same values.
WIDER = {
    **UNSIGNED,
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.null(): pa.string(),
}


# Types of pandas for integers with missing values.
NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
}


def as_arrow(name: str, frame: Any) -> pa.Table:
    """Return a frame of another library as an Arrow table with types that Spark has.

    Raises ConfigError NOT_A_FRAME, or DataError UNSUPPORTED_TYPE with all columns that cannot be converted.
    """
    labels, columns, faults = [], [], []
    if not isinstance(frame, pd.DataFrame | pa.Table):
        try:
            frame = pa.table(frame)
        except (pa.ArrowException, TypeError, ValueError) as error:  # a polars column also exports itself
            if lacks_memory(error):
                raise
            if type(frame).__name__ != "DataFrame":
                raise not_a_frame(name, frame) from None
            message = f"{name}: a column cannot be taken: {error}; give it one type that Spark has"
            raise DataError("UNSUPPORTED_TYPE", message) from error
    for label, column in named_columns(frame):
        labels.append(label)
        try:
            columns.append(cast_for_spark(column))
        except (pa.ArrowException, TypeError, ValueError) as error:
            if lacks_memory(error):
                raise
            reason = str(error).splitlines()[0]
            message = f"{name}: column {label!r} cannot be taken: {reason}; {how_to_mend(column, reason)}"
            faults.append(DataError("UNSUPPORTED_TYPE", message))
    DataError.raise_all(faults)
    return pa.table(columns, names=labels)


def how_to_mend(column: Any, reason: str) -> str:
    """Return the advice for a column that cannot be converted for this reason."""
    if "uint" in str(getattr(column, "dtype", None) or column.type).lower():
        return f"it {WIDE_UNSIGNED}"
    return "round it, as .dt.floor('us') does" if "timestamp" in reason else "give it one type that Spark has"


def read_arrow(name: str, frame: Any) -> pa.Table:
    """Return a frame, or the Parquet files at a path of this machine, as an Arrow table."""
    if not isinstance(frame, str) and not hasattr(frame, "__fspath__"):
        return as_arrow(name, frame)
    local = local_path(str(frame))
    if local is None:
        message = f"{name}: {str(frame)!r} is not on this machine; give a frame, or copy the files here"
        raise ConfigError("UNSUPPORTED_INPUT", message)
    try:
        rows = pq.read_table(local, use_threads=False, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise_if_of_machine(error, str(frame))
        raise DataError("MISSING_INPUT", f"{name}: cannot read {str(frame)!r}: {error}") from error
    if not rows.num_columns:
        raise DataError("EMPTY_INPUT", f"{name}: {str(frame)!r} has no file with rows")
    return as_arrow(name, rows)


def named_columns(frame: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, values) of every column, index columns first if all levels of the index have names."""
    if isinstance(frame, pd.DataFrame):
        rows = frame.reset_index() if all(frame.index.names) else frame
        for index, label in enumerate(rows.columns):
            yield str(label), rows.iloc[:, index]
    else:
        yield from zip(frame.column_names, frame.columns, strict=True)


def cast_for_spark(column: Any) -> pa.ChunkedArray:
    """Return a column with a type that Spark has; missing values are null.

    Raises pyarrow's errors for values of mixed types, timestamps finer than microseconds and integers beyond
    64 bits, and TypeError for a type that Spark lacks.
    """
    values = pa.array(column, from_pandas=True) if isinstance(column, pd.Series) else column
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    if str(values.type).startswith("dictionary<values=string_view"):  # no direct cast
        values = pa.chunked_array([plain_text(chunk) for chunk in values.chunks], pa.string())
    return values.cast(kind_for_spark(values.type))


def kind_for_spark(kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark has for values of a type, also within lists; raise TypeError for none.

    >>> kind_for_spark(pa.large_list(pa.string_view()))
    LargeListType(large_list<item: string>)
    """
    if pa.types.is_dictionary(kind):
        return kind_for_spark(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if str(kind) == "string_view":
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        listed, value = pa.list_ if pa.types.is_list(kind) else pa.large_list, kind.value_type
        return listed(value if pa.types.is_null(value) else kind_for_spark(value))
    if pa.types.is_time(kind) or (pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS):
        raise TypeError(f"Spark has no type {kind}")
    return WIDER.get(kind, kind)


def plain_text(coded: pa.DictionaryArray) -> pa.Array:
    """Decode dictionary-encoded text."""
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string())).cast(pa.string())


def like_given(table: pa.Table, given: Any) -> Any:
    """Return an Arrow table as a frame of the kind of ``given``, as a pandas frame for paths."""
    if isinstance(given, pa.Table):
        return table
    if type(given).__module__.startswith("polars."):
        from polars import from_arrow

        return from_arrow(table)
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_integer(column.type) and column.null_count:  # pandas would make them floats
            frame[name] = column.to_pandas(types_mapper=NULLABLE.get)
    return frame
