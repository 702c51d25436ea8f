"""Facts of items: what their table holds of each, and how popular they are in training."""

from collections.abc import Collection, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.metrics.registry import Fact
from spark_eval.schema import (
    FAULT,
    FEATURES,
    FOLD,
    GROUPS,
    ITEM,
    VECTOR,
    Fault,
)
from spark_eval.transforms.inputs import ID_TYPES, Input, open_input

# Columns of text divide their groups by this, as MovieLens does.
DIVIDER: Final = "|"
SETS: Final = "give an array of text or integers, or text divided by |"
N_BYTES: Final = "n_bytes"


def conform_items(
    frame: DataFrame, names: Mapping[str, str] | None, facts: Collection[Fact] = ()
) -> DataFrame:
    """Return item, of the facts that are needed groups, features (arrays of text) and vector, and fault.

    A vector is an array of floats or doubles, or a map of int to double. Where the table has no features,
    its groups are those.
    """
    table = open_input(frame, "items", names, (ITEM, GROUPS, FEATURES, VECTOR))
    item = table.id(ITEM)
    columns = {ITEM: item}
    if Fact.GROUPS in facts:
        columns[GROUPS] = set_of(table, GROUPS)
    if Fact.FEATURES in facts:
        columns[FEATURES] = set_of(table, FEATURES if table.has(FEATURES) else GROUPS)
    if Fact.VECTORS in facts:
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
    """Return the column of vectors: dense ones of floats stay floats."""
    column, kind = table.column(VECTOR), table.kind(VECTOR)
    match kind:
        case T.ArrayType(elementType=T.FloatType()):
            return column
        case T.ArrayType(elementType=T.NumericType()) | T.NullType():
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
    """Return one row: rows, with_id, and the bytes that the facts of all items take."""
    columns = [items.schema[name] for name in (GROUPS, FEATURES, VECTOR) if name in items.columns]
    sizes = [F.greatest(F.size(column.name), F.lit(0)) * width_of(column.dataType) for column in columns]
    return items.agg(
        F.count("*").alias("rows"),
        F.count(ITEM).alias("with_id"),
        F.sum(sum(sizes, start=F.lit(0)).cast("long")).alias(N_BYTES),
    )


def width_of(kind: T.DataType) -> int:
    """Return the bytes of an element of an array or a map."""
    match kind:
        case T.MapType():
            return 16
        case T.ArrayType(elementType=T.FloatType()):
            return 4
    return 8


def trained_items(train: DataFrame, *more: str) -> DataFrame:
    """Return item, fold if any, and more columns of the valid training interactions, each row once."""
    fold = [FOLD] if FOLD in train.columns else []
    return train.where(F.col(FAULT).isNull()).select(ITEM, *fold, *more).distinct()
