"""What travels in the exchange: rows as Arrow bytes, each message for one bucket of users."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_eval.engine.codes import CODED_TEXT, Hashes, Ints, hashes_of, numbers
from spark_eval.schema import USER

# So many rows are divided among the buckets at once: more make larger messages, and take more memory.
ROWS_AT_ONCE: Final = 1 << 20
MESSAGE: Final = pa.schema({"bucket": pa.int32(), "kind": pa.string(), "rows": pa.binary()})
NARROW: Final = (np.int8, np.int16, np.int32)


class Kind(StrEnum):
    """What the rows of a message are."""

    LISTS = "lists"  # sound rows of recommendations
    BAD_LISTS = "bad_lists"  # other rows of recommendations: model, user and fault
    MODELS = "models"  # the models that a task has seen; every bucket is told
    TRUTH = "truth"  # sound rows of the truth
    BAD_TRUTH = "bad_truth"  # other rows of the truth: user and fault
    SEGMENTS = "segments"  # users with a column per segment
    TRAINED = "trained"  # users with their number of training interactions


def bucket_of(users: Hashes, n_buckets: int) -> Ints:
    """Return the bucket of each user: equal ranges of the upper half of the hash; shape (n,)."""
    return ((users >> np.uint64(32)) * np.uint64(n_buckets) >> np.uint64(32)).astype(np.int64)


def messages(tables: Iterable[pa.Table], kind: Kind, n_buckets: int) -> Iterator[pa.RecordBatch]:
    """Divide rows among the buckets of their users; each batch has a message for every bucket with rows.

    A row without a user goes to the first bucket.
    """
    for table in gathered(tables):
        users = one_chunk(table[USER])
        if users.null_count:
            buckets = np.zeros(table.num_rows, dtype=np.int64)
            buckets[numbers(users.is_valid())] = bucket_of(hashes_of(users.drop_null()), n_buckets)
        else:
            buckets = bucket_of(hashes_of(users), n_buckets)
        order = np.argsort(buckets.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(buckets, minlength=n_buckets))
        columns = {name: taken(table[name], order) for name in table.column_names}
        parts, start = [], 0
        for bucket, end in enumerate(ends.tolist()):
            if end > start:
                part = {name: compact(column.slice(start, end - start)) for name, column in columns.items()}
                parts.append((bucket, packed(pa.record_batch(part))))
            start = end
        yield batch_of(kind, parts)


def batch_of(kind: Kind, parts: Sequence[tuple[int, pa.Buffer]]) -> pa.RecordBatch:
    """Return messages of one kind, as buckets with their bytes."""
    buckets = pa.array([bucket for bucket, _ in parts], pa.int32())
    rows = pa.array([data.to_pybytes() for _, data in parts], pa.binary())
    return pa.RecordBatch.from_arrays([buckets, pa.array([kind.value] * len(parts)), rows], schema=MESSAGE)


def gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together, as few as memory allows."""
    kept: list[pa.Table] = []
    for table in tables:
        kept.append(table)
        if sum(table.num_rows for table in kept) >= ROWS_AT_ONCE:
            yield pa.concat_tables(kept)
            kept.clear()
    if kept:
        yield pa.concat_tables(kept)


def taken(column: pa.ChunkedArray, order: Ints) -> pa.Array:
    """Return the rows in this order, integers as narrow as they fit."""
    whole = one_chunk(column)
    if whole.null_count or not pa.types.is_primitive(whole.type) or pa.types.is_boolean(whole.type):
        return whole.take(pa.array(order))
    return pa.array(narrowed(numbers(whole))[order])


def compact(column: pa.Array) -> pa.Array:
    """Return a slice of coded text with no text that it does not use; other columns as they are."""
    if not pa.types.is_dictionary(column.type):
        return column
    codes = numbers(column.indices)
    is_used = np.zeros(len(column.dictionary), dtype=bool)
    is_used[codes] = True
    place = np.cumsum(is_used, dtype=np.int32) - 1
    return pa.DictionaryArray.from_arrays(place[codes], column.dictionary.filter(pa.array(is_used)))


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers in the smallest type that holds them all; else the values as they are."""
    if values.dtype.kind == "i" and len(values):
        least, most = values.min(), values.max()
        for kind in NARROW:
            if values.dtype.itemsize > np.dtype(kind).itemsize:
                if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
                    return values.astype(kind)
    return values


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, with one dictionary if it is coded."""
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def packed(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def unpacked(data: pa.Buffer) -> pa.Table:
    """Return the rows again."""
    return pa.ipc.open_stream(data).read_all()


def tables_of(parts: Mapping[Kind, Sequence[pa.Buffer]], kind: Kind, empty: pa.Schema) -> pa.Table:
    """Return all rows of one kind that came for a bucket; with this schema if there are none.

    Integers have the widest type of any message, text is coded.
    """
    tables = [widened(unpacked(data)) for data in parts.get(kind, ())]
    if not tables:
        return empty.empty_table()
    return pa.concat_tables(tables, promote_options="permissive")


def widened(table: pa.Table) -> pa.Table:
    """Return coded text with codes of one type."""
    for place, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, column.name, table[column.name].cast(CODED_TEXT))
    return table
