"""Sections of the config, and keys of theirs that follow from the options of a verb."""

from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, create_model

from spark_eval.errors import nearest
from spark_eval.metrics.aliases import several
from spark_eval.options import Option, declared

# What pydantic calls the fault of an unknown key.
EXTRA_KEY: Final = "extra_forbidden"
Item = TypeVar("Item")
Keyed = TypeVar("Keyed", bound=BaseModel)
# A list of the config, for which a single value may stand.
Several = Annotated[list[Item], BeforeValidator(lambda given: None if given is None else several(given))]


class Section(BaseModel):
    """A mapping of known keys; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def keyed(options: Any, but: Sequence[str] = ()) -> Callable[[type[Keyed]], type[Keyed]]:
    """Give a section a key for each option of a verb, but for some, and for those that it declares itself."""

    def decorate(section: type[Keyed]) -> type[Keyed]:
        keys: Any = {
            name: config_key(kind, option)
            for name, (kind, option) in declared(options).items()
            if name not in section.model_fields and name not in but
        }
        return create_model(section.__name__, __base__=section, __doc__=section.__doc__, **keys)

    return decorate


def config_key(kind: Any, option: Option) -> tuple[Any, Any]:
    """Return the type of an option's key, and its field: a sequence is a list, or a single value.

    A run's record has the published names of metrics: the same work has the same id, however it is called.
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


def describe(whole: type[Section], place: tuple[int | str, ...], kind: str, message: str) -> str:
    """Return one fault of a config in words."""
    where = ".".join(map(str, place)) or "the config"
    if kind != EXTRA_KEY:
        return f"{where}: {message.removeprefix('Value error, ')}"
    *path, key = place
    section: Any = whole
    for part in path:
        if isinstance(part, str) and part in section.model_fields:
            kind_of = section.model_fields[part].annotation
            kinds = [inner for outer in (kind_of, *get_args(kind_of)) for inner in (outer, *get_args(outer))]
            section = next((k for k in kinds if isinstance(k, type) and issubclass(k, Section)), section)
    return f"unknown key {where!r}; {nearest(str(key), list(section.model_fields))}"
