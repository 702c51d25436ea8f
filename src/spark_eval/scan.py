"""Whether a table is plain Parquet files, which the workers may read themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_eval.batches.files import FilePart, form_of, parts_of, statistics_of
from spark_eval.batches.predictions import SEGMENT_COLUMN
from spark_eval.connect import is_remote
from spark_eval.conventions import Conventions, TruthDuplicates
from spark_eval.pointwise.task import Plan, Scores, Task
from spark_eval.schema import FOLD, ITEM, LABEL, MODEL, RANK, RELEVANCE, SCORE, TIMESTAMP, USER, WEIGHT

LEAST_BYTES: Final = 4 << 20
MOST_BYTES: Final = 128 << 20
TYPES: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.StringType, T.FloatType, T.DoubleType)
LOG_TYPES: Final = (*TYPES, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
# The one option of Spark's reader under which a file is as plain: Arrow looks at checksums, too.
CHECKSUMS: Final = "parquet.page.verify-checksum.enabled"
INSTANT: Final = pa.timestamp("us", "UTC")
# Before 23, Arrow reads a moment before 1970 stored as INT96, which is Spark's default, as another one.
READS_INT96: Final = int(pa.__version__.partition(".")[0]) >= 23


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

    def statistics(self, name: str) -> list[pq.Statistics | None]:
        """What the footers tell of one of our columns, row group by row group; None where they do not."""
        theirs = self.columns[name]
        return [found for footer in self.footers.values() for found in statistics_of(footer, theirs)]

    def is_complete(self, name: str) -> bool:
        """Whether the footers tell that one of our columns has no null."""
        found = self.statistics(name)
        return all(column is not None and column.has_null_count and not column.null_count for column in found)

    def without(self, name: str) -> "PlainFiles":
        """Return the files less one of our columns."""
        columns = {ours: theirs for ours, theirs in self.columns.items() if ours != name}
        return PlainFiles(self.paths, columns)

    def tasks(self, parallelism: int) -> list[list[FilePart]]:
        """Parts of the files for each task: a few for every core, in the order of the files."""
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
        return tasks


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

    A filter, a partition column, a reader's option, a file whose columns have other types than the table: any
    of these leaves the reading to Spark.
    """
    paths = local_files(frame)
    if not paths or any(frame.columns.count(name) != 1 for name in columns.values()):
        return None
    kinds = {name: frame.schema[name].dataType for name in columns.values()}
    if not all(type(kind) in types for kind in kinds.values()):
        return None
    wanted = pa.schema({name: arrow_type(kind) for name, kind in kinds.items()})
    return PlainFiles(paths, columns) if all(holds(path, wanted) for path in paths) else None


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
    places = [urlparse(place) for place in relation.location().inputFiles()]
    if any(place.scheme != "file" or place.netloc for place in places):
        return []
    return sorted(unquote(place.path) for place in places)


def holds(path: str, wanted: pa.Schema) -> bool:
    """Whether a file has these very columns, written by nobody who counted days as in 1582 or before."""
    try:
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return False
    schema = metadata.schema.to_arrow_schema()
    stored = {
        column.path: column.physical_type
        for column in map(metadata.schema.column, range(len(metadata.schema)))
    }
    return not any(b"legacy" in key for key in metadata.metadata or {}) and all(
        len(schema.get_all_field_indices(field.name)) == 1
        and is_same(schema.field(field.name).type, stored.get(field.name), field.type)
        for field in wanted
    )


def is_same(kind: pa.DataType, stored: str | None, wanted: pa.DataType) -> bool:
    """Whether a file's column has the type that Spark gives it; moments may be counted in another unit."""
    if not pa.types.is_timestamp(kind) or not pa.types.is_timestamp(wanted):
        return bool(form_of(kind) == wanted)
    if stored == "INT96":
        return READS_INT96 and wanted.tz is not None
    return kind.unit in ("ms", "us") and (kind.tz is None) == (wanted.tz is None)
