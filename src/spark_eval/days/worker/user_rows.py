"""Rows of ``per_user`` of several runs, a range of users at a time: all rows of a user are together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from spark_eval.arrow.messages import (
    buckets_of,
    coalesce_tables,
    from_bytes,
    one_chunk,
    partition_rows,
    to_bytes,
)
from spark_eval.errors import DataError
from spark_eval.schema import REQUEST, USER

Made = TypeVar("Made")
Tables = Sequence[pa.Table]
# Number of a source, and rows of it as bytes.
Sent = tuple[int, bytes]


def check_ids(schemas: Iterable[pa.Schema]) -> None:
    """Raise DataError MIXED_CONVENTIONS if users, or requests, have different types."""
    schemas = list(schemas)
    for name in (USER, REQUEST):
        kinds = sorted({str(schema.field(name).type) for schema in schemas if name in schema.names})
        if len(kinds) > 1:
            message = f"{name}s are of types {' and '.join(kinds)}; write them with one type in all runs"
            raise DataError("MIXED_CONVENTIONS", message)


def send_users(batches: Iterable[pa.RecordBatch], source: int, n_buckets: int) -> Iterator[tuple[int, Sent]]:
    """Yield the rows of a source by bucket of users."""
    for table in coalesce_tables(pa.Table.from_batches([batch]) for batch in batches):
        buckets = buckets_of(one_chunk(table[USER]), n_buckets)
        for bucket, rows in enumerate(partition_rows(table, buckets, n_buckets)):
            if rows.num_rows:
                yield bucket, (source, to_bytes(rows).to_pybytes())


def by_source(sent: Iterable[Sent], schemas: Sequence[pa.Schema]) -> list[list[pa.Table]]:
    """Return the rows of each source, with its schema; they were sent with narrower integers."""
    tables: list[list[pa.Table]] = [[] for _ in schemas]
    for source, rows in sent:
        tables[source].append(from_bytes(pa.py_buffer(rows)).cast(schemas[source]))
    return tables


def of_all(sources: Iterable[Tables], make: Callable[[pa.Table], Made]) -> Made:
    """Call ``make`` with the rows of all sources; columns that one lacks are null."""
    return make(pa.concat_tables(chain.from_iterable(sources), promote_options="permissive"))
