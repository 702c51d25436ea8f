"""Options of a verb, declared once: calls from Python, sections of the config and ``help()`` read them here.

A verb's options are a ``TypedDict``; each key has its type, and an ``Option`` with its default and meaning.
"""

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_type_hints

from spark_eval.errors import ConfigError, nearest

Function = TypeVar("Function", bound=Callable[..., Any])
Options = TypeVar("Options", bound=Mapping[str, Any])
WIDTH: Final = 106
INDENT: Final = " " * 4


@dataclass(frozen=True)
class Option:
    """The default of an option, and the sentence that documents it."""

    default: Any
    meaning: str


def declared(options: type[Options]) -> dict[str, tuple[Any, Option]]:
    """Return the type and the declaration of every option."""
    hints = get_type_hints(options, include_extras=True)
    return {name: (hint.__origin__, hint.__metadata__[0]) for name, hint in hints.items()}


def completed(options: type[Options], given: Options) -> Options:
    """Return the given options with the defaults of all others; raise TypeError for an unknown one."""
    known: Any = {name: option.default for name, (_, option) in declared(options).items()}
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; {nearest(name, known)}")
    whole: Options = known | given
    return whole


def check_ranges(key: str, claims: Mapping[str, tuple[Any, bool, str]]) -> None:
    """Raise ConfigError OUT_OF_RANGE for the first option whose value is not in its range.

    ``claims`` are by the options' names under a key of the config: value, whether it is in range, the range.
    """
    for name, (given, holds, allowed) in claims.items():
        if not holds:
            raise ConfigError("OUT_OF_RANGE", f"{key}.{name} is {given}; allowed: {allowed}")


def documented(options: type[Options]) -> Callable[[Function], Function]:
    """Show the options that a function takes as ``**options`` in its signature and its docstring."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=kind)
            for name, (kind, option) in declared(options).items()
        ]
        lines = [f"{name}: {option.meaning}" for name, (_, option) in declared(options).items()]
        wrapped = [
            textwrap.fill(line, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT * 2) for line in lines
        ]
        # The heading and the indents by which tools know a list of arguments.
        text = [inspect.getdoc(function) or "", "Keyword args:", *wrapped]
        function.__doc__ = f"{text[0]}\n\n" + "\n".join(text[1:])
        vars(function)["__signature__"] = signature.replace(parameters=[*own, *shown])
        return function

    return decorate
