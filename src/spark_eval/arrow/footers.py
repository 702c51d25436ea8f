"""Footers of Parquet files: which files the workers read as Spark does. All others are left to Spark.

What the workers read is listed here: physical and logical types, codecs, encodings, releases of Spark that
wrote the file. Tests show that Spark reads all that is listed alike. Whatever is new or odd is not listed.
"""

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.files import form_of, int96_of, is_consistent

CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
ENCODINGS: Final = frozenset(
    {
        *("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"),
        *("DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    }
)
# Physical types, and the logical ones that they are read with.
PHYSICAL_TYPES: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("BOOLEAN", "None"): pa.bool_(),
    ("INT32", "None"): pa.int32(),
    ("INT64", "None"): pa.int64(),
    ("FLOAT", "None"): pa.float32(),
    ("DOUBLE", "None"): pa.float64(),
    ("INT32", "Date"): pa.date32(),
    ("BYTE_ARRAY", "String"): pa.string(),
}
INTEGERS: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
# Before 23, Arrow reads a moment before 1970 stored as INT96, which is Spark's default, as another one.
READS_INT96: Final = int(pa.__version__.partition(".")[0]) >= 23
NANOSECONDS: Final = "nanoseconds"
# Of a decimal of Spark's.
MOST_DIGITS: Final = 38
# Who wrote a file, and marks of calendars and clocks of before 1582 and 1900.
# Spark compares releases as text.
SPARK_VERSION: Final = b"org.apache.spark.version"
MARKS: Final = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})
FIRST_MODERN: Final = b"3.1.0"
# Footers that are looked at by the checks, by the choice of who reads, and for their numbers of rows.
MOST_KEPT: Final = 1024
# What stands at the end of a file with an encrypted footer, and how long the signature of a readable one is.
ENCRYPTED: Final = b"PARE"
SIGNATURE_BYTES: Final = 28
# What checksums of Hadoop's begin with, and how much later than these a file of a busy machine is closed.
CHECKSUMS_BEGIN: Final = b"crc\0"
MOMENT_NS: Final = 10_000_000_000


class EncryptedFile(ValueError):
    """A file that takes keys to read; Arrow would end the process where it looks at such a column."""


def read_footer(path: str) -> pq.FileMetaData:
    """Return the footer of a file; raises EncryptedFile, and what Arrow raises for a damaged one."""
    status = Path(path).stat()
    return footer_of(path, status.st_size, status.st_mtime_ns)


@lru_cache(MOST_KEPT)
def footer_of(path: str, n_bytes: int, _: int) -> pq.FileMetaData:
    """Read the footer of a file that has so many bytes and was changed at this moment."""
    with Path(path).open("rb") as file:
        file.seek(-min(8, n_bytes), os.SEEK_END)
        end = file.read(8)
    if end[4:] == ENCRYPTED:
        raise EncryptedFile(f"{path} has an encrypted footer")
    footer = pq.read_metadata(path)
    if int.from_bytes(end[:4], "little") == footer.serialized_size + SIGNATURE_BYTES:
        raise EncryptedFile(f"{path} has encrypted columns")
    return footer


def is_plain(path: str, wanted: pa.Schema) -> bool:
    """Return whether the workers read these columns of a file, with these types, as Spark does."""
    try:
        footer = read_footer(path)
        schema = footer.schema.to_arrow_schema()
    except (OSError, EncryptedFile, pa.ArrowException):
        return False
    places = places_of(footer)
    names, instants = [name.lower() for name in schema.names], int96_of(footer)
    return (
        has_fitting_checksums(Path(path))
        and counts_as_today(footer)
        and is_consistent(footer)
        and all(
            names.count(column.name.lower()) == 1
            and column.name in places
            and type_of(footer.schema.column(places[column.name])) == column.type
            and form_of(schema.field(column.name).type, column.name in instants) == column.type
            and is_packed_plainly(footer, places[column.name])
            for column in wanted
        )
    )


def places_of(footer: pq.FileMetaData) -> dict[str, int]:
    """Return the place of each column that is neither repeated nor in another one."""
    columns = enumerate(map(footer.schema.column, range(len(footer.schema))))
    return {
        column.path: place
        for place, column in columns
        if not column.max_repetition_level and column.max_definition_level <= 1
    }


def type_of(column: Any) -> pa.DataType | None:
    """Return the type with which the workers read a column; None for a type that is not listed."""
    logical = json.loads(column.logical_type.to_json())
    match column.physical_type, logical["Type"]:
        case "INT32" | "INT64", "Int" if logical["isSigned"]:
            return INTEGERS.get(logical["bitWidth"])
        case "INT64", "Timestamp" if logical["timeUnit"] != NANOSECONDS:
            return pa.timestamp("us", "UTC" if logical["isAdjustedToUTC"] else None)
        case "INT96", "None":
            return pa.timestamp("us", "UTC") if READS_INT96 else None
        case stored:
            return PHYSICAL_TYPES.get(stored)


def odd_columns(paths: Iterable[str]) -> dict[str, str]:
    """Return the columns of the first file that has some of types that Spark lacks, and these types."""
    for path in paths:
        try:
            footer = read_footer(path)
        except (OSError, EncryptedFile, pa.ArrowException):
            continue
        columns = map(footer.schema.column, range(len(footer.schema)))
        if odd := {column.path: kind for column in columns if (kind := odd_type(column)) is not None}:
            return odd
    return {}


def odd_type(column: Any) -> str | None:
    """Return the type of a column of a footer, if Spark lacks it."""
    logical = json.loads(column.logical_type.to_json())
    match logical["Type"]:
        case "Decimal" if logical["precision"] > MOST_DIGITS:
            return f"decimal of {logical['precision']} digits"
        case "Time":
            return f"time of {logical['timeUnit']}"
        case "Float16":
            return "float of 16 bits"
    return None


def is_packed_plainly(footer: pq.FileMetaData, place: int) -> bool:
    """Return whether a column is in this very file, by a listed codec and listed encodings."""
    chunks = [footer.row_group(number).column(place) for number in range(footer.num_row_groups)]
    return all(
        chunk.compression in CODECS and ENCODINGS.issuperset(chunk.encodings) and not chunk.file_path
        for chunk in chunks
    )


def counts_as_today(footer: pq.FileMetaData) -> bool:
    """Return whether days and moments are counted as they are today; Spark takes others for legacy."""
    keys = footer.metadata or {}
    return MARKS.isdisjoint(keys) and keys.get(SPARK_VERSION, FIRST_MODERN) >= FIRST_MODERN


def has_fitting_checksums(path: Path) -> bool:
    """Return whether the checksums that Hadoop may have left beside a file are of that file.

    Older ones are of another file. But Hadoop may close a file a moment after its checksums: such a pair is
    compared. Only Spark looks at these checksums, so the workers leave a doubtful file to it.
    """
    checksums = path.with_name(f".{path.name}.crc")
    if not checksums.exists():
        return True
    older = path.stat().st_mtime_ns - checksums.stat().st_mtime_ns
    return older <= 0 or (older < MOMENT_NS and fits(path, checksums.read_bytes()))


def fits(path: Path, checksums: bytes) -> bool:
    """Return whether these are the checksums of a file: a CRC-32 of every so many bytes."""
    size = int.from_bytes(checksums[4:8], "big")
    if checksums[:4] != CHECKSUMS_BEGIN or not size:
        return False
    with path.open("rb") as file:
        chunks = iter(lambda: file.read(size), b"")
        return b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks) == checksums[8:]


def moments_of(footer: pq.FileMetaData) -> dict[str, tuple[bool, bool]]:
    """Return of each column of moments whether it has a zone, and whether it counts nanoseconds."""
    moments = {}
    for column in map(footer.schema.column, range(len(footer.schema))):
        logical = json.loads(column.logical_type.to_json())
        if logical["Type"] == "Timestamp":
            moments[column.path] = (logical["isAdjustedToUTC"], logical["timeUnit"] == NANOSECONDS)
        elif column.physical_type == "INT96":
            moments[column.path] = (True, False)
    return moments
