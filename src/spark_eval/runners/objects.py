"""Python objects between workers: rows of bytes, grouped by a number if they have one."""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from spark_eval.arrow.files import Batches
from spark_eval.errors import DataError
from spark_eval.runners import spread
from spark_eval.runners.spread import Spread, collect_column, map_parts, parallelism, repartition
from spark_eval.tables.conformed import Rows
from spark_eval.tables.file_parts import PlainFiles

# An object, and the number to group it by; None if it is not grouped.
NumberedObject = tuple[int | None, Any]
NUMBER: Final = "number"
OBJECT: Final = "object"
OBJECTS: Final = pa.schema({NUMBER: pa.int32(), OBJECT: pa.binary()})
NUMBERS_PER_TASK: Final = 4


def map_batches(rows: Spread, make: Callable[[Batches], Iterable[NumberedObject]]) -> Spread:
    """Apply ``make`` to the batches of each task; return its objects."""
    return map_parts(rows, lambda batches: pickle_objects(make(batches)), OBJECTS)


def map_table(
    table: Rows, make: Callable[[Batches], Iterable[NumberedObject]], files: PlainFiles | None = None
) -> Any:
    """Apply ``make`` to the batches of a table, or of its plain ``files``; return its objects."""
    return spread.map_table(table, lambda batches: pickle_objects(make(batches)), OBJECTS, files)


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
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([data], pa.binary())], schema=OBJECTS
        )


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
    found = collect_objects(objects)
    faults = {str(one): one for one in found if isinstance(one, DataError)}
    DataError.raise_all([fault for _, fault in sorted(faults.items())])
    return found
