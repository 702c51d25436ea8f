"""Options of a split as a config or a call gives them, checked by the types of the rule's fields."""

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, Final, TypeVar, cast, get_type_hints

from spark_eval.errors import ConfigError
from spark_eval.splits.moments import Cut, parse_cut

Rule = TypeVar("Rule")
Choice = TypeVar("Choice", bound=StrEnum)
# Half of the whole numbers of 64 bits.
HALF: Final = 2**63


def from_options(rule: type[Rule], options: Mapping[str, object]) -> Rule:
    """The rule, a dataclass, with these options; its own defaults for all others.

    Raises ConfigError UNKNOWN_CONFIG_KEY, INVALID_CUT, INVALID_SPLIT or INVALID_TIMEZONE.
    """
    kinds, dataclass = get_type_hints(rule), cast(Any, rule)
    given: dict[str, object] = {field.name: field.default for field in fields(dataclass) if field.init}
    for name in options:
        if name not in given:
            raise ConfigError.unknown("UNKNOWN_CONFIG_KEY", "option", name, given, "split")
    given |= options
    timezone = str(given["timezone"])
    return rule(**{name: parsed(kinds[name], name, value, timezone) for name, value in given.items()})


def parsed(kind: Any, name: str, value: object, timezone: str) -> object:
    """An option as the type of its field; raises ConfigError INVALID_CUT or INVALID_SPLIT."""
    if value is None and kind in (float | None, Cut | None):
        return None
    if kind in (Cut, Cut | None):
        return parse_cut(value, timezone)
    if kind in (float, float | None):
        return number(name, value)
    if kind is bool:
        return flag(name, value)
    if kind is int:
        return whole(name, value)
    if kind is str:
        return str(value)
    return names(name, value) if kind == tuple[str, ...] else choice(kind, name, value)


def number(name: str, value: object) -> float:
    """A number, as it is written."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ConfigError("INVALID_SPLIT", f"{name} {value!r} is not a number, in split")


def whole(name: str, value: object) -> int:
    """A whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ConfigError("INVALID_SPLIT", f"{name} {value!r} is not a whole number, in split")


def flag(name: str, value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise ConfigError("INVALID_SPLIT", f"{name} {value!r} is neither true nor false, in split")


def names(name: str, value: object) -> tuple[str, ...]:
    """Several names, or a single one."""
    found = [value] if isinstance(value, str) else value
    if isinstance(found, list | tuple) and all(isinstance(entry, str) for entry in found):
        return tuple(found)
    raise ConfigError("INVALID_SPLIT", f"{name} {value!r} is no list of names, in split")


def choice(choices: type[Choice], name: str, value: object) -> Choice:
    """One of the choices."""
    if isinstance(value, str) and value in list(choices):
        return choices(value)
    known = [choice.value for choice in choices]
    raise ConfigError.unknown("INVALID_SPLIT", name, str(value), known, "split")


def check(*claims: tuple[bool, str]) -> None:
    """Raise ConfigError INVALID_SPLIT for the first claim that does not hold, in its words."""
    for holds, fault in claims:
        if not holds:
            raise ConfigError("INVALID_SPLIT", f"{fault}, in split")


def seed_fits(seed: int) -> tuple[bool, str]:
    """The claim that a seed fits 64 bits."""
    return -HALF <= seed < HALF, f"seed {seed} does not fit 64 bits"
