"""Counts and columns of ``users``, ``train`` and ``items`` for the driver, whatever runs."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.names import quote_column
from spark_eval.schema import FAULT, FEATURES, FOLD, GROUPS, IN_TRAIN, ITEM, REQUEST, USER, VECTOR
from spark_eval.tables.conformed import Rows, arrow_type
from spark_eval.tables.local_tables import LocalTable

N_BYTES: Final = "n_bytes"


def count_users(users: Rows, segments: Sequence[str]) -> Mapping[str, int]:
    """Return rows, with_id, users (distinct), and the number of values per segment index.

    With a column ``request``, an id is a user and a request.
    """
    keys = [name for name in (USER, REQUEST) if name in users.columns]
    if isinstance(users, LocalTable):
        rows = users.table()
        n_values = {f"values_{index}": distinct(rows, name) for index, name in enumerate(segments)}
        ids = rows.select(keys).drop_null()
        n_ids = len(ids.group_by(keys).aggregate([]))
        return {"rows": len(rows), "with_id": len(ids), "users": n_ids} | n_values
    from pyspark.sql import functions as F

    totals = users.agg(
        F.count("*").alias("rows"),
        F.count_if(reduce(and_, (F.col(name).isNotNull() for name in keys))).alias("with_id"),
        F.count_distinct(*keys).alias("users"),
        *(
            F.count_distinct(quote_column(name)).alias(f"values_{index}")
            for index, name in enumerate(segments)
        ),
    )
    counts: Mapping[str, int] = totals.collect()[0].asDict()
    return counts


def distinct(rows: pa.Table, name: str) -> int:
    """Return the number of distinct values of a column, without null."""
    n_values: int = pc.count_distinct(rows[name], mode="only_valid").as_py()
    return n_values


def count_items(items: Rows) -> Mapping[str, Any]:
    """Return rows, with_id, and the bytes of all items' attributes."""
    names = [name for name in (GROUPS, FEATURES, VECTOR) if name in items.columns]
    widths = {name: width_of(arrow_type(items, name)) for name in names}
    if isinstance(items, LocalTable):
        rows = items.table()
        lengths = {name: pc.sum(pc.list_value_length(rows[name])).as_py() or 0 for name in names}
        n_bytes = sum(width * lengths[name] for name, width in widths.items())
        return {"rows": len(rows), "with_id": len(rows) - rows[ITEM].null_count, N_BYTES: n_bytes}
    from pyspark.sql import functions as F

    sizes = [F.greatest(F.size(name), F.lit(0)) * width for name, width in widths.items()]
    totals = items.agg(
        F.count("*").alias("rows"),
        F.count(ITEM).alias("with_id"),
        F.sum(sum(sizes, start=F.lit(0)).cast("long")).alias(N_BYTES),
    )
    counts: Mapping[str, Any] = totals.collect()[0].asDict()
    return counts


def width_of(kind: pa.DataType) -> int:
    """Return the size in bytes of an element of a list or a map."""
    if pa.types.is_map(kind):
        return 16
    return 4 if kind.value_type == pa.float32() else 8


def valid_items(items: Rows) -> pa.Table:
    """Return the valid rows of the table of items."""
    if isinstance(items, LocalTable):
        rows = items.table()
        return rows.filter(pc.is_valid(rows[ITEM]))
    return items.where(items[FAULT].isNull()).drop(FAULT).toArrow()


def trained_pairs(train: Rows, check: Callable[[int], None]) -> pa.Table:
    """Return item, user, and fold if present, of the valid training interactions, deduplicated.

    ``check`` gets their number before they are collected.
    """
    names = [ITEM, *([FOLD] if FOLD in train.columns else []), USER]
    if isinstance(train, LocalTable):
        rows = train.table(*names)
        valid = rows.filter(pc.and_(pc.is_valid(rows[ITEM]), pc.is_valid(rows[USER])))
        valid = valid.filter(pc.is_valid(valid[FOLD])) if FOLD in names else valid
        pairs = valid.group_by(names).aggregate([])
        check(len(pairs))
        return pairs
    of_spark = trained_items(train, USER)
    check(of_spark.count())
    return of_spark.toArrow()


def trained_items(train: Rows, *more: str) -> Rows:
    """Return item, fold if present, and ``more`` columns of the valid training interactions, deduplicated."""
    fold = [FOLD] if FOLD in train.columns else []
    return train.where(train[FAULT].isNull()).select(ITEM, *fold, *more).distinct()


def mark_trained(rows: Rows, train: Rows) -> Rows:
    """Add a column that is true if the row's item has training interactions."""
    if isinstance(rows, LocalTable):
        return mark_here(rows.table(), train.table())
    from pyspark.sql import functions as F

    items = trained_items(train)
    marked = rows.join(items.withColumn(IN_TRAIN, F.lit(True)), items.columns, "left")
    return marked.withColumn(IN_TRAIN, F.coalesce(IN_TRAIN, F.lit(False)))


def mark_here(rows: pa.Table, train: pa.Table) -> LocalTable:
    """Do the same in this process."""
    keys = [name for name in (ITEM, FOLD) if name in train.column_names]
    whole = {ITEM: rows[ITEM].type if rows[ITEM].type == train[ITEM].type else pa.int64(), FOLD: pa.int64()}
    rows, train = (as_types(table, {name: whole[name] for name in keys}) for table in (rows, train))
    valid = train.filter(pc.is_valid(train[USER])).select(keys).group_by(keys).aggregate([])
    items = valid.append_column(IN_TRAIN, pa.repeat(True, len(valid)))
    marked = rows.join(items, keys, join_type="left outer")
    is_trained = pc.fill_null(marked[IN_TRAIN], False)
    marked = marked.set_column(marked.column_names.index(IN_TRAIN), IN_TRAIN, is_trained)
    return LocalTable(marked.schema, marked)


def as_types(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table with these types of columns."""
    fields = [pa.field(field.name, kinds.get(field.name, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))
