"""Messages of the shuffle: rows as Arrow bytes, each message for one bucket of users."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import CODED_TEXT, Array, bucket_of, hashes_of, to_numpy
from spark_eval.schema import USER
from spark_eval.statistics.exact import Ints

# Maximum number of rows divided among the buckets at once; more make larger messages and take more memory.
ROWS_AT_ONCE: Final = 1 << 20
MESSAGE: Final = pa.schema({"bucket": pa.int32(), "content": pa.string(), "rows": pa.binary()})
# Spark copies, hashes and compresses each byte that it shuffles, so compressing here is cheaper.
COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
NARROW: Final = (np.int8, np.int16, np.int32)


class Content(StrEnum):
    """Content of a message's rows (``metrics.registry.Kind`` is what metrics need)."""

    LISTS = "lists"  # valid rows of recommendations
    BAD_LISTS = "bad_lists"  # invalid rows of recommendations: model, user and error code
    MODELS = "models"  # model names seen by a task; sent to every bucket
    TRUTH = "truth"  # valid rows of the truth
    BAD_TRUTH = "bad_truth"  # invalid rows of the truth: user and error code
    SEGMENTS = "segments"  # users with a column per segment
    TRAIN = "train"  # valid training interactions, to be counted
    BAD_TRAIN = "bad_train"  # invalid training interactions: user and error code
    TRAINED = "trained"  # users with numbers of training interactions
    PROFILE = "profile"  # training interactions: users with their items
    BASELINES = "baselines"  # per-user values of the baseline models
    CANDIDATES = "candidates"  # per-user values of the candidate models


def messages(tables: Iterable[pa.Table], content: Content, n_buckets: int) -> Iterator[pa.RecordBatch]:
    """Divide rows among the buckets of their users; each batch has a message for every bucket with rows."""
    for table in tables:
        parts = partition_rows(table, buckets_of(one_chunk(table[USER]), n_buckets), n_buckets)
        yield batch_of(content, [(bucket, part) for bucket, part in enumerate(parts) if part.num_rows])


def buckets_of(users: pa.Array, n_buckets: int) -> Ints:
    """Return the bucket of each user by equal ranges of the hash's upper half; null is in bucket 0."""
    if users.null_count:
        buckets = np.zeros(len(users), dtype=np.int64)
        buckets[to_numpy(users.is_valid())] = buckets_of(users.drop_null(), n_buckets)
        return buckets
    return bucket_of(hashes_of(users), n_buckets)


def partition_rows(table: pa.Table, groups: Ints, n_groups: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each group 0 to ``n_groups - 1``, in this order."""
    order = np.argsort(groups.astype(np.uint16), kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=n_groups)).tolist()
    columns = {name: take_rows(table[name], order) for name in table.column_names}
    for start, end in pairwise([0, *ends]):
        part = {
            name: drop_unused_dictionary(column.slice(start, end - start)) for name, column in columns.items()
        }
        yield pa.record_batch(part)


def batch_of(content: Content, parts: Sequence[tuple[int, pa.RecordBatch]]) -> pa.RecordBatch:
    """Return a batch of messages of one content: buckets, with their rows as bytes."""
    data = [to_bytes(rows) for _, rows in parts]
    ends = np.cumsum([0, *(rows.size for rows in data)]).astype(np.int32)
    rows = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))]
    columns = [
        pa.array([bucket for bucket, _ in parts], pa.int32()),
        pa.repeat(content.value, len(parts)),
        pa.Array.from_buffers(pa.binary(), len(parts), rows),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE)


def coalesce_tables(tables: Iterable[pa.Table], most: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
    """Concatenate small tables until they have at least ``most`` rows."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(table.num_rows for table in waiting) >= most:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting.clear()
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def take_rows(column: pa.ChunkedArray, order: Ints) -> pa.Array:
    """Reorder the rows of a column; narrow its integers."""
    whole = one_chunk(column)
    if whole.null_count or not pa.types.is_primitive(whole.type) or pa.types.is_boolean(whole.type):
        return whole.take(pa.array(order))
    return pa.array(narrow_integers(to_numpy(whole))[order])


def drop_unused_dictionary(column: pa.Array) -> pa.Array:
    """Drop the unused dictionary values of a slice of coded text; return other columns unchanged."""
    if not pa.types.is_dictionary(column.type):
        return column
    if column.null_count:
        return column.dictionary_decode().dictionary_encode()
    codes = to_numpy(column.indices)
    is_used = np.zeros(len(column.dictionary), dtype=bool)
    is_used[codes] = True
    index = np.cumsum(is_used, dtype=np.int32) - 1
    return pa.DictionaryArray.from_arrays(index[codes], column.dictionary.filter(pa.array(is_used)))


def narrow_integers(values: Array) -> Array:
    """Cast integers to the smallest type that holds all of them; return other values unchanged."""
    if values.dtype.kind == "i" and len(values):
        least, most = values.min(), values.max()
        for kind in NARROW:
            fits = np.iinfo(kind).min <= least and most <= np.iinfo(kind).max
            if fits and np.dtype(kind).itemsize < values.dtype.itemsize:
                return values.astype(kind)
    return values


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, with one dictionary if it is coded."""
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def to_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Serialise a batch as a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=COMPRESSED) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def from_bytes(data: pa.Buffer) -> pa.Table:
    """Read the rows of a serialised batch."""
    return pa.ipc.open_stream(data, options=pa.ipc.IpcReadOptions(use_threads=False)).read_all()


def group_by_bucket(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, dict[Content, pa.Table]]]:
    """Yield the number and the rows, by content, of each bucket of a task, one bucket after the other."""
    arrived: dict[int, dict[Content, list[pa.Buffer]]] = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        for bucket, content, data in zip(*(batch[name] for name in MESSAGE.names), strict=True):
            arrived[bucket.as_py()][Content(content.as_py())].append(data.as_buffer())
    while arrived:
        number, contents = arrived.popitem()
        rows = {
            content: concat_messages(list(map(from_bytes, contents.pop(content))))
            for content in list(contents)
        }
        yield number, rows


def partition_bucket(
    rows: Mapping[Content, pa.Table], n_buckets: int, n_parts: int
) -> Iterator[dict[Content, pa.Table]]:
    """Divide the rows of one of ``n_buckets`` buckets by user into ``n_parts`` smaller ones."""
    of_users = {
        content: partition_rows(
            table, buckets_of(one_chunk(table[USER]), n_buckets * n_parts) % n_parts, n_parts
        )
        for content, table in rows.items()
        if content is not Content.MODELS
    }
    same = {content: table for content, table in rows.items() if content is Content.MODELS}
    for parts in zip(*of_users.values(), strict=True):
        yield same | {content: pa.table(part) for content, part in zip(of_users, parts, strict=True)}


def concat_messages(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate messages: integers in their widest type, text dictionary-coded."""
    return pa.concat_tables(map(dictionary_encode, tables), promote_options="permissive")


def sum_equal_keys(tables: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """Sum the columns other than ``keys`` over rows with equal keys; keys that no table has are ignored."""
    together = concat_messages(tables).unify_dictionaries().combine_chunks()
    keys = [name for name in keys if name in together.column_names]
    amounts = [name for name in together.column_names if name not in keys]
    added = together.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in amounts])
    return added.rename_columns([*keys, *amounts])


def dictionary_encode(table: pa.Table) -> pa.Table:
    """Dictionary-code the text columns of a table."""
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = table[field.name].cast(pa.string()).dictionary_encode()
            table = table.set_column(index, field.name, column)
        elif pa.types.is_dictionary(field.type) and field.type != CODED_TEXT:
            table = table.set_column(index, field.name, table[field.name].cast(CODED_TEXT))
    return table


def unify_dictionary(table: pa.Table) -> pa.Table:
    """Dictionary-code the text columns of a table, each text once: a file's dictionary may repeat a text."""
    table = dictionary_encode(table)
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = one_chunk(table[field.name])
            if len(pc.unique(column.dictionary)) < len(column.dictionary):
                column = column.cast(pa.string()).dictionary_encode()
            table = table.set_column(index, field.name, column)
    return table
