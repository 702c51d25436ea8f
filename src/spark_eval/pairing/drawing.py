"""Differences drawn again by user, cell by cell: exact sums of replicates, which add over buckets."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from spark_eval.arrow.hashes import Hashes
from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import ConfigError
from spark_eval.pairing.cells import Crossings, SegmentValue, crossings_of
from spark_eval.pairing.population import CANDIDATE, Population
from spark_eval.stats.draws import drawn_sums, flips, poisson_weights
from spark_eval.stats.exact import Floats, Ints
from spark_eval.stats.resampling import SCALE_BITS, scale_of, scaled

# So many pairs and columns are drawn at once.
DRAWN_AT_ONCE: Final = 256
# So many cells times replicates are summed at most: 16 bytes each.
MOST_DRAWN: Final = 10_000_000
HALF_BITS: Final = 32
NO_HASHES: Final[Hashes] = np.empty(0, dtype=np.uint64)


class DrawnSums(NamedTuple):
    """Sums of cells of pairs and columns: the users' own in row 0, then those of replicates.

    ``totals`` (cells, 1 + replicates) are of scaled differences, ``weights`` of the draws of users who have
    one; ``flipped`` of differences with signs drawn. ``cubes`` (cells, 4) are parts of the sum of cubes.
    """

    totals: Ints
    weights: Ints
    flipped: Ints
    cubes: Ints

    def plus(self, other: "DrawnSums") -> "DrawnSums":
        """Return the sums over the users of both."""
        return DrawnSums(*map(np.add, self, other))

    def cube(self, cell: int, scale: float) -> Fraction:
        """Return the sum of the cubes of a cell's differences."""
        high, low, mixed_high, mixed_low = map(int, self.cubes[cell])
        whole = (((high << HALF_BITS) + low) << HALF_BITS) + (mixed_high << HALF_BITS) + mixed_low
        return whole * (Fraction(scale) / (1 << SCALE_BITS)) ** 3


@dataclass(frozen=True)
class Drawing:
    """Draws the differences of pairs and columns in all cells, by the hash of the user alone.

    ``cells`` are those of the comparison. ``largest`` (pairs, columns) are the largest differences.
    ``replicates`` and ``flips`` count draws of users and of signs; 0: none. ``has_cubes`` asks for cubes.
    """

    cells: Sequence[SegmentValue]
    largest: Floats
    seed: int
    replicates: int
    flips: int
    has_cubes: bool

    def sums(self, population: Population) -> DrawnSums:
        """Return the sums of a bucket."""
        question = population.question
        texts = {name: population.texts(CANDIDATE, name) for name in question.segments}
        place_of = {cell: place for place, cell in enumerate(self.cells)}
        found = self.zero()
        grouped = crossings_of(texts, len(population))
        n_numbers = self.largest.size * max(self.replicates, self.flips)
        if max(grouping.n_crossings for grouping in grouped) * n_numbers > MOST_DRAWN:
            grouped = crossings_of(texts, len(population), crossed=False)
        for grouping in grouped:
            places = [place_of[cell] for cell in grouping.cells]
            for mine, amounts in zip(found, self.of_grouping(population, grouping), strict=True):
                by_cell = mine.reshape(len(self.cells), -1, mine.shape[1])
                by_cell[places] += grouping.of_cells(amounts)
        return found

    def zero(self) -> DrawnSums:
        """Return the sums over nobody."""
        n_cells = len(self.cells) * self.largest.size
        widths = (1 + self.replicates, 1 + self.replicates, 1 + self.flips, 4)
        return DrawnSums(*(np.zeros((n_cells, width), dtype=np.int64) for width in widths))

    def of_grouping(self, population: Population, grouping: Crossings) -> DrawnSums:
        """Return the sums of a grouping's crossings, each (crossings, pairs * columns, ...)."""
        drawn, flipped = (
            id_hashes(population.ids, np.int64(self.seed + more))[grouping.order] if is_asked else NO_HASHES
            for more, is_asked in enumerate((self.replicates, self.flips))
        )
        shape = (grouping.n_crossings, self.largest.size)
        found = DrawnSums(*(np.zeros((*shape, part.shape[1]), dtype=np.int64) for part in self.zero()))
        # Column by column, all pairs of each: so few columns are read at once.
        places = np.arange(self.largest.size).reshape(self.largest.shape).T.ravel()
        for first in range(0, len(places), DRAWN_AT_ONCE):
            chosen = places[first : first + DRAWN_AT_ONCE]
            differences, defined, mask = self.differences(population, grouping.order, chosen)
            both = np.concatenate([differences, defined], axis=1)
            for crossing, (start, end) in enumerate(pairwise(grouping.ends.tolist())):
                run = slice(start, end)
                if self.replicates:
                    again = drawn_sums(poisson_weights, drawn[run], both[run], self.replicates).T
                    found.totals[crossing, chosen] = again[: len(chosen)]
                    found.weights[crossing, chosen] = again[len(chosen) :][mask]
                if self.flips:
                    signs = drawn_sums(flips, flipped[run], differences[run], self.flips)
                    found.flipped[crossing, chosen] = signs.T
                if self.has_cubes:
                    found.cubes[crossing, chosen] = cubes_of(differences[run])
        return found

    def differences(self, population: Population, order: Ints, chosen: Ints) -> tuple[Floats, Floats, Ints]:
        """Return scaled differences (n, c) of chosen places among pairs and columns, 0 where undefined.

        And distinct columns (n, m) of ones where one is defined, with the place (c,) of each one's own.
        """
        pairs, columns = np.divmod(chosen, self.largest.shape[1])
        known, column_of = np.unique(columns, return_inverse=True)
        values = population.values([population.question.columns[one] for one in known.tolist()])[:, :, order]
        differences = np.empty((len(order), len(chosen)))
        masks: dict[bytes, tuple[int, Floats]] = {}
        mask = np.empty(len(chosen), dtype=np.int64)
        for place, (pair, column) in enumerate(zip(pairs, column_of, strict=True)):
            left, right = (ends[pair] for ends in population.question.ends)
            difference = values[right, column] - values[left, column]
            scale = scale_of(float(self.largest.ravel()[chosen[place]]))
            is_defined = np.isfinite(difference)
            differences[:, place] = scaled(np.where(is_defined, difference, 0.0), scale)
            known_mask = masks.setdefault(is_defined.tobytes(), (len(masks), is_defined.astype(np.float64)))
            mask[place] = known_mask[0]
        return differences, np.stack([ones for _, ones in masks.values()], axis=1), mask


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
