"""Damage beside the rows of a Parquet file: Hadoop's checksums beside it, and Spark's note in its footer."""

import json
import os
import zlib
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval import evaluate
from spark_eval.arrow.footers import is_plain
from spark_eval.config.inputs import Source
from spark_eval.errors import DataError
from spark_eval.sources.schemas import check_files

# Ten seconds, a second and an hour, in nanoseconds.
SECOND: Final = 10**9
AGES: Final = (0, 1, SECOND, 10 * SECOND, 3600 * SECOND, -1, -SECOND, -10 * SECOND, -3600 * SECOND)
ROWS: Final = pa.table({"user": [*range(100)], "item": [70007] * 100, "rank": [1] * 100})
NOTE: Final = "org.apache.spark.sql.parquet.row.metadata"


def put(file: Path, rows: pa.Table = ROWS) -> Path:
    """Write rows without checksums of pages, so that a bit of them may change in silence."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file, compression="none", use_dictionary=False, column_encoding="PLAIN")
    return file


def put_sums(file: Path, size: int = 512) -> Path:
    """Write Hadoop's checksums beside a file."""
    content = file.read_bytes()
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    sums = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
    beside = file.with_name(f".{file.name}.crc")
    beside.write_bytes(b"crc\0" + size.to_bytes(4, "big") + sums)
    return beside


def flip(file: Path) -> None:
    """Let the first twenty items be others."""
    content = bytearray(file.read_bytes())
    first = bytes(content).find((70007).to_bytes(8, "little") * 100)
    for row in range(20):
        content[first + 8 * row] = 9
    file.write_bytes(content)


def recall(lists: Path, truth: Path) -> float:
    found = evaluate(str(lists), str(truth), model="m", metrics=["recall"], k=[1], engine="local")
    return float(found.metrics["value"].iloc[0])


@pytest.mark.parametrize("age", AGES)
def test_checksums_are_compared_whatever_their_age(tmp_path: Path, age: int) -> None:
    lists, truth = put(tmp_path / "lists" / "p.parquet"), put(tmp_path / "truth" / "p.parquet")
    beside, now = put_sums(lists), lists.stat().st_mtime_ns

    def set_times() -> None:
        os.utime(lists, ns=(now, now))
        os.utime(beside, ns=(now - age, now - age))

    set_times()
    assert recall(lists.parent, truth.parent) == 1.0
    flip(lists)
    set_times()
    says = r"p\.parquet' does not have the checksums in '\.p\.parquet\.crc'"
    with pytest.raises(DataError, match=says) as raised:
        recall(lists.parent, truth.parent)
    assert raised.value.code == "CORRUPT_FILE"
    assert ("which is older" in raised.value.message) == (age > 0)
    # Without checksums nobody can know.
    beside.unlink()
    n_right = pq.read_table(lists)["item"].to_pylist().count(70007)
    assert recall(lists.parent, truth.parent) == n_right / 100 < 1


@pytest.mark.parametrize("size", [1, 512, 1000, 1 << 20])
def test_chunks_of_checksums_have_any_size(tmp_path: Path, size: int) -> None:
    file = put(tmp_path / "p.parquet")
    put_sums(file, size)
    assert is_plain(str(file), ROWS.schema)


@pytest.mark.parametrize("odd", [b"", b"crc\0\0\0\0\0", b"crc\0\0\0\2\0", b"PAR1" * 5, b"crc"])
def test_odd_checksums_are_those_of_no_file(tmp_path: Path, odd: bytes) -> None:
    file = put(tmp_path / "p.parquet")
    assert is_plain(str(file), ROWS.schema)
    file.with_name(".p.parquet.crc").write_bytes(odd)
    with pytest.raises(DataError, match="CORRUPT_FILE"):
        is_plain(str(file), ROWS.schema)


FIELDS: Final = [{"name": name, "type": "long"} for name in ROWS.column_names]
BROKEN: Final = [
    *("", "{", "[]", "null", "1", "{}", '"fields"', '{"fields": 1}', '{"fields": null}', '{"fields": [1]}'),
    *('{"fields": [{}]}', '{"fields": [null]}', '{"fields": [{"name": 1}]}', "[" * 100_000, "\ufffd"),
    json.dumps({"fields": FIELDS})[:-3],
    json.dumps({"fields": FIELDS}).replace('"name"', '"nbme"', 1),
]


@pytest.mark.parametrize("note", BROKEN, ids=lambda note: str(note)[:20] or "empty")
def test_a_broken_note_of_spark_is_named_with_its_file(tmp_path: Path, note: str) -> None:
    lists = put(tmp_path / "lists" / "p.parquet", ROWS.replace_schema_metadata({NOTE: note}))
    truth = put(tmp_path / "truth" / "p.parquet")
    with pytest.raises(DataError, match=r"lists/p\.parquet") as raised:
        recall(lists.parent, truth.parent)
    assert raised.value.code == "CORRUPT_FILE"
    # As a source of a config, on both engines.
    with pytest.raises(DataError, match=r"recommendations: .*lists/p\.parquet") as raised:
        check_files(Source(path=str(lists.parent)), "recommendations", (), None, pytest.fail)
    assert raised.value.code == "CORRUPT_FILE"


def test_a_sound_note_of_spark_is_taken(tmp_path: Path) -> None:
    note = json.dumps({"type": "struct", "fields": FIELDS})
    lists = put(tmp_path / "lists" / "p.parquet", ROWS.replace_schema_metadata({NOTE: note}))
    assert recall(lists.parent, put(tmp_path / "truth" / "p.parquet").parent) == 1.0
