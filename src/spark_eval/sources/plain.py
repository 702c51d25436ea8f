"""Sources of a config that this process reads: plain Parquet and text of this machine. No Spark here."""

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa

from spark_eval.config.inputs import Source
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import FOLD, ITEM, MODEL, SUBSET, SUBSETS, USER
from spark_eval.sources.delimited import CSV, Form, open_delimited
from spark_eval.sources.listing import list_plainly
from spark_eval.sources.schemas import LOG, PARQUET, check_files
from spark_eval.tables.conditions import Condition
from spark_eval.tables.inferred import infer_type, typed
from spark_eval.tables.opened import OpenedTable, open_files
from spark_eval.tables.spec import NotPlain


def open_plain(
    source: Source,
    name: str,
    timezone: str,
    segments: Collection[str],
    before: Collection[str] | None,
    session: OpenSession,
) -> OpenedTable:
    """Return the files of a source and their columns, after the checks that sources have on Spark.

    Text without a zone is in ``timezone``. ``segments`` are columns of users that are read, ``before`` the
    names of the files at the start of the run. Raises NotPlain if only Spark can read the source.
    """
    if reason := reason_for_spark(source):
        raise NotPlain(f"{name} {reason}")
    checked = check_files(source, name, segments, before, session)
    if (form := Form.of(source)) is not None and source.format == CSV:
        opened = open_delimited(source.path_or_empty, form, None if name == LOG else checked.wanted)
    else:
        opened = open_files(source.path_or_empty)
        if sorted(checked.local) != sorted(opened.paths):
            raise NotPlain(f"{name} is not a folder of files alone")
    if source.subset is not None:
        opened = of_subset(opened, source.subset, name)
    opened = with_inferred_types(opened, source, timezone, segments)
    fold = [] if source.fold is None else [Condition(FOLD, "==", source.fold)]
    where = [Condition(one.column, one.op, one.value) for one in source.where]
    return replace(opened, conditions=(*fold, *where))


def of_subset(opened: OpenedTable, subset: str, name: str) -> OpenedTable:
    """Return those of the files of a split that are of a subset; NotPlain if only Spark can read them."""
    if SUBSET not in opened.folders:
        raise NotPlain(f"{name} is not a folder of subsets")
    parts = {part.value for part in SUBSETS[subset]}
    chosen = [path for path in opened.paths if opened.folders[SUBSET][path] in parts]
    if not chosen:
        raise NotPlain(f"{name} has no folder of {subset}")
    return opened.at(chosen).without(SUBSET)


def with_inferred_types(
    opened: OpenedTable, source: Source, timezone: str, segments: Collection[str]
) -> OpenedTable:
    """Return a table whose columns of text files and of folders have the types that they get on Spark.

    Models and segments are text, and ids of digits are longs. Others have the type that Spark infers; null if
    that is not sure.
    """
    texts = {source.columns.get(one, one) for one in (MODEL, *segments)}
    ids = {source.columns.get(one, one) for one in (USER, ITEM)}
    of_folders = opened.rows is None
    for column in opened.folders if of_folders else opened.schema.names:
        values = opened.values(column)
        if column not in texts and values.type == pa.string():
            kind = infer_type(values, None if of_folders else timezone)
            kind = pa.int64() if column in ids and pa.types.is_integer(kind) else kind
            try:
                opened = opened.with_column(column, typed(values, kind))
            except pa.ArrowInvalid as error:
                raise NotPlain(f"column {column} has a value that is no {kind}") from error
    return opened


def reason_for_spark(source: Source) -> str | None:
    """Return why only Spark reads a source; None if this process may."""
    if source.table is not None:
        return "is a table of the catalog"
    if source.format not in (PARQUET, CSV):
        return f"is {source.format.upper()}"
    if source.format == CSV and Form.of(source) is None:
        return "is CSV with other options than header and sep"
    if source.read != "auto":
        return f"has read: {source.read}"
    if source.format == PARQUET and source.options:
        return f"has the option {next(iter(source.options))}"
    if list_plainly(source) is None:
        return "is not a folder of files of this machine"
    return None
