"""Read the first rows of a local table without Spark: Parquet, ORC, CSV or JSON, recognized by content."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from pydantic import ValidationError

from spark_eval.arrow.sound_footers import ENCRYPTED, EncryptedFile, read_footer
from spark_eval.config.inputs import Scalar, Source
from spark_eval.errors import ConfigError, DataError, raise_if_of_machine
from spark_eval.names import INTEGER
from spark_eval.runtime.local_files import local_path
from spark_eval.sources.listing import TABLE_FORMATS, list_plainly, partitions_of
from spark_eval.sources.schemas import unknown_type
from spark_eval.tables.listed import check_regular

SAMPLE_ROWS: Final = 4_000
# Number of bytes read from a text file.
SAMPLE_BYTES: Final = 1 << 20
# Types are inferred from the first block, so all of it is one block.
BLOCK_BYTES: Final = 2 * SAMPLE_BYTES
SEPARATORS: Final = ",\t;|"
# Words of a line that is divided by blanks.
FEWEST_FIELDS: Final = 3


@dataclass(frozen=True)
class TableSample:
    """Path, reading options and first rows of a table, including its partition columns."""

    path: str
    format: str
    options: Mapping[str, Scalar]
    rows: pa.Table


def sample_of(path: str, name: str) -> TableSample:
    """Return the first rows of a table.

    Raises ConfigError NEEDS_SPARK if only Spark can read the table, and DataError MISSING_INPUT, EMPTY_INPUT,
    CORRUPT_FILE, UNSUPPORTED_TYPE, MALFORMED_RECORD or AMBIGUOUS_COLUMN.
    """
    try:
        source = Source(path=path)
    except ValidationError as error:
        raise ConfigError("INVALID_CONFIG", f"--{name} {path!r}: {error.errors()[0]['msg']}") from None
    files = local_files_of(source, name)
    check_regular(files, name)
    file = next((file for file in files if Path(file).stat().st_size), None)
    if file is None:
        raise DataError("EMPTY_INPUT", f"{name}: no data file with a byte at {path!r}; run what writes it")
    try:
        kind, options, rows = first_rows(file, name)
    except EncryptedFile as error:
        raise needs_spark(name, path, "it is encrypted") from error
    except pa.ArrowNotImplementedError as error:
        raise unknown_type(name, [f"{file!r}: {error}"]) from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise_if_of_machine(error, file)
        raise DataError("CORRUPT_FILE", f"{name}: cannot read {file!r}: {error}; write it again") from error
    if len({*rows.column_names}) < len(rows.column_names):
        raise DataError("AMBIGUOUS_COLUMN", f"{name}: {file!r} has a column twice; rename one")
    for column in sorted(partitions_of(source, files) - {*rows.column_names}):
        rows = rows.append_column(column, folder_values(column, files, len(rows)))
    return TableSample(path, kind, options, as_read(rows))


def as_read(rows: pa.Table) -> pa.Table:
    """Return the rows with dictionary-encoded columns decoded, and unsigned integers as those that are read.

    Unsigned integers of 2^63 or more are no ids.
    """
    for index, field in enumerate(rows.schema):
        kind, column = field.type, rows.column(index)
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif kind == pa.uint64() and (pc.max(column).as_py() or 0) < 2**63:
            kind = pa.int64()
        if kind != field.type:
            rows = rows.set_column(index, field.name, column.cast(kind))
    return rows


def local_files_of(source: Source, name: str) -> list[str]:
    """Return the data files of a local path."""
    path = str(source.path)
    local = local_path(path)
    if local is not None:
        for marker, kind in TABLE_FORMATS.items():
            if (local / marker).exists():
                raise needs_spark(name, path, f"it is a table of {kind.title()}")
    walked = list_plainly(source)
    if walked is None:
        raise needs_spark(name, path, "only Spark can tell which files belong to it")
    if not walked and local is not None and not local.exists():
        raise DataError("MISSING_INPUT", f"{name}: {path!r} not found; --{name} is a file or a folder")
    return list(walked.values())


def needs_spark(name: str, path: str, why: str) -> ConfigError:
    """Return the error of a table that only Spark can read."""
    fix = "show init a plain file of it (Parquet, ORC, CSV, JSON), then set path, format and options"
    return ConfigError("NEEDS_SPARK", f"{name}: init does not read {path!r}: {why}; {fix}")


def first_rows(file: str, name: str) -> tuple[str, dict[str, Scalar], pa.Table]:
    """Return the format of a file, the options that Spark needs for it, and its first rows."""
    with Path(file).open("rb") as stream:
        start = stream.read(4)
    if start in (b"PAR1", ENCRYPTED):
        read_footer(file)
        batches = pq.ParquetFile(file).iter_batches(SAMPLE_ROWS, use_threads=False)
        empty = pq.read_schema(file).empty_table()
        return "parquet", {}, next((pa.Table.from_batches([batch]) for batch in batches), empty)
    if start[:3] == b"ORC":
        from pyarrow.orc import ORCFile

        orc = ORCFile(file)
        rows = pa.Table.from_batches([orc.read_stripe(0)]) if orc.nstripes else orc.schema.empty_table()
        return "orc", {}, rows.slice(0, SAMPLE_ROWS)
    lines = first_lines(file)
    if not lines:
        raise DataError("EMPTY_INPUT", f"{name}: no whole line at the start of {file!r}; write it again")
    is_json = lines[0].lstrip()[:1] == b"{"
    try:
        if is_json:
            block = pyarrow.json.ReadOptions(block_size=BLOCK_BYTES)
            return "json", {}, pyarrow.json.read_json(pa.BufferReader(b"".join(lines)), block)
        return "csv", *read_separated(lines, file, name)
    except ValueError as error:
        kind = "JSON of an object per line" if is_json else "CSV"
        raise DataError("MALFORMED_RECORD", f"{name}: {file!r} is not {kind}: {error}") from error


def first_lines(file: str) -> list[bytes]:
    """Return the first lines of a text file, which may be compressed."""
    with pa.input_stream(file, compression="detect") as stream:
        text = stream.read(SAMPLE_BYTES)
    lines: list[bytes] = text.splitlines(keepends=True)
    is_cut = len(text) == SAMPLE_BYTES
    return (lines[:-1] if is_cut else lines)[:SAMPLE_ROWS]


def read_separated(lines: list[bytes], file: str, name: str) -> tuple[dict[str, Scalar], pa.Table]:
    """Return rows of CSV with the most frequent separator of the first line, and the column names of Spark.

    The first line is the header unless one of its fields is a number, a timestamp or a boolean.
    """
    first = lines[0].decode("utf-8-sig", "replace")
    separator = max(SEPARATORS, key=first.count)
    if separator not in first and "::" in first:
        raise needs_spark(name, file, "its columns are divided by '::'")
    if separator not in first and len(first.split()) >= FEWEST_FIELDS:
        how = 'options: {sep: " ", header: false} has the columns _c0, _c1, ...'
        raise needs_spark(
            name, file, f"its columns are divided by blanks, as in runs and qrels of trec; {how}"
        )
    parse = pyarrow.csv.ParseOptions(delimiter=separator, invalid_row_handler=lambda _: "skip")
    bare = pyarrow.csv.ReadOptions(autogenerate_column_names=True)
    [fields] = pyarrow.csv.read_csv(pa.BufferReader(lines[0]), bare, parse).to_pylist()
    has_names = all(field is None or isinstance(field, str) for field in fields.values())
    names = spark_names([field or "" for field in fields.values()] if has_names else [""] * len(fields))
    read = pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(has_names), block_size=BLOCK_BYTES)
    rows = pyarrow.csv.read_csv(pa.BufferReader(b"".join(lines)), read, parse)
    options: dict[str, Scalar] = {"header": has_names}
    return options if separator == "," else options | {"sep": separator}, rows


def spark_names(header: list[str]) -> list[str]:
    """Return the column names that Spark gives to CSV: with their index if a name is empty or repeated."""
    count = Counter(map(str.lower, header))
    return [
        f"{field or '_c'}{index}" if not field or count[field.lower()] > 1 else field
        for index, field in enumerate(header)
    ]


def folder_values(column: str, files: Collection[str], n_rows: int) -> pa.Array:
    """Return the first value of a partition column, repeated for each row."""
    parts = (folder.partition("=") for file in files for folder in file.split("/")[:-1])
    values = [unquote(value) for name, equals, value in parts if equals and unquote(name) == column]
    first: Any = int(values[0]) if all(map(INTEGER.fullmatch, values)) else values[0]
    return pa.array([first] * n_rows, pa.int64() if isinstance(first, int) else pa.string())
