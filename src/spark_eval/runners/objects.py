"""Python objects between workers: rows of bytes, grouped by a number if they have one."""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.arrow.files import Batches, FilePart, read_parts
from spark_eval.errors import DataError
from spark_eval.runtime.any_session import tasks_at_once
from spark_eval.tables.plain_files import PlainFiles

# An object, and the number to group it by; None if it is not grouped.
NumberedObject = tuple[int | None, Any]
NUMBER: Final = "number"
OBJECT: Final = "object"
OBJECTS: Final = pa.schema({NUMBER: pa.int32(), OBJECT: pa.binary()})
NUMBERS_PER_TASK: Final = 4


def map_batches(rows: DataFrame, make: Callable[[Batches], Iterable[NumberedObject]]) -> DataFrame:
    """Apply ``make`` to the batches of each task; return its objects."""
    return rows.mapInArrow(lambda batches: pickle_objects(make(batches)), from_arrow_schema(OBJECTS))


def map_files(
    spark: SparkSession, files: PlainFiles, make: Callable[[Batches], Iterable[NumberedObject]]
) -> DataFrame:
    """Apply ``make`` to batches of plain files, a share of the files per task; return its objects."""
    tasks: list[list[FilePart]] = files.tasks(tasks_at_once(spark))
    columns = files.columns

    def read(batches: Batches) -> Iterable[NumberedObject]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return make(read_parts([part for number in numbers for part in tasks[number]], columns))

    return map_batches(spark.range(0, len(tasks), 1, len(tasks)), read)


def map_objects(objects: DataFrame, make: Callable[[Any], Iterable[NumberedObject]]) -> DataFrame:
    """Apply ``make`` to each object; return its objects."""
    return map_batches(
        objects, lambda batches: (one for _, part in unpickle_objects(batches) for one in make(part))
    )


def group_by_key(objects: DataFrame, n_numbers: int, make: Callable[[int, list[Any]], Any]) -> DataFrame:
    """Apply ``make`` to each number and its objects; return its objects: one shuffle."""

    def meet(batches: Batches) -> Iterator[NumberedObject]:
        arrived: dict[int, list[Any]] = defaultdict(list)
        for number, one in unpickle_objects(batches):
            arrived[number].append(one)
        while arrived:
            yield None, make(*arrived.popitem())

    at_once = tasks_at_once(objects.sparkSession)
    n_tasks = min(n_numbers, max(at_once, n_numbers // NUMBERS_PER_TASK))
    return map_batches(objects.repartition(n_tasks, NUMBER), meet)


def pickle_objects(objects: Iterable[NumberedObject]) -> Iterator[pa.RecordBatch]:
    """Yield one batch per object, because objects may be large."""
    for number, one in objects:
        data = pickle.dumps(one, protocol=5)
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([data], pa.binary())], schema=OBJECTS
        )


def unpickle_objects(batches: Batches) -> Iterator[tuple[int, Any]]:
    """Yield the objects with their numbers."""
    for batch in batches:
        for number, data in zip(batch[NUMBER], batch[OBJECT], strict=True):
            yield number.as_py(), pickle.loads(data.as_buffer())


def collect_objects(objects: DataFrame) -> list[Any]:
    """Collect the objects in a frame of ``runners.objects``."""
    return [pickle.loads(row[OBJECT]) for row in objects.select(OBJECT).collect()]


def collect_or_raise(objects: DataFrame) -> list[Any]:
    """Collect the objects; raise one DataError if some are errors, each distinct error listed once."""
    found = collect_objects(objects)
    faults = {str(one): one for one in found if isinstance(one, DataError)}
    DataError.raise_all([fault for _, fault in sorted(faults.items())])
    return found
