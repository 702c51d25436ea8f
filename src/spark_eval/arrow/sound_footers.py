"""Read footers of Parquet files whose column chunks Arrow can look at.

Arrow judges a column chunk when ``row_group(n).column(i)`` and its properties are read. There it throws C++
exceptions that Python cannot catch: the process ends. So the bytes of a footer are checked first, as Arrow
writes a footer that it has read (Thrift's compact protocol): lengths and types of fields are sound, and only
values may be wrong.
"""

import os
import re
from collections.abc import Mapping
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
# Types of values in the protocol. Of a boolean in a struct, the type is the value.
INTEGERS: Final = (4, 5, 6)
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12
WIDTHS: Final[Mapping[int, int]] = {1: 0, 2: 0, 3: 1, 7: 8}
# Most of a byte if no other byte of its number follows, and of a list's length in its first byte.
MORE: Final = 0x7F
LONG: Final = 15
# Texts up to this length are passed over fast.
MOST_SHORT: Final = 40
# Numbers of fields: of a column chunk, of its metadata, and of its statistics of sizes.
METADATA, ENCRYPTION = 3, 8
TYPE, CODEC, RAW_BYTES, BYTES, SIZES = 1, 4, 6, 7, 16
TEXT_BYTES, REPETITIONS, DEFINITIONS = 1, 2, 3
# Fields that are looked into: row groups, their columns, the metadata of each, and statistics of sizes.
ROW_GROUPS: Final = 4
COLUMNS: Final = 1
Parts = Mapping[int, "Parts"]
PARTS: Final[Parts] = {ROW_GROUPS: {COLUMNS: {METADATA: {SIZES: {}}}}}
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
    with Path(path).open("rb") as file:
        file.seek(-min(8, n_bytes), os.SEEK_END)
        end = file.read(8)
    if end[4:] == ENCRYPTED:
        raise EncryptedFile(f"{path} has an encrypted footer")
    try:
        footer = pq.read_metadata(path)
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the footer is damaged: {error}") from error
    n_left = int.from_bytes(end[:4], "little") - footer.serialized_size
    if n_left == SIGNATURE_BYTES:
        raise EncryptedFile(f"{path} has encrypted columns")
    if n_left:
        raise pa.ArrowInvalid(f"its footer ends {n_left} bytes too early")
    check_chunks(footer)
    return footer


def check_chunks(footer: pq.FileMetaData) -> None:
    """Raise pyarrow's ArrowInvalid for a column chunk that Arrow would end the process for, or misread."""
    sink = pa.BufferOutputStream()
    footer.write_metadata_file(sink)
    data = sink.getvalue().to_pybytes()
    columns = [SchemaColumn.of(footer.schema.column(number)) for number in range(footer.num_columns)]
    # The first four bytes name the format.
    content, _ = fields(data, 4, PARTS)
    for group in content[ROW_GROUPS]:
        chunks = group[COLUMNS]
        if len(chunks) != len(columns):
            raise pa.ArrowInvalid(f"its footer has {len(chunks)} columns in a row group, not {len(columns)}")
        for chunk, column in zip(chunks, columns, strict=True):
            if not is_sound(data, chunk, column):
                raise pa.ArrowInvalid(
                    f"its footer is damaged: column {column.path!r} is not as in its schema"
                )


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


def fields(data: bytes, at: int, parts: Parts) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number, and its end.

    Those in ``parts``, structs or lists of them, have their own fields; of others the index of the value is
    returned.
    """
    by_number: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        number += head >> 4
        if number not in parts:
            by_number[number] = at
            at = end_of(data, at, head & LONG)
        elif head & LONG == STRUCT:
            by_number[number], at = fields(data, at, parts[number])
        else:
            n_structs, _, at = list_at(data, at)
            by_number[number] = []
            for _ in range(n_structs):
                one, at = fields(data, at, parts[number])
                by_number[number].append(one)
    return by_number, at + 1


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
            at = end_of(data, at + 1, head & LONG)
        return at + 1
    if kind == LIST:
        n_values, kind, at = list_at(data, at)
        for _ in range(n_values):
            at = end_of(data, at, kind)
        return at
    return at + WIDTHS[kind]


def list_at(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the number of values of a list, their type, and the index of the first."""
    head = data[at]
    length, at = (head >> 4, at + 1) if head >> 4 < LONG else varint(data, at + 1)
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
