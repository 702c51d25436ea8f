"""Split methods by name; options are validated by the types of the rule's fields."""

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, Final, TypeVar, get_type_hints

from spark_eval.errors import ConfigError, nearest
from spark_eval.splits.rules.by_time import TimeSplit
from spark_eval.splits.rules.fold_rule import FoldRule
from spark_eval.splits.rules.folds import Holdout, KFold, StratifiedKFold
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker
from spark_eval.splits.rules.leave_out import LastFraction, LeaveOneOut, LeavePOut
from spark_eval.splits.rules.moments import Cut, parse_cut
from spark_eval.splits.rules.windows import Expanding, Rolling

AnyChoice = TypeVar("AnyChoice", bound=StrEnum)
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
    kinds, given = get_type_hints(rule), {field.name: field.default for field in fields(rule) if field.init}
    for name in options:
        if name not in given:
            raise ConfigError.unknown("UNKNOWN_CONFIG_KEY", "option", name, given, "split")
    given |= options
    timezone = str(given["timezone"])
    chosen: dict[str, Any] = {
        name: parsed(kinds[name], name, value, timezone) for name, value in given.items()
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
    known = [choice.value for choice in choices]
    raise ConfigError.unknown("INVALID_SPLIT", name, str(value), known, "split")
