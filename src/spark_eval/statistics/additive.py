"""Sums of parts: one rule adds every field of a record, so that none is forgotten."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, Self

Add = Callable[[Any, Any], Any]
# Key of the function that adds a field, if it is not ``added``.
ADD: Final = "add"


class Additive:
    """Base of dataclasses whose fields are sums: ``one + other`` adds all of them.

    Numbers, fractions and arrays add up, and so do the values of mappings by key; sets unite, and lists
    follow each other. Any other field says how, by ``added_by``.

    Examples:
        >>> from dataclasses import dataclass, field
        >>> @dataclass(frozen=True)
        ... class Seen(Additive):
        ...     n: int
        ...     largest: int = field(metadata=added_by(max))
        >>> Seen(1, 4) + Seen(2, 3)
        Seen(n=3, largest=4)
    """

    def __add__(self, other: Self) -> Self:
        """Return the sum of both."""
        kind: Any = type(self)
        adding = adders(kind, added).items()
        sums: Self = kind(**{name: add(getattr(self, name), getattr(other, name)) for name, add in adding})
        return sums


class Accumulator:
    """Base of dataclasses that many parts are added to, in place: ``whole += part``; see ``Additive``."""

    def __iadd__(self, other: Self) -> Self:
        """Add a part."""
        kind: Any = type(self)
        for name, add in adders(kind, added_to).items():
            setattr(self, name, add(getattr(self, name), getattr(other, name)))
        return self


def added_by(add: Add) -> dict[str, Add]:
    """Return the metadata of a field that is added by this function."""
    return {ADD: add}


@cache
def adders(kind: Hashable, usual: Add) -> dict[str, Add]:
    """Return the function that adds each field of a dataclass, by its name."""
    record: Any = kind
    return {one.name: one.metadata.get(ADD, usual) for one in fields(record)}


def added(one: Any, other: Any) -> Any:
    """Return the sum of two values; neither is changed.

    >>> added({"a": 1, "b": 2}, {"b": 3, "c": 4})
    {'a': 1, 'b': 5, 'c': 4}
    """
    return added_to(fresh(one), other)


def added_to(one: Any, other: Any) -> Any:
    """Return the sum of two values; a mapping, set, list or Accumulator ``one`` is changed."""
    match one:
        case Counter():
            one.update(other)  # keys with 0 stay
        case dict():
            for key, value in other.items():
                one[key] = added_to(one[key], value) if key in one else fresh(value)
        case set():
            one |= other
        case list():
            one += other
        case Accumulator():
            one += other
        case _:
            return one + other
    return one


def fresh(value: Any) -> Any:
    """Return a value whose mappings, sets and lists are copies."""
    match value:
        case Counter() | set() | list():
            return value.copy()
        case dict():
            return {key: fresh(one) for key, one in value.items()}
    return value


def by_element(one: Sequence[Any], other: Sequence[Any]) -> Any:
    """Return the sums of two sequences of one length and kind, element by element.

    >>> by_element((1, 2), (3, 4)), by_element([[1], [2]], [[3], [4]])
    ((4, 6), [[4], [6]])
    """
    sums = (
        by_element(mine, theirs) if isinstance(mine, list | tuple) else mine + theirs
        for mine, theirs in zip(one, other, strict=True)
    )
    kind: Any = type(one)
    return kind(sums)


def the_same(one: Any, _other: Any) -> Any:
    """Return the first of two values, which are the same in all parts."""
    return one
