"""What kernels do with arrays: of runs laid end to end, of quotients; and how they keep what they made."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from spark_eval.arrow.hashes import Booleans
from spark_eval.stats.exact import Floats, Ints

Bearer = TypeVar("Bearer")
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def once(
    function: Callable[Concatenate[Bearer, Arguments], Returned],
) -> Callable[Concatenate[Bearer, Arguments], Returned]:
    """Keep what a function makes of facts and choices with these facts, for all cutoffs that ask for it."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def kept(facts: Bearer, /, *choices: Arguments.args, **named: Arguments.kwargs) -> Returned:
        results: dict[Any, Returned] = vars(facts).setdefault("_once", {})
        key = (name, *choices)
        if key not in results:
            results[key] = function(facts, *choices, **named)
        return results[key]

    return kept


def positions(is_first: Booleans) -> Ints:
    """Return 0 for the first entry of each run, 1 for its second, ...; runs begin where ``is_first``."""
    starts = np.flatnonzero(is_first)
    return np.arange(len(is_first)) - np.repeat(starts, np.diff(starts, append=len(is_first)))


def spans(starts: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return all places of spans, one span after the other, behind the number of the span of each."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes - starts, sizes)


def parts(cost: Ints, most: int) -> Iterator[slice]:
    """Yield slices of things that cost up to ``most`` together, or of a single thing."""
    until, first = np.cumsum(cost), 0
    while first < len(cost):
        reach = until[first] - cost[first] + most
        last = max(int(np.searchsorted(until, reach, side="right")), first + 1)
        yield slice(first, last)
        first = last


def places_in(keys: Ints, wanted: Ints) -> Ints:
    """Return the place of numbers (from 0) among ascending keys, -1 where they are none of them."""
    places = np.searchsorted(keys, wanted)
    return np.where(np.append(keys, -1)[places] == wanted, places, -1)


def divide(numerator: Floats | Ints, denominator: Floats | Ints, otherwise: float = 0.0) -> Floats:
    """Return quotients, and what they are otherwise where the denominator is 0; shape of the numerator."""
    quotient = np.full(numerator.shape, otherwise)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient
