"""Literal rows as Arrow tables, for evaluations in this process."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

# Types by the names that Spark has for them.
TYPES: Final = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "array<double>": pa.list_(pa.float64()),
}


def table(rows: Sequence[Sequence[Any]], schema: str) -> pa.Table:
    """A table of these rows; ``schema`` is like ``user int, item string``.

    >>> table([(1, "a")], "user int, item string").to_pylist()
    [{'user': 1, 'item': 'a'}]
    """
    names, kinds = zip(*(column.split() for column in schema.split(", ")), strict=True)
    columns = zip(*rows, strict=True) if rows else [[]] * len(names)
    return pa.table(
        [pa.array(values, TYPES[kind]) for values, kind in zip(columns, kinds, strict=True)], list(names)
    )
