"""Split methods by name; options are validated as the fields of the rule declare them."""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from spark_eval.errors import ConfigError, nearest
from spark_eval.options import with_keyword_args
from spark_eval.splits.rules.by_time import TimeSplit
from spark_eval.splits.rules.fold_rule import FoldRule, RuleOption, rule_options
from spark_eval.splits.rules.folds import Holdout, KFold, StratifiedKFold
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker
from spark_eval.splits.rules.leave_out import LastFraction, LeaveOneOut, LeavePOut
from spark_eval.splits.rules.moments import Cut, parse_cut
from spark_eval.splits.rules.windows import Expanding, Rolling

AnyChoice = TypeVar("AnyChoice", bound=StrEnum)
Function = TypeVar("Function", bound=Callable[..., Any])
# Accepted Python types by type of field, and the error text for other values.
PLAIN: Final[Mapping[Any, tuple[Any, str]]] = {
    float: (int | float, "not a number"),
    float | None: (int | float, "not a number"),
    int: (int, "not a whole number"),
    bool: (bool, "neither true nor false"),
}
GLOBAL_LOCAL_RANKER: Final = "global_local_ranker"
TIME: Final = "time"
METHODS: Final[Mapping[str, type[FoldRule]]] = {
    GLOBAL_LOCAL_RANKER: GlobalLocalRanker,
    TIME: TimeSplit,
    "holdout": Holdout,
    "k_fold": KFold,
    "stratified_k_fold": StratifiedKFold,
    "leave_p_out": LeavePOut,
    "leave_one_out": LeaveOneOut,
    "last_fraction": LastFraction,
    "rolling": Rolling,
    "expanding": Expanding,
}


def known_method(method: str) -> str:
    """Return the name if it is a method; raise ValueError with the nearest name otherwise."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; {nearest(method, METHODS)}")
    return method


def rule_of(method: str, options: Mapping[str, object]) -> FoldRule:
    """Build the rule of a method with these options; others have their defaults.

    Raises ConfigError UNKNOWN_CONFIG_KEY, INVALID_CUT, INVALID_SPLIT or INVALID_TIMEZONE.
    """
    if method not in METHODS:
        raise ConfigError.unknown("INVALID_SPLIT", "method", method, METHODS, "split")
    rule = METHODS[method]
    declared = rule_options(rule)
    for name in options:
        if name not in declared:
            raise ConfigError.unknown("UNKNOWN_CONFIG_KEY", "option", name, declared, "split")
    timezone = str(options.get("timezone", declared["timezone"].default))
    chosen: dict[str, Any] = {
        name: parsed(option.kind, name, options.get(name, option.default), timezone)
        for name, option in declared.items()
    }
    return rule(**chosen)


def parsed(kind: Any, name: str, value: object, timezone: str) -> object:
    """Convert an option to the type of its field; raise ConfigError INVALID_CUT or INVALID_SPLIT."""
    if value is None and kind in (float | None, Cut | None):
        return None
    if kind in (Cut, Cut | None):
        return parse_cut(value, timezone)
    if kind is str:
        return str(value)
    if kind == tuple[str, ...]:
        return names(name, value)
    if kind not in PLAIN:
        return choice(kind, name, value)
    types, fault = PLAIN[kind]
    if isinstance(value, types) and (kind is bool) == isinstance(value, bool):
        return value
    raise ConfigError("INVALID_SPLIT", f"{name} {value!r} is {fault}, in split")


def names(name: str, value: object) -> tuple[str, ...]:
    """Return a name or a list of names as a tuple; raise ConfigError INVALID_SPLIT for other values."""
    several = [value] if isinstance(value, str) else value
    if isinstance(several, list | tuple) and all(isinstance(entry, str) for entry in several):
        return tuple(several)
    raise ConfigError("INVALID_SPLIT", f"{name} {value!r} is not a list of names, in split")


def choice(choices: type[AnyChoice], name: str, value: object) -> AnyChoice:
    """Return the choice with this value; raise ConfigError INVALID_SPLIT if there is none."""
    if isinstance(value, str) and value in list(choices):
        return choices(value)
    declared = [choice.value for choice in choices]
    raise ConfigError.unknown("INVALID_SPLIT", name, str(value), declared, "split")


def options_by_method() -> dict[tuple[str, RuleOption], list[str]]:
    """Return all options with their declarations, each with the methods that have it."""
    methods: dict[tuple[str, RuleOption], list[str]] = {}
    for method, rule in METHODS.items():
        for declared in rule_options(rule).items():
            methods.setdefault(declared, []).append(method)
    return methods


def options_in_words() -> list[tuple[str, str, str, str]]:
    """Return each option in words: name, methods, default, and meaning with the allowed values."""
    rows = []
    for (name, option), methods in options_by_method().items():
        allowed = option.range.allowed if option.range is not None else ""
        if isinstance(option.kind, type) and issubclass(option.kind, StrEnum):
            allowed = " or ".join(option.kind)
        is_plain = option.default is None or isinstance(option.default, bool | int | float | tuple)
        default = json.dumps(option.default) if is_plain else str(option.default)
        meaning = option.meaning.removesuffix(".")
        of = "all" if len(methods) == len(METHODS) else ", ".join(methods)
        rows.append((name, of, default, f"{meaning} ({allowed})" if allowed else meaning))
    return rows


def with_options(function: Function) -> Function:
    """Show the options of all methods in the docstring of a function that takes them."""
    lines = [f"{name} ({of}; {default}): {meaning}." for name, of, default, meaning in options_in_words()]
    function.__doc__ = with_keyword_args(function, lines)
    return function
