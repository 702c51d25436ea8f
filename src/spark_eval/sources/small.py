"""Small tables of a config, read whole by the driver: CSV with a header or Parquet, here or in a store."""

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import csv

from spark_eval.errors import DataError, raise_if_of_machine
from spark_eval.names import literal_path
from spark_eval.runtime.any_session import OpenSession
from spark_eval.runtime.local_files import local_path
from spark_eval.runtime.spark_errors import is_of_spark, named_spark_error
from spark_eval.tables.arrow_frames import as_arrow, read_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CSV: Final = ".csv"


def read_small(path: str, name: str, session: OpenSession) -> pa.Table:
    """Return the rows of a file, or of a folder of Parquet files; ``name`` is its key of the config.

    Columns of CSV are text, and empty fields are null. The session reads paths that are not of this machine.

    Raises DataError MISSING_INPUT for a path that cannot be read, and the named errors of Spark.
    """
    local = local_path(path)
    if local is None:
        return read_in_store(session(), path, name)
    if local.suffix != CSV:
        return read_arrow(name, local)
    try:
        options = csv.ReadOptions(use_threads=False)
        # The names come first, so that each column is text.
        with csv.open_csv(local, read_options=options) as reader:
            kinds = dict.fromkeys(reader.schema.names, pa.string())
        convert = csv.ConvertOptions(column_types=kinds, strings_can_be_null=True, null_values=[""])
        return csv.read_csv(local, convert_options=convert, read_options=options)
    except (OSError, pa.ArrowException) as error:
        raise_if_of_machine(error, path)
        raise DataError("MISSING_INPUT", f"{name}: cannot read {path!r}: {error}") from error


def read_in_store(spark: "SparkSession", path: str, name: str) -> pa.Table:
    """Return the rows of a path in a store that the session reaches."""
    is_text = path.endswith(CSV)
    reader, literal = spark.read, literal_path(path)
    try:
        frame = reader.csv(literal, header=True, escape='"') if is_text else reader.parquet(literal)
        return as_arrow(name, frame.toArrow())
    except Exception as error:
        if is_of_spark(error):
            raise named_spark_error(error, path) from error
        raise
