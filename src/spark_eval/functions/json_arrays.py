"""Array columns as JSON text, for Spark 4.0, whose functions in Python get pandas alone.

In pandas an array of integers with a null is one of doubles, and the largest integers are rounded. Text keeps
every id and every number to the last bit.
"""

import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.runtime.any_session import silent_about_pandas

ARRAY: Final = re.compile(r"array<(.+)>")
DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
FIELD: Final = "of"
KINDS: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), pa.int64()),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "void": pa.null(),
    "date": pa.date32(),
}


def pandas_function(values: Callable[..., pa.Array], kind: T.DataType) -> Callable[..., Column]:
    """Return a Spark function of array columns that passes Arrow arrays to ``values``, by way of text."""
    from pyspark.sql.pandas.functions import pandas_udf

    def of_texts(*columns: pd.Series) -> Any:
        arrays = [
            array_of(kinds.iloc[0], texts) for kinds, texts in zip(columns[::2], columns[1::2], strict=True)
        ]
        found = values(*arrays)
        if not isinstance(found, pa.StructArray):
            return found.to_pandas()
        return pd.DataFrame({field.name: found.field(field.name).to_pandas() for field in found.type})

    of_texts.__name__ = values.__name__
    # Spark reads from the hint what comes back.
    of_texts.__annotations__["return"] = pd.DataFrame if isinstance(kind, T.StructType) else pd.Series
    make: Any = pandas_udf  # its type hints do not cover functions of several columns
    with silent_about_pandas():
        function = make(of_texts, kind)

    def applied(*columns: Column | str) -> Column:
        given = [F.col(column) if isinstance(column, str) else column for column in columns]
        texts = ((F.typeof(column), F.to_json(F.struct(column.alias(FIELD)))) for column in given)
        result: Column = function(*(one for pair in texts for one in pair))
        return result

    return applied


def array_of(kind: str, texts: Iterable[str]) -> pa.Array:
    """Return a column of a type of Spark, given as a text for each row.

    >>> array_of("array<bigint>", ['{"of":[9007199254740993,null]}', "{}"]).to_pylist()
    [[9007199254740993, None], None]
    >>> array_of("array<double>", ['{"of":[0.1,"NaN"]}']).to_pylist()
    [[0.1, nan]]
    """
    is_array = ARRAY.fullmatch(kind)
    if is_array is None:
        return pa.nulls(len(list(texts)), element_kind(kind))  # refused by its type alone
    element = element_kind(is_array[1])
    lists = [json.loads(text, parse_float=Decimal).get(FIELD) for text in texts]
    if pa.types.is_floating(element) or pa.types.is_decimal(element):
        number = float if pa.types.is_floating(element) else Decimal
        lists = [values and [None if one is None else number(one) for one in values] for values in lists]
    elif is_array[1] not in KINDS:
        lists = [values and [None] * len(values) for values in lists]
    return pa.array(lists, pa.list_(element))


def element_kind(kind: str) -> pa.DataType:
    """Return the Arrow type of a type of Spark; one that is refused as an id and as a number for others."""
    if decimal := DECIMAL.fullmatch(kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return KINDS.get(kind, pa.struct([]) if kind.startswith("struct") else pa.binary())
