"""Read footers of Parquet files whose column chunks Arrow can look at.

Arrow judges a column chunk when ``row_group(n).column(i)`` and its properties are read. There it throws C++
exceptions that Python cannot catch: the process ends. So the bytes of a footer (Thrift's compact protocol)
are checked first.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

# Cached footers; each is read by checks, by the choice of the reader, for row counts, and by parts.
MOST_KEPT: Final = 1024
# End of a file with an encrypted footer, and length of the signature of a readable one.
ENCRYPTED: Final = b"PARE"
SIGNATURE_BYTES: Final = 28
# Bytes after a footer: its length and the mark of the format.
END_BYTES: Final = 8
# Types of values in the protocol. The type of a boolean in a struct is its value.
BOOLEANS: Final = (1, 2)
SHORT, INTEGER, LONG_INTEGER = INTEGERS = (4, 5, 6)
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12
WIDTHS: Final[Mapping[int, int]] = {1: 0, 2: 0, 3: 1, 7: 8}
# Most of a byte if no other byte of its number follows, and of a list's length in its first byte.
MORE: Final = 0x7F
LONG: Final = 15
# Texts up to this length are passed over fast.
MOST_SHORT: Final = 40
# Numbers of the fields of a footer, a row group, a column chunk, its metadata and its size statistics.
ROW_GROUPS, ENCRYPTED_COLUMNS = 4, 8
COLUMNS: Final = 1
METADATA, ENCRYPTION = 3, 8
TYPE, CODEC, RAW_BYTES, BYTES, SIZES = 1, 4, 6, 7, 16
TEXT_BYTES, REPETITIONS, DEFINITIONS = 1, 2, 3


class Part(NamedTuple):
    """Struct that is looked into: types of its fields, in the order of their numbers, and structs in it."""

    types: tuple[int, ...]
    parts: Mapping[int, "Part"]


# As in parquet.thrift of Apache Parquet.
SIZES_PART: Final = Part((LONG_INTEGER, LIST, LIST), {})
METADATA_PART: Final = Part(
    (
        *(INTEGER, LIST, LIST, INTEGER, LONG_INTEGER, LONG_INTEGER, LONG_INTEGER, LIST),
        *(LONG_INTEGER, LONG_INTEGER, LONG_INTEGER, STRUCT, LIST, LONG_INTEGER, INTEGER, STRUCT, STRUCT),
    ),
    {SIZES: SIZES_PART},
)
CHUNK: Final = Part(
    (BINARY, LONG_INTEGER, STRUCT, LONG_INTEGER, INTEGER, LONG_INTEGER, INTEGER, STRUCT, BINARY),
    {METADATA: METADATA_PART},
)
GROUP: Final = Part(
    (LIST, LONG_INTEGER, LONG_INTEGER, LIST, LONG_INTEGER, LONG_INTEGER, SHORT), {COLUMNS: CHUNK}
)
FOOTER: Final = Part(
    (INTEGER, LIST, LONG_INTEGER, LIST, LIST, BINARY, LIST, STRUCT, BINARY), {ROW_GROUPS: GROUP}
)
# Physical types in the order of their numbers, and codecs as they are written.
TYPES: Final = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
CODES: Final = range(0, 16, 2)


class EncryptedFile(ValueError):
    """File that needs decryption keys; Arrow would abort the process on reading an encrypted column."""


def read_footer(path: str) -> pq.FileMetaData:
    """Return the footer of a file; raise EncryptedFile, or Arrow's error for a damaged file."""
    status = Path(path).stat()
    return cached_footer(path, status.st_size, status.st_mtime_ns)


@lru_cache(MOST_KEPT)
def cached_footer(path: str, n_bytes: int, _: int) -> pq.FileMetaData:
    """Read the footer of a file of this size and modification time."""

    def last(length: int) -> bytes:
        with Path(path).open("rb") as file:
            file.seek(-min(length, n_bytes), os.SEEK_END)
            return file.read(length)

    return checked_footer(path, path, last)


def footer_in(path: str, content: pa.Buffer) -> pq.FileMetaData:
    """Return the footer at the end of these bytes of a file; raise as ``read_footer`` does."""
    return checked_footer(
        path,
        pa.BufferReader(content),
        lambda length: content.slice(max(content.size - length, 0)).to_pybytes(),
    )


def footer_bytes(end: bytes) -> int:
    """Return the number of bytes of a file's footer with its length and mark, from the last 8 bytes."""
    return int.from_bytes(end[-END_BYTES:-4], "little") + END_BYTES


def checked_footer(path: str, source: str | pa.NativeFile, last: Callable[[int], bytes]) -> pq.FileMetaData:
    """Return the footer of a file after all checks; ``last`` returns this number of its last bytes."""
    end = last(END_BYTES)
    if end[4:] == ENCRYPTED:
        raise EncryptedFile(f"{path} has an encrypted footer")
    try:
        footer = pq.read_metadata(source)
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the footer is damaged: {error}") from error
    n_bytes = footer_bytes(end)
    n_left = n_bytes - END_BYTES - footer.serialized_size
    if n_left == SIGNATURE_BYTES:
        raise EncryptedFile(f"{path} has encrypted columns")
    if n_left:
        raise pa.ArrowInvalid(f"its footer ends {n_left} bytes too early")
    # Of a file in another format the length may be anything: Arrow has read this one.
    check_chunks(footer, last(n_bytes)[:-END_BYTES])
    return footer


def check_chunks(footer: pq.FileMetaData, data: bytes) -> None:
    """Raise pyarrow's ArrowInvalid for a column chunk that Arrow would end the process for, or misread."""
    columns = [SchemaColumn.of(footer.schema.column(number)) for number in range(footer.num_columns)]
    try:
        content, _ = fields(data, 0, FOOTER)
        if ENCRYPTED_COLUMNS in content:
            raise pa.ArrowInvalid("its footer is damaged: it names a cipher, but is not signed")
        for group in content[ROW_GROUPS]:
            check_group(data, group[COLUMNS], columns)
    except (LookupError, RecursionError) as error:
        raise pa.ArrowInvalid("its footer is damaged: it is cut off, or lacks a field") from error


def check_group(data: bytes, chunks: Sequence[Mapping[int, Any]], columns: "Sequence[SchemaColumn]") -> None:
    """Raise pyarrow's ArrowInvalid for chunks of a row group that are not of its columns."""
    if len(chunks) != len(columns):
        raise pa.ArrowInvalid(f"its footer has {len(chunks)} columns in a row group, not {len(columns)}")
    for chunk, column in zip(chunks, columns, strict=True):
        if not is_sound(data, chunk, column):
            raise pa.ArrowInvalid(f"its footer is damaged: column {column.path!r} is not as in its schema")


class SchemaColumn(NamedTuple):
    """Column of a schema: the number of its physical type, and the numbers of its levels, with 0."""

    path: str
    kind: int
    n_repetitions: int
    n_definitions: int

    @classmethod
    def of(cls, column: Any) -> Self:
        """Return a column of a footer's schema."""
        levels = (column.max_repetition_level + 1, column.max_definition_level + 1)
        return cls(column.path, TYPES.index(column.physical_type), *levels)


def is_sound(data: bytes, chunk: Mapping[int, Any], column: SchemaColumn) -> bool:
    """Return True if a chunk is readable, of a known codec, and of its column's type and levels."""
    if METADATA not in chunk or ENCRYPTION in chunk:
        return False
    metadata = chunk[METADATA]
    # Numbers are doubled; odd ones are negative.
    if data[metadata[TYPE]] != 2 * column.kind or data[metadata[CODEC]] not in CODES:
        return False
    # With the codec lost, packed bytes would be read as values.
    if not data[metadata[CODEC]] and varint(data, metadata[RAW_BYTES])[0] != varint(data, metadata[BYTES])[0]:
        return False
    sizes = metadata.get(SIZES, {})
    return (TEXT_BYTES not in sizes or TYPES[column.kind] == "BYTE_ARRAY") and all(
        list_at(data, sizes[number])[0] in (0, wanted)
        for number, wanted in ((REPETITIONS, column.n_repetitions), (DEFINITIONS, column.n_definitions))
        if number in sizes
    )


def fields(data: bytes, at: int, part: Part) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number, and its end.

    Structs that are looked into, and lists of them, have their own fields; others have the index of the value
    is returned. Raises LookupError for a field of another type, or twice.
    """
    by_number: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        number, at = field_at(data, at, number)
        kind = head & LONG
        # Larger numbers belong to later releases of the format.
        if (
            number in by_number
            or number < 1
            or (number <= len(part.types) and kind != part.types[number - 1])
        ):
            raise LookupError
        if number not in part.parts:
            by_number[number] = at
            at = end_of(data, at, kind)
        elif kind == STRUCT:
            by_number[number], at = fields(data, at, part.parts[number])
        else:
            n_structs, kind, at = list_at(data, at)
            if kind != STRUCT:
                raise LookupError
            by_number[number] = []
            for _ in range(n_structs):
                one, at = fields(data, at, part.parts[number])
                by_number[number].append(one)
    return by_number, at + 1


def field_at(data: bytes, at: int, before: int) -> tuple[int, int]:
    """Return the number of a field, written as the step from the one before, and the index of its value."""
    if step := data[at] >> 4:
        return before + step, at + 1
    number, at = varint(data, at + 1)
    # The last bit is the sign.
    return (number >> 1) ^ -(number & 1), at


def end_of(data: bytes, at: int, kind: int) -> int:
    """Return the index after a value."""
    if kind in INTEGERS:
        while data[at] > MORE:
            at += 1
        return at + 1
    if kind == BINARY:
        length, at = varint(data, at)
        return at + length
    if kind == STRUCT:
        if (match := flat_struct().match(data, at)) is not None:
            return match.end()
        while head := data[at]:
            at = end_of(data, field_at(data, at, 0)[1], head & LONG)
        return at + 1
    if kind == LIST:
        n_values, kind, at = list_at(data, at)
        # In a list a boolean has a byte.
        for _ in range(n_values):
            at = at + 1 if kind in BOOLEANS else end_of(data, at, kind)
        return at
    return at + WIDTHS[kind]


def list_at(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the number of values of a list, their type, and the index of the first."""
    head = data[at]
    length, at = (head >> 4, at + 1) if head >> 4 < LONG else varint(data, at + 1)
    if length > len(data) - at:
        raise IndexError
    return length, head & LONG, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, written in seven bits per byte, lowest first, and the index after it."""
    number = shift = 0
    while (byte := data[at]) > MORE:
        number |= (byte & MORE) << shift
        shift += 7
        at += 1
    return number | byte << shift, at + 1


@cache
def flat_struct() -> re.Pattern[bytes]:
    """Return the pattern of most structs without structs in them: a footer has many, and Python takes long.

    Their texts are short, and their lists are of few integers.
    """

    def heads(*kinds: int) -> bytes:
        """Return the first byte of a field of one of these types."""
        return b"[%b]" % b"".join(b"\\x%02x" % (16 * step + kind) for kind in kinds for step in range(1, 16))

    integer = rb"[\x80-\xff]*+[\x00-\x7f]"
    texts = b"|".join(b"\\x%02x.{%d}" % (n, n) for n in range(MOST_SHORT))
    lists = b"|".join(
        b"\\x%02x(?:%b){%d}" % (16 * n + kind, integer, n) for kind in INTEGERS for n in range(6)
    )
    fields = (
        heads(1, 2),
        heads(*INTEGERS) + integer,
        heads(BINARY) + b"(?:" + texts + b")",
        heads(LIST) + b"(?:" + lists + b")",
    )
    return re.compile(b"(?:%b)*+\\x00" % b"|".join(fields), re.DOTALL)
