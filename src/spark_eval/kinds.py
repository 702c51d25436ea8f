"""Types of arguments and options, as their annotations declare them, and the error for other values."""

import numbers
from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Protocol, Union, get_args, get_origin, runtime_checkable

from spark_eval.errors import ConfigError, redacted

# Types that are shown by their value in an error, and the longest text of one.
SHOWN: Final = (bool, int, float, str, NoneType)
LONGEST: Final = 80


class OfSpark:
    """A frame or a session of Spark, told by its module: this package does not import Spark for it."""


# Types in words.
WORDS: Final = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "None",
    Path: "a path",
    OfSpark: "an object of Spark",
}


@runtime_checkable
class Exporting(Protocol):
    """Frame that exports itself as an Arrow table, such as a polars frame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of Arrow's C stream."""


def check_kind(kind: Any, given: Any, where: str) -> None:
    """Raise ConfigError unless a value has the annotated type; ``where`` names it.

    A single value may stand for a list of one, and a text for a choice.
    """
    fault = fault_of(kind, given, where)
    if fault is not None:
        raise fault


def fault_of(kind: Any, given: Any, where: str) -> ConfigError | None:
    """Return the error of a value that does not have the annotated type, or of an entry within it."""
    members = members_of(kind)
    faults = [fault_of_entries(member, given, where) for member in members if fits(member, given)]
    if not faults:
        if Exporting in members:
            return not_a_frame(where.rpartition(".")[2], given)
        allowed = " or ".join(dict.fromkeys(map(in_words, members)))
        return ConfigError("INVALID_CONFIG", f"{where} is {shown(given)}; give {allowed}")
    return None if None in faults else faults[0]


def members_of(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union; a list of X may also be given as a single X."""
    if get_origin(kind) in (Union, UnionType):
        return tuple(member for one in get_args(kind) for member in members_of(one))
    if is_list(kind) and get_origin(kind) is not tuple:
        return (kind, *members_of(get_args(kind)[0]))
    return (kind,)


def is_list(kind: Any) -> bool:
    """Return True for types of lists: ``Sequence[X]``, ``Collection[X]``, ``tuple[X, ...]``."""
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Collection) and not issubclass(origin, Mapping)


def fits(kind: Any, given: Any) -> bool:
    """Return True if a value has a type, whatever its entries are."""
    if kind in (Any, object):
        return True
    if is_list(kind):
        return isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping)
    kind = get_origin(kind) or kind
    if kind is OfSpark:
        return type(given).__module__.startswith("pyspark.")
    if kind is int:
        return isinstance(given, numbers.Integral) and not isinstance(given, bool)
    if kind is float:
        return isinstance(given, numbers.Real) and not isinstance(given, bool)
    return isinstance(given, str if issubclass(kind, StrEnum) else kind)


def fault_of_entries(kind: Any, given: Any, where: str) -> ConfigError | None:
    """Return the error of the first entry of a list or a mapping that does not have its type."""
    kinds = get_args(kind)
    entries: list[tuple[Any, Any, str]] = []
    if is_list(kind):
        entries = [(kinds[0], one, f"{where}.{index}") for index, one in enumerate(given)]
    elif get_origin(kind) is Mapping:
        entries = [(kinds[0], name, f"a key of {where}") for name in given]
        entries += [(kinds[1], one, f"{where}.{name}") for name, one in given.items()]
    faults = (fault_of(*entry) for entry in entries)
    return next((fault for fault in faults if fault is not None), None)


def in_words(kind: Any) -> str:
    """Return a type in words: ``text``, ``a whole number``, ``a list``."""
    if is_list(kind):
        return "a list"
    kind = get_origin(kind) or kind
    if issubclass(kind, Mapping):
        return "a mapping"
    return WORDS.get(str if issubclass(kind, StrEnum) else kind, f"a {kind.__name__}")


def shown(given: Any) -> str:
    """Return a value in an error: plain values themselves, of others the type."""
    if isinstance(given, SHOWN):
        return redacted(repr(given))[:LONGEST]
    return f"of type {type(given).__name__}"


def not_a_frame(name: str, given: Any) -> ConfigError:
    """Return the error for an object that is not a frame."""
    kind = f"{type(given).__module__.partition('.')[0]} {type(given).__name__}"
    if type(given).__name__ == "LazyFrame":
        return ConfigError("NOT_A_FRAME", f"{name} is a {kind}; give {name}.collect()")
    message = f"{name} is of type {kind}; give a Spark, pandas or polars frame, an Arrow table"
    return ConfigError("NOT_A_FRAME", f"{message}, or the path of Parquet files")
