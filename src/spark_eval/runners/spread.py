"""Objects that functions make of batches: they travel as rows of bytes, and meet by number."""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.files import Batches, MakeBatches
from spark_eval.arrow.messages import MESSAGE
from spark_eval.errors import DataError
from spark_eval.runners.rows import Rows
from spark_eval.runtime.any_session import is_remote, setting, tasks_at_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Number of buckets per task if row counts are unknown; large buckets are divided later.
BUCKETS_PER_TASK: Final = 4
# Whatever travels, pickled.
Object = Any
# An object, and the number to group it by; None if it is not grouped.
NumberedObject = tuple[int | None, Object]
NUMBER: Final = "number"
OBJECT: Final = "object"
OBJECTS: Final = pa.schema({NUMBER: pa.int32(), OBJECT: pa.binary()})
NUMBERS_PER_TASK: Final = 4
# Rows of a bucket that a task has in memory, about.
ROWS_PER_BUCKET: Final = 1_000_000
# Rows of a partition of Spark's own joins and groups, about; rows that one task takes; partitions at most.
ROWS_PER_PARTITION: Final = 500_000
LEAST_ROWS: Final = 100_000
MOST_PARTITIONS: Final = 10_000
# Bytes of a row of ids in files, about, and the sizes that Spark makes up if it knows none.
ROW_BYTES: Final = 16
UNKNOWN_BYTES: Final = 1 << 60
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def n_buckets_of(n_rows: int) -> int:
    """Return the number of buckets to divide rows into."""
    return 1 + n_rows // ROWS_PER_BUCKET


def shuffle_by_size(frames: Sequence["DataFrame"], resources: ExitStack) -> None:
    """Let Spark's own joins and groups shuffle into as many partitions as these frames need.

    Spark's default is 200, whatever the rows. The session has its own number again once ``resources`` closes,
    and keeps it where Spark does not tell the size of a frame: of rows in memory, and over Spark Connect.
    """
    spark: Any = frames[0].sparkSession
    plans: list[Any] = [] if is_remote(spark) else [frame._jdf.queryExecution() for frame in frames]
    sizes = [int(str(plan.optimizedPlan().stats().sizeInBytes())) for plan in plans]
    if sizes and max(sizes) < UNKNOWN_BYTES:
        number = n_partitions_of(sum(sizes) // ROW_BYTES, tasks_at_once(spark))
        resources.enter_context(setting(spark, SHUFFLE_PARTITIONS, str(number)))


def n_partitions_of(n_rows: int, at_once: int) -> int:
    """Return the number of partitions of a shuffle of rows; many rows occupy all tasks that run at once.

    >>> [n_partitions_of(n_rows, at_once=4) for n_rows in (10, 250_000, 100_000_000)]
    [1, 8, 201]
    """
    wanted = 1 + n_rows // ROWS_PER_PARTITION
    return min(wanted if n_rows < LEAST_ROWS else max(wanted, 2 * at_once), MOST_PARTITIONS)


def send(table: Rows, sender: MakeBatches, n_tasks: int) -> Rows:
    """Return the messages of a table."""
    return table.map(sender, MESSAGE, n_tasks, coded=True)


def exchange(messages: Sequence[Rows], n_tasks: int) -> Rows:
    """Return all messages, shuffled so that each bucket of users is in one task."""
    return messages[0].concat(messages[1:]).repartition("bucket", n_tasks)


def map_batches(
    rows: Rows, make: Callable[[Batches], Iterable[NumberedObject]], *, coded: bool = False
) -> Rows:
    """Apply ``make`` to the batches of each task; return its objects. See ``read_parts`` for ``coded``."""
    return rows.map(lambda batches: pickle_objects(make(batches)), OBJECTS, coded=coded)


def map_objects(objects: Rows, make: Callable[[Object], Iterable[NumberedObject]]) -> Rows:
    """Apply ``make`` to each object; return its objects."""
    return map_batches(
        objects, lambda batches: (one for _, part in unpickle_objects(batches) for one in make(part))
    )


def group_by_key(objects: Rows, n_numbers: int, make: Callable[[int, list[Object]], Object]) -> Rows:
    """Apply ``make`` to each number and its objects; return its objects: one shuffle."""

    def meet(batches: Batches) -> Iterator[NumberedObject]:
        arrived: dict[int, list[Object]] = defaultdict(list)
        for number, one in unpickle_objects(batches):
            arrived[number].append(one)
        while arrived:
            yield None, make(*arrived.popitem())

    n_tasks = min(n_numbers, max(objects.at_once, n_numbers // NUMBERS_PER_TASK))
    return map_batches(objects.repartition(NUMBER, n_tasks), meet)


def pickle_objects(objects: Iterable[NumberedObject]) -> Iterator[pa.RecordBatch]:
    """Yield one batch per object, because objects may be large."""
    for number, one in objects:
        data = pickle.dumps(one, protocol=5)
        ends = pa.py_buffer(np.array([0, len(data)], dtype=np.int32))
        object_of = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(data)])  # without a copy
        yield pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), object_of], schema=OBJECTS)


def unpickle_objects(batches: Batches) -> Iterator[tuple[int, Object]]:
    """Yield the objects with their numbers."""
    for batch in batches:
        for number, data in zip(batch[NUMBER], batch[OBJECT], strict=True):
            yield number.as_py(), pickle.loads(data.as_buffer())


def collect_objects(objects: Rows) -> list[Object]:
    """Collect the objects of ``map_batches`` and the like."""
    return list(map(pickle.loads, objects.values(OBJECT)))


def collect_or_raise(objects: Rows) -> list[Object]:
    """Collect the objects; raise one DataError if some are errors, each distinct error listed once."""
    collected = collect_objects(objects)
    faults = {str(one): one for one in collected if isinstance(one, DataError)}
    DataError.raise_all([fault for _, fault in sorted(faults.items())])
    return collected


def of_buckets(parts: Rows, n_buckets: int, measure: Callable[[list[Object]], Object]) -> Iterator[Object]:
    """Yield what ``measure`` returns of the objects of each bucket; raise the errors of all as one."""

    def measured(_: int, objects: list[Object]) -> Object:
        try:
            return measure(objects)
        except DataError as error:
            return error

    yield from collect_or_raise(group_by_key(parts, n_buckets, measured))
