"""Ways in which published tables and commit records are damaged, each with the error that must tell of it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_eval.schema import Table


class Damage(NamedTuple):
    """``spoil`` damages a table below its folder, or its only file; ``code`` is the error of who reads it."""

    spoil: Callable[[Path], object]
    code: str
    needs_numbers: bool = False


def files(place: Path) -> list[Path]:
    """The Parquet files of a table."""
    return [place] if place.is_file() else sorted(place.rglob("*.parquet"))


def number_of(rows: pa.Table) -> str:
    """A column of numbers that every reader reads: a metric's, or a mean's."""
    names = [field.name for field in rows.schema if pa.types.is_floating(field.type)]
    return next(name for name in ("ndcg_at_10", "rr_at_5", "value") if name in names)


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    """Write the first file again, changed."""

    def spoil(place: Path) -> None:
        [first, *_] = files(place)
        pq.write_table(change(pq.ParquetFile(first).read()), first, write_page_checksum=True)

    return spoil


def with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def with_nan(rows: pa.Table) -> pa.Table:
    values = rows[name := number_of(rows)].to_pylist()
    return with_column(rows, name, pa.array([float("nan"), *values[1:]], pa.float64()))


def with_text(rows: pa.Table) -> pa.Table:
    return with_column(rows, name := number_of(rows), pc.cast(rows[name], pa.string()))


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def cut(place: Path) -> None:
    [first, *_] = files(place)
    first.write_bytes(first.read_bytes()[:-20])


def flipped(place: Path) -> None:
    [first, *_] = files(place)
    bits = bytearray(first.read_bytes())
    footer = pq.read_metadata(first)
    names = [footer.schema.column(n).name for n in range(footer.num_columns)]
    wanted = next(n for n, name in enumerate(names) if name in ("ndcg_at_10", "rr_at_5", "value", "rows"))
    chunk = footer.row_group(0).column(wanted)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    bits[start + chunk.total_compressed_size - 1] ^= 0x10
    first.write_bytes(bytes(bits))


TABLES: Final = {
    "a table removed": Damage(remove, "INCOMPLETE_RUN"),
    "a file removed": Damage(lambda place: remove(files(place)[0]), "INCOMPLETE_RUN"),
    "a folder removed": Damage(
        lambda place: remove(files(place)[0].parent if place.is_dir() else place), "INCOMPLETE_RUN"
    ),
    "a file cut": Damage(cut, "CORRUPT_FILE"),
    "a file emptied": Damage(lambda place: files(place)[0].write_bytes(b""), "CORRUPT_FILE"),
    "a file of text": Damage(lambda place: files(place)[0].write_text("hello"), "CORRUPT_FILE"),
    "a bit flipped": Damage(flipped, "CORRUPT_FILE"),
    "a row gone": Damage(rewritten(lambda rows: rows.slice(1)), "INCOMPLETE_RUN"),
    "a row twice": Damage(
        rewritten(lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])), "INCOMPLETE_RUN"
    ),
    "a column gone": Damage(
        rewritten(lambda rows: rows.drop_columns(rows.schema.names[-1])), "INCOMPLETE_RUN"
    ),
    "a value NaN": Damage(rewritten(with_nan), "INCOMPLETE_RUN", needs_numbers=True),
    "values of text": Damage(rewritten(with_text), "INCOMPLETE_RUN", needs_numbers=True),
}
# What is found only where rows are read.
PAGES: Final = ("a value NaN", "a bit flipped")


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Change what the record says of the verb ``evaluate``."""

    def spoil(path: Path) -> None:
        record = json.loads(path.read_text())
        change(record["jobs"]["evaluate"])
        path.write_text(json.dumps(record))

    return spoil


def rows_as_text(job: dict[str, Any]) -> None:
    job["tables"]["metrics"]["rows"] = "many"


RECORDS: Final = {
    "cut": (lambda path: path.write_text(path.read_text()[:-40]), "CORRUPT_FILE"),
    "empty": (lambda path: path.write_text(""), "CORRUPT_FILE"),
    "not JSON": (lambda path: path.write_text("hello"), "CORRUPT_FILE"),
    "not UTF-8": (lambda path: path.write_bytes(b'{"jobs": "\xff"}'), "CORRUPT_FILE"),
    "too deep": (lambda path: path.write_text("[" * 100_000), "CORRUPT_FILE"),
    "a list": (lambda path: path.write_text("[]"), "INCOMPLETE_RUN"),
    "null": (lambda path: path.write_text("null"), "INCOMPLETE_RUN"),
    "{}": (lambda path: path.write_text("{}"), "INCOMPLETE_RUN"),
    "a verb of text": (lambda path: path.write_text('{"jobs": {"evaluate": "x"}}'), "INCOMPLETE_RUN"),
    "without tables": (edited(lambda job: job.pop("tables")), "INCOMPLETE_RUN"),
    "an unknown table": (
        edited(lambda job: job["tables"].update(other={"files": 1, "rows": 1})),
        "INCOMPLETE_RUN",
    ),
    "rows of text": (edited(rows_as_text), "INCOMPLETE_RUN"),
    "without a fingerprint": (edited(lambda job: job.pop("fingerprint")), "INCOMPLETE_RUN"),
    "without its moment": (edited(lambda job: job.pop("published_at")), "INCOMPLETE_RUN"),
}


def place_of(root: Path, run_id: str, table: Table) -> Path:
    """Where ``evaluate`` has published a table."""
    folder = root / table / f"run_id={run_id}"
    return folder / "evaluate.parquet" if table is Table.ACCOUNTING else folder
