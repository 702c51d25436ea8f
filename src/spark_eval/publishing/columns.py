"""Kinds of columns: common names for the types of Arrow and Spark, so that both can check a record."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import types as T

TEXT: Final = "text"
INTEGER: Final = "integer"
NUMBER: Final = "number"
BOOLEAN: Final = "boolean"
# Kind of a column with only nulls; it may have any kind in another file.
NULL: Final = "null"
OTHER: Final = "other"


def kinds_in_arrow(schema: pa.Schema) -> dict[str, str]:
    """Return the kind of each column."""
    return {field.name: kind_in_arrow(field.type) for field in schema}


def kind_in_arrow(kind: pa.DataType) -> str:
    """Return the kind of an Arrow type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return TEXT
    if pa.types.is_integer(kind):
        return INTEGER
    if pa.types.is_floating(kind):
        return NUMBER
    if pa.types.is_boolean(kind):
        return BOOLEAN
    return NULL if pa.types.is_null(kind) else OTHER


def kinds_in_spark(schema: "T.StructType", without: Collection[str] = ()) -> dict[str, str]:
    """Return the kind of each column that is not in ``without``."""
    return {field.name: kind_in_spark(field.dataType) for field in schema if field.name not in without}


def kind_in_spark(kind: "T.DataType") -> str:
    """Return the kind of a Spark type."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StringType):
        return TEXT
    if isinstance(kind, T.IntegralType):
        return INTEGER
    if isinstance(kind, T.FloatType | T.DoubleType):
        return NUMBER
    return BOOLEAN if isinstance(kind, T.BooleanType) else OTHER


def united_kinds(of_files: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the kinds of the columns of several files; if one has only nulls, another sets the kind."""
    united: dict[str, str] = {}
    for kinds in of_files:
        united |= {name: kind for name, kind in kinds.items() if united.get(name, NULL) == NULL}
    return united


def differences(recorded: Mapping[str, str], kinds: Mapping[str, str]) -> list[str]:
    """Describe the differences between a file's columns and the recorded ones; more columns are allowed."""
    lost = [f"has no column {name!r}" for name in recorded if name not in kinds]
    return lost + [
        f"has column {name!r} of kind {kinds[name]}, not {kind}"
        for name, kind in recorded.items()
        if NULL not in (kind, kinds.get(name, kind)) and kinds.get(name, kind) != kind
    ]
