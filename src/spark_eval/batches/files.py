"""Plain Parquet files, read by Arrow itself: no conversion to rows and back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS: Final = 1 << 17


@dataclass(frozen=True)
class FilePart:
    """Some row groups of a file."""

    path: str
    groups: tuple[int, ...]
    n_bytes: int


def parts_of(path: str, most_bytes: int) -> Iterator[FilePart]:
    """The file in parts of about so many bytes."""
    metadata = pq.read_metadata(path)
    groups: list[int] = []
    n_bytes = 0
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).total_byte_size
        if groups and n_bytes + size > most_bytes:
            yield FilePart(path, tuple(groups), n_bytes)
            groups, n_bytes = [], 0
        groups.append(number)
        n_bytes += size
    if groups:
        yield FilePart(path, tuple(groups), n_bytes)


def read_parts(parts: Sequence[FilePart], columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Batches with these columns (ours: theirs)."""
    for part in parts:
        with pq.ParquetFile(part.path, coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(
                BATCH_ROWS, row_groups=list(part.groups), columns=list(columns.values()), use_threads=False
            ):
                yield pa.RecordBatch.from_arrays(
                    [batch[theirs] for theirs in columns.values()], names=list(columns)
                )
