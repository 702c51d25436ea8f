"""Delimited text, such as CSV, of files of a config, read in this process as Spark reads it.

Files that Spark may read otherwise are left to it: with quotes, or with other options.
"""

from collections.abc import Collection, Mapping
from functools import reduce
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from spark_eval.arrow.files import FileState, named_read_errors
from spark_eval.config.inputs import Source
from spark_eval.tables.opened import OpenedTable, check_distinct, named_files
from spark_eval.tables.spec import NotPlain

CSV: Final = "csv"
# Options of Spark's reader that this one knows.
HEADER: Final = "header"
DELIMITERS: Final = ("sep", "delimiter")
COMMA: Final = ","
# Delimiters of several characters are replaced by this one, the unit separator of ASCII.
UNIT: Final = "\x1f"
# What the two readers may take differently: quotes, null bytes, marks of an encoding, replaced characters.
DOUBTFUL: Final = (b'"', b"\0", b"\xef\xbb\xbf", b"\xef\xbf\xbd")
# Most bytes of text of a file: it is in memory twice for a moment.
MOST_BYTES: Final = 1 << 30


class Form(NamedTuple):
    """Delimiter of text, and whether its first line has the names of the columns."""

    delimiter: str
    has_header: bool

    @classmethod
    def of(cls, source: Source) -> Self | None:
        """Return the form of a source; None if only Spark knows one of its options."""
        options = {name.lower(): value for name, value in source.options.items()}
        header = str(options.pop(HEADER, False)).lower()
        given = [str(options.pop(name)) for name in DELIMITERS if name in options]
        delimiter = given[0].replace("\\t", "\t") if given else COMMA
        is_known = not options and len(given) <= 1 and header in ("true", "false")
        return cls(delimiter, header == "true") if is_known and is_delimiter(delimiter) else None


def is_delimiter(text: str) -> bool:
    """Return True for one character of ASCII that is in no word or number, or for a repeated one."""
    return len(text) in (1, 2) and text[0] == text[-1] and text[0] in ",;:|\t"


def open_delimited(path: str, form: Form, wanted: Collection[str] | None) -> OpenedTable:
    """Return rows of the files at a path with these columns, by default all, as text; others are null.

    Raises NotPlain if Spark may read them otherwise.
    """
    parts = [with_values(read_text(file, form, wanted), values) for file, values in named_files(path).items()]
    if any(part.schema.names != parts[0].schema.names for part in parts):
        raise NotPlain(f"files at {path} have other columns")
    rows = pa.concat_tables(parts)
    if not len(rows):
        raise NotPlain(f"{path} has no rows")
    return OpenedTable(rows.schema, rows)


def with_values(rows: pa.Table, values: Mapping[str, str | None]) -> pa.Table:
    """Return rows with the columns and values of the folders above them; NotPlain for a column twice."""
    check_distinct("the path", rows.column_names, values)
    for name, value in values.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(rows)))
    return rows


def read_text(path: str, form: Form, wanted: Collection[str] | None) -> pa.Table:
    """Return the rows of a file as text; columns that are not wanted are null."""
    data = content_of(path)
    if any(doubtful in data for doubtful in DOUBTFUL) or data.count(b"\r") != data.count(b"\r\n"):
        raise NotPlain(f"{path} has quotes, or characters that readers take differently")
    delimiter = form.delimiter
    if len(delimiter) > 1:
        if UNIT.encode() in data or (delimiter + delimiter[0]).encode() in data:
            raise NotPlain(f"{path} has more of {delimiter[0]!r} than delimiters")
        data, delimiter = data.replace(delimiter.encode(), UNIT.encode()), UNIT
    names = column_names(data, delimiter, form.has_header)
    kinds = {one: pa.string() if wanted is None or one in wanted else pa.null() for one in names}
    read = [one for one in names if kinds[one] == pa.string()]
    try:
        rows = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(use_threads=False, column_names=names, skip_rows=int(form.has_header)),
            csv.ParseOptions(delimiter=delimiter, quote_char=False, double_quote=False, escape_char=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(read, pa.string()),
                include_columns=read,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise NotPlain(f"{path} is not plain text: {error}") from None
    if not read or pc.any(reduce(pc.and_, map(pc.is_null, rows.columns))).as_py():
        raise NotPlain(f"{path} may have lines without values, which Spark leaves out")
    nothing = pa.nulls(len(rows))
    return pa.table([rows[one] if one in read else nothing for one in names], names=names)


def content_of(path: str) -> bytes:
    """Return the text of a file, unpacked if its name ends in .gz; NotPlain if it is very long."""
    with named_read_errors(path, FileState.of(path)), pa.input_stream(path, compression="detect") as file:
        data: bytes = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise NotPlain(f"{path} is longer than {MOST_BYTES >> 20} MiB")
    return data


def column_names(data: bytes, delimiter: str, has_header: bool) -> list[str]:
    """Return the names in the first line, or Spark's own; NotPlain for doubtful ones."""
    line = data[: data.find(b"\n") if b"\n" in data else len(data)].decode(errors="replace").rstrip("\r")
    names = line.split(delimiter)
    if not has_header:
        return [f"_c{number}" for number in range(len(names))]
    if len({name.lower() for name in names}) < len(names) or not all(map(is_name, names)):
        raise NotPlain("the first line has a name twice, or none")
    return names


def is_name(text: str) -> bool:
    """Return True for the name of a column."""
    return text.strip() == text != ""
