"""Conversion of pandas and polars frames, Arrow tables and paths into Spark frames."""

import os
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.arrow.footers import MOST_DIGITS
from spark_eval.errors import ConfigError, DataError, collect_errors
from spark_eval.names import literal_path
from spark_eval.runtime.any_session import is_remote, setting
from spark_eval.runtime.local_files import decoded, local_path
from spark_eval.runtime.session import get_session
from spark_eval.tables.listed import ListedFiles, check_all_read, check_regular, named_type
from spark_eval.tables.partitions import with_partitions
from spark_eval.tables.plain_files import READING


@runtime_checkable
class Exporting(Protocol):
    """Frame that exports itself as an Arrow table, such as a polars frame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of Arrow's C stream."""


# Inputs of the verbs. Arrow tables are accepted as well, but have no static types. A text is the path of
# Parquet files.
Frame = DataFrame | pd.DataFrame | Exporting | str | Path
# Type inference of partition columns: Spark would infer that models 01 and 1 are the same number.
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
# Arrow types that Spark lacks, and Spark's types with the same values.
WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.null(): pa.string(),
}


def to_spark_frames(frames: Mapping[str, Any]) -> dict[str, DataFrame]:
    """Return the given frames, by name, as frames of one Spark session; None is left out.

    The session is that of the first Spark frame, otherwise that of ``get_session``. Values do not change: ids
    remain integers or text, and missing values become null.

    Raises ConfigError NOT_A_FRAME; DataError MISSING_INPUT and other errors of paths; DataError
    UNSUPPORTED_TYPE with all columns that cannot be converted; and DataError INPUT_CHANGED_DURING_RUN if the
    files of a frame have changed since it was created.
    """
    given = {name: frame for name, frame in frames.items() if frame is not None}
    for name, frame in given.items():
        if not isinstance(frame, DataFrame | pd.DataFrame | pa.Table | str | Path | Exporting):
            raise not_a_frame(name, frame)
    of_spark = {name: frame for name, frame in given.items() if isinstance(frame, DataFrame)}
    paths = {name: frame for name, frame in given.items() if isinstance(frame, str | Path)}
    others = {name: partial(as_arrow, name, given[name]) for name in given if name not in {*of_spark, *paths}}
    collect_errors(
        {name: partial(ListedFiles.of(frame).check, frame, name) for name, frame in of_spark.items()}
    )
    if not others and not paths:
        return of_spark
    tables = collect_errors(others)
    spark = next(iter(of_spark.values())).sparkSession if of_spark else get_session()
    made = {name: arrow_to_spark(spark, name, table) for name, table in tables.items()}
    made |= collect_errors(
        {name: partial(frame_of_path, spark, name, str(path)) for name, path in paths.items()}
    )
    return {name: (of_spark | made)[name] for name in given}


def not_a_frame(name: str, given: Any) -> ConfigError:
    """Return the error for an object that is not a frame."""
    kind = f"{type(given).__module__.partition('.')[0]} {type(given).__name__}"
    if type(given).__name__ == "LazyFrame":
        return ConfigError("NOT_A_FRAME", f"{name} is a {kind}; give {name}.collect()")
    message = f"{name} is of type {kind}; give a Spark, pandas or polars frame, an Arrow table"
    return ConfigError("NOT_A_FRAME", f"{message}, or the path of Parquet files")


def frame_of_path(spark: SparkSession, name: str, path: str) -> DataFrame:
    """Return the Parquet files at a path as a frame; partition columns are text.

    Raises DataError NOT_A_FILE for pipes and devices, UNREAD_FILES for files that Spark would ignore.
    """
    paths: list[str] = []
    try:
        paths, depth = check_folders(spark, name, path)
        with setting(spark, INFERENCE, "false"):
            # A unique option: otherwise Spark could replace this frame by an equal one that the user has
            # persisted.
            frame = spark.read.option(READING, uuid.uuid4().hex).parquet(literal_path(path))
            # With Spark Connect, a frame is resolved again whenever it is used.
            frame = spark.read.schema(frame.schema).parquet(literal_path(path)) if is_remote(spark) else frame
        return with_partitions(frame, paths, depth, name)
    except (PySparkException, Py4JError) as error:
        raise named_type(error, paths, name, more="") from error


def check_folders(spark: SparkSession, name: str, path: str) -> tuple[list[str], int]:
    """Return the data files below a path, and the number of path components above partition folders.

    Raises DataError NOT_A_FILE for pipes and devices, UNREAD_FILES for files that Spark would ignore.
    """
    local = local_path(path)
    if local is not None and not is_remote(spark):
        check_regular([str(local)], name)
    top = path if local is None else os.path.normpath(local.absolute())
    reader = spark.read.schema("listed long")  # with a schema Spark opens no files
    listed, every = (
        [
            decoded(uri)
            for uri in reader.option("recursiveFileLookup", is_every).parquet(literal_path(path)).inputFiles()
        ]
        for is_every in ("false", "true")
    )
    depth = len(top.rstrip("/").split("/"))
    check_all_read(listed, every, depth, name)
    return listed, depth


def as_arrow(name: str, frame: Any) -> pa.Table:
    """Return a frame of another library as an Arrow table with types that Spark has.

    Raises ConfigError NOT_A_FRAME, or DataError UNSUPPORTED_TYPE with all columns that cannot be converted.
    """
    labels, columns, faults = [], [], []
    if not isinstance(frame, pd.DataFrame | pa.Table):
        try:
            frame = pa.table(frame)
        except (pa.ArrowException, TypeError, ValueError):  # a single polars column also exports itself
            raise not_a_frame(name, frame) from None
    for label, column in named_columns(frame):
        labels.append(label)
        try:
            columns.append(cast_for_spark(column))
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
    """Yield (name, values) of every column, index columns first if all levels of the index have names."""
    if isinstance(frame, pd.DataFrame):
        rows = frame.reset_index() if all(frame.index.names) else frame
        for place, label in enumerate(rows.columns):
            yield str(label), rows.iloc[:, place]
    else:
        yield from zip(frame.column_names, frame.columns, strict=True)


def cast_for_spark(column: Any) -> Any:
    """Return a column with a type that Spark has; missing values are null.

    Raises pyarrow's errors for values of mixed types, timestamps finer than microseconds and integers beyond
    64 bits, and TypeError for a type that Spark lacks.
    """
    values = pa.array(column, from_pandas=True) if isinstance(column, pd.Series) else column
    if str(values.type).startswith("dictionary<values=string_view"):  # polars; no direct cast
        values = pa.chunked_array([plain_text(chunk) for chunk in values.chunks], pa.string())
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    elif str(kind) == "string_view":
        kind = pa.string()
    if pa.types.is_time(kind) or (pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS):
        raise TypeError(f"Spark has no type {kind}")
    return values.cast(WIDER.get(kind, kind))


def plain_text(coded: pa.DictionaryArray) -> pa.Array:
    """Decode dictionary-encoded text."""
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string())).cast(pa.string())


def arrow_to_spark(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """Return an Arrow table as a Spark frame; timestamps without a time zone remain without one."""
    try:
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return spark.createDataFrame(table, schema)
    except PySparkException as error:
        raise DataError("UNSUPPORTED_TYPE", f"{name}: Spark has no such type: {error}") from None
