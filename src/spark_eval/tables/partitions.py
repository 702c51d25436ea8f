"""Partition columns: folder names contain names and values as percent-encoded UTF-8, which Spark misreads."""

import re
from collections.abc import Collection
from itertools import chain
from typing import Final
from urllib.parse import unquote_to_bytes

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.names import quote_column

ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")


def with_partitions(frame: DataFrame, paths: Collection[str], depth: int, name: str) -> DataFrame:
    """Return a frame with partition columns decoded as UTF-8; the same frame if Spark decodes them correctly.

    Spark decodes each percent-encoded byte as a character. ``paths`` are those of the files, with ``depth``
    folders above the partitions.

    Raises:
        DataError: INVALID_PARTITION for folders that are not UTF-8, or that Spark would not distinguish.
    """
    values: dict[str, dict[str, str]] = {}
    for folder in sorted({folder for path in paths for folder in path.split("/")[depth:-1] if "=" in folder}):
        column, _, value = folder.partition("=")
        known = values.setdefault(column, {})
        if known.setdefault(as_spark(value), as_utf8(value, folder, name)) != as_utf8(value, folder, name):
            message = f"{name}: Spark takes folder {folder!r} for another one; write names as plain UTF-8"
            raise DataError("INVALID_PARTITION", message)
    for column, known in values.items():
        misread = {theirs: ours for theirs, ours in known.items() if theirs != ours}
        if misread:
            text = F.col(quote_column(as_spark(column)))
            pairs = F.create_map(*map(F.lit, chain.from_iterable(misread.items())))
            frame = frame.withColumn(as_spark(column), F.coalesce(F.try_element_at(pairs, text), text))
        if as_spark(column) != as_utf8(column, column, name):
            frame = frame.withColumnRenamed(as_spark(column), as_utf8(column, column, name))
    return frame


def as_spark(text: str) -> str:
    """Return an encoded name as Spark reads it.

    >>> as_spark("%C3%A9")
    'Ã©'
    """
    return ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)


def as_utf8(text: str, folder: str, name: str) -> str:
    """Return an encoded name decoded as UTF-8; raise DataError INVALID_PARTITION if it is not UTF-8.

    >>> as_utf8("%C3%A9", "model=%C3%A9", "recommendations")
    'é'
    """
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        message = f"{name}: the name of folder {folder!r} is not UTF-8; rename it"
        raise DataError("INVALID_PARTITION", message) from error
