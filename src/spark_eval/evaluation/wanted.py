"""Columns that an evaluation reads of each table, and tables of this process with them. No Spark here."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import dataset

from spark_eval.conventions import TruthDuplicates
from spark_eval.conventions.choice import Need
from spark_eval.errors import DataError, collect_errors
from spark_eval.evaluation.plan import Plan
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.local_tables import (
    Missing,
    NotPlain,
    OpenedTable,
    Wanted,
    is_id,
    is_number,
    is_set,
    is_vector,
    is_whole,
    local_table,
)
from spark_eval.runtime import events
from spark_eval.schema import (
    FEATURES,
    FOLD,
    GROUPS,
    ITEM,
    MODEL,
    RANK,
    RELEVANCE,
    REQUEST,
    SCORE,
    USER,
    VECTOR,
    BuiltIn,
)
from spark_eval.tables.columns import NO_MODEL, check_mapping, missing_column, missing_order, missing_segment

# The sign of users that are requests is looked for in these first rows.
MOST_ROWS: Final = 100_000
# Separator of groups in text columns, as in MovieLens.
DIVIDER: Final = "|"


@dataclass(frozen=True)
class Described:
    """Description of a table: columns (ours: theirs), name of the only model, layout, unit of timestamps."""

    columns: Mapping[str, str] | None = None
    model: str | None = None
    layout: str = "long"
    timestamp_unit: str | None = None


def wanted_columns(name: str, described: Any, columns: Sequence[str], plan: Plan) -> Wanted:
    """Return the columns to read of a table with these ``columns``.

    ``described`` is a ``Described`` or a source of a config. Raises NotPlain if only Spark can conform it.
    """
    names = described.columns or {}

    missing = partial(missing_error, name, names, plan)
    pair, fold, request = {USER: is_id, ITEM: is_id}, {FOLD: is_whole}, {REQUEST: is_id}
    match name:
        case "recommendations":
            if described.layout != "long":
                raise NotPlain(f"recommendations have layout: {described.layout}")
            has_rank = RANK in names or (SCORE not in names and RANK in columns)
            model = {MODEL: is_id} if described.model is None else {}
            return Wanted({**pair, RANK if has_rank else SCORE: is_number, **model}, fold | request, missing)
        case "truth":
            if plan.conventions.truth_duplicates is TruthDuplicates.LAST:
                raise NotPlain("truth needs timestamps")
            return Wanted(pair, {RELEVANCE: is_number, **fold, **request}, missing)
        case "train":
            return Wanted(pair, fold, missing)
        case "users":
            if built_in := {*BuiltIn}.intersection(plan.segments, {*names, *columns}):
                raise NotPlain(f"users have {', '.join(sorted(built_in))}")
            return Wanted({USER: is_id, **dict.fromkeys(plan.user_columns, is_id)}, request, missing)
    return wanted_of_items(names, columns, plan, missing)


def wanted_of_items(names: Mapping[str, str], columns: Sequence[str], plan: Plan, missing: Missing) -> Wanted:
    """Return the columns to read of a table of items."""
    groups = {GROUPS: is_set} if Need.GROUPS in plan.needs else {}
    has_features = FEATURES in names or FEATURES in columns
    features = {FEATURES if has_features else GROUPS: is_set} if Need.FEATURES in plan.needs else {}
    vector = {VECTOR: is_vector} if Need.VECTORS in plan.needs else {}
    return Wanted({ITEM: is_id, **groups, **features, **vector}, {}, missing)


def missing_error(
    name: str, names: Mapping[str, str], plan: Plan, ours: str, theirs: Sequence[str]
) -> DataError:
    """Return the error for a table without a column for ours; ``theirs`` are its columns."""
    if ours == MODEL and MODEL not in names:
        return DataError("MISSING_MODEL", f"{name}: {NO_MODEL}")
    if ours == SCORE and SCORE not in names:
        return missing_order(theirs)
    if name == "users" and ours != USER:
        return missing_segment(ours, theirs)
    purposes = purposes_of_columns(plan.item_columns)
    return missing_column(name, ours, names, theirs, purposes.get(ours, ""))


def purposes_of_columns(item_columns: Mapping[str, str]) -> dict[str, str]:
    """Return the metrics that need each column of items; groups can replace features."""
    if FEATURES not in item_columns:
        return dict(item_columns)
    return {GROUPS: item_columns[FEATURES], **item_columns}


def local_tables(
    opened: Mapping[str, Callable[[], OpenedTable]], described: Mapping[str, Any], plan: Plan
) -> dict[str, LocalTable]:
    """Return tables, given by functions that open them, as conformed tables of this process.

    Raises NotPlain if only Spark can judge one of them, and one DataError for columns that are missing.
    """
    for name in opened:
        if name != "users":
            check_mapping(name, described[name].columns or {})

    def conformed(name: str) -> LocalTable:
        found = opened[name]()
        wanted = wanted_columns(name, described[name], found[2].names, plan)
        table = local_table(name, found, described[name].columns or {}, wanted)
        if name == "recommendations":
            warn_of_requests(described, found[2].names, partial(first_rows_of, found))
        if name == "users":
            return conformed_users(table)
        return conformed_items(table, plan) if name == "items" else table

    return collect_errors({name: partial(conformed, name) for name in opened})


def first_rows_of(found: OpenedTable, columns: list[str]) -> pa.Table:
    """Return some columns of the first rows of an opened table."""
    rows, paths, _ = found
    if rows is not None:
        return rows.select(columns).slice(0, MOST_ROWS)
    return dataset(paths).head(MOST_ROWS, columns=columns, use_threads=False)


def warn_of_requests(
    described: Mapping[str, Any], columns: Sequence[str], read: Callable[[list[str]], pa.Table]
) -> None:
    """Warn LOOKS_LIKE_REQUESTS if users of recommendations belong to coarser ids, which are users by name.

    ``described`` are a ``Described`` or a source by table. ``columns`` are those of the recommendations, and
    ``read`` returns the first rows of some. Rows are read only if a column has the name of another table's
    user, or of ours.
    """
    names = described["recommendations"].columns or {}
    theirs = names.get(USER, USER)
    if names.get(REQUEST, REQUEST) in columns or theirs not in columns:
        return
    for other, of_table in coarser_names(described, theirs).items():
        if other in columns and is_finer(read([theirs, other])):
            message = f"LOOKS_LIKE_REQUESTS: recommendations: several {theirs!r} belong to one {other!r}"
            message += f", {of_table}; map user to {other!r} and request to {theirs!r}"
            message += ", or standard errors are too small"
            events.say("looks_like_requests", message, logging.WARNING, column=theirs, user=other)


def coarser_names(described: Mapping[str, Any], theirs: str) -> dict[str, str]:
    """Return names of columns that are users elsewhere, with where, other than ``theirs``."""
    elsewhere = {USER: "our name of users"}
    for name, one in described.items():
        if name != "recommendations" and one.columns and USER in one.columns:
            elsewhere[one.columns[USER]] = f"the user of {name}"
    return {name: where for name, where in elsewhere.items() if name != theirs}


def is_finer(rows: pa.Table) -> bool:
    """Return True if each id of the first column has one of the second, and one of these has several."""
    pairs = (
        rows.rename_columns(["finer", "coarser"])
        .drop_null()
        .group_by(["finer", "coarser"], use_threads=False)
        .aggregate([])
    )
    n_finer, n_coarser = (pc.count_distinct(pairs[name]).as_py() for name in ("finer", "coarser"))
    return bool(n_coarser < n_finer == len(pairs))


def conformed_users(users: LocalTable) -> LocalTable:
    """Return users with segments as text."""
    for name in users.columns:
        if name not in (USER, REQUEST):
            users = users.read().cast(name, pa.string())
    return users


def conformed_items(items: LocalTable, plan: Plan) -> LocalTable:
    """Return items with sets as lists of text, and vectors as lists of floats or doubles."""
    rows = items.table()
    columns = {ITEM: rows[ITEM]}
    if Need.GROUPS in plan.needs:
        columns[GROUPS] = text_sets(rows[GROUPS])
    if Need.FEATURES in plan.needs:
        columns[FEATURES] = text_sets(rows[FEATURES if FEATURES in rows.column_names else GROUPS])
    if Need.VECTORS in plan.needs:
        is_float = rows[VECTOR].type.value_type == pa.float32()
        columns[VECTOR] = rows[VECTOR] if is_float else rows[VECTOR].cast(pa.list_(pa.float64()))
    table = pa.table(columns)
    return LocalTable(table.schema, table)


def text_sets(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return sets as lists of text; text is divided by ``|``."""
    if pa.types.is_string(column.type):
        return pc.split_pattern(column, DIVIDER)
    return column.cast(pa.list_(pa.string()))
