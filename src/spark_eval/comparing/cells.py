"""Cells of users: everybody, and the values of segments; users in the order of their cells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_eval.arrow.hashes import numbers
from spark_eval.schema import ALL
from spark_eval.stats.exact import Ints

# A segment and its value.
SegmentValue = tuple[str, str]
EVERYBODY: Final = (ALL, ALL)
# Segments are crossed as long as so many users fall to a crossing of their values.
USERS_PER_CROSSING: Final = 256


@dataclass(frozen=True)
class Grouping:
    """Users in the order of the crossings of some segments' values.

    ``order`` (n,) are the users, None: as they are. ``ends`` (crossings + 1,) say where each crossing begins.
    """

    names: Sequence[str]
    values: Sequence[Sequence[str]]
    order: Ints | None
    ends: Ints

    @classmethod
    def of(cls, names: Sequence[str], codes: Sequence[Ints], values: Sequence[Sequence[str]], n: int) -> "Grouping":
        """Return the grouping of n users by segments: the codes (n,) of their values, and the values."""
        if not names:
            return cls((), (), None, np.array([0, n]))
        crossing = np.zeros(n, dtype=np.int64)
        for code, known in zip(codes, values, strict=True):
            crossing = crossing * len(known) + code
        sizes = np.bincount(crossing, minlength=prod(map(len, values)))
        return cls(names, values, np.argsort(crossing, kind="stable"), np.append(0, np.cumsum(sizes)))

    def margins(self, sums: NDArray[Any]) -> Iterator[tuple[SegmentValue, NDArray[Any]]]:
        """Yield the sums of everybody and of each value, from those of crossings (crossings, ...)."""
        grid = sums.reshape(*map(len, self.values), *sums.shape[1:])
        axes = range(len(self.values))
        yield EVERYBODY, grid.sum(axis=tuple(axes))
        for axis, (name, values) in enumerate(zip(self.names, self.values, strict=True)):
            of_values = grid.sum(axis=tuple(other for other in axes if other != axis))
            yield from zip(((name, value) for value in values), of_values, strict=True)


def groupings(segments: Mapping[str, pa.Array], n: int) -> Iterator[Grouping]:
    """Yield groupings of n users that have each segment once, as few as are not too fine; at least one."""
    names, codes, values, crossings = [], [], [], 1
    for name, texts in segments.items():
        coded = texts.dictionary_encode()
        known = coded.dictionary.to_pylist()
        if names and crossings * len(known) * USERS_PER_CROSSING > n:
            yield Grouping.of(names, codes, values, n)
            names, codes, values, crossings = [], [], [], 1
        names.append(name)
        codes.append(numbers(coded.indices).astype(np.int64))
        values.append(known)
        crossings *= len(known)
    yield Grouping.of(names, codes, values, n)
