"""Rows in parts, the same operations in this process and on Spark: the data paths use these alone.

Apply a function to the batches of each part, bring rows together by number, collect, persist.
"""

import logging
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import pyarrow as pa

from spark_eval.arrow.files import Batches, MakeBatches
from spark_eval.names import literal_path, quote_column
from spark_eval.runtime import events
from spark_eval.runtime.any_session import silent_about_pandas, tasks_at_once
from spark_eval.schema import MODEL, Value
from spark_eval.tables.catalog_tables import Place
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.plain_files import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spark_eval.tables.stored_files import StoredFiles

# Error conditions of servers that do not persist frames (Databricks serverless), by their first characters.
REFUSES_TO_PERSIST: Final = ("[NOT_SUPPORTED_WITH_SERVERLESS]", "[CACHE_REQUIRES_NEWER_CLIENT")


class Rows(Protocol):
    """Rows of a table, or computed from one: ``SparkRows``, and in this process ``LocalTable`` and others."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if it is unknown before they are read."""

    @property
    def session(self) -> "SparkSession | None":
        """The Spark session; None in this process."""

    @property
    def at_once(self) -> int:
        """Number of parts that are computed at once."""

    @property
    def is_in_memory(self) -> bool:
        """True if the rows are in the memory of this process."""

    def kind(self, name: str) -> pa.DataType:
        """Return the Arrow type of a column."""

    def kind_in_words(self, name: str) -> str:
        """Return Spark's name of the type of a column."""

    def count(self) -> int:
        """Return the number of rows; on Spark this may be a scan."""

    def select(self, *names: str) -> "Rows":
        """Return the rows with these columns only."""

    def drop(self, name: str) -> "Rows":
        """Return the rows without a column, if they have it."""

    def cast(self, name: str, kind: pa.DataType) -> "Rows":
        """Return the rows with another type of a column, which holds all of its values."""

    def where_in(self, name: str, values: Sequence[Value]) -> "Rows":
        """Return the rows with one of these texts, or numbers, in a column."""

    def where_not_null(self, name: str, names: Sequence[str]) -> "Rows":
        """Return these columns of the rows whose column ``name`` is not null."""

    def map(
        self, make: MakeBatches, schema: pa.Schema, n_tasks: int | None = None, *, coded: bool = False
    ) -> "Rows":
        """Apply ``make`` to the batches of each part; return its batches, which have this schema.

        Plain files are read by the workers themselves, in ``n_tasks`` parts, by default as many as are
        computed at once. See ``read_parts`` for ``coded``.
        """

    @property
    def as_typed(self) -> "Rows":
        """The rows with the types of ``kind``, never as they are in files."""

    @property
    def read_by_workers(self) -> bool:
        """True if workers read the rows as they are in files or frames; Spark gives others as typed."""

    def repartition(self, column: str, n_parts: int) -> "Rows":
        """Return the rows in ``n_parts`` parts; rows with equal numbers in a column are in one part."""

    def concat(self, others: Sequence[Value]) -> "Rows":
        """Return the rows of all; they have the same columns."""

    def numbers(self, n_tasks: int) -> "Rows":
        """Return the number of each of ``n_tasks`` tasks, from 0, where these rows are."""

    def persist(self, resources: ExitStack, /) -> "Rows":
        """Compute the rows once, and keep them until ``resources`` closes."""

    def first(self, most: int) -> list[dict[str, Value]]:
        """Return the first rows, at most this number; only the parts with them are computed."""

    def distinct(self, name: str, most: int | None = None) -> list[Value]:
        """Return the distinct values of a column, null too; some if there are more than ``most``."""

    def with_text(self, name: str, text: str) -> "Rows":
        """Return the rows with a column of this text."""

    def unique(self, *names: str) -> "Rows":
        """Return the distinct rows of these columns, without those that have a null."""

    def values(self, name: str) -> list[Value]:
        """Collect the values of a column that are not null."""

    def table(self, *names: str) -> pa.Table:
        """Collect these columns, by default all."""

    def result(self, folder: str | None = None) -> Any:
        """Return the rows for the user: an Arrow table, or a Spark frame, computed when it is read.

        With a folder, which Spark alone may have, they are written there by model, and read from it.
        """

    def reread(self, folder: str, column: str, /) -> "Rows":
        """Return rows that workers have written to a folder, by a column of text, from its files."""

    def written(self, schema: pa.Schema, folder: str) -> Any:
        """Return a table that workers have written by model: a Spark frame, or Arrow's dataset."""

    def write(self, folder: str) -> None:
        """Write the rows as Parquet to a new folder."""

    def write_one_file(self, folder: str) -> None:
        """Write the rows to one Parquet file in a new folder."""

    def of_files(self, files: PlainFiles) -> "Rows":
        """Return the rows of plain files with some of these columns, read where these rows are."""

    def are_filled(self, names: Sequence[str]) -> bool:
        """Return True if these columns certainly have no nulls."""


@dataclass(frozen=True)
class SparkRows:
    """Rows of a Spark frame; ``files`` have the same rows, if workers can read them themselves."""

    frame: "DataFrame"
    files: "PlainFiles | StoredFiles | None" = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def n_rows(self) -> int | None:
        """Number of rows of plain files; None for others."""
        return None if self.files is None else self.files.n_rows

    @property
    def session(self) -> "SparkSession":
        """The session of the frame."""
        return self.frame.sparkSession

    @property
    def at_once(self) -> int:
        """Number of tasks that run at once."""
        return tasks_at_once(self.session)

    @property
    def is_in_memory(self) -> bool:
        """False: they are on Spark."""
        return False

    def kind(self, name: str) -> pa.DataType:
        """Return the Arrow type of a column."""
        return arrow_type(self.frame.schema[name].dataType)

    def kind_in_words(self, name: str) -> str:
        """Return Spark's name of the type of a column."""
        return str(self.frame.schema[name].dataType.simpleString())

    def count(self) -> int:
        """Return the number of rows: that of plain files, or else by a scan."""
        return self.frame.count() if self.files is None else self.files.n_rows

    def of(self, frame: "DataFrame") -> Self:
        """Return another frame without files."""
        return replace(self, frame=frame, files=None)

    def select(self, *names: str) -> Self:
        """Return the rows with these columns only."""
        frame = self.frame.select(*map(quote_column, names))
        files = self.files and self.files.only(name for name in names if name in self.files.columns)
        return replace(self, frame=frame, files=files)

    def drop(self, name: str) -> Self:
        """Return the rows without a column, if they have it."""
        return replace(self, frame=self.frame.drop(name), files=self.files and self.files.without(name))

    def cast(self, name: str, kind: pa.DataType) -> Self:
        """Return the rows with another type of a column; workers cast what they read of files."""
        from pyspark.sql.pandas.types import from_arrow_type

        return replace(self, frame=self.frame.withColumn(name, self.frame[name].cast(from_arrow_type(kind))))

    def where_in(self, name: str, values: Sequence[Value]) -> Self:
        """Return the rows with one of these texts, or numbers, in a column."""
        return self.of(self.frame.where(self.frame[name].isin(list(values))))

    def where_not_null(self, name: str, names: Sequence[str]) -> Self:
        """Return these columns of the rows whose column ``name`` is not null."""
        return self.of(self.frame.where(self.frame[name].isNotNull()).select(*names))

    def map(
        self, make: MakeBatches, schema: pa.Schema, n_tasks: int | None = None, *, coded: bool = False
    ) -> Self:
        """Apply ``make`` to the batches of each part; see ``Rows.map``."""
        from pyspark.sql.pandas.types import from_arrow_schema

        kinds = from_arrow_schema(schema)
        if self.files is None:
            return self.of(map_in_arrow(self.frame, make, kinds))
        [first, *others] = [
            self.of(map_in_arrow(frame, partial(made_of_files, make, read), kinds))
            for frame, read in self.files.on_spark(self.session, n_tasks or self.at_once, coded=coded)
        ]
        return first.concat(others) if others else first

    @property
    def as_typed(self) -> Self:
        """The rows as Spark reads them."""
        return replace(self, files=None)

    @property
    def read_by_workers(self) -> bool:
        """True for plain files."""
        return self.files is not None

    def repartition(self, column: str, n_parts: int) -> Self:
        """Return the rows in parts by a number; this is a shuffle."""
        return self.of(self.frame.repartition(n_parts, column))

    def concat(self, others: Sequence[Any]) -> Self:
        """Return the rows of all, by the positions of their columns."""
        frames = [self.frame, *(other.frame for other in others)]
        return self.of(reduce(type(self.frame).unionAll, frames))

    def numbers(self, n_tasks: int) -> Self:
        """Return the number of each of ``n_tasks`` tasks."""
        return self.of(self.session.range(0, n_tasks, 1, n_tasks))

    def persist(self, resources: ExitStack, /) -> Self:
        """Persist the frame until ``resources`` closes."""
        return self.of(persist_frame(self.frame, resources))

    def first(self, most: int) -> list[dict[str, Value]]:
        """Return the first rows, at most this number."""
        return [row.asDict() for row in self.frame.limit(most).collect()]

    def distinct(self, name: str, most: int | None = None) -> list[Value]:
        """Return the distinct values of a column; see ``Rows.distinct``."""
        values = self.frame.select(quote_column(name)).distinct()
        return [row[0] for row in (values.collect() if most is None else values.take(most))]

    def with_text(self, name: str, text: str) -> Self:
        """Return the rows with a column of this text."""
        from pyspark.sql import functions as F

        return self.of(self.frame.withColumn(name, F.lit(text)))

    def unique(self, *names: str) -> Self:
        """Return the distinct rows of these columns, without those that have a null."""
        return self.of(self.select(*names).frame.dropna().distinct())

    def values(self, name: str) -> list[Value]:
        """Collect the values of a column that are not null."""
        return [row[0] for row in self.where_not_null(name, [name]).frame.collect()]

    def table(self, *names: str) -> pa.Table:
        """Collect these columns, by default all."""
        return (self.frame.select(*map(quote_column, names)) if names else self.frame).toArrow()

    def result(self, folder: str | None = None) -> "DataFrame":
        """Return the frame; with a folder it is written there by model, and read from it."""
        if folder is None:
            return self.frame
        write_frame(self.frame, folder, MODEL)
        return read_folder(self.session, self.frame.schema, folder)

    def reread(self, folder: str, _column: str, /) -> Self:
        """Return the rows of a folder, which has a column of text that names its folders."""
        return self.of(read_folder(self.session, self.frame.schema, folder))

    def written(self, schema: pa.Schema, folder: str) -> "DataFrame":
        """Return the frame of files that workers have written by model."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return read_folder(self.session, from_arrow_schema(schema), folder)

    def write(self, folder: str) -> None:
        """Write the rows as Parquet to a new folder; or add them to a table."""
        write_frame(self.frame, folder)

    def of_files(self, files: PlainFiles) -> Self:
        """Return the rows of plain files, which the workers read."""
        return replace(self, files=files)

    def are_filled(self, names: Sequence[str]) -> bool:
        """Return True if plain files certainly have no nulls in these columns."""
        return self.files is not None and self.files.are_filled(names)

    def write_one_file(self, folder: str) -> None:
        """Write the rows to one Parquet file in a new folder; or add them to a table."""
        write_frame(self.frame.coalesce(1), folder)


def made_of_files(make: MakeBatches, read: MakeBatches, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Return ``make`` of the batches that ``read`` finds in files."""
    return make(read(batches))


def map_in_arrow(frame: "DataFrame", make: MakeBatches, schema: "StructType") -> "DataFrame":
    """Apply ``make`` to the Arrow batches of a Spark frame; return the frame of its batches."""
    with silent_about_pandas():
        return frame.mapInArrow(make, schema)


def persist_frame(frame: "DataFrame", resources: ExitStack) -> "DataFrame":
    """Persist a Spark frame until ``resources`` closes; return the persisted one, to be used from then on.

    Spark answers any plan from a persisted one that looks the same, even if files were rewritten in between.
    So the persisted plan has a filter that no other plan has. It removes nothing, and Spark drops it.

    If the server refuses to persist, log a warning; the rows are then recomputed at every use.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    frame = frame.where(F.lit(uuid.uuid4().hex).isNotNull())
    try:
        frame.persist()
    except PySparkException as error:
        if not any(condition in str(error) for condition in REFUSES_TO_PERSIST):
            raise
        message = "this server does not persist frames: frames used twice are computed twice"
        events.say("not_persisted", message, logging.WARNING)
    else:
        resources.callback(frame.unpersist)
    return frame


def write_frame(rows: "DataFrame", folder: str, *by: str) -> None:
    """Write a Spark frame as Parquet to a new folder, partitioned by columns; or add it to a table."""
    if isinstance(folder, Place):
        folder.append(rows)
    else:
        rows.write.mode("error").partitionBy(*by).parquet(folder)


def read_folder(spark: "SparkSession", schema: "StructType", folder: str) -> "DataFrame":
    """Return Parquet files with this schema, or such rows of a table.

    Spark would infer that models 1 and 01 are the same number.
    """
    if isinstance(folder, Place):
        return folder.rows(schema.names)
    return spark.read.schema(schema).parquet(literal_path(folder))


def is_first_task() -> bool:
    """Return True in the first task on Spark; False in this process."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and task.partitionId() == 0
