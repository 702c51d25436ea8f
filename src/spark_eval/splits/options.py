"""Options of a split as a config or a call gives them, checked by the types of the rule's fields."""

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, Final, TypeVar, cast, get_type_hints

from spark_eval.errors import ConfigError
from spark_eval.splits.moments import Cut, parse_cut

AnyRule = TypeVar("AnyRule")
AnyChoice = TypeVar("AnyChoice", bound=StrEnum)
# Half of the whole numbers of 64 bits.
HALF: Final = 2**63
# What a value of these types may be, and what to say of any other.
PLAIN: Final[Mapping[Any, tuple[Any, str]]] = {
    float: (int | float, "not a number"),
    float | None: (int | float, "not a number"),
    int: (int, "not a whole number"),
    bool: (bool, "neither true nor false"),
}


def from_options(rule: type[AnyRule], options: Mapping[str, object]) -> AnyRule:
    """Return the rule, a dataclass, with these options and its own defaults for all others.

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
    """Return an option as the type of its field; raise ConfigError INVALID_CUT or INVALID_SPLIT."""
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
    """Return several names, or a single one."""
    several = [value] if isinstance(value, str) else value
    if isinstance(several, list | tuple) and all(isinstance(entry, str) for entry in several):
        return tuple(several)
    raise ConfigError("INVALID_SPLIT", f"{name} {value!r} is no list of names, in split")


def choice(choices: type[AnyChoice], name: str, value: object) -> AnyChoice:
    """Return one of the choices."""
    if isinstance(value, str) and value in list(choices):
        return choices(value)
    known = [choice.value for choice in choices]
    raise ConfigError.unknown("INVALID_SPLIT", name, str(value), known, "split")


def check_claims(*claims: tuple[bool, str]) -> None:
    """Raise ConfigError INVALID_SPLIT for the first claim that does not hold, in its words."""
    for holds, fault in claims:
        if not holds:
            raise ConfigError("INVALID_SPLIT", f"{fault}, in split")


def seed_fits(seed: int) -> tuple[bool, str]:
    """Return the claim that a seed fits 64 bits."""
    return -HALF <= seed < HALF, f"seed {seed} does not fit 64 bits"
