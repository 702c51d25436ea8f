"""Whether a table is plain Parquet files, which the workers may read themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_eval.arrow.files import FilePart, parts_of
from spark_eval.arrow.footers import is_plain
from spark_eval.conventions import Conventions, TruthDuplicates
from spark_eval.pointwise.task import Plan, Scores, Task
from spark_eval.runtime.connect import is_remote
from spark_eval.schema import (
    FOLD,
    ITEM,
    LABEL,
    MODEL,
    RANK,
    RELEVANCE,
    SCORE,
    SEGMENT_COLUMN,
    TIMESTAMP,
    USER,
    WEIGHT,
)

LEAST_BYTES: Final = 4 << 20
MOST_BYTES: Final = 128 << 20
TYPES: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.StringType, T.FloatType, T.DoubleType)
LOG_TYPES: Final = (*TYPES, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
# The one option of Spark's reader under which a file is as plain: Arrow looks at checksums, too.
CHECKSUMS: Final = "parquet.page.verify-checksum.enabled"
INSTANT: Final = pa.timestamp("us", "UTC")
# Settings of a session under which Spark reads a file as the workers do.
SETTINGS: Final = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "FALSE",
    "spark.sql.parquet.fieldId.read.enabled": "FALSE",
    "spark.sql.files.ignoreCorruptFiles": "FALSE",
    "spark.sql.files.ignoreMissingFiles": "FALSE",
}


@dataclass(frozen=True)
class PlainFiles:
    """Parquet files that hold these columns (ours: theirs) as they are asked for."""

    paths: Sequence[str]
    columns: Mapping[str, str]

    @cached_property
    def footers(self) -> Mapping[str, pq.FileMetaData]:
        """Of each file."""
        return {path: pq.read_metadata(path) for path in self.paths}

    @property
    def n_rows(self) -> int:
        """As the footers say."""
        return sum(footer.num_rows for footer in self.footers.values())

    def without(self, name: str) -> "PlainFiles":
        """Return the files less one of our columns."""
        columns = {ours: theirs for ours, theirs in self.columns.items() if ours != name}
        return PlainFiles(self.paths, columns)

    def tasks(self, parallelism: int) -> list[list[FilePart]]:
        """Parts of the files for each task: a few for every core, in the order of the files; one at least."""
        n_bytes = sum(Path(path).stat().st_size for path in self.paths)
        most = min(MOST_BYTES, max(LEAST_BYTES, n_bytes // (2 * parallelism)))
        tasks: list[list[FilePart]] = []
        filled = most
        parts = (part for path, footer in self.footers.items() for part in parts_of(path, footer, most))
        for part in parts:
            if filled + part.n_bytes > most:
                tasks.append([])
                filled = 0
            tasks[-1].append(part)
            filled += part.n_bytes
        return tasks or [[]]


def plain_recommendations(
    frame: DataFrame, names: Mapping[str, str], model: str | None, layout: str
) -> PlainFiles | None:
    """The files of recommendations, if they are plain; ``names`` map our columns to theirs."""
    if layout != "long":
        return None
    has_rank = RANK in names or (SCORE not in names and RANK in frame.columns)
    ours = [USER, ITEM, RANK if has_rank else SCORE] + ([MODEL] if model is None else [])
    ours += [FOLD] if FOLD in names or FOLD in frame.columns else []
    return plain_files(frame, {name: names.get(name, name) for name in ours})


def plain_truth(frame: DataFrame, names: Mapping[str, str], conventions: Conventions) -> PlainFiles | None:
    """The files of truth, if they are plain, and no row's time is asked for."""
    if conventions.truth_duplicates is TruthDuplicates.LAST:
        return None
    has_relevance = RELEVANCE in names or RELEVANCE in frame.columns
    ours = [USER, ITEM, RELEVANCE] if has_relevance else [USER, ITEM]
    ours += [FOLD] if FOLD in names or FOLD in frame.columns else []
    return plain_files(frame, {name: names.get(name, name) for name in ours})


def plain_predictions(
    frame: DataFrame, names: Mapping[str, str], model: str | None, plan: Plan
) -> PlainFiles | None:
    """The files of predictions, if they are plain, and a row has one score; segments as ``segment_0``, ..."""
    if plan.task is Task.MULTICLASS or plan.scores is Scores.CLASS:
        return None
    ours = [LABEL, SCORE] + ([MODEL] if model is None else []) + ([USER] if plan.by_user else [])
    ours += [name for name in (WEIGHT, FOLD) if name in names or name in frame.columns]
    as_text = {SEGMENT_COLUMN.format(place): name for place, name in enumerate(plan.segments)}
    columns = {
        name: names.get(theirs, theirs)
        for name, theirs in (dict(zip(ours, ours, strict=True)) | as_text).items()
    }
    files = plain_files(frame, columns)
    if files is None:
        return None
    # Arrow writes these as Spark does.
    kinds = [frame.schema[columns[name]].dataType for name in columns if name in (MODEL, *as_text)]
    return files if all(isinstance(kind, T.StringType | T.IntegralType) for kind in kinds) else None


def plain_log(frame: DataFrame, names: Mapping[str, str], timezone: str) -> PlainFiles | None:
    """The files of an interaction log with all its columns, if they are plain and tell instants."""
    ours = [name for name in (USER, ITEM, TIMESTAMP, RELEVANCE) if name in names or name in frame.columns]
    mapped = {name: names.get(name, name) for name in ours}
    files = plain_files(
        frame, mapped | {name: name for name in frame.columns if name not in mapped.values()}, LOG_TYPES
    )
    kind = frame.schema[mapped[TIMESTAMP]].dataType if files is not None else None
    tells_instants = isinstance(kind, T.TimestampType | T.IntegralType) or (
        isinstance(kind, T.TimestampNTZType) and timezone == "UTC"
    )
    return files if tells_instants else None


def plain_files(
    frame: DataFrame, columns: Mapping[str, str], types: Sequence[type[T.DataType]] = TYPES
) -> PlainFiles | None:
    """The files of a frame that is nothing but Parquet files on this machine or a mounted disk; else None.

    A filter, a partition column, an option or setting of the reader, a file of which a column is of no type
    on the lists of ``arrow.footers``: any of these leaves the reading to Spark.
    """
    paths = local_files(frame)
    if not paths or any(frame.columns.count(name) != 1 for name in columns.values()):
        return None
    kinds = {name: frame.schema[name].dataType for name in columns.values()}
    if not all(type(kind) in types for kind in kinds.values()):
        return None
    wanted = pa.schema({name: arrow_type(kind) for name, kind in kinds.items()})
    return PlainFiles(paths, columns) if all(is_plain(path, wanted) for path in paths) else None


def takes_files(folder: str) -> bool:
    """Whether workers can write into a folder by its name: it is on this machine or on a mounted disk."""
    return "://" not in folder


def arrow_type(kind: T.DataType) -> pa.DataType:
    """Spark's type for Arrow; instants as Parquet has them."""
    if isinstance(kind, T.TimestampType):
        return INSTANT
    return to_arrow_schema(T.StructType([T.StructField("column", kind)])).field(0).type


def local_files(frame: DataFrame) -> list[str]:
    """The local Parquet files that a frame is, without anything done to them; none if it is anything else."""
    if is_remote(frame):
        return []
    # Spark has no other way to ask: inputFiles names the files also of filtered and joined frames.
    plan: Any = frame._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return []
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return []
    options = set(relation.options().keys().mkString("\n").split("\n")) - {"", "path", "paths", CHECKSUMS}
    is_plain = relation.fileFormat().getClass().getSimpleName() == "ParquetFileFormat"
    if options or not is_plain or not relation.partitionSchema().isEmpty():
        return []
    conf = frame.sparkSession.conf
    if any(str(conf.get(name, value)).upper() != value for name, value in SETTINGS.items()):
        return []
    places = [urlsplit(place) for place in relation.location().inputFiles()]
    if any(place.scheme != "file" or place.netloc for place in places):
        return []
    return sorted(path for path in (unquote(place.path) for place in places) if is_read(Path(path)))


def is_read(path: Path) -> bool:
    """Return whether Spark reads a file that it lists: no summary of schemas, and not without a byte."""
    is_summary = path.name.startswith(("_metadata", "_common_metadata"))
    return not is_summary and not (path.exists() and path.stat().st_size == 0)
