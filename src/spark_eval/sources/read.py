"""Read the sources of a config as DataFrames; only this package knows paths and formats."""

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.arrow.footers import unsigned_in_all
from spark_eval.config.inputs import Source
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.names import quote_column
from spark_eval.runtime.any_session import refuse_remote
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.schema import FOLD, SUBSET, SUBSETS
from spark_eval.sources.listing import FILE_FORMATS, data_files, depth_of, partitions_of
from spark_eval.sources.schemas import PARQUET, check_files
from spark_eval.sources.snapshots import load_table
from spark_eval.sources.typed import read_typed
from spark_eval.tables.catalog_tables import is_place, published_rows
from spark_eval.tables.exact_types import as_signed, in_microseconds
from spark_eval.tables.listed import named_type
from spark_eval.tables.partitions import with_partitions

# Options of readers and settings of the session that make Spark silently lose files or rows.
LOSSY_OPTIONS: Final = {"ignorecorruptfiles": "true", "ignoremissingfiles": "true", "mode": "dropmalformed"}
LOSSY_SETTINGS: Final = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
# Typed filters, which Spark can push into the scan.
OPERATORS: Final[dict[str, Callable[[Column, Any], Column]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": Column.isin,
    "between": lambda column, bounds: column.between(*bounds),
    "is_null": lambda column, _: column.isNull(),
    "is_not_null": lambda column, _: column.isNotNull(),
}


def read_source(
    spark: SparkSession,
    source: Source,
    name: str,
    timezone: str,
    segments: Sequence[str] = (),
    before: Collection[str] | None = None,
) -> DataFrame:
    """Return the rows of a source: typed, and filtered by ``where``, ``subset`` and ``fold``.

    ``segments`` are columns to read as text, like models. ``before`` are the names of the source's files
    at the start of the run. Raises ConfigError or DataError for errors of the files and their schema, before
    any row is read, and ConfigError CONNECT_UNSUPPORTED for files in a session of Spark Connect.
    """
    check_lossless(spark, source, name)
    try:
        if source.table is not None or source.snapshot is not None:
            frame = load_table(spark, source)
        elif is_place(source.path_or_empty):
            frame = published_rows(spark, source.path_or_empty)
        else:
            # There a frame lists its files whenever it is used.
            refuse_remote(spark, f"{name}.path {source.path!r}", f"name a table by {name}.table")
            frame = read_path(spark, source, name, timezone, segments, before)
    except (PySparkException, Py4JError) as error:
        raise named_spark_error(error, name) from error
    if source.subset is not None:
        labels = [subset.value for subset in SUBSETS[source.subset]]
        frame = frame.where(column_named(frame, SUBSET, name).isin(labels))
    if source.fold is not None:
        frame = frame.where(column_named(frame, FOLD, name) == source.fold)
    for condition in source.where:
        column = without_minus_zero(
            frame, column_named(frame, condition.column, f"{name}.where"), condition.value
        )
        frame = frame.where(OPERATORS[condition.op](column, condition.value))
    return frame


def read_path(
    spark: SparkSession,
    source: Source,
    name: str,
    timezone: str,
    segments: Sequence[str],
    before: Collection[str] | None,
) -> DataFrame:
    """Return all rows of the files that Spark lists, or of this run's split; check footers first."""
    checked = check_files(source, name, segments, before, lambda: spark)
    files, schemas = checked.files, checked.schemas
    partitions = partitions_of(source, files.values())
    try:
        frame = read_typed(spark, source, timezone, segments, partitions, schemas.nanoseconds)
    except PySparkException as error:
        raise named_type(error, checked.local if source.format == PARQUET else (), name) from error
    schemas.check_seen(checked.wanted, frame.columns, name)
    if source.format in FILE_FORMATS and data_files(frame.inputFiles(), source.path_or_empty) != files:
        raise DataError(
            "INPUT_CHANGED_DURING_RUN", f"{name}: files were added or removed; rerun when they are stable"
        )
    frame = with_partitions(frame, files.values(), depth_of(source), name) if partitions else frame
    unsigned = [one for one in unsigned_in_all(schemas.unsigned, name) if one in frame.columns]
    frame = as_signed(frame, unsigned, name)
    return in_microseconds(frame, schemas.nanoseconds, name)


def without_minus_zero(frame: DataFrame, column: Column, value: Any) -> Column:
    """Return a column to compare with values; floats have 0.0 for -0.0, if one of the values is 0.

    They are equal, but not to Parquet's filters, which leave out whole row groups.
    """
    is_float = isinstance(frame.select(column).schema[0].dataType, T.FloatType | T.DoubleType)
    values = value if isinstance(value, list) else [value]
    is_zero = any(isinstance(one, int | float) and one == 0 for one in values)
    return column + F.lit(0.0) if is_float and is_zero else column


def check_lossless(spark: SparkSession, source: Source, name: str) -> None:
    """Raise ConfigError LOSSY_OPTION if Spark is configured to skip unreadable data."""
    settings = [
        f"{name}.options.{option}: {value}"
        for option, value in source.options.items()
        if LOSSY_OPTIONS.get(option.lower()) == str(value).lower()
    ]
    settings += [
        f"{key}: true" for key in LOSSY_SETTINGS if str(spark.conf.get(key, "false")).lower() == "true"
    ]
    if settings:
        message = f"{', '.join(settings)}: unreadable records would be left out silently; remove it"
        raise ConfigError("LOSSY_OPTION", message)


def column_named(frame: DataFrame, name: str, where: str) -> Column:
    """Return the column with this name; raise DataError MISSING_COLUMN with the nearest name."""
    if name not in frame.columns:
        raise DataError("MISSING_COLUMN", f"{where}: no column {name!r}; {nearest(name, frame.columns)}")
    return F.col(quote_column(name))
