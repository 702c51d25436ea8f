"""Attributes of items and users: from their tables, and from their training interactions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import from_bytes, group_by_bucket, sum_equal_keys, to_bytes
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.worker.items.tally import partition_by_item
from spark_eval.evaluation.worker.items.training import TrainSummary, count_train
from spark_eval.names import quote_column
from spark_eval.runners.objects import NumberedObject, group_by_key, map_batches
from spark_eval.schema import (
    FAULT,
    FEATURES,
    FOLD,
    GROUPS,
    ITEM,
    USER,
    VECTOR,
    Fault,
)
from spark_eval.tables.inputs import ID_TYPES, Input, open_input

# Separator of groups in text columns, as in MovieLens.
DIVIDER: Final = "|"
SETS: Final = "give an array of text or integers, or text divided by |"
N_BYTES: Final = "n_bytes"


def conform_items(
    frame: DataFrame,
    names: Mapping[str, str] | None,
    needs: Collection[Need] = (),
    needed: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return item, the needed attributes of groups, features (arrays of text) and vector, and ``fault``.

    A vector is an array of floats or doubles, or a map of int to double. If the table has no features, the
    groups are used. ``needed`` maps columns to the purpose they are needed for, as used in messages.
    """
    table = open_input(frame, "items", names)
    table.needed = needed or {}
    if FEATURES in table.needed:  # groups can replace them
        table.needed = {GROUPS: table.needed[FEATURES], **table.needed}
    item = table.id(ITEM)
    columns = {ITEM: item}
    if Need.GROUPS in needs:
        columns[GROUPS] = set_of(table, GROUPS)
    if Need.FEATURES in needs:
        columns[FEATURES] = set_of(table, FEATURES if table.has(FEATURES) else GROUPS)
    if Need.VECTORS in needs:
        columns[VECTOR] = vector_of(table)
    return table.conformed(columns | {FAULT: F.when(item.isNull(), Fault.NULL_ID.value)})


def set_of(table: Input, name: str) -> Column:
    """Return a column of sets as arrays of text."""
    column, kind = table.column(name), table.kind(name)
    if isinstance(kind, T.StringType):
        return F.split(table.readable(name, column), rf"\{DIVIDER}")
    if not isinstance(kind, T.NullType) and not (
        isinstance(kind, T.ArrayType) and isinstance(kind.elementType, (*ID_TYPES, T.NullType))
    ):
        theirs = table.names.get(name, name)
        table.fault("NOT_A_SET", f"column {theirs!r} is {kind.simpleString()}; {SETS}")
        return F.lit(None)
    return column.cast("array<string>")


def vector_of(table: Input) -> Column:
    """Return the column of vectors; dense vectors of floats stay floats."""
    column, kind = table.column(VECTOR), table.kind(VECTOR)
    match kind:
        case T.ArrayType(elementType=T.FloatType()):
            return column
        case T.ArrayType(elementType=T.NumericType() | T.NullType()) | T.NullType():
            return column.cast("array<double>")
        case T.MapType(keyType=T.IntegralType(), valueType=T.NumericType()):
            return column.cast("map<bigint,double>")
        case T.UserDefinedType():
            from pyspark.ml.functions import vector_to_array

            return F.when(column.isNotNull(), vector_to_array(column))
    theirs = table.names.get(VECTOR, VECTOR)
    what = f"column {theirs!r} is {kind.simpleString()}; give an array of numbers, or a map of int to double"
    table.fault("NOT_A_VECTOR", what)
    return F.lit(None)


def counts_of_items(items: DataFrame) -> DataFrame:
    """Return one row: rows, with_id, and the bytes of all items' attributes."""
    columns = [items.schema[name] for name in (GROUPS, FEATURES, VECTOR) if name in items.columns]
    sizes = [F.greatest(F.size(column.name), F.lit(0)) * width_of(column.dataType) for column in columns]
    return items.agg(
        F.count("*").alias("rows"),
        F.count(ITEM).alias("with_id"),
        F.sum(sum(sizes, start=F.lit(0)).cast("long")).alias(N_BYTES),
    )


def width_of(kind: T.DataType) -> int:
    """Return the size in bytes of an element of an array or a map."""
    match kind:
        case T.MapType():
            return 16
        case T.ArrayType(elementType=T.FloatType()):
            return 4
    return 8


def trained_items(train: DataFrame, *more: str) -> DataFrame:
    """Return item, fold if present, and ``more`` columns of the valid training interactions, deduplicated."""
    fold = [FOLD] if FOLD in train.columns else []
    return train.where(F.col(FAULT).isNull()).select(ITEM, *fold, *more).distinct()


@dataclass(frozen=True)
class CountedTrain:
    """Bucket summaries, and one part of the items with counts; ``items`` is None if there are too many."""

    summaries: Sequence[TrainSummary]
    n_items: int
    items: pa.Table | None


def counted_train(messages: DataFrame, n_buckets: int, most_items: int, *, sees_takers: bool) -> DataFrame:
    """Return ``CountedTrain`` objects from the messages of training interactions: two small shuffles.

    Users are grouped by bucket, items by hash. Parts with more than about twice their share of
    ``most_items`` are left out, so that the driver's memory is bounded.
    """

    def count(batches: Batches) -> Iterator[NumberedObject]:
        for _, rows in group_by_bucket(batches):
            summary, items = count_train(rows, sees_takers=sees_takers)
            yield 0, summary
            for part, counts in partition_by_item(items, n_buckets) if items is not None else ():
                yield part, to_bytes(counts).to_pybytes()

    def meet(_: int, parts: list[TrainSummary | bytes]) -> CountedTrain:
        summaries = [one for one in parts if isinstance(one, TrainSummary)]
        tables = [from_bytes(pa.py_buffer(one)) for one in parts if isinstance(one, bytes)]
        items = sum_equal_keys(tables, (ITEM, FOLD)) if tables else None
        n_items = 0 if items is None else len(items)
        return CountedTrain(summaries, n_items, items if n_items <= 2 * most_items // n_buckets + 1 else None)

    return group_by_key(map_batches(messages, count), n_buckets, meet)


def count_users(users: DataFrame, segments: Sequence[str]) -> DataFrame:
    """Return one row: rows, with_id, users (distinct), and the number of values per segment index."""
    return users.agg(
        F.count("*").alias("rows"),
        F.count(USER).alias("with_id"),
        F.count_distinct(USER).alias("users"),
        *(
            F.count_distinct(quote_column(name)).alias(f"values_{place}")
            for place, name in enumerate(segments)
        ),
    )
