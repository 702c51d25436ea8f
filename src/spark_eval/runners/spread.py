"""Operations of a runner: the same on Spark frames and on batches in this process.

The data paths use these alone, so that they are written once: apply a function to the batches of each part,
bring rows together by number, collect, persist. A function may also make Python objects of batches: they
travel as rows of bytes, grouped by a number if they have one.
"""

import logging
import pickle
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset, partitioning

from spark_eval.arrow.files import Batches, read_parts
from spark_eval.arrow.messages import MESSAGE
from spark_eval.errors import DataError
from spark_eval.names import literal_path
from spark_eval.runners.in_process import LocalBatches, cores
from spark_eval.runtime import events
from spark_eval.runtime.any_session import silent_about_pandas, tasks_at_once
from spark_eval.schema import MODEL
from spark_eval.tables.catalog_tables import Place
from spark_eval.tables.conformed import Rows
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.local_tables import LocalTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Rows spread over tasks: a Spark frame or ``LocalBatches``, where only functions below tell them apart.
Spread = TypeVar("Spread")
# Number of buckets per task if row counts are unknown; large buckets are divided later.
BUCKETS_PER_TASK: Final = 4
SendBatches = Callable[[Batches], Iterator[pa.RecordBatch]]
# Error conditions of servers that do not persist frames (Databricks serverless), by their first characters.
REFUSES_TO_PERSIST: Final = ("[NOT_SUPPORTED_WITH_SERVERLESS]", "[CACHE_REQUIRES_NEWER_CLIENT")
TASK_NUMBERS: Final = pa.schema({"id": pa.int64()})
# An object, and the number to group it by; None if it is not grouped.
NumberedObject = tuple[int | None, Any]
NUMBER: Final = "number"
OBJECT: Final = "object"
OBJECTS: Final = pa.schema({NUMBER: pa.int32(), OBJECT: pa.binary()})
NUMBERS_PER_TASK: Final = 4


def map_parts(rows: Spread, make: Callable[[Batches], Iterator[pa.RecordBatch]], schema: pa.Schema) -> Spread:
    """Apply ``make`` to the batches of each part; return its batches, which have this schema."""
    if isinstance(rows, LocalBatches):
        return cast(Spread, rows.map(make, schema))
    from pyspark.sql.pandas.types import from_arrow_schema

    return cast(Spread, map_in_arrow(rows, make, from_arrow_schema(schema)))


def map_in_arrow(
    frame: Any, make: Callable[[Batches], Iterator[pa.RecordBatch]], schema: "StructType"
) -> Any:
    """Apply ``make`` to the Arrow batches of a Spark frame; return the frame of its batches."""
    with silent_about_pandas():
        return frame.mapInArrow(make, schema)


def repartition(rows: Sequence[Spread], column: str, n_tasks: int) -> Spread:
    """Return the rows of all, in ``n_tasks`` parts; rows of equal numbers are in one part."""
    whole: Any = concat(rows)
    if isinstance(whole, LocalBatches):
        return cast(Spread, whole.repartition(column, n_tasks))
    return cast(Spread, whole.repartition(n_tasks, column))


def send(table: Rows, files: PlainFiles | None, sender: SendBatches, n_tasks: int) -> Any:
    """Return the messages of a table; workers read its files themselves if these are plain Parquet."""
    return map_table(table, sender, MESSAGE, files, n_tasks, coded=True)


def exchange(messages: Sequence[Spread], n_tasks: int) -> Spread:
    """Return all messages, shuffled so that each bucket of users is in one task."""
    return repartition(messages, "bucket", n_tasks)


def concat(rows: Sequence[Spread]) -> Spread:
    """Return the rows of all; they have the same columns."""
    given: Sequence[Any] = rows
    if isinstance(given[0], LocalBatches):
        parts = list(chain.from_iterable(one.parts for one in given))
        return cast(Spread, LocalBatches(parts, given[0].schema))
    return cast(Spread, reduce(type(given[0]).unionAll, given))


def where_not_null(rows: Spread, column: str, names: Sequence[str]) -> Spread:
    """Return these columns of the rows whose ``column`` is not null."""
    if isinstance(rows, LocalBatches):
        return cast(Spread, rows.where_not_null(column, names))
    frame: Any = rows
    return cast(Spread, frame.where(frame[column].isNotNull()).select(*names))


def collect_column(rows: Any, column: str) -> list[Any]:
    """Return the values of a column that are not null."""
    values = where_not_null(rows, column, [column])
    if isinstance(values, LocalBatches):
        listed: list[Any] = values.table()[column].to_pylist()
        return listed
    return [row[0] for row in values.collect()]


def where_in(rows: Spread, column: str, *values: Any) -> Spread:
    """Return the rows with one of these texts, or numbers, in a column."""
    if isinstance(rows, LocalBatches):
        return cast(Spread, rows.where_in(column, values))
    frame: Any = rows
    return cast(Spread, frame.where(frame[column].isin(list(values))))


def write_union(rows: Sequence[Any], folder: str) -> None:
    """Write the rows of all, which have one schema, to one Parquet file in a new folder."""
    if isinstance(rows[0], LocalBatches):
        write_file(rows, Path(folder))
    else:
        write_frame(reduce(type(rows[0]).unionAll, rows).coalesce(1), folder)


def write_frame(rows: "DataFrame", folder: str, *by: str) -> None:
    """Write a Spark frame as Parquet to a new folder, partitioned by columns; or add it to a table."""
    if isinstance(folder, Place):
        folder.append(rows)
    else:
        rows.write.mode("error").partitionBy(*by).parquet(folder)


def write_file(rows: Sequence[LocalBatches], folder: Path) -> None:
    """Write the rows of all to one Parquet file, batch by batch."""
    folder.mkdir(parents=True)
    with pq.ParquetWriter(folder / "part-0.parquet", rows[0].schema, write_page_checksum=True) as file:
        for part in chain.from_iterable(one.parts for one in rows):
            for batch in part():
                file.write_batch(batch)


def persist(rows: Spread, resources: ExitStack) -> Spread:
    """Persist the rows until ``resources`` closes; return the persisted ones, to be used from then on.

    Spark answers any plan from a persisted one that looks the same, even if files were rewritten in between.
    So the persisted plan has a filter that no other plan has. It removes nothing, and Spark drops it.

    If the server refuses to persist, log a warning; the rows are then recomputed at every use.
    """
    if isinstance(rows, LocalBatches):
        return cast(Spread, rows.persist())
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    frame: Any = rows
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
    return cast(Spread, frame)


def persist_table(table: Rows, resources: ExitStack) -> Rows:
    """Persist a small table until ``resources`` closes; it is read once."""
    return table.read() if isinstance(table, LocalTable) else persist(table, resources)


def parallelism(rows: Any) -> int:
    """Return the number of parts that are computed at once."""
    return cores() if isinstance(rows, LocalBatches | LocalTable) else tasks_at_once(rows.sparkSession)


def map_files(
    spark: "SparkSession",
    files: PlainFiles,
    n_tasks: int,
    make: Callable[[Batches], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    coded: bool = False,
) -> "DataFrame":
    """Apply ``make`` to the batches of plain files, which Spark's workers read themselves."""
    tasks, columns = files.tasks(n_tasks), files.columns

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return make(read_parts([part for number in numbers for part in tasks[number]], columns, coded=coded))

    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return map_parts(numbers, read, schema)


def map_table(
    table: Rows,
    make: Callable[[Batches], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    files: PlainFiles | None = None,
    n_tasks: int | None = None,
    *,
    coded: bool = False,
) -> Any:
    """Apply ``make`` to the batches of a table; workers read its ``files`` themselves if these are plain.

    By default there are as many tasks as are computed at once. See ``read_parts`` for ``coded``.
    """
    n_tasks = n_tasks or parallelism(table)
    if isinstance(table, LocalBatches):
        table = LocalTable(table.schema, files=files)
    if isinstance(table, LocalTable):
        return LocalBatches(table.parts(n_tasks, coded=coded), table.schema).map(make, schema)
    if files is None:
        return map_parts(table, make, schema)
    return map_files(table.sparkSession, files, n_tasks, make, schema, coded=coded)


def task_numbers(like: Rows, n_tasks: int) -> Any:
    """Return the number of each of ``n_tasks`` tasks, from 0, on the runner of a table."""
    if isinstance(like, LocalTable):
        numbers = [pa.record_batch([pa.array([number])], TASK_NUMBERS) for number in range(n_tasks)]
        return LocalBatches([partial(iter, [one]) for one in numbers], TASK_NUMBERS)
    return like.sparkSession.range(0, n_tasks, 1, n_tasks)


def is_first_task() -> bool:
    """Return True in the first task on Spark; False in this process."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and task.partitionId() == 0


def table_of(rows: Any, folder: str | None) -> Any:
    """Return rows as a table: a Spark frame, computed when it is read, or an Arrow table.

    With a folder, which a Spark frame alone may have, they are written there by model and read from it.
    """
    if isinstance(rows, LocalBatches):
        return rows.table()
    if folder is None:
        return rows
    write_frame(rows, folder, MODEL)
    return read_folder(rows.sparkSession, rows.schema, folder)


def read_written(like: Rows, schema: pa.Schema, folder: str) -> Any:
    """Return the table that workers have written to a folder by model: a Spark frame, or Arrow's dataset."""
    if isinstance(like, LocalTable):
        by_model = partitioning(pa.schema([schema.field(MODEL)]), flavor="hive")
        return dataset(folder, schema, format="parquet", partitioning=by_model)
    from pyspark.sql.pandas.types import from_arrow_schema

    return read_folder(like.sparkSession, from_arrow_schema(schema), folder)


def read_again(rows: Any, folder: str, column: str) -> Any:
    """Return rows that workers have written to a folder, by a column of text, from its files."""
    if isinstance(rows, LocalBatches):
        values = {
            str(path): unquote(path.parent.name.partition("=")[2])
            for path in sorted(Path(folder).glob(f"{column}=*/*.parquet"))
        }
        names = {name: name for name in rows.schema.names if name != column}
        table = LocalTable(rows.schema, files=PlainFiles.of(values, names), folders={column: values})
        return LocalBatches(table.parts(cores(), coded=False), rows.schema)
    return read_folder(rows.sparkSession, rows.schema, folder)


def read_folder(spark: "SparkSession", schema: "StructType", folder: str) -> "DataFrame":
    """Return Parquet files with this schema, or such rows of a table.

    Spark would infer that models 1 and 01 are the same number.
    """
    if isinstance(folder, Place):
        return folder.rows(schema.names)
    return spark.read.schema(schema).parquet(literal_path(folder))


def map_batches(rows: Spread, make: Callable[[Batches], Iterable[NumberedObject]]) -> Spread:
    """Apply ``make`` to the batches of each task; return its objects."""
    return map_parts(rows, lambda batches: pickle_objects(make(batches)), OBJECTS)


def objects_of_table(
    table: Rows, make: Callable[[Batches], Iterable[NumberedObject]], files: PlainFiles | None = None
) -> Any:
    """Apply ``make`` to the batches of a table, or of its plain ``files``; return its objects."""
    return map_table(table, lambda batches: pickle_objects(make(batches)), OBJECTS, files)


def map_objects(objects: Spread, make: Callable[[Any], Iterable[NumberedObject]]) -> Spread:
    """Apply ``make`` to each object; return its objects."""
    return map_batches(
        objects, lambda batches: (one for _, part in unpickle_objects(batches) for one in make(part))
    )


def group_by_key(objects: Spread, n_numbers: int, make: Callable[[int, list[Any]], Any]) -> Spread:
    """Apply ``make`` to each number and its objects; return its objects: one shuffle."""

    def meet(batches: Batches) -> Iterator[NumberedObject]:
        arrived: dict[int, list[Any]] = defaultdict(list)
        for number, one in unpickle_objects(batches):
            arrived[number].append(one)
        while arrived:
            yield None, make(*arrived.popitem())

    at_once = parallelism(objects)
    n_tasks = min(n_numbers, max(at_once, n_numbers // NUMBERS_PER_TASK))
    return map_batches(repartition([objects], NUMBER, n_tasks), meet)


def pickle_objects(objects: Iterable[NumberedObject]) -> Iterator[pa.RecordBatch]:
    """Yield one batch per object, because objects may be large."""
    for number, one in objects:
        data = pickle.dumps(one, protocol=5)
        ends = pa.py_buffer(np.array([0, len(data)], dtype=np.int32))
        object_of = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(data)])  # without a copy
        yield pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), object_of], schema=OBJECTS)


def unpickle_objects(batches: Batches) -> Iterator[tuple[int, Any]]:
    """Yield the objects with their numbers."""
    for batch in batches:
        for number, data in zip(batch[NUMBER], batch[OBJECT], strict=True):
            yield number.as_py(), pickle.loads(data.as_buffer())


def collect_objects(objects: Spread) -> list[Any]:
    """Collect the objects of ``map_batches`` and the like."""
    return list(map(pickle.loads, collect_column(objects, OBJECT)))


def collect_or_raise(objects: Spread) -> list[Any]:
    """Collect the objects; raise one DataError if some are errors, each distinct error listed once."""
    collected = collect_objects(objects)
    faults = {str(one): one for one in collected if isinstance(one, DataError)}
    DataError.raise_all([fault for _, fault in sorted(faults.items())])
    return collected


def of_buckets(parts: Spread, n_buckets: int, measure: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """Yield what ``measure`` returns of the objects of each bucket; raise the errors of all as one."""

    def measured(_: int, objects: list[Any]) -> Any:
        try:
            return measure(objects)
        except DataError as error:
            return error

    yield from collect_or_raise(group_by_key(parts, n_buckets, measured))
