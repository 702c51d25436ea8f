"""Sources of a config that this process reads: plain Parquet files of this machine. No Spark here."""

import re
from collections.abc import Collection
from typing import Final

import pyarrow as pa

from spark_eval.config.inputs import Source
from spark_eval.names import INTEGER, TAKEN_FOR_A_VALUE
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import ITEM, MODEL, SUBSET, SUBSETS, USER
from spark_eval.sources.listing import list_plainly
from spark_eval.sources.schemas import PARQUET, check_files
from spark_eval.tables.opened import NotPlain, OpenedTable, open_files

# Values of folders that Spark takes for text: it tries numbers, dates and times before.
TEXT: Final = re.compile(r"(?!T\d)[A-Za-z_][A-Za-z0-9_. -]*")
MOST_INT: Final = 2**31


def open_plain(
    source: Source, name: str, segments: Collection[str], before: Collection[str] | None, session: OpenSession
) -> OpenedTable:
    """Return the files of a source and their columns, after the checks that sources have on Spark.

    ``segments`` are columns of users that are read, ``before`` the names of the files at the start of the
    run. Raises NotPlain if only Spark can read the source.
    """
    if reason := reason_for_spark(source):
        raise NotPlain(f"{name} {reason}")
    files = check_files(source, name, segments, before, session).local
    opened = open_files(source.path_or_empty)
    if sorted(files) != sorted(opened.paths):
        raise NotPlain(f"{name} is not a folder of files alone")
    if source.subset is not None:
        opened = of_subset(opened, source.subset, name)
    return with_inferred_types(opened, source, segments)


def of_subset(opened: OpenedTable, subset: str, name: str) -> OpenedTable:
    """Return those of the files of a split that are of a subset; NotPlain if only Spark can read them."""
    if SUBSET not in opened.folders:
        raise NotPlain(f"{name} is not a folder of subsets")
    parts = {part.value for part in SUBSETS[subset]}
    chosen = [path for path in opened.paths if opened.folders[SUBSET][path] in parts]
    if not chosen:
        raise NotPlain(f"{name} has no folder of {subset}")
    return opened.at(chosen).without(SUBSET)


def with_inferred_types(opened: OpenedTable, source: Source, segments: Collection[str]) -> OpenedTable:
    """Return a table whose columns of folders have the types that they get on Spark.

    Models and segments are text, and ids of digits are longs. Others have the type that Spark infers; null if
    that is no integer and no text.
    """
    texts = {source.columns.get(one, one) for one in (MODEL, *segments)}
    ids = {source.columns.get(one, one) for one in (USER, ITEM)}
    for column, values in opened.folders.items():
        kind = inferred_type([str(one) for one in values.values() if one is not None])
        if column in texts:
            continue
        if column in ids and pa.types.is_integer(kind):
            kind = pa.int64()
        opened = opened.with_values(column, kind, int if pa.types.is_integer(kind) else str)
    return opened


def inferred_type(values: Collection[str]) -> pa.DataType:
    """Return the type that Spark infers for a column of folders; null if it may be any other.

    >>> inferred_type(["7", "12"]), inferred_type(["a", "7"]), inferred_type(["2024-01-01"])
    (DataType(int32), DataType(string), DataType(null))
    """
    are_integers = [bool(INTEGER.fullmatch(one)) for one in values]
    are_texts = [bool(TEXT.fullmatch(one)) and not TAKEN_FOR_A_VALUE.fullmatch(one) for one in values]
    if not all(map(max, are_integers, are_texts)):
        return pa.null()
    if not all(are_integers):
        return pa.string()
    return pa.int32() if all(-MOST_INT <= int(one) < MOST_INT for one in values) else pa.int64()


def reason_for_spark(source: Source) -> str | None:
    """Return why only Spark reads a source; None if this process may."""
    if source.table is not None:
        return "is a table of the catalog"
    if source.format != PARQUET:
        return f"is {source.format.upper()}"
    if source.options:
        return f"has the option {next(iter(source.options))}"
    if source.where or source.fold is not None:
        return "is read by conditions"
    if list_plainly(source) is None:
        return "is not a folder of files of this machine"
    return None
