"""Read the sources of a config as DataFrames; only this package knows paths and formats."""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_eval.arrow.footers import unsigned_in_all
from spark_eval.config.inputs import Source
from spark_eval.errors import ConfigError, DataError, collect_errors, nearest
from spark_eval.evaluation.conform import conform_table
from spark_eval.evaluation.plan import Plan
from spark_eval.names import quote_column
from spark_eval.predictions.specs import specs_of as prediction_specs
from spark_eval.runtime.any_session import refuse_remote
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.schema import FOLD, SUBSET, SUBSETS
from spark_eval.sources.listing import FILE_FORMATS, data_files, depth_of, partitions_of
from spark_eval.sources.schemas import PARQUET, check_files
from spark_eval.sources.snapshots import load_table
from spark_eval.sources.typed import read_typed
from spark_eval.splits.specs import specs_of as log_specs
from spark_eval.tables.catalog_tables import is_place, published_rows
from spark_eval.tables.exact_types import as_signed, in_microseconds
from spark_eval.tables.inputs import conformed_on_spark
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
        column = column_named(frame, condition.column, f"{name}.where")
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


def read_each(
    spark: SparkSession,
    sources: Mapping[str, Any],
    timezone: str,
    plan: Plan,
    before: Mapping[str, Collection[str]],
    timed: bool = True,
) -> dict[str, tuple[DataFrame, DataFrame]]:
    """Return each source as read, and conformed; one DataError lists the errors of all sources.

    ``before``: the names of each source's files at the start of the run. ``timed``: True if rows of
    ``interactions`` need a timestamp.
    """
    segments = {"users": plan.user_columns}
    if "predictions" in sources:
        segments["predictions"] = sources["predictions"].segments

    def read(name: str) -> tuple[DataFrame, DataFrame]:
        frame = read_source(spark, sources[name], name, timezone, segments.get(name, ()), before.get(name))
        return frame, conform(frame, name, sources[name], timezone, plan, timed)

    return collect_errors({name: partial(read, name) for name in sources})


def conform(frame: DataFrame, name: str, source: Any, timezone: str, plan: Plan, timed: bool) -> DataFrame:
    """Return a source with our columns, and an error code for each invalid row."""
    match name:
        case "interactions":
            specs = log_specs(source.timestamp_unit, timezone, timed=timed)
            return conformed_on_spark(specs, name, frame, source.columns)[0]
        case "predictions":
            specs = prediction_specs(source.checked(), source.model)
            return conformed_on_spark(specs, name, frame, source.columns)[0]
    return conform_table(frame, name, source, timezone, plan)
