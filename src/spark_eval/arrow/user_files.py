"""Files of ``per_user``: their names have the bucket, so that runs are compared without a shuffle."""

import math
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from spark_eval.arrow.files import named_read_errors
from spark_eval.arrow.sound_footers import read_footer
from spark_eval.errors import DataError
from spark_eval.schema import MODEL

FILE_FORM: Final = re.compile(r"part-(?P<bucket>\d+)-of-(?P<of>\d+)-[0-9a-f]{32}\.parquet")


def open_dataset(path: str) -> ds.Dataset:
    """Open a local table, with its models as text."""
    by_model = ds.partitioning(pa.schema([(MODEL, pa.string())]), flavor="hive")
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    form = ds.ParquetFileFormat(default_fragment_scan_options=checked)
    return ds.dataset(path, partitioning=by_model, format=form)


def read_dataset(dataset: ds.Dataset) -> pa.Table:
    """Read all files of an opened table; raise DataError as ``read_columns`` does.

    Arrow's own scanner waits for ever where no thread can start, deaf to signals.
    """
    schema = dataset.schema
    return pa.concat_tables(
        [schema.empty_table(), *(read_fragment(one, schema) for one in dataset.get_fragments())]
    )


def read_fragment(fragment: ds.Fragment, schema: pa.Schema) -> pa.Table:
    """Read a file of an opened table; columns that it lacks are keys of its folder, or null."""
    with named_read_errors(fragment.path):
        there = read_footer(fragment.path).schema.to_arrow_schema().names
    rows = read_columns(fragment.path, [name for name in schema.names if name in there])
    keys = ds.get_partition_keys(fragment.partition_expression)
    columns = [
        rows[field.name].cast(field.type)
        if field.name in there
        else pa.repeat(pa.scalar(keys.get(field.name), field.type), len(rows))
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def check_no_nan(rows: pa.Table | pa.RecordBatch, path: str) -> None:
    """Raise DataError INCOMPLETE_RUN for NaN in a published file, where undefined values are null."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if pa.types.is_floating(column.type) and has_nan(column):
            raise DataError("INCOMPLETE_RUN", f"{path!r}: {nan_in(name)}")


def has_nan(column: pa.ChunkedArray | pa.Array) -> bool:
    """Return True if a column holds NaN; most often its sum tells that it does not."""
    total = pc.sum(column).as_py()
    return total is not None and math.isnan(total) and bool(pc.any(pc.is_nan(column)).as_py())


def nan_in(column: str) -> str:
    """Say that a column holds NaN, and what to do about it."""
    return f"column {column!r} holds NaN, which no run publishes; make the run again, with --replace"


@dataclass(frozen=True)
class UserFile:
    """File of one model's users in a range of hashes; ``start`` and ``end`` are shares of all hashes."""

    model: str
    path: str
    start: Fraction
    end: Fraction


def file_name(bucket: int, n_buckets: int) -> str:
    """Return a file name for a bucket, unique per attempt."""
    return f"part-{bucket:05}-of-{n_buckets:05}-{uuid.uuid4().hex}.parquet"


def user_files(folder: str) -> list[UserFile] | None:
    """Return the files below a local folder; None if a file name has no bucket."""
    files = []
    for path in sorted(Path(folder).rglob("*.parquet")):
        form = FILE_FORM.fullmatch(path.name)
        if form is None or not path.parent.name.startswith(f"{MODEL}="):
            return None
        bucket, n_buckets = int(form["bucket"]), int(form["of"])
        model = unquote(path.parent.name.removeprefix(f"{MODEL}="))
        files.append(UserFile(model, str(path), Fraction(bucket, n_buckets), Fraction(bucket + 1, n_buckets)))
    return files


def overlapping_groups(files: Iterable[UserFile]) -> Iterator[list[UserFile]]:
    """Group files whose user ranges overlap.

    >>> halves = [UserFile("a", str(n), Fraction(n, 2), Fraction(n + 1, 2)) for n in range(2)]
    >>> quarter = UserFile("b", "c", Fraction(1, 4), Fraction(1, 2))
    >>> [len(group) for group in overlapping_groups([*halves, quarter])]
    [2, 1]
    """
    group: list[UserFile] = []
    end = Fraction(0)
    for file in sorted(files, key=lambda file: (file.start, file.model, file.path)):
        if group and file.start >= end:
            yield group
            group = []
        group.append(file)
        end = max(end, file.end)
    if group:
        yield group


def read_files(paths: Sequence[str], columns: Sequence[str]) -> list[pa.Table]:
    """Read columns of each file; raise DataError as ``read_columns`` does."""
    return [read_columns(path, columns) for path in paths]


def read_columns(path: str, columns: Sequence[str]) -> pa.Table:
    """Read columns of a file; raise DataError as ``named_read_errors`` and ``check_no_nan`` do."""
    with named_read_errors(path), open_file(path, path) as file:
        rows = read_all(file, columns)
    check_no_nan(rows, path)
    return rows


def open_file(path: str, source: str | pa.NativeFile, **options: Any) -> pq.ParquetFile:
    """Open a file, at its path or opened before, with a sound footer and checksums of its pages."""
    return pq.ParquetFile(source, metadata=read_footer(path), page_checksum_verification=True, **options)


def read_all(file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Read columns of an open file; raise pyarrow's ArrowInvalid unless they have all its rows.

    Arrow may take a column chunk with a damaged size as an empty one.
    """
    rows = file.read(columns=list(columns), use_threads=False)
    if len(rows) != file.metadata.num_rows:
        raise pa.ArrowInvalid(f"{len(rows)} rows can be read of {file.metadata.num_rows} in its footer")
    return rows


def read_ids(paths: Sequence[str], column: str) -> list[pa.ChunkedArray]:
    """Read a column of ids of each file, text as codes; raise DataError as ``named_read_errors`` does.

    Files of several days often have the same users: a file shares the ids of the one before if both have the
    same bytes in this column. They take longer to decode than to compare.
    """
    ids: list[pa.ChunkedArray] = []
    before = None
    for path in paths:
        with named_read_errors(path), pa.OSFile(path) as source:
            file = open_file(path, source, read_dictionary=[column])
            encoded = encoded_column(source, file, column)
            ids.append(ids[-1] if encoded == before else read_all(file, [column])[column])
        before = encoded
    return ids


def check_same_type(name: str, types: Iterable[pa.DataType]) -> None:
    """Raise DataError MIXED_CONVENTIONS if the ids of the days have different types; codes count as text."""
    kinds = {str(one.value_type if pa.types.is_dictionary(one) else one) for one in types}
    if len(kinds) > 1:
        message = f"{name}s are of types {' and '.join(sorted(kinds))}"
        raise DataError("MIXED_CONVENTIONS", f"{message}; write them with one type in all runs")


def encoded_column(source: pa.NativeFile, file: pq.ParquetFile, column: str) -> tuple[Any, ...]:
    """Return the type of a flat column and the bytes of each row group: equal ones decode to equal values."""
    names = file.schema.names
    index = names.index(column)
    chunks = []
    for number in range(file.num_row_groups):
        chunk = file.metadata.row_group(number).column(index)
        starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
        start, n_bytes = min((start for start in starts if start), default=0), chunk.total_compressed_size
        # Arrow would crash on some others.
        if not 0 <= start <= start + n_bytes <= source.size():
            raise pa.ArrowInvalid(f"its footer puts column {column!r} beyond the file")
        content = source.read_at(n_bytes, start)
        chunks.append((chunk.compression, chunk.num_values, chunk.total_uncompressed_size, content))
    return file.schema_arrow.field(column).type, *chunks
