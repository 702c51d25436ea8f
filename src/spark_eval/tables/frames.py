"""Conversion of pandas and polars frames, Arrow tables and paths into Spark frames."""

import os
import uuid
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.arrow.footers import nanosecond_columns, timestamp_kinds, unsigned_columns, unsigned_in_all
from spark_eval.arrow.sound_footers import EncryptedFile, read_footer
from spark_eval.errors import DataError, collect_errors
from spark_eval.names import literal_path
from spark_eval.options import Exporting, not_a_frame
from spark_eval.runtime.any_session import NANOS_AS_LONG, is_remote, setting
from spark_eval.runtime.local_files import decoded, local_path
from spark_eval.runtime.session import get_session
from spark_eval.tables.arrow_frames import as_arrow
from spark_eval.tables.exact_types import as_signed, in_microseconds
from spark_eval.tables.listed import ListedFiles, check_all_read, check_regular, named_type
from spark_eval.tables.partitions import with_partitions
from spark_eval.tables.stored_files import READING

# Type inference of partition columns: Spark would infer that models 01 and 1 are the same number.
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"


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


def frame_of_path(spark: SparkSession, name: str, path: str) -> DataFrame:
    """Return the Parquet files at a path as a frame; partition columns are text.

    Raises DataError NOT_A_FILE for pipes and devices, UNREAD_FILES for files that Spark would ignore.
    """
    paths: list[str] = []
    try:
        paths, depth = check_folders(spark, name, path)
        fine, unsigned = unlike_spark(paths, name)
        as_long = setting(spark, NANOS_AS_LONG, "true") if fine else nullcontext()
        with setting(spark, INFERENCE, "false"), as_long:
            # A unique option: otherwise Spark could replace this frame by an equal one that the user has
            # persisted.
            frame = spark.read.option(READING, uuid.uuid4().hex).parquet(literal_path(path))
            # With Spark Connect, a frame is resolved again whenever it is used.
            if fine or is_remote(spark):
                frame = spark.read.schema(frame.schema).parquet(literal_path(path))
        frame = with_partitions(frame, paths, depth, name)
        return in_microseconds(as_signed(frame, unsigned, name), fine, name)
    except (PySparkException, Py4JError) as error:
        raise named_type(error, paths, name, more="") from error


def unlike_spark(paths: Iterable[str], source: str) -> tuple[dict[str, bool], list[str]]:
    """Return the columns of local files in nanoseconds -> True if zoned, and those of unsigned 64 bits.

    Spark names the fault of a file that has no readable footer.
    """
    footers = {}
    for path in paths:
        with suppress(OSError, EncryptedFile, pa.ArrowException):
            footers[path] = read_footer(path)
    columns = {path: unsigned_columns(footer) for path, footer in footers.items()}
    fine = nanosecond_columns(
        map(timestamp_kinds, footers.values()), set(chain.from_iterable(columns.values()))
    )
    return fine, unsigned_in_all(columns, source)


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


def arrow_to_spark(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """Return an Arrow table as a Spark frame; timestamps without a time zone remain without one."""
    try:
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return spark.createDataFrame(table, schema)
    except PySparkException as error:
        raise DataError("UNSUPPORTED_TYPE", f"{name}: Spark has no such type: {error}") from None
