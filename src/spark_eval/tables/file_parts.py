"""Plain Parquet files and their parts, which workers read without Spark."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.files import (
    Batches,
    FilePart,
    FileState,
    MakeBatches,
    check_text,
    column_statistics,
    named_read_errors,
    normalize_types,
    read_content,
    read_parts,
    split_row_groups,
)
from spark_eval.arrow.sound_footers import read_footer
from spark_eval.errors import DataError
from spark_eval.runtime.local_files import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A task that reads costs about 12 ms of CPU, mostly in the JVM.
LEAST_PART_BYTES: Final = 16 << 20
MOST_PART_BYTES: Final = 128 << 20


@dataclass(frozen=True)
class PlainFiles:
    """Parquet files with these columns (ours: theirs) in the required types, and the state of each file."""

    states: Mapping[str, FileState]
    columns: Mapping[str, str]

    @classmethod
    def of(cls, paths: Iterable[str], columns: Mapping[str, str]) -> Self:
        """Return the files with their current states."""
        return cls({path: FileState.of(path) for path in paths}, columns)

    @cached_property
    def footers(self) -> Mapping[str, pq.FileMetaData]:
        """Footer of each file; raises DataError INPUT_CHANGED_DURING_RUN if a file's state has changed."""
        footers = {}
        for path, state in self.states.items():
            with named_read_errors(path, state):
                footers[path] = read_footer(path)
        return footers

    @property
    def n_rows(self) -> int:
        """Number of rows according to the footers."""
        return sum(footer.num_rows for footer in self.footers.values())

    def are_filled(self, names: Sequence[str]) -> bool:
        """Return True if the footers guarantee that these columns have no nulls."""
        known = (
            statistics
            for footer, name in product(self.footers.values(), names)
            for statistics in column_statistics(footer, self.columns[name])
        )
        return all(one is not None and one.has_null_count and not one.null_count for one in known)

    def only(self, names: Iterable[str]) -> "PlainFiles":
        """Return the files with only these of our columns."""
        return PlainFiles(self.states, {name: self.columns[name] for name in names})

    def at(self, paths: Collection[str]) -> "PlainFiles":
        """Return those of the files at these paths."""
        states = {path: state for path, state in self.states.items() if path in paths}
        return PlainFiles(states, self.columns)

    def without(self, name: str) -> "PlainFiles":
        """Return the files without one of our columns."""
        columns = {ours: theirs for ours, theirs in self.columns.items() if ours != name}
        return PlainFiles(self.states, columns)

    def on_spark(
        self, spark: "SparkSession", n_tasks: int, *, coded: bool
    ) -> "list[tuple[DataFrame, MakeBatches]]":
        """Return a frame of the numbers of tasks, and the function that reads the files of its batches."""
        tasks, columns = self.tasks(n_tasks), self.columns

        def read(batches: Batches) -> Iterator[pa.RecordBatch]:
            numbers = (number for batch in batches for number in batch.column(0).to_pylist())
            return read_parts([part for number in numbers for part in tasks[number]], columns, coded=coded)

        return [(spark.range(0, len(tasks), 1, len(tasks)), read)]

    def tasks(self, parallelism: int) -> list[list[FilePart]]:
        """Return the parts of the files for each task to read, a few tasks per core."""
        n_bytes = sum(state.n_bytes for state in self.states.values())
        most = min(MOST_PART_BYTES, max(LEAST_PART_BYTES, n_bytes // (2 * parallelism)))
        tasks: list[list[FilePart]] = []
        filled = 0
        parts = (
            part
            for path, footer in self.footers.items()
            for part in split_row_groups(path, self.states[path], footer, most)
        )
        for part in parts:
            if not tasks or filled + part.n_bytes > most:
                tasks.append([])
                filled = 0
            tasks[-1].append(part)
            filled += part.n_bytes
        return tasks or [[]]


def takes_files(folder: str) -> bool:
    """Return True if workers can write to a folder: it is on this machine or on a mounted disk."""
    return "://" not in folder


def read_contents(
    batches: Batches,
    *,
    states: Mapping[str, FileState],
    columns: Mapping[str, str],
    folders: Mapping[str, Mapping[str, pa.Scalar]],
    order: Sequence[str],
    coded: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, given as rows of ``binaryFile``, with our columns in this order.

    Raises DataError INPUT_CHANGED_DURING_RUN for a file in another state than Spark listed, and the errors of
    ``read_content``.
    """
    for batch in batches:
        moments = batch["modificationTime"].cast(pa.int64())
        for index in range(len(batch)):
            uri, n_bytes = batch["path"][index].as_py(), batch["length"][index].as_py()
            path = str(local_path(uri) or uri)
            if states.get(path) != FileState(n_bytes, moments[index].as_py() // 1000):
                message = f"{path!r} was replaced during the run; rerun when the input files are stable"
                raise DataError("INPUT_CHANGED_DURING_RUN", message)
            content = batch["content"][index].as_buffer()
            for rows in read_content(path, content, columns, coded=coded):
                for name, values in folders.items():
                    rows = rows.append_column(name, pa.repeat(values[path], rows.num_rows))
                yield rows.select(order)


def read_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield batches that Spark reads of files, in the form of batches that workers read.

    Raises DataError INVALID_TEXT for bytes that are not valid UTF-8.
    """
    for batch in batches:
        arrays = [normalize_types(column) for column in batch.columns]
        for name, column in zip(batch.schema.names, arrays, strict=True):
            if pa.types.is_string(column.type):
                check_text(column, name, "a file of the input")
        yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
