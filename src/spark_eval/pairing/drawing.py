"""Amounts drawn again by user, cell by cell: exact sums of replicates, which add over buckets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import numpy as np

from spark_eval.arrow.hashes import Booleans, Hashes
from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import ConfigError
from spark_eval.pairing.cells import Crossings, SegmentValue, crossings_of
from spark_eval.pairing.population import Population
from spark_eval.stats.draws import drawn_sums, flips, poisson_weights
from spark_eval.stats.exact import Floats, Ints
from spark_eval.stats.resampling import SCALE_BITS, scale_of, scaled

# A model, by its place in a question, and a column of its users.
Factor = tuple[int, str]
# So many amounts are drawn at once.
DRAWN_AT_ONCE: Final = 256
# So many cells times replicates are summed at most: 16 bytes each.
MOST_DRAWN: Final = 10_000_000
HALF_BITS: Final = 32
NO_HASHES: Final[Hashes] = np.empty(0, dtype=np.uint64)


class DrawnSums(NamedTuple):
    """Sums of what is drawn in each cell: the users' own in column 0, then those of replicates.

    ``totals`` (cells, 1 + replicates) are of scaled amounts, ``weights`` of the draws of users who have
    one; ``flipped`` of amounts with signs drawn. ``cubes`` (cells, 4) are parts of the sum of cubes.
    """

    totals: Ints
    weights: Ints
    flipped: Ints
    cubes: Ints

    def __add__(self, other: Any) -> "DrawnSums":
        """Return the sums over the users of both."""
        return DrawnSums(*map(np.add, self, other))

    def cube(self, cell: int, scale: float) -> Fraction:
        """Return the sum of the cubes of a cell's amounts."""
        high, low, mixed_high, mixed_low = map(int, self.cubes[cell])
        whole = (((high << HALF_BITS) + low) << HALF_BITS) + (mixed_high << HALF_BITS) + mixed_low
        return whole * (Fraction(scale) / (1 << SCALE_BITS)) ** 3


class Amount(NamedTuple):
    """What is drawn: a product of values, less that of others, of the users who have all ``defined`` ones."""

    plus: tuple[Factor, ...]
    minus: tuple[Factor, ...]
    defined: tuple[Factor, ...]

    @classmethod
    def of(cls, model: int, column: str) -> Self:
        """Return the values of a model."""
        return cls(((model, column),), (), ((model, column),))

    @classmethod
    def difference(cls, left: int, right: int, column: str) -> Self:
        """Return the differences of two models in a column."""
        return cls(((right, column),), ((left, column),), ((left, column), (right, column)))

    @classmethod
    def parts(cls, model: int, column: str, weight: str, others: Sequence[int] = ()) -> tuple[Self, Self]:
        """Return a model's weighted values, and its weights, of users whom the others have, too."""
        defined = tuple((one, name) for one in (model, *others) for name in (column, weight))
        return cls(((model, column), (model, weight)), (), defined), cls(((model, weight),), (), defined)

    def amounts(self, of: Mapping[Factor, Floats]) -> tuple[Floats, Booleans]:
        """Return the amounts (n,), 0 where undefined, and where they are defined, from values of factors."""
        is_defined = reduce(np.logical_and, (np.isfinite(of[factor]) for factor in self.defined))
        amounts = reduce(np.multiply, (of[factor] for factor in self.plus))
        if self.minus:
            amounts = amounts - reduce(np.multiply, (of[factor] for factor in self.minus))
        return amounts if is_defined.all() else np.where(is_defined, amounts, 0.0), is_defined


def values_of(population: Population, names: Sequence[str], order: Ints | slice) -> dict[Factor, Floats]:
    """Return the values (n,) of columns of all models, of users in an order."""
    values = population.values(names)[:, :, order]
    return {(model, name): own[at] for model, own in enumerate(values) for at, name in enumerate(names)}


def each_amount(
    drawn: Sequence[Amount], population: Population, order: Ints | slice
) -> Iterator[tuple[Floats, Booleans]]:
    """Yield the amounts of each, and where they are defined, of users in an order; see ``Amount.amounts``."""
    names = list(dict.fromkeys(name for one in drawn for _, name in one.defined))
    values = values_of(population, names, order)
    return (one.amounts(values) for one in drawn)


def largest_of(drawn: Sequence[Amount], population: Population) -> Floats:
    """Return the largest size of each amount; shape (m,)."""
    parts = [drawn[first : first + DRAWN_AT_ONCE] for first in range(0, len(drawn), DRAWN_AT_ONCE)]
    each = (amounts for part in parts for amounts, _ in each_amount(part, population, slice(None)))
    return np.array([abs(amounts).max(initial=0.0) for amounts in each])


@dataclass(frozen=True)
class Drawing:
    """Draws amounts of users in all cells, by the hash of the user alone.

    ``cells`` are those of the comparison. ``largest`` (m,) are the largest sizes of what is ``drawn``.
    ``replicates`` and ``flips`` count draws of users and of signs; 0: none. ``has_cubes`` asks for cubes.
    """

    cells: Sequence[SegmentValue]
    drawn: Sequence[Amount]
    largest: Floats
    seed: int
    replicates: int
    flips: int = 0
    has_cubes: bool = False

    def sums(self, population: Population) -> DrawnSums:
        """Return the sums of a bucket, each (cells * m, ...)."""
        place_of = {cell: place for place, cell in enumerate(self.cells)}
        total, grouped = self.zero(), crossings_of(population.segments, len(population))
        n_numbers = len(self.drawn) * max(self.replicates, self.flips)
        if max(grouping.n_crossings for grouping in grouped) * n_numbers > MOST_DRAWN:
            grouped = crossings_of(population.segments, len(population), crossed=False)
        for grouping in grouped:
            places = [place_of[cell] for cell in grouping.cells]
            for mine, amounts in zip(total, self.of_grouping(population, grouping), strict=True):
                by_cell = mine.reshape(len(self.cells), -1, mine.shape[1])
                by_cell[places] += grouping.of_cells(amounts)
        return total

    def zero(self, *shape: int) -> DrawnSums:
        """Return the sums over nobody: of all cells, or of another shape."""
        shape = shape or (len(self.cells) * len(self.drawn),)
        widths = (1 + self.replicates, 1 + self.replicates, 1 + self.flips, 4)
        return DrawnSums(*(np.zeros((*shape, width), dtype=np.int64) for width in widths))

    def of_grouping(self, population: Population, grouping: Crossings) -> DrawnSums:
        """Return the sums of a grouping's crossings, each (crossings, m, ...)."""
        hashes, flipped = (
            id_hashes(population.ids, np.int64(self.seed + more))[grouping.order] if is_asked else NO_HASHES
            for more, is_asked in enumerate((self.replicates, self.flips))
        )
        sums = self.zero(grouping.n_crossings, len(self.drawn))
        for first in range(0, len(self.drawn), DRAWN_AT_ONCE):
            chosen = slice(first, min(first + DRAWN_AT_ONCE, len(self.drawn)))
            n_chosen = chosen.stop - first
            both, mask = self.columns(population, grouping.order, chosen)
            for crossing, (start, end) in enumerate(pairwise(grouping.ends.tolist())):
                run = slice(start, end)
                if self.replicates:
                    again = drawn_sums(poisson_weights, hashes[run], both[run], self.replicates).T
                    sums.totals[crossing, chosen] = again[:n_chosen]
                    sums.weights[crossing, chosen] = again[n_chosen:][mask]
                if self.flips:
                    signs = drawn_sums(flips, flipped[run], both[run, :n_chosen], self.flips)
                    sums.flipped[crossing, chosen] = signs.T
                if self.has_cubes:
                    sums.cubes[crossing, chosen] = cubes_of(both[run, :n_chosen])
        return sums

    def columns(self, population: Population, order: Ints, chosen: slice) -> tuple[Floats, Ints]:
        """Return columns (n, c + masks): scaled amounts of what is chosen, then where any are defined.

        And the place (c,) of each one's own among the masks, which are ones and zeros, each of them once.
        """
        columns: list[Floats] = []
        masks: dict[bytes, tuple[int, Floats]] = {}
        mask = []
        each = each_amount(self.drawn[chosen], population, order)
        for (amounts, is_defined), largest in zip(each, self.largest[chosen].tolist(), strict=True):
            columns.append(scaled(amounts, scale_of(largest)))
            own = masks.setdefault(is_defined.tobytes(), (len(masks), is_defined.astype(np.float64)))
            mask.append(own[0])
        return np.stack([*columns, *(ones for _, ones in masks.values())], axis=1), np.array(mask)


def cubes_of(differences: Floats) -> Ints:
    """Return parts of the exact sums of cubes of whole numbers (n, c) up to 2^31: shape (c, 4)."""
    whole = differences.astype(np.int64)
    squares = whole * whole
    parts = []
    for half in (squares >> HALF_BITS, squares & ((1 << HALF_BITS) - 1)):
        product = half * whole
        parts += [product >> HALF_BITS, product & ((1 << HALF_BITS) - 1)]
    return np.stack([part.sum(axis=0) for part in parts], axis=1)


def check_drawn(n_cells: int, n_replicates: int) -> None:
    """Raise ConfigError TOO_MANY_REPLICATES where more is asked for than memory holds."""
    if n_cells * n_replicates > MOST_DRAWN:
        message = f"{n_cells:,} cells of {n_replicates:,} replicates are {n_cells * n_replicates:,} numbers"
        hint = f"at most {MOST_DRAWN:,}; name fewer models, metrics or segments, or fewer resamples"
        raise ConfigError("TOO_MANY_REPLICATES", f"{message}; {hint}")
