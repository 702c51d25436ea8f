"""Base class of config sections, and config keys derived from the options of a verb."""

from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, create_model

from spark_eval.errors import nearest
from spark_eval.kernels.aliases import as_list
from spark_eval.options import Option, declared

# Pydantic's error type for an unknown key.
EXTRA_KEY: Final = "extra_forbidden"
Item = TypeVar("Item")
Keyed = TypeVar("Keyed", bound=BaseModel)
# A list in the config; a single value is accepted as well.
Several = Annotated[list[Item], BeforeValidator(lambda given: None if given is None else as_list(given))]


class Section(BaseModel):
    """A mapping of known keys; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def keyed(options: Any, but: Sequence[str] = ()) -> Callable[[type[Keyed]], type[Keyed]]:
    """Decorate a section with a key per option of a verb, except ``but`` and keys that it declares itself."""

    def decorate(section: type[Keyed]) -> type[Keyed]:
        keys: Any = {
            name: config_key(kind, option)
            for name, (kind, option) in declared(options).items()
            if name not in section.model_fields and name not in but
        }
        return create_model(section.__name__, __base__=section, __doc__=section.__doc__, **keys)

    return decorate


def given_to(section: Section, options: Any) -> Any:
    """Return the options of a plan as a section gives them, by name."""
    return {name: getattr(section, name) for name in declared(options)}


def config_key(kind: Any, option: Option) -> tuple[Any, Any]:
    """Return the type and the field of an option's key; a sequence is a list or a single value.

    A run's record has the published names of metrics, so that the same work has the same id for any alias.
    """
    default = list(option.default) if type(option.default) is tuple else option.default
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    items = [get_args(one)[0] for one in kinds if get_origin(one) is Sequence]
    if items:
        list_of: Any = Several
        kind = list_of[items[0]] | None if NoneType in kinds else list_of[items[0]]
    if (published := option.published) is not None:
        kind = Annotated[kind, PlainSerializer(lambda given: given and list(map(published, given)))]
    return kind, Field(default=default, description=option.meaning)


def setting_keys(whole: type[Section], name: str) -> list[str]:
    """Split a dotted key into the keys of nested sections.

    Below a mapping with free keys, the rest is one key: spark.conf.spark.sql.x.
    """
    keys, section = name.split("."), whole
    for depth, key in enumerate(keys[:-1], start=1):
        kinds = kinds_of(section, key)
        if any(get_origin(kind) is dict for kind in kinds):
            return [*keys[:depth], ".".join(keys[depth:])]
        section = section_of(kinds) or Section
    return keys


def kinds_of(section: type[BaseModel], key: str) -> list[Any]:
    """Return the possible types of a key's value and of its items; [None] if the key is unknown."""
    kind = section.model_fields[key].annotation if key in section.model_fields else None
    return [inner for outer in (kind, *get_args(kind)) for inner in (outer, *get_args(outer))]


def section_of(kinds: Sequence[Any]) -> type[Section] | None:
    """Return the first section among types; None if there is none."""
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)), None)


def describe(whole: type[Section], position: tuple[int | str, ...], kind: str, message: str) -> str:
    """Return one validation error in words; ``kind`` is its pydantic type."""
    where = ".".join(map(str, position)) or "the config"
    if kind != EXTRA_KEY:
        return f"{where}: {message.removeprefix('Value error, ')}"
    *path, key = position
    section = whole
    for part in path:
        section = section_of(kinds_of(section, str(part))) or section
    return f"unknown key {where!r}; {nearest(str(key), list(section.model_fields))}"
