"""Array operations of the kernels (runs, spans, quotients), and a cache for their results."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from spark_eval.arrow.hashes import Booleans
from spark_eval.statistics.exact import Floats, Ints

Bearer = TypeVar("Bearer")
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def cached_on_first_argument(
    function: Callable[Concatenate[Bearer, Arguments], Returned],
) -> Callable[Concatenate[Bearer, Arguments], Returned]:
    """Cache a function's results on its first argument, so that all cutoffs share them."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def kept(facts: Bearer, /, *choices: Arguments.args, **named: Arguments.kwargs) -> Returned:
        results: dict[Any, Returned] = vars(facts).setdefault("_once", {})
        key = (name, *choices)
        if key not in results:
            results[key] = function(facts, *choices, **named)
        return results[key]

    return kept


def index_in_run(is_first: Booleans) -> Ints:
    """Return 0 for the first entry of each run, 1 for the second, ...; runs begin where ``is_first``."""
    starts = np.flatnonzero(is_first)
    return np.arange(len(is_first)) - np.repeat(starts, np.diff(starts, append=len(is_first)))


def expand_ranges(starts: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return the concatenated spans: the span's number of each index, and the indices."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes - starts, sizes)


def slices_by_cost(cost: Ints, most: int) -> Iterator[slice]:
    """Yield slices whose total cost is at most ``most``, or of a single element."""
    until, first = np.cumsum(cost), 0
    while first < len(cost):
        reach = until[first] - cost[first] + most
        last = max(int(np.searchsorted(until, reach, side="right")), first + 1)
        yield slice(first, last)
        first = last


def index_in_sorted(keys: Ints, wanted: Ints) -> Ints:
    """Return the index of numbers (from 0) in ascending keys, -1 if missing."""
    places = np.searchsorted(keys, wanted)
    return np.where(np.append(keys, -1)[places] == wanted, places, -1)


def divide(numerator: Floats | Ints, denominator: Floats | Ints, otherwise: float = 0.0) -> Floats:
    """Divide, with ``otherwise`` where the denominator is 0; shape of the numerator."""
    quotient = np.full(numerator.shape, otherwise)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient
