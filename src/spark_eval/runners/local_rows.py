"""Rows of this process: tables in memory or in files, and parts computed from them by threads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import dataset, partitioning

from spark_eval.arrow.codes import to_numpy
from spark_eval.arrow.files import BATCH_ROWS, INSTANT, Batches, FilePart, MakeBatches, read_parts
from spark_eval.arrow.sound_footers import read_footer
from spark_eval.runners.in_process import ShuffleBuffer, cores, run
from spark_eval.schema import MODEL, Value
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.opened import FolderValue

# Rows of a part of a frame.
PART_ROWS: Final = 1 << 20
TASK_NUMBERS: Final = pa.schema({"id": pa.int64()})
# Spark's names of types.
SPARK_NAMES: Final = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    INSTANT: "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.binary(): "binary",
}


class LocalRows(ABC):
    """Rows in parts of this process; each part is computed by a thread whenever it is read."""

    schema: pa.Schema

    @abstractmethod
    def parts(self, n_tasks: int | None = None, *, coded: bool = False) -> Sequence[Callable[[], Batches]]:
        """Return a reader of each part; files are divided into about as many parts as tasks.

        See ``read_parts`` for ``coded``.
        """

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if they are computed when they are read."""
        return None

    @property
    def session(self) -> None:
        """None: these rows are not on Spark."""
        return None

    @property
    def at_once(self) -> int:
        """Number of threads."""
        return cores()

    @property
    def is_in_memory(self) -> bool:
        """False for rows that are computed, or read, when they are needed."""
        return False

    def kind(self, name: str) -> pa.DataType:
        """Return the type of a column."""
        return self.schema.field(name).type

    def kind_in_words(self, name: str) -> str:
        """Return Spark's name of the type of a column."""
        return in_words(self.kind(name))

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.table()) if self.n_rows is None else self.n_rows

    def select(self, *names: str) -> "LocalRows":
        """Return the rows with these columns only."""
        schema = pa.schema([self.schema.field(name) for name in names])
        return self.map(lambda batches: (batch.select(list(names)) for batch in batches), schema)

    def drop(self, name: str) -> "LocalRows":
        """Return the rows without a column, if they have it."""
        return self.select(*(column for column in self.columns if column != name))

    def cast(self, name: str, kind: pa.DataType) -> "LocalRows":
        """Return the rows with another type of a column."""
        index = self.schema.get_field_index(name)
        schema = self.schema.set(index, pa.field(name, kind))

        def cast(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from pa.table(batch).cast(schema).to_batches()

        return self.map(cast, schema)

    def map(
        self, make: MakeBatches, schema: pa.Schema, n_tasks: int | None = None, *, coded: bool = False
    ) -> "LocalBatches":
        """Apply ``make`` to the batches of each part."""
        parts = self.parts(n_tasks, coded=coded)
        return LocalBatches([partial(applied, make, part) for part in parts], schema)

    @property
    def as_typed(self) -> Self:
        """These rows: they are read with the types of ``kind``, or cast when they are measured."""
        return self

    @property
    def read_by_workers(self) -> bool:
        """True: nothing else reads them."""
        return True

    def repartition(self, column: str, n_parts: int) -> "LocalBatches":
        """Return ``n_parts`` parts, each with all rows of its numbers."""
        buffer = ShuffleBuffer(n_parts)

        def send(part: Callable[[], Batches]) -> None:
            for batch in part():
                buffer.add(batch, to_numpy(batch[column]) % n_parts)

        run(send, self.parts())
        return LocalBatches([partial(buffer.read, number) for number in range(n_parts)], self.schema)

    def concat(self, others: Sequence["LocalRows"]) -> "LocalBatches":
        """Return the parts of all."""
        parts = chain.from_iterable(one.parts() for one in (self, *others))
        return LocalBatches(list(parts), self.schema)

    def where_in(self, name: str, values: Sequence[Value]) -> "LocalRows":
        """Return the rows with one of these texts, or numbers, in a column."""
        wanted = pa.array(values)

        def chosen(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.filter(pc.is_in(batch[name].cast(wanted.type), value_set=wanted))

        return self.map(chosen, self.schema)

    def where_not_null(self, name: str, names: Sequence[str]) -> "LocalBatches":
        """Return these columns of the rows whose column ``name`` is not null."""

        def chosen(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.filter(pc.is_valid(batch[name])).select(list(names))

        return self.map(chosen, pa.schema([self.schema.field(name) for name in names]))

    def numbers(self, n_tasks: int) -> "LocalBatches":
        """Return the number of each of ``n_tasks`` tasks."""
        numbers = [pa.record_batch([pa.array([number])], TASK_NUMBERS) for number in range(n_tasks)]
        return LocalBatches([partial(iter, [one]) for one in numbers], TASK_NUMBERS)

    def persist(self, _resources: ExitStack, /) -> "LocalRows":
        """Compute all parts once, and keep their batches in memory."""
        return LocalBatches([partial(iter, part) for part in self.computed()], self.schema)

    def computed(self) -> list[list[pa.RecordBatch]]:
        """Return the batches of each part."""
        return run(lambda part: list(part()), self.parts())

    def first(self, most: int) -> list[dict[str, Value]]:
        """Return the first rows, at most this number; only the parts with them are computed."""
        rows = (row for part in self.parts() for batch in part() for row in batch.to_pylist())
        return list(islice(rows, most))

    def distinct(self, name: str, most: int | None = None) -> list[Value]:
        """Return the first distinct values of a column; see ``Rows.distinct``."""
        values: list[Value] = self.table(name)[name].unique()[:most].to_pylist()
        return values

    def with_text(self, name: str, text: str) -> "LocalRows":
        """Return the rows with a column of this text."""

        def add(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.append_column(name, pa.repeat(text, batch.num_rows))

        return self.map(add, self.schema.append(pa.field(name, pa.string())))

    def unique(self, *names: str) -> "LocalTable":
        """Return the distinct rows of these columns, without those that have a null."""
        rows = self.table(*names).drop_null().group_by(list(names), use_threads=False).aggregate([])
        return LocalTable(rows.schema, rows)

    def values(self, name: str) -> list[Value]:
        """Return the values of a column that are not null."""
        values: list[Value] = self.where_not_null(name, [name]).table()[name].to_pylist()
        return values

    def table(self, *names: str) -> pa.Table:
        """Return these columns, by default all."""
        chosen = self.select(*names) if names else self
        batches = (batch for part in chosen.computed() for batch in part)
        return pa.Table.from_batches(batches, chosen.schema)

    def result(self, folder: str | None = None) -> pa.Table:
        """Return all rows; ``folder`` is None in this process."""
        assert folder is None
        return self.table()

    def written(self, schema: pa.Schema, folder: str) -> Any:
        """Return the files that workers have written by model, as Arrow's dataset."""
        by_model = partitioning(pa.schema([schema.field(MODEL)]), flavor="hive")
        return dataset(folder, schema, format="parquet", partitioning=by_model)

    def write(self, folder: str) -> None:
        """Write the rows as Parquet to a new folder."""
        self.write_one_file(folder)

    def of_files(self, files: PlainFiles) -> "LocalRows":
        """Return the rows of plain files with some of these columns."""
        return LocalTable(pa.schema([self.schema.field(name) for name in files.columns]), files=files)

    def are_filled(self, names: Sequence[str]) -> bool:  # of rows that are not computed yet
        """Return False: it is not known."""
        del names
        return False

    def write_one_file(self, folder: str) -> None:
        """Write the rows to one Parquet file in a new folder, batch by batch."""
        path = Path(folder)
        path.mkdir(parents=True)
        with pq.ParquetWriter(path / "part-0.parquet", self.schema, write_page_checksum=True) as file:
            for part in self.parts():
                for batch in part():
                    file.write_batch(batch)

    def reread(self, folder: str, column: str, /) -> "LocalRows":
        """Return rows that workers have written to a folder, by a column of text, from its files."""
        values = {
            str(path): unquote(path.parent.name.partition("=")[2])
            for path in sorted(Path(folder).glob(f"{column}=*/*.parquet"))
        }
        files = PlainFiles.of(values, {name: name for name in self.columns if name != column})
        return LocalTable(self.schema, files=files, folders={column: values})


@dataclass(frozen=True)
class LocalBatches(LocalRows):
    """Rows that are computed anew whenever a part is read."""

    readers: Sequence[Callable[[], Batches]]
    schema: pa.Schema

    def parts(self, n_tasks: int | None = None, *, coded: bool = False) -> Sequence[Callable[[], Batches]]:
        """Return a reader of each part."""
        del n_tasks, coded  # the parts are there
        return self.readers


@dataclass(frozen=True)
class LocalTable(LocalRows):
    """Conformed table: some of our columns, of ``rows`` or of ``files``, in these types.

    ``folders`` has, for each column that is named by folders and not in the files, the value of each file.
    """

    schema: pa.Schema
    rows: Any = None  # pa.Table
    files: PlainFiles | None = None
    folders: Mapping[str, Mapping[str, FolderValue]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.Table) -> "LocalTable":
        """Return rows in memory, with plain strings."""
        schema = pa.schema({field.name: normal(field.type) for field in rows.schema})
        return cls(schema, rows.cast(schema))

    def select(self, *names: str) -> "LocalTable":
        """Return the table with these columns only."""
        schema = pa.schema([self.schema.field(name) for name in names])
        rows = None if self.rows is None else self.rows.select(list(names))
        files = self.files and self.files.only(name for name in names if name not in self.folders)
        folders = {name: values for name, values in self.folders.items() if name in names}
        return replace(self, schema=schema, rows=rows, files=files, folders=folders)

    def with_text(self, name: str, text: str) -> "LocalTable":
        """Return the table with a column of this text."""
        schema = self.schema.append(pa.field(name, pa.string()))
        if self.files is not None:
            folders = {**self.folders, name: dict.fromkeys(self.files.states, text)}
            return replace(self, schema=schema, folders=folders)
        return replace(
            self, schema=schema, rows=self.rows.append_column(name, pa.repeat(text, len(self.rows)))
        )

    def where_in(self, name: str, values: Sequence[Value]) -> LocalRows:
        """Return the rows with one of these values; files of folders that name other values are left out."""
        if name in self.folders:
            chosen = {path for path, value in self.folders[name].items() if value in values}
            return replace(self, files=self.files and self.files.at(chosen))
        rows, wanted = self.table(), pa.array(values)
        is_chosen = pc.is_in(rows[name].cast(wanted.type), value_set=wanted)
        has_all = pc.all(is_chosen, min_count=0).as_py()  # most often: then nothing is copied
        return LocalTable(self.schema, rows if has_all else rows.filter(is_chosen))

    def cast(self, name: str, kind: pa.DataType) -> "LocalTable":
        """Return the table with another type of a column; rows of files are cast when they are measured."""
        index = self.schema.get_field_index(name)
        schema = self.schema.set(index, pa.field(name, kind))
        folders = dict(self.folders)
        if name in folders:
            values = pa.array(list(folders[name].values()), self.kind(name)).cast(kind)
            folders[name] = dict(zip(folders[name], values.to_pylist(), strict=True))
        return replace(self, schema=schema, rows=self.rows and self.rows.cast(schema), folders=folders)

    def distinct(self, name: str, most: int | None = None) -> list[Value]:
        """Return the first distinct values of a column; see ``Rows.distinct``."""
        if name in self.folders:
            return list(dict.fromkeys(self.folders[name].values()))[:most]
        return super().distinct(name, most)

    def are_filled(self, names: Sequence[str]) -> bool:
        """Return True if these columns certainly have no nulls."""
        if self.files is not None:
            of_folders = [self.folders[name] for name in names if name in self.folders]
            return not any(None in one.values() for one in of_folders) and self.files.are_filled(
                [name for name in names if name not in self.folders]
            )
        return not any(self.rows[name].null_count for name in names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.files.n_rows if self.files is not None else len(self.rows)

    @property
    def is_in_memory(self) -> bool:
        """True unless they are in files."""
        return self.files is None

    def parts(self, n_tasks: int | None = None, *, coded: bool = False) -> Sequence[Callable[[], Batches]]:
        """Return a reader of each part of the files, or of the rows in memory."""
        if self.files is not None:
            tasks = self.files.tasks(n_tasks or self.at_once)
            return [partial(self.read_part, part, coded=coded) for part in tasks]
        starts = range(0, max(len(self.rows), 1), PART_ROWS)
        return [partial(self.rows.slice(start, PART_ROWS).to_batches, BATCH_ROWS) for start in starts]

    def read_part(self, part: Sequence[FilePart], *, coded: bool) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a part of the files, with the columns that folders name."""
        columns = {} if self.files is None else self.files.columns
        if not self.folders:
            yield from read_parts(part, columns, coded=coded)
            return
        for one in part:
            # Rows without a column have no number.
            read = read_parts([one], columns, coded=coded) if columns else [unread(one)]
            for batch in read:
                for name, values in self.folders.items():
                    value = pa.scalar(values[one.path], self.kind(name))
                    batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
                yield batch.select(self.columns)

    def read(self) -> "LocalTable":
        """Return the table with its rows in memory."""
        return LocalTable(self.schema, self.table())

    def persist(self, _resources: ExitStack, /) -> "LocalTable":
        """Return the table with its rows in memory."""
        return self.read()

    def table(self, *names: str) -> pa.Table:
        """Return all rows of these columns; by default of all columns."""
        chosen = self.select(*names) if names else self
        if chosen.rows is not None:
            return chosen.rows
        batches = chain.from_iterable(part() for part in chosen.parts(1, coded=False))
        tables = [pa.table(batch).cast(chosen.schema) for batch in batches]
        return pa.concat_tables([chosen.schema.empty_table(), *tables])


def unread(part: FilePart) -> pa.RecordBatch:
    """Return as many rows as a part of a file has, with a column of nothing."""
    footer = read_footer(part.path)
    n_rows = sum(footer.row_group(number).num_rows for number in part.groups)
    return pa.record_batch([pa.nulls(n_rows)], names=[""])


def applied(make: MakeBatches, part: Callable[[], Batches]) -> Iterator[pa.RecordBatch]:
    """Return ``make`` of the batches of a part."""
    return make(part())


def in_words(kind: pa.DataType) -> str:
    """Return Spark's name of a type.

    >>> in_words(pa.decimal128(10, 2)), in_words(pa.float64())
    ('decimal(10,2)', 'double')
    """
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return SPARK_NAMES.get(kind, str(kind))


def normal(kind: pa.DataType) -> pa.DataType:
    """Return a type with plain strings and lists, and instants in UTC."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return INSTANT
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(normal(kind.value_type))
    return kind
