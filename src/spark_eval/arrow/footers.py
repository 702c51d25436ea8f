"""Footers of Parquet files: find the files that executors read as Spark does; Spark reads all others.

Files that executors read are listed here by physical and logical types, codecs, encodings, and the release of
Spark that wrote them. Tests show that Spark reads all of these alike. Anything else is not listed.
"""

import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.files import UNSIGNED, int96_columns, is_consistent, normalized_type
from spark_eval.arrow.sound_footers import EncryptedFile, read_footer
from spark_eval.errors import DataError, raise_if_of_machine

CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
ENCODINGS: Final = frozenset(
    {
        *("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"),
        *("DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    }
)
# Physical and logical types, and the Arrow type to read them with.
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
UNSIGNED_WIDTHS: Final = {kind.bit_width: signed for kind, signed in UNSIGNED.items()}
# Before 23, Arrow misreads timestamps before 1970 that are stored as INT96, Spark's default.
READS_INT96: Final = int(pa.__version__.partition(".")[0]) >= 23
NANOSECONDS: Final = "nanoseconds"
# Largest precision of a decimal in Spark.
MOST_DIGITS: Final = 38
# Keys for the writer of a file, and for calendars before 1582 and clocks before 1900. Spark compares releases
# as text.
SPARK_VERSION: Final = b"org.apache.spark.version"
MARKS: Final = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})
FIRST_MODERN: Final = b"3.1.0"
# First bytes of Hadoop's checksum files, and the key of Spark's schema in a footer.
CHECKSUMS_BEGIN: Final = b"crc\0"
# Bytes of a file that are compared with its checksums at once.
READ_AT_ONCE: Final = 1 << 20
SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"


def is_plain(path: str, wanted: pa.Schema) -> bool:
    """Return True if executors read these columns of a file, with these types, as Spark does.

    Raises DataError CORRUPT_FILE like ``check_sums``.
    """
    return is_read_alike(path, wanted.names) and has_types(read_footer(path), wanted)


def has_types(footer: pq.FileMetaData, wanted: pa.Schema) -> bool:
    """Return True if the flat columns of a file have these types as executors read them."""
    schema, indices, instants = footer.schema.to_arrow_schema(), flat_columns(footer), int96_columns(footer)
    return all(
        readable_type(footer.schema.column(indices[column.name])) == column.type
        and normalized_type(schema.field(column.name).type, column.name in instants) == column.type
        for column in wanted
    )


def is_read_alike(path: str, names: Iterable[str]) -> bool:
    """Return True if Arrow reads these flat columns of a file as Spark does, if it has their types.

    Raises DataError CORRUPT_FILE like ``check_sums``.
    """
    try:
        is_alike = has_plain_columns(read_footer(path), names)
    except (OSError, EncryptedFile, pa.ArrowException) as error:
        raise_if_of_machine(error, path)
        return False
    if is_alike:
        check_sums(Path(path))
    return is_alike


def has_plain_columns(footer: pq.FileMetaData, names: Iterable[str]) -> bool:
    """Return True if these are flat columns in encodings that Arrow and Spark read alike."""
    there = [name.lower() for name in footer.schema.to_arrow_schema().names]
    indices = flat_columns(footer)
    return (
        uses_proleptic_calendar(footer)
        and is_consistent(footer)
        and all(
            there.count(name.lower()) == 1
            and name in indices
            and has_supported_encoding(footer, indices[name])
            for name in names
        )
    )


def flat_columns(footer: pq.FileMetaData) -> dict[str, int]:
    """Return the index of each column that is neither repeated nor nested."""
    columns = enumerate(map(footer.schema.column, range(len(footer.schema))))
    return {
        column.path: index
        for index, column in columns
        if not column.max_repetition_level and column.max_definition_level <= 1
    }


def readable_type(column: Any) -> pa.DataType | None:
    """Return the type to read a column with; None for a type that is not listed."""
    logical = json.loads(column.logical_type.to_json())
    match column.physical_type, logical["Type"]:
        case "INT32" | "INT64", "Int":
            return (INTEGERS if logical["isSigned"] else UNSIGNED_WIDTHS).get(logical["bitWidth"])
        case "INT64", "Timestamp":
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


def has_supported_encoding(footer: pq.FileMetaData, index: int) -> bool:
    """Return True if a column is in this file, with a listed codec and listed encodings."""
    chunks = [footer.row_group(number).column(index) for number in range(footer.num_row_groups)]
    return all(
        chunk.compression in CODECS and ENCODINGS.issuperset(chunk.encodings) and not chunk.file_path
        for chunk in chunks
    )


def uses_proleptic_calendar(footer: pq.FileMetaData) -> bool:
    """Return True if dates and timestamps use today's calendar; Spark takes other files as legacy."""
    keys = footer.metadata or {}
    return MARKS.isdisjoint(keys) and keys.get(SPARK_VERSION, FIRST_MODERN) >= FIRST_MODERN


def check_sums(path: Path) -> None:
    """Raise DataError CORRUPT_FILE for a file that is at odds with its checksums of Hadoop's.

    They are compared whenever they are there, as Hadoop does. The times of both files tell nothing: damage
    changes no time, and a copy may have any. Only who wrote the file knows that its checksums are stale.
    """
    sums = path.with_name(f".{path.name}.crc")
    if not sums.exists():
        return
    if not sums_match(path, sums):
        age = ", which is older" if sums.stat().st_mtime_ns < path.stat().st_mtime_ns else ""
        message = f"{str(path)!r} does not have the checksums in {sums.name!r}{age}"
        fix = f"write the file again, or remove {sums.name!r} if it is of an earlier file"
        raise DataError("CORRUPT_FILE", f"{message}; {fix}")


def sums_match(path: Path, sums: Path) -> bool:
    """Return True if these are Hadoop's checksums of a file: a CRC-32 per chunk of fixed size."""
    written = sums.read_bytes()
    size = int.from_bytes(written[4:8], "big")
    if written[:4] != CHECKSUMS_BEGIN or not size:
        return False
    sums_of_chunks: list[int] = []
    with path.open("rb") as file:
        # Many chunks at once: reading each by itself takes longer than its checksum.
        while block := memoryview(file.read(max(1, READ_AT_ONCE // size) * size)):
            sums_of_chunks += [
                zlib.crc32(block[start : start + size]) for start in range(0, len(block), size)
            ]
    return np.array(sums_of_chunks, ">u4").tobytes() == written[8:]


def columns_of_spark(footer: pq.FileMetaData) -> list[str] | None:
    """Return the names of columns that Spark, as the writer, noted in the footer; None of other writers.

    Raises ValueError if the note is damaged.
    """
    written = (footer.metadata or {}).get(SPARK_SCHEMA)
    if written is None:
        return None
    try:
        names = [field["name"] for field in json.loads(written)["fields"]]
    except (ValueError, TypeError, LookupError, RecursionError):
        names = [None]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"its footer's {SPARK_SCHEMA.decode()} is no schema")
    return names


def timestamp_kinds(footer: pq.FileMetaData) -> dict[str, tuple[bool, bool]]:
    """Return for each timestamp column whether it has a zone, and whether it counts nanoseconds."""
    moments = {}
    for column in map(footer.schema.column, range(len(footer.schema))):
        logical = json.loads(column.logical_type.to_json())
        if logical["Type"] == "Timestamp":
            moments[column.path] = (logical["isAdjustedToUTC"], logical["timeUnit"] == NANOSECONDS)
        elif column.physical_type == "INT96":
            moments[column.path] = (True, False)
    return moments


def nanosecond_columns(
    moments: Iterable[Mapping[str, tuple[bool, bool]]], columns: Collection[str]
) -> dict[str, bool]:
    """Return the columns in nanoseconds in every file -> True if zoned; empty if nested fields are, too.

    ``moments`` are the ``timestamp_kinds`` of each file, ``columns`` the names of the columns of all files.
    """
    kinds = [(column, kind) for of_file in moments for column, kind in of_file.items()]
    fine = {column: has_zone for column, (has_zone, is_fine) in kinds if is_fine}
    others = {column for column, (_, is_fine) in kinds if not is_fine}
    return {} if fine.keys() & others or fine.keys() - set(columns) else fine


def unsigned_columns(footer: pq.FileMetaData) -> dict[str, bool]:
    """Return for each column whether its integers are unsigned, of 64 bits; Spark reads them as decimals."""
    return {field.name: field.type == pa.uint64() for field in footer.schema.to_arrow_schema()}


def unsigned_in_all(files: Mapping[str, Mapping[str, bool]], source: str) -> list[str]:
    """Return the columns of unsigned integers of 64 bits, from ``unsigned_columns`` by file.

    Raises DataError SCHEMA_DRIFT if other files have another type: Spark would misread some.
    """
    unsigned: dict[str, str] = {}
    for file, columns in files.items():
        unsigned |= {name: file for name, is_unsigned in columns.items() if is_unsigned}
    for file, columns in files.items():
        for name in unsigned:
            if columns.get(name) is False:
                message = f"{source}: column {name!r} is unsigned in {unsigned[name]!r} and not in {file!r}"
                raise DataError("SCHEMA_DRIFT", f"{message}; write all with one schema")
    return list(unsigned)
