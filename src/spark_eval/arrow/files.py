"""Plain Parquet files, read and written by Arrow, without conversion to Python rows."""

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.sound_footers import footer_in, read_footer
from spark_eval.errors import DataError, raise_if_of_machine
from spark_eval.schema import ITEM, MODEL, NO_TEXT, USER

Batches = Iterable[pa.RecordBatch]
MakeBatches = Callable[[Batches], Iterator[pa.RecordBatch]]
# Type of points in time in Parquet.
INSTANT: Final = pa.timestamp("us", "UTC")
BATCH_ROWS: Final = 1 << 17
# Rows per group of a written file: the unit that readers skip and writers buffer.
ROWS_PER_GROUP: Final = 1 << 18
# Encodings of pages that Arrow can read as dictionary codes of text.
WITH_CODES: Final = frozenset({"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})
# Usual limit of a dictionary in a file, and the most bytes of a code of its texts.
DICTIONARY_BYTES: Final = 1 << 20
CODE_BYTES: Final = 4
# Types of unsigned integers, and the signed types that hold their values; with 64 bits values below 2^63.
UNSIGNED: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
}
WIDE_UNSIGNED: Final = "is unsigned, with values of 2^63 or more; write it as text, or as int64 below 2^63"
TOO_FINE: Final = "holds parts of a microsecond; write it in microseconds (coerce_timestamps='us')"
# Built-in columns of text; segments are text too.
TEXTS: Final = (USER, ITEM, MODEL)


@dataclass(frozen=True)
class FileState:
    """Size and time of change of a file, in nanoseconds: another state is another content."""

    n_bytes: int
    changed: int

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the state of a file as it is now; it is opened, for a network's disk tells old news."""
        try:
            with Path(path).open("rb") as file:
                status = os.fstat(file.fileno())
        except PermissionError as error:
            raise_if_of_machine(error, path)
            raise
        return cls(status.st_size, status.st_mtime_ns)

    @property
    def in_milliseconds(self) -> "FileState":
        """The state as Hadoop tells it."""
        return FileState(self.n_bytes, self.changed // 1_000_000)


@dataclass(frozen=True)
class FilePart:
    """Some row groups of a file, which is in this state."""

    path: str
    state: FileState
    groups: tuple[int, ...]
    n_bytes: int


def split_row_groups(
    path: str, state: FileState, footer: pq.FileMetaData, most_bytes: int
) -> Iterator[FilePart]:
    """Yield the parts of a file, of about ``most_bytes`` each."""
    groups: list[int] = []
    n_bytes = 0
    for number in range(footer.num_row_groups):
        size = footer.row_group(number).total_byte_size
        if groups and n_bytes + size > most_bytes:
            yield FilePart(path, state, tuple(groups), n_bytes)
            groups, n_bytes = [], 0
        groups.append(number)
        n_bytes += size
    if groups:
        yield FilePart(path, state, tuple(groups), n_bytes)


def column_statistics(footer: pq.FileMetaData, column: str) -> Iterator[pq.Statistics | None]:
    """Yield a column's statistics for each row group with rows; None if the footer has none."""
    paths = [footer.schema.column(index).path for index in range(len(footer.schema))]
    index = paths.index(column)
    for number in range(footer.num_row_groups):
        if footer.row_group(number).num_rows:
            yield footer.row_group(number).column(index).statistics


def read_parts(
    parts: Sequence[FilePart], columns: Mapping[str, str], *, coded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield batches of ``columns`` (our names to names in the files), with the same types for all writers.

    With ``coded``, text is dictionary-coded, as in most files; a dictionary may have duplicates.

    Raises DataError CORRUPT_FILE, INVALID_TEXT, or INPUT_CHANGED_DURING_RUN for a changed or removed file.
    """
    for part in parts:
        with named_read_errors(part.path, part.state):
            footer = read_footer(part.path)
            yield from read_groups(part.path, part.path, footer, part.groups, columns, coded=coded)


def read_content(
    path: str, content: pa.Buffer, columns: Mapping[str, str], *, coded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield batches of all rows of a file whose bytes are given; see ``read_parts``.

    Without columns the batches have as many rows, of one column of nulls.
    """
    with named_read_errors(path):
        footer = footer_in(path, content)
        if not columns:
            yield pa.record_batch([pa.nulls(footer.num_rows)], names=[""])
            return
        groups, source = range(footer.num_row_groups), pa.BufferReader(content)
        yield from read_groups(path, source, footer, groups, columns, coded=coded)


def read_groups(
    path: str,
    source: str | pa.NativeFile,
    footer: pq.FileMetaData,
    groups: Sequence[int],
    columns: Mapping[str, str],
    *,
    coded: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of row groups of a file; see ``read_parts``."""
    texts = [theirs for ours, theirs in columns.items() if ours in TEXTS] if coded else []
    for batch in decode(path, source, footer, groups, columns.values(), texts):
        arrays = [batch[theirs] for theirs in columns.values()]
        for theirs, array in zip(columns.values(), arrays, strict=True):
            check_text(array, theirs, path)
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


@contextmanager
def named_read_errors(path: str, state: FileState | None = None) -> Iterator[None]:
    """Raise DataError CORRUPT_FILE for a damaged file.

    Raise INPUT_CHANGED_DURING_RUN for a missing one, and for one that is not in its ``state`` before or after
    it is read.
    """
    try:
        check_state(path, state)
        yield
        check_state(path, state)
    except FileNotFoundError as error:
        message = f"{path!r} was removed during the run; rerun when the input files are stable"
        raise DataError("INPUT_CHANGED_DURING_RUN", message) from error
    # Arrow's own words may be damaged, too.
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise_if_of_machine(error, path)
        check_state(path, state)
        raise DataError("CORRUPT_FILE", f"{path!r}: {error}; write the file again") from error


def check_state(path: str, state: FileState | None) -> None:
    """Raise DataError INPUT_CHANGED_DURING_RUN for a file in another state; None is any state."""
    if state is not None and FileState.of(path) != state:
        message = f"{path!r} was replaced during the run; rerun when the input files are stable"
        raise DataError("INPUT_CHANGED_DURING_RUN", message)


def check_text(array: pa.Array, column: str, path: str) -> None:
    """Raise DataError INVALID_TEXT for bytes that are not valid UTF-8."""
    try:
        texts = array.dictionary if pa.types.is_dictionary(array.type) else array
        texts.validate(full=pa.types.is_string(texts.type))
    except pa.ArrowInvalid as error:
        raise DataError("INVALID_TEXT", f"{path!r}: column {column!r} {NO_TEXT}") from error


def decode(
    path: str,
    source: str | pa.NativeFile,
    footer: pq.FileMetaData,
    groups: Sequence[int],
    columns: Iterable[str],
    coded: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield batches of columns in normal form, those in ``coded`` dictionary-coded; check page checksums."""
    options = {"coerce_int96_timestamp_unit": "us", "page_checksum_verification": True}
    coded = [name for name in coded if is_read_as_codes(footer, groups, name)]
    with pq.ParquetFile(source, metadata=footer, read_dictionary=coded, **options) as file:
        instants, n_rows = int96_columns(footer), 0
        for batch in file.iter_batches(
            BATCH_ROWS, row_groups=list(groups), columns=list(dict.fromkeys(columns)), use_threads=False
        ):
            n_rows += len(batch)
            names = batch.schema.names
            arrays = [
                batch[name]
                if name in coded and pa.types.is_dictionary(batch[name].type)
                else normalized(batch[name], name, path, name in instants)
                for name in names
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)
        wanted = sum(footer.row_group(group).num_rows for group in groups)
        # Arrow may take a column chunk with a damaged size or offset as an empty one.
        if n_rows != wanted:
            raise pa.ArrowInvalid(f"{n_rows} rows can be read of {wanted} in its footer")


def is_read_as_codes(footer: pq.FileMetaData, groups: Iterable[int], name: str) -> bool:
    """Return True if Arrow reads a text column as codes, and quickly so.

    All its encodings must allow it. Writers fall back to plain text once a dictionary is full; then codes
    take longer to read than text. Such columns are longer than a dictionary and a code for each row.
    """
    [index] = [n for n in range(footer.num_columns) if footer.schema.column(n).path == name]
    columns = [footer.row_group(group).column(index) for group in groups]
    n_bytes = sum(column.total_uncompressed_size for column in columns)
    of_codes = sum(DICTIONARY_BYTES + CODE_BYTES * column.num_values for column in columns)
    return n_bytes <= of_codes and all(WITH_CODES.issuperset(column.encodings) for column in columns)


def int96_columns(footer: pq.FileMetaData) -> set[str]:
    """Return the columns stored as INT96: points in time, although their type has no zone."""
    columns = map(footer.schema.column, range(len(footer.schema)))
    return {column.path for column in columns if column.physical_type == "INT96"}


def is_consistent(footer: pq.FileMetaData) -> bool:
    """Return True if the file, its row groups and columns agree in the row counts of a footer."""
    flat = [n for n in range(footer.num_columns) if not footer.schema.column(n).max_repetition_level]
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    return footer.num_rows == sum(group.num_rows for group in groups) and all(
        group.column(n).num_values == group.num_rows for group in groups for n in flat
    )


def normalized(column: pa.Array, name: str, path: str, is_instant: bool) -> pa.Array:
    """Return a column of a file in normal form.

    Raises DataError UNSUPPORTED_TYPE for unsigned integers of 2^63 or more, TIMESTAMP_TOO_FINE for parts of a
    microsecond.
    """
    try:
        return normalize_types(column, is_instant)
    except pa.ArrowInvalid as error:
        if column.type in UNSIGNED:
            fault = DataError("UNSUPPORTED_TYPE", f"{path!r}: column {name!r} {WIDE_UNSIGNED}")
        elif pa.types.is_timestamp(column.type):
            fault = DataError("TIMESTAMP_TOO_FINE", f"{path!r}: column {name!r} {TOO_FINE}")
        else:
            raise
        raise fault from error


def normalize_types(column: pa.Array, is_instant: bool = False) -> pa.Array:
    """Cast text to plain strings, timestamps to microseconds, in UTC if they have a zone, integers to signed.

    Raises pyarrow's error for values that change.
    """
    return column.cast(normalized_type(column.type, is_instant))


def normalized_type(kind: pa.DataType, is_instant: bool = False) -> pa.DataType:
    """Return the normal form of a type; timestamps that are points in time have a zone."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None and not is_instant else "UTC")
    return pa.string() if pa.types.is_large_string(kind) else UNSIGNED.get(kind, kind)


class PartWriter:
    """Writes tables of one schema below a folder, a file for each value of a partition column.

    File names are unique per attempt.
    """

    def __init__(self, folder: str, column: str) -> None:
        self.folder = Path(folder)
        self.column = column
        self.files: list[str] = []
        self.writers: dict[str, pq.ParquetWriter] = {}
        self.waiting: dict[str, list[pa.Table]] = {}
        self.opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            for value in self.waiting:
                self.flush(value)
        self.opened.close()

    def add(self, value: str, table: pa.Table) -> None:
        """Buffer these rows; write the buffer once it is large enough."""
        waiting = self.waiting.setdefault(value, [])
        waiting.append(table)
        if sum(table.num_rows for table in waiting) >= ROWS_PER_GROUP:
            self.flush(value)

    def flush(self, value: str) -> None:
        """Write the buffered rows of a value."""
        waiting = self.waiting[value]
        if not waiting:
            return
        if value not in self.writers:
            file = f"{self.column}={value}/part-{uuid.uuid4().hex}.parquet"
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            self.writers[value] = self.opened.enter_context(parquet_writer(path, waiting[0].schema))
            self.files.append(file)
        self.writers[value].write_table(pa.concat_tables(waiting), ROWS_PER_GROUP)
        waiting.clear()


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a writer that delta-encodes timestamps: they rarely repeat, so a dictionary only costs."""
    moments = [column.name for column in schema if pa.types.is_timestamp(column.type)]
    return pq.ParquetWriter(
        path,
        schema,
        use_dictionary=[name for name in schema.names if name not in moments],
        column_encoding=dict.fromkeys(moments, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
    )


def remove_other_files(folder: str, written: Collection[str]) -> None:
    """Remove files of failed task attempts: all but ``written``."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    for file in root.rglob("*.parquet"):
        if str(file.relative_to(root)) not in written:
            file.unlink()
