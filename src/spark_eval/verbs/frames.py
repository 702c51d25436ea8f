"""Frames of other libraries: a pandas frame or an Arrow table becomes one of Spark's."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.errors import ConfigError, DataError, each
from spark_eval.runtime.session import get_session

# What the verbs take: these, and Arrow tables, which have no types to be named here.
Frame = DataFrame | pd.DataFrame
# Types that Spark lacks, and those that hold the same values there.
WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.null(): pa.string(),
}


def in_spark(frames: Mapping[str, Any]) -> dict[str, DataFrame]:
    """Return the frames that are given, by their names, as frames of one session.

    That is the session of the first Spark frame among them, or else the one of ``get_session``. Rows keep
    their values: ids stay integers or text, missing values become null.

    Raises ConfigError NOT_A_FRAME, or DataError UNSUPPORTED_TYPE with every column that cannot be taken.
    """
    given = {name: frame for name, frame in frames.items() if frame is not None}
    for name, frame in given.items():
        if not isinstance(frame, (DataFrame, pd.DataFrame, pa.Table)):
            kind = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
            message = f"{name} is of type {kind}; give a Spark or pandas frame, or an Arrow table"
            raise ConfigError("NOT_A_FRAME", f"{message} (polars: frame.to_arrow())")
    of_spark = {name: frame for name, frame in given.items() if isinstance(frame, DataFrame)}
    others = {name: partial(as_arrow, name, given[name]) for name in given if name not in of_spark}
    if not others:
        return of_spark
    tables = each(others)
    spark = next(iter(of_spark.values())).sparkSession if of_spark else get_session()
    made = {name: sent(spark, name, table) for name, table in tables.items()}
    return {name: (of_spark | made)[name] for name in given}


def as_arrow(name: str, frame: Any) -> pa.Table:
    """Return a pandas frame or an Arrow table as an Arrow table of types that Spark has."""
    labels, columns, faults = [], [], []
    for label, column in named_columns(frame):
        labels.append(label)
        try:
            columns.append(fitted(column))
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            mend = (
                "round it, as .dt.floor('us') does"
                if "timestamp" in reason
                else "give it one type that Spark has"
            )
            message = f"{name}: column {label!r} cannot be taken: {reason}; {mend}"
            faults.append(DataError("UNSUPPORTED_TYPE", message))
    DataError.raise_all(faults)
    return pa.table(columns, names=labels)


def named_columns(frame: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and values of every column, first those of an index that has names."""
    if isinstance(frame, pd.DataFrame):
        rows = frame.reset_index() if all(frame.index.names) else frame
        for place, label in enumerate(rows.columns):
            yield str(label), rows.iloc[:, place]
    else:
        yield from zip(frame.column_names, frame.columns, strict=True)


def fitted(column: Any) -> Any:
    """Return a column with a type that Spark has; missing values are null.

    Raises what pyarrow raises for values of several types, for moments between two microseconds and for
    integers beyond 64 bits.
    """
    values = pa.array(column, from_pandas=True) if isinstance(column, pd.Series) else column
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    elif str(kind) == "string_view":
        kind = pa.string()
    return values.cast(WIDER.get(kind, kind))


def sent(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """Return a table as a frame of the session; times without a zone stay without one."""
    try:
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return spark.createDataFrame(table, schema)
    except PySparkException as error:
        raise DataError("UNSUPPORTED_TYPE", f"{name}: Spark has no such type: {error}") from None
