"""Find the Spark frames that are plain Parquet files, which workers can read without Spark."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_eval.arrow.files import INSTANT
from spark_eval.arrow.footers import is_plain
from spark_eval.runtime.any_session import is_remote
from spark_eval.runtime.local_files import decoded, is_hidden
from spark_eval.tables.file_parts import PlainFiles

PLAIN_TYPES: Final = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.StringType,
    T.FloatType,
    T.DoubleType,
)
VALUE_TYPES: Final = (*PLAIN_TYPES, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
# The only option of Spark's reader that plain files may have: Arrow verifies checksums, too.
CHECKSUMS: Final = "parquet.page.verify-checksum.enabled"
# An option without effect; it marks frames that this package has created.
READING: Final = "spark_eval.reading"
# Settings of a session whose Spark reads a file as the workers do.
READ_SETTINGS: Final = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "FALSE",
    "spark.sql.parquet.fieldId.read.enabled": "FALSE",
    "spark.sql.files.ignoreCorruptFiles": "FALSE",
    "spark.sql.files.ignoreMissingFiles": "FALSE",
}


def source_columns(
    frame: DataFrame, names: Mapping[str, str], needed: Sequence[str], optional: Sequence[str]
) -> dict[str, str]:
    """Return the table's columns for ours: the needed ones, and the optional ones that exist."""
    given = [name for name in optional if name in names or name in frame.columns]
    return {name: names.get(name, name) for name in (*needed, *given)}


def plain_files(
    frame: DataFrame, columns: Mapping[str, str], types: Sequence[type[T.DataType]] = PLAIN_TYPES
) -> PlainFiles | None:
    """Return the files of a frame that is only Parquet files on this machine or a mounted disk.

    Return None if Spark must read them: for a frame with a filter, a partition column, or an option or
    setting of the reader, and if a file has a column in another form than ``arrow.footers`` expects.
    """
    paths = local_files(frame)
    if not paths or any(frame.columns.count(name) != 1 for name in columns.values()):
        return None
    kinds = {name: frame.schema[name].dataType for name in columns.values()}
    if not all(type(kind) in types for kind in kinds.values()):
        return None
    wanted = pa.schema({name: arrow_type(kind) for name, kind in kinds.items()})
    return PlainFiles.of(paths, columns) if all(is_plain(path, wanted) for path in paths) else None


def arrow_type(kind: T.DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type, with instants as in Parquet."""
    if isinstance(kind, T.TimestampType):
        return INSTANT
    return to_arrow_schema(T.StructType([T.StructField("column", kind)])).field(0).type


def local_files(frame: DataFrame) -> list[str]:
    """Return the local Parquet files of a frame that reads nothing else; otherwise an empty list."""
    if is_remote(frame):
        return []
    # ``inputFiles`` also lists the files of filtered and joined frames; there is no other public method.
    plan: Any = frame._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return []
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return []
    options = set(relation.options().keys().mkString("\n").split("\n")) - {
        "",
        "path",
        "paths",
        CHECKSUMS,
        READING,
    }
    is_plain = relation.fileFormat().getClass().getSimpleName() == "ParquetFileFormat"
    if options or not is_plain or not relation.partitionSchema().isEmpty():
        return []
    conf = frame.sparkSession.conf
    if any(str(conf.get(name, value)).upper() != value for name, value in READ_SETTINGS.items()):
        return []
    paths = [Path(decoded(uri)) for uri in relation.location().inputFiles()]
    if not all(path.is_absolute() for path in paths):
        return []
    # Spark lists schema summaries and empty files, but reads neither.
    return sorted(str(path) for path in paths if not is_hidden(path.name) and not is_empty(path))


def is_empty(path: Path) -> bool:
    """Return True if a file exists and has no bytes."""
    return path.exists() and not path.stat().st_size
