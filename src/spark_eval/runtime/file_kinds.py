"""Recognize the format of a file by its first bytes: a file of another format is not a damaged one."""

import gzip
import zlib
from pathlib import Path
from typing import Final

SIGNATURES: Final = {
    b"PAR1": "Parquet",
    b"PARE": "Parquet",
    b"ORC": "ORC",
    b"Obj\x01": "Avro",
    b"ARROW1": "Arrow",
    b"FEA1": "Arrow",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"SQLite format 3": "SQLite",
    b"\x89HDF": "HDF5",
}
GZIP: Final = b"\x1f\x8b"
TEXTS: Final = ("CSV", "JSON")
# Names of formats for messages, by their names in a config.
NAMES: Final = {"parquet": "Parquet", "orc": "ORC", "csv": "CSV", "json": "JSON"}
FIXES: Final = {
    **{kind: f"say format: {name}" for name, kind in NAMES.items()},
    "CSV": "say format: csv, or read it with pandas",
    "JSON": "say format: json, or read it with pandas",
    "Avro": "say format: avro, with Spark's package spark-avro",
    "Arrow": "read it with pyarrow",
}
SEPARATORS: Final = (",", ";", "\t", "|", "::")
START_BYTES: Final = 4_096


def other_format(path: str, wanted: str) -> str | None:
    """Describe an intact file that is not in the ``wanted`` format, and how to read it; None if unknown.

    ``wanted`` is the name of a format in a config. Readers of text formats accept any text.
    """
    kind, name = kind_of_file(path), NAMES.get(wanted, wanted)
    if kind in (None, name) or (name in TEXTS and kind in TEXTS):
        return None
    fix = FIXES.get(str(kind), "unpack it, or read it with pandas")
    return f"{path!r} is {kind}, not {name}; for {kind} {fix}"


def kind_of_file(path: str) -> str | None:
    """Return the format of a file, which may be compressed with gzip; None if unknown."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(START_BYTES)
        if start.startswith(GZIP):
            with gzip.open(path) as packed:
                start = packed.read(START_BYTES)
    except (OSError, EOFError, zlib.error):
        return None
    return next((kind for begin, kind in SIGNATURES.items() if start.startswith(begin)), kind_of_text(start))


def kind_of_text(start: bytes) -> str | None:
    """Return JSON for text that begins with a bracket, CSV if its first line has separators, else None."""
    is_wide = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = start.decode("utf-16" if is_wide else "latin-1", "replace").removeprefix("\xef\xbb\xbf")
    if any(letter < " " and letter not in "\t\r\n" for letter in text):
        return None
    if text.lstrip()[:1] in ("{", "[") and '"' in text:
        return "JSON"
    first, newline, _ = text.partition("\n")
    return "CSV" if newline and any(separator in first for separator in SEPARATORS) else None
