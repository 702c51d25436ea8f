"""Damaged footers of Parquet files: none ends the process, and none gives other rows."""

import io
import json
import os
import random
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval.arrow.files import (
    FilePart,
    FileState,
    column_statistics,
    is_read_as_codes,
    named_read_errors,
    read_parts,
)
from spark_eval.arrow.footers import is_plain
from spark_eval.arrow.sound_footers import read_footer
from spark_eval.arrow.user_files import read_columns, read_ids
from spark_eval.errors import SparkEvalError

ROWS: Final = pa.table({"user": [1, 2], "item": ["a", "b"]})
NOTE: Final = {
    "org.apache.spark.version": "4.0.0",
    "org.apache.spark.sql.parquet.row.metadata": json.dumps({"fields": [{"name": "user"}, {"name": "item"}]}),
}
# How files are written, by name.
WRITERS: Final[dict[str, dict[str, Any]]] = {
    "dictionary": {},
    "plain": {"use_dictionary": False, "compression": "none"},
    "no statistics": {"write_statistics": False},
    "groups": {"row_group_size": 1, "version": "1.0", "data_page_version": "2.0"},
    "spark": {"compression": "gzip"},
}
Read = Callable[[Path], object]


def written(writer: str) -> bytes:
    sink = io.BytesIO()
    rows = ROWS.replace_schema_metadata(NOTE) if writer == "spark" else ROWS
    pq.write_table(rows, sink, store_schema=False, write_page_checksum=True, **WRITERS[writer])
    return sink.getvalue()


def footer_of(data: bytes) -> range:
    """The bytes of a footer, its length and the mark at the end."""
    return range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data))


def flips(data: bytes, step: int) -> Iterator[bytes]:
    """Contents with one flipped bit in the footer, for every so many bits."""
    for bit in range(8 * footer_of(data).start, 8 * len(data), step):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged)


def spoiled(data: bytes, n_trials: int) -> Iterator[bytes]:
    """Contents with two or three other bytes in the footer."""
    chance = random.Random(n_trials)
    for _ in range(n_trials):
        damaged = bytearray(data)
        for index in chance.sample(footer_of(data)[:-8], chance.choice((2, 3))):
            damaged[index] = chance.choice((chance.randrange(256), chance.randrange(32)))
        yield bytes(damaged)


def outcomes(contents: Iterator[bytes], file: Path, read: Read) -> list[str]:
    """What a child process finds for each content of a file: a code, "same", "other"; or that it died."""
    pending = list(contents)
    expected, found = read(file), []
    while pending:
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            try:
                answer(pending, file, read, expected, theirs)
            finally:
                os._exit(1)
        os.close(theirs)
        with os.fdopen(ours) as answers:
            lines = answers.read().splitlines()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            lines.append(f"killed by signal {os.WTERMSIG(status)}")
        assert lines
        found += lines
        pending = pending[len(lines) :]
    return found


def answer(contents: Sequence[bytes], file: Path, read: Read, expected: object, sink: int) -> None:
    """In the child: read each content, and write what is found, a line each."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number, content in enumerate(contents):
        file.write_bytes(content)
        # Footers are cached by the time of change.
        os.utime(file, ns=(number, number))
        try:
            line = "same" if read(file) == expected else "other"
        except SparkEvalError as error:
            line = error.code
            if line == "CORRUPT_FILE" and str(file) not in error.message:
                line = "CORRUPT_FILE without a name"
        except BaseException as error:
            line = f"raw {type(error).__name__}"
        os.write(sink, f"{line}\n".encode())


def read_rows(file: Path) -> object:
    """Read a file as executors do, if it is plain, after all looks at its footer."""
    path = str(file)
    with named_read_errors(path):
        footer = read_footer(path)
    if not is_plain(path, ROWS.schema):
        raise SparkEvalError("NOT_PLAIN", "")
    groups = range(footer.num_row_groups)
    is_read_as_codes(footer, groups, "item")
    for name in ROWS.schema.names:
        for one in column_statistics(footer, name):
            assert one is None or one.has_null_count in (True, False)
    part = FilePart(path, FileState.of(path), tuple(groups), 1)
    columns = {name: name for name in ROWS.schema.names}
    batches = read_parts([part], columns, coded=True)
    return [row for batch in batches for row in batch.to_pylist()]


def read_published(file: Path) -> object:
    """Read a file of ``per_user``, whose columns are compared with the commit record before."""
    path = str(file)
    with named_read_errors(path):
        schema = pq.read_metadata(path).schema.to_arrow_schema()
    if schema != ROWS.schema:
        raise SparkEvalError("OTHER_COLUMNS", "")
    return [ids.to_pylist() for ids in read_ids([path], "item")], read_columns(path, ["user"]).to_pylist()


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.exhaustive])])
@pytest.mark.parametrize("read", [read_rows, read_published])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_flipped_bit_of_a_footer_ends_the_process(
    tmp_path: Path, writer: str, read: Read, step: int
) -> None:
    file = tmp_path / "p.parquet"
    file.write_bytes(data := written(writer))
    found = outcomes(flips(data, step), file, read)
    assert len(found) == len(range(0, 8 * len(footer_of(data)), step))
    named = {"same", "CORRUPT_FILE", "NOT_PLAIN", "OTHER_COLUMNS", "INVALID_TEXT"}
    assert not set(found) - named, sorted(set(found) - named)
    assert found.count("CORRUPT_FILE") >= len(found) // 5


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    "n_trials", [100, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.exhaustive])]
)
def test_no_damaged_bytes_of_a_footer_end_the_process(tmp_path: Path, writer: str, n_trials: int) -> None:
    file = tmp_path / "p.parquet"
    file.write_bytes(data := written(writer))
    found = outcomes(spoiled(data, n_trials), file, read_rows)
    assert not [one for one in found if one.startswith(("killed", "raw"))]


def test_of_a_file_in_another_format_only_the_end_is_read(tmp_path: Path) -> None:
    """Any four bytes before the last four may be taken for the length of a footer."""
    file = tmp_path / "log.csv"
    with file.open("wb") as sink:
        sink.truncate(1 << 30)  # takes no space
        sink.seek(0, os.SEEK_END)
        sink.write(b"\0\0\0\x30,42\n")
    tracemalloc.start()
    with pytest.raises(pa.ArrowInvalid):
        read_footer(str(file))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
