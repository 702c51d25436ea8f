"""Options of a verb, declared once for Python calls, sections of the config and ``help()``.

A verb's options are a ``TypedDict``: each key is annotated with its type and the fields of an ``Option``, its
meaning first. ``checked`` and ``checked_call`` refuse values of other types.
"""

import inspect
import math
import numbers
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from spark_eval.errors import ConfigError, nearest, parse_choice, redacted

# Types that are shown by their value in an error, and the longest text of one.
SHOWN: Final = (bool, int, float, str, NoneType)
LONGEST_SHOWN: Final = 80


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


Function = TypeVar("Function", bound=Callable[..., Any])
Options = TypeVar("Options", bound=Mapping[str, Any])
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# Options, or keys of a config, as they are given.
Given = Mapping[str, Any]
# Names in annotations that only type checkers import.
OF_SPARK: Final = {"DataFrame": OfSpark, "SparkSession": OfSpark}
WIDTH: Final = 106
INDENT: Final = " " * 4


# Error of a value of another type than is declared.
WRONG_TYPE: Final = "INVALID_CONFIG"


@dataclass(frozen=True)
class Option:
    """Meaning, default and parser of an option.

    ``parse`` is an enumeration of choices, or a function of a value and its config key that returns the
    parsed value or raises ConfigError. ``published`` maps one of several names to its form in the run's
    record. ``code`` is that of the error for a value of another type.
    """

    meaning: str
    default: Any = None
    parse: type[StrEnum] | Callable[[Any, str], Any] | None = None
    published: Callable[[str], str] | None = None
    code: str = WRONG_TYPE

    def parsed(self, given: Any, where: str) -> Any:
        """Parse a value; a default of None stays None."""
        if self.parse is None or given is self.default is None:
            return given
        if isinstance(self.parse, type):
            return parse_choice(self.parse, given, where)
        return self.parse(given, where)


def declared(options: type[Options]) -> dict[str, tuple[Any, Option]]:
    """Return the type and the declaration of every option."""
    hints = get_type_hints(options, include_extras=True)
    return {name: (hint.__origin__, Option(*hint.__metadata__)) for name, hint in hints.items()}


def meanings(options: type[Options]) -> list[tuple[str, str]]:
    """Return the options with their meanings, for the help of a command."""
    return [(name, option.meaning) for name, (_, option) in declared(options).items()]


def checked(options: type[Options], given: Options, key: str) -> dict[str, Any]:
    """Parse all options; missing ones have their defaults, and None for a list is the empty list.

    Raises TypeError for an unknown option, and ConfigError for an invalid value.
    """
    known = declared(options)
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; {nearest(name, known)}")
    chosen = {}
    for name, (kind, option) in known.items():
        value: Any = given.get(name, option.default)
        if value is None and is_list(kind):
            value = ()
        if name in given:
            check_kind(kind, value, f"{key}.{name}", option.code)
        chosen[name] = option.parsed(value, f"{key}.{name}")
    return chosen


def check_keys(given: Mapping[str, Any], known: Collection[str] | Mapping[str, Any], key: str) -> None:
    """Raise ConfigError UNKNOWN_CONFIG_KEY for a key of a mapping that is not among the known ones.

    If these come with types, raise ConfigError INVALID_CONFIG for a value of another type.
    """
    check_kind(Mapping, given, key)
    for name, value in given.items():
        if name not in known:
            raise ConfigError.unknown("UNKNOWN_CONFIG_KEY", "key", name, known, key)
        if isinstance(known, Mapping):
            check_kind(known[name], value, f"{key}.{name}")


def checked_call(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a public function to refuse arguments of types other than it declares.

    The call raises ConfigError: NOT_A_FRAME for a table, otherwise INVALID_CONFIG with the argument's name.
    Options of ``**options`` are left to ``checked``.
    """
    signature = inspect.signature(function)
    several = [one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]

    @cache
    def kinds() -> dict[str, Any]:
        hints = get_type_hints(function, localns=OF_SPARK)
        return {name: hints[name] for name in signature.parameters if name not in several}

    @wraps(function)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            given = signature.bind(*args, **options).arguments
        except TypeError:  # an argument is missing or unknown: the function says so
            given = {}
        for name, kind in kinds().items():
            if name in given:
                check_kind(kind, given[name], f"{function.__name__}.{name}")
        return function(*args, **options)

    return call


def number_in_range(allowed: str, holds: Callable[[Any], bool]) -> Callable[[Any, str], Any]:
    """Make a validator for a numeric range; it raises ConfigError OUT_OF_RANGE."""

    def parse(given: Any, where: str) -> Any:
        if holds(given):
            return given
        raise ConfigError("OUT_OF_RANGE", f"{where} is {given}; allowed: {allowed}")

    return parse


def whole_numbers(least: int, most: int) -> Callable[[Any, str], Any]:
    """Make a validator for a range of whole numbers, both ends included."""
    allowed = f"{least} or more, of 64 bits" if most == 2**63 - 1 else f"{least:,} to {most:,}"
    return number_in_range(allowed, lambda given: least <= given <= most)


INSIDE_0_AND_1: Final = number_in_range("a number between 0 and 1", lambda given: 0 < given < 1)
ABOVE_0: Final = number_in_range("a number above 0", lambda given: 0 < given < math.inf)
AT_LEAST_0: Final = number_in_range("0 or more", lambda given: 0 <= given < math.inf)
AT_LEAST_1: Final = whole_numbers(1, 2**63 - 1)
SHARE: Final = number_in_range("0 to 1", lambda given: 0 <= given <= 1)
SEED: Final = number_in_range(
    "a whole number of 64 bits, but for the largest", lambda given: -(2**63) <= given < 2**63 - 1
)


def documented(options: type[Options]) -> Callable[[Function], Function]:
    """Show the options of ``**options`` in the signature and the docstring of a function."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=kind)
            for name, (kind, option) in declared(options).items()
        ]
        lines = [f"{name}: {option.meaning}" for name, (_, option) in declared(options).items()]
        function.__doc__ = with_keyword_args(function, lines)
        vars(function)["__signature__"] = signature.replace(parameters=[*own, *shown])
        return function

    return decorate


def with_keyword_args(function: Callable[..., Any], lines: Iterable[str]) -> str:
    """Return the docstring of a function, with a line for each of its keyword arguments."""
    wrapped = [
        textwrap.fill(line, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT * 2) for line in lines
    ]
    # Tools recognise a list of arguments by this heading and indentation.
    return f"{inspect.getdoc(function) or ''}\n\n" + "\n".join(["Keyword args:", *wrapped])


def check_kind(kind: Any, given: Any, where: str, code: str = WRONG_TYPE) -> None:
    """Raise ConfigError with a code unless a value has the annotated type; ``where`` names it.

    A single value may stand for a list of one, and a text for a choice.
    """
    fault = fault_of(kind, given, where)
    if fault is not None:
        raise ConfigError(code, fault.message) if fault.code == WRONG_TYPE else fault


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
        return redacted(repr(given))[:LONGEST_SHOWN]
    return f"of type {type(given).__name__}"


def not_a_frame(name: str, given: Any) -> ConfigError:
    """Return the error for an object that is not a frame."""
    kind = f"{type(given).__module__.partition('.')[0]} {type(given).__name__}"
    if type(given).__name__ == "LazyFrame":
        return ConfigError("NOT_A_FRAME", f"{name} is a {kind}; give {name}.collect()")
    message = f"{name} is of type {kind}; give a Spark, pandas or polars frame, an Arrow table"
    return ConfigError("NOT_A_FRAME", f"{message}, or the path of Parquet files")
