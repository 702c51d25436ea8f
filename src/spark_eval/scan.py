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
from pyspark.sql.pandas.types import to_arrow_schema

from spark_eval.batches.files import FilePart, parts_of
from spark_eval.conventions import Conventions, TruthDuplicates
from spark_eval.schema import ITEM, MODEL, RANK, RELEVANCE, SCORE, USER
from spark_eval.transforms.inputs import quoted

LEAST_BYTES: Final = 4 << 20
MOST_BYTES: Final = 128 << 20
TYPES: Final = (pa.types.is_signed_integer, pa.types.is_string, pa.types.is_floating)


@dataclass(frozen=True)
class PlainFiles:
    """Parquet files that hold these columns (ours: theirs) as they are asked for."""

    paths: Sequence[str]
    columns: Mapping[str, str]

    @cached_property
    def n_rows(self) -> int:
        """As the footers say."""
        return sum(pq.read_metadata(path).num_rows for path in self.paths)

    def tasks(self, parallelism: int) -> list[list[FilePart]]:
        """Parts of the files for each task: a few for every core, in the order of the files."""
        n_bytes = sum(Path(path).stat().st_size for path in self.paths)
        most = min(MOST_BYTES, max(LEAST_BYTES, n_bytes // (2 * parallelism)))
        tasks: list[list[FilePart]] = []
        filled = most
        for part in (part for path in self.paths for part in parts_of(path, most)):
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
    return plain_files(frame, {name: names.get(name, name) for name in ours})


def plain_truth(frame: DataFrame, names: Mapping[str, str], conventions: Conventions) -> PlainFiles | None:
    """The files of truth, if they are plain, and no row's time is asked for."""
    if conventions.truth_duplicates is TruthDuplicates.LAST:
        return None
    has_relevance = RELEVANCE in names or RELEVANCE in frame.columns
    ours = [USER, ITEM, RELEVANCE] if has_relevance else [USER, ITEM]
    return plain_files(frame, {name: names.get(name, name) for name in ours})


def plain_files(frame: DataFrame, columns: Mapping[str, str]) -> PlainFiles | None:
    """The files of a frame that is nothing but Parquet files on this machine or a mounted disk; else None.

    A filter, a partition column, a reader's option, a file whose columns have other types than the table: any
    of these leaves the reading to Spark.
    """
    paths = local_files(frame)
    if not paths or any(frame.columns.count(name) != 1 for name in columns.values()):
        return None
    wanted = to_arrow_schema(frame.select(*map(quoted, columns.values())).schema)
    if not all(any(is_type(field.type) for is_type in TYPES) for field in wanted):
        return None
    return PlainFiles(paths, columns) if all(holds(path, wanted) for path in paths) else None


def local_files(frame: DataFrame) -> list[str]:
    """The local Parquet files that a frame is, without anything done to them; none if it is anything else."""
    # Spark has no other way to ask: inputFiles names the files also of filtered and joined frames.
    plan: Any = frame._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return []
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return []
    options = set(relation.options().keys().mkString("\n").split("\n")) - {"", "path", "paths"}
    is_plain = relation.fileFormat().getClass().getSimpleName() == "ParquetFileFormat"
    if options or not is_plain or not relation.partitionSchema().isEmpty():
        return []
    places = [urlparse(place) for place in relation.location().inputFiles()]
    if any(place.scheme != "file" or place.netloc for place in places):
        return []
    return sorted(unquote(place.path) for place in places)


def holds(path: str, wanted: pa.Schema) -> bool:
    """Whether a file has these very columns."""
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return False
    return all(
        len(schema.get_all_field_indices(field.name)) == 1 and schema.field(field.name).type == field.type
        for field in wanted
    )
