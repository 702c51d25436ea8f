"""Find the Spark frames that are plain Parquet files, which workers can read without Spark."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_eval.arrow.files import INSTANT
from spark_eval.arrow.footers import is_plain
from spark_eval.runtime.any_session import is_remote
from spark_eval.runtime.local_files import decoded, is_hidden
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.listed import listed, texts
from spark_eval.tables.stored_files import (
    AS_BYTES,
    AUTO,
    BY_SPARK,
    READ,
    READING,
    Listed,
    StoredFiles,
    stored_files,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

# The only option of Spark's reader that plain files may have: Arrow verifies checksums, too.
CHECKSUMS: Final = "parquet.page.verify-checksum.enabled"
# Options without effect on rows, and those of paths.
NEUTRAL_OPTIONS: Final = {"", "path", "paths", CHECKSUMS, READING, READ}
# Settings of a session whose Spark reads a file as the workers do.
READ_SETTINGS: Final = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "FALSE",
    "spark.sql.parquet.fieldId.read.enabled": "FALSE",
    "spark.sql.files.ignoreCorruptFiles": "FALSE",
    "spark.sql.files.ignoreMissingFiles": "FALSE",
}


def plain_files(frame: "DataFrame", columns: Mapping[str, str]) -> PlainFiles | StoredFiles | None:
    """Return the files of a frame that is only Parquet files of this machine, a mounted disk or a store.

    Return None if Spark must read them: for a frame with a filter, or an option or setting of the reader, for
    a partition column of local files, and if a file has a column in another form than ``arrow.footers``
    expects.
    """
    listed = listed_files(frame)
    if listed is None or any(frame.columns.count(name) != 1 for name in columns.values()):
        return None
    wanted = pa.schema({name: arrow_type(frame.schema[name].dataType) for name in columns.values()})
    if listed.choice == AS_BYTES or not all(path.startswith("/") for path in listed.states):
        return stored_files(listed, columns, wanted)
    if listed.of_folders or not all(is_plain(path, wanted) for path in listed.states):
        return None
    return PlainFiles.of(listed.states, columns)


def arrow_type(kind: "DataType") -> pa.DataType:
    """Return the Arrow type of a Spark type, with instants as in Parquet."""
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import to_arrow_schema

    if isinstance(kind, T.TimestampType):
        return INSTANT
    return to_arrow_schema(T.StructType([T.StructField("column", kind)])).field(0).type


def listed_files(frame: "DataFrame") -> Listed | None:
    """Return the Parquet files of a frame that reads nothing else, with Spark's usual settings.

    None for any other frame, for an empty one, and for frames of Spark Connect, which are resolved again at
    every use.
    """
    if is_remote(frame):
        return None
    # ``inputFiles`` also lists the files of filtered and joined frames; there is no other public method.
    plan: Any = frame._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    options, location = relation.options(), relation.location()
    is_parquet = relation.fileFormat().getClass().getSimpleName() == "ParquetFileFormat"
    is_parquet = is_parquet and location.getClass().getSimpleName() == "InMemoryFileIndex"
    if not is_parquet or not NEUTRAL_OPTIONS.issuperset(texts(options.keys())):
        return None
    conf = frame.sparkSession.conf
    if any(str(conf.get(name, value)).upper() != value for name, value in READ_SETTINGS.items()):
        return None
    choice = options.apply(READ) if options.contains(READ) else AUTO
    every = dict(sorted(listed(location)))
    # The listing is text, which may not tell a name with a line break in it.
    if every.keys() != set(map(decoded, location.inputFiles())):
        return None
    # Spark lists schema summaries and empty files, but reads neither.
    states = {
        path: state
        for path, state in every.items()
        if not is_hidden(path.rpartition("/")[2]) and state.n_bytes
    }
    if not states or choice == BY_SPARK:
        return None
    return Listed(
        frame=frame,
        states=states,
        roots=texts(location.rootPaths()),
        options={name: options.apply(name) for name in texts(options.keys()) if name == CHECKSUMS},
        of_folders=list(relation.partitionSchema().fieldNames()),
        choice=choice,
    )
