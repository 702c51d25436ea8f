"""Rows of ``per_user`` of several runs, a range of users at a time: all rows of a user are together."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.messages import (
    buckets_of,
    coalesce_tables,
    from_bytes,
    one_chunk,
    partition_rows,
    to_bytes,
)
from spark_eval.arrow.user_files import check_same_type, read_columns, read_ids
from spark_eval.schema import REQUEST, SEGMENT, SEGMENT_VALUE, USER

Tables = Sequence[pa.Table]
# Number of a source, and rows of it as bytes.
Sent = tuple[int, bytes]


class UserRows(ABC):
    """All rows of some users of several runs, in parts that are read one after the other."""

    @abstractmethod
    def ids(self) -> list[pa.ChunkedArray]:
        """Return the users of each part; parts with the same users may share them."""

    @abstractmethod
    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of each part; those that a part lacks are left out."""

    def whole(self, columns: Sequence[str]) -> pa.Table:
        """Return columns of all parts, one below the other; those that a part lacks are null there.

        Raises DataError MIXED_CONVENTIONS as ``check_ids`` does.
        """
        tables = list(self.read(columns))
        check_ids(table.schema for table in tables)
        return pa.concat_tables(tables, promote_options="permissive")


@dataclass(frozen=True)
class UserFiles(UserRows):
    """Files of this machine, which are read one at a time."""

    paths: Sequence[str]

    def ids(self) -> list[pa.ChunkedArray]:
        """Return the users of each file; raise DataError as ``read_ids`` does."""
        return read_ids(self.paths, USER)

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of each file; raise DataError as ``read_columns`` does."""
        return (read_columns(path, columns) for path in self.paths)


@dataclass(frozen=True)
class UserTables(UserRows):
    """Tables in memory."""

    tables: Tables

    @classmethod
    def of(cls, runs: Iterable[Tables]) -> Self:
        """Join the tables of each run."""
        return cls([pa.concat_tables(tables) for tables in runs if tables])

    def ids(self) -> list[pa.ChunkedArray]:
        """Return the users of each table."""
        return [table[USER] for table in self.tables]

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of each table."""
        return (
            table.select([name for name in columns if name in table.column_names]) for table in self.tables
        )


def rows_of_segment(given: UserRows, segment: str, columns: Sequence[str]) -> UserTables:
    """Return these columns of the rows of a segment of items, whose values become the column ``segment``."""
    tables = given.read([*columns, SEGMENT, SEGMENT_VALUE])
    return UserTables([of_segment(table, segment) for table in tables])


def of_segment(table: pa.Table, segment: str) -> pa.Table:
    """Return the rows of ``item_segments`` of a segment, whose values become the column ``segment``."""
    rows = table.filter(pc.equal(table[SEGMENT].cast(pa.string()), segment))
    values = rows[SEGMENT_VALUE].cast(pa.string())
    return rows.drop_columns([SEGMENT, SEGMENT_VALUE]).append_column(segment, values)


def check_ids(schemas: Iterable[pa.Schema]) -> None:
    """Raise DataError MIXED_CONVENTIONS if users, or requests, have different types."""
    schemas = list(schemas)
    for name in (USER, REQUEST):
        check_same_type(name, [schema.field(name).type for schema in schemas if name in schema.names])


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
