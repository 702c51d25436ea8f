"""Resample users in each cell: exact sums of the replicates, which are added up over buckets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Booleans, Hashes
from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import ConfigError, DataError
from spark_eval.statistics.draws import flips, poisson_weights, resampled_sums, weights_of_repeats
from spark_eval.statistics.exact import Floats, Ints
from spark_eval.statistics.resampling import SCALE_BITS, scale_of, scaled
from spark_eval.users.cells import SegmentCombinations, SegmentValue, combine_segments
from spark_eval.users.population import AlignedUsers

# Index of a model in the task, and a column of its ``per_user`` rows.
Factor = tuple[int, str]
# Number of amounts that are resampled together.
AMOUNTS_AT_ONCE: Final = 256
# Upper bound of cells times replicates; each takes 16 bytes.
MOST_SUMS: Final = 10_000_000
HALF_BITS: Final = 32
# Products of scales and integers are doubles.
LARGEST_SCALED: Final = 2.0**950
NO_HASHES: Final[Hashes] = np.empty(0, dtype=np.uint64)


class ResampledSums(NamedTuple):
    """Sums of each cell: column 0 over the sample itself, the others over its replicates.

    ``totals`` (cells, 1 + replicates) are sums of scaled amounts. ``weights``, of the same shape, count the
    draws of users who have an amount. ``flipped`` (cells, 1 + flips) are sums with random signs. ``cubes``
    (cells, 4) are four partial sums of the cubes.
    """

    totals: Ints
    weights: Ints
    flipped: Ints
    cubes: Ints

    def __add__(self, other: Any) -> "ResampledSums":
        """Add the sums of other users."""
        return ResampledSums(*map(np.add, self, other))

    def cube(self, cell: int, scale: float) -> Fraction:
        """Return the exact sum of the cubes of a cell's amounts, unscaled."""
        high, low, mixed_high, mixed_low = map(int, self.cubes[cell])
        whole = (((high << HALF_BITS) + low) << HALF_BITS) + (mixed_high << HALF_BITS) + mixed_low
        return whole * (Fraction(scale) / (1 << SCALE_BITS)) ** 3


class Amount(NamedTuple):
    """Amount of a user: product of ``plus`` minus that of ``minus``; defined if ``defined`` are finite."""

    plus: tuple[Factor, ...]
    minus: tuple[Factor, ...]
    defined: tuple[Factor, ...]

    @classmethod
    def of(cls, model: int, column: str) -> Self:
        """Return the amount that equals a model's value of a column."""
        return cls(((model, column),), (), ((model, column),))

    @classmethod
    def difference(cls, baseline: int, candidate: int, column: str) -> Self:
        """Return the amount ``candidate - baseline`` of a column."""
        return cls(((candidate, column),), ((baseline, column),), ((baseline, column), (candidate, column)))

    @classmethod
    def parts(cls, model: int, column: str, weight: str, others: Sequence[int] = ()) -> tuple[Self, Self]:
        """Return a model's weighted value and its weight, for users whom all ``others`` also have."""
        defined = tuple((index, name) for index in (model, *others) for name in (column, weight))
        return cls(((model, column), (model, weight)), (), defined), cls(((model, weight),), (), defined)

    def values(self, of: Mapping[Factor, Floats]) -> tuple[Floats, Booleans]:
        """Compute the amounts (n,), 0 if undefined, and their mask (n,) from the values of the factors."""
        is_defined = reduce(np.logical_and, (np.isfinite(of[factor]) for factor in self.defined))
        amounts = reduce(np.multiply, (of[factor] for factor in self.plus))
        if self.minus:
            amounts = amounts - reduce(np.multiply, (of[factor] for factor in self.minus))
        return amounts if is_defined.all() else np.where(is_defined, amounts, 0.0), is_defined


def values_of(population: AlignedUsers, names: Sequence[str], order: Ints | slice) -> dict[Factor, Floats]:
    """Return the values (n,) of each model and column, with the users in the given order."""
    values = population.values(names)[:, :, order]
    return {
        (model, name): column
        for model, of_model in enumerate(values)
        for name, column in zip(names, of_model, strict=True)
    }


def iter_amounts(
    amounts: Sequence[Amount], population: AlignedUsers, order: Ints | slice
) -> Iterator[tuple[Floats, Booleans]]:
    """Yield values and mask of each amount, with the users in the given order; see ``Amount.values``."""
    names = list(dict.fromkeys(name for amount in amounts for _, name in amount.defined))
    factors = values_of(population, names, order)
    return (amount.values(factors) for amount in amounts)


def largest_amounts(amounts: Sequence[Amount], population: AlignedUsers) -> Floats:
    """Return the largest absolute value of each amount; shape (m,)."""
    parts = [amounts[first : first + AMOUNTS_AT_ONCE] for first in range(0, len(amounts), AMOUNTS_AT_ONCE)]
    columns = (values for part in parts for values, _ in iter_amounts(part, population, slice(None)))
    return np.array([abs(values).max(initial=0.0) for values in columns])


@dataclass(frozen=True)
class Resampler:
    """Resampling of users in all cells; a user's draws depend on the seed and the user id only.

    ``cells`` are those of the comparison. ``largest`` (m,) are the largest absolute values of the amounts
    ``amounts``. ``replicates`` is the number of bootstrap samples, ``flips`` that of random sign vectors; 0:
    none. With ``has_cubes`` the cubes are summed as well.
    """

    cells: Sequence[SegmentValue]
    amounts: Sequence[Amount]
    largest: Floats
    seed: int
    replicates: int
    flips: int = 0
    has_cubes: bool = False

    def __post_init__(self) -> None:
        """Raise DataError METRIC_OVERFLOW if an amount is too large to be scaled."""
        if self.largest.max(initial=0.0) > LARGEST_SCALED:
            raise DataError("METRIC_OVERFLOW", "values larger than 2^950 are not resampled; scale them down")

    def sums(self, population: AlignedUsers) -> ResampledSums:
        """Return the sums of a bucket, each (cells * m, ...)."""
        index_of = {cell: index for index, cell in enumerate(self.cells)}
        total, grouped = self.zero(), combine_segments(population.segments, len(population))
        n_numbers = len(self.amounts) * max(self.replicates, self.flips)
        if max(grouping.n_crossings for grouping in grouped) * n_numbers > MOST_SUMS:
            grouped = combine_segments(population.segments, len(population), crossed=False)
        for grouping in grouped:
            indices = [index_of[cell] for cell in grouping.cells]
            for sums, of_grouping in zip(total, self.of_grouping(population, grouping), strict=True):
                by_cell = sums.reshape(len(self.cells), -1, sums.shape[1])
                by_cell[indices] += grouping.of_cells(of_grouping)
        return total

    def zero(self, *shape: int) -> ResampledSums:
        """Return sums of zero: for all cells and amounts, or of the given shape."""
        shape = shape or (len(self.cells) * len(self.amounts),)
        widths = (1 + self.replicates, 1 + self.replicates, 1 + self.flips, 4)
        return ResampledSums(*(np.zeros((*shape, width), dtype=np.int64) for width in widths))

    def of_grouping(self, population: AlignedUsers, grouping: SegmentCombinations) -> ResampledSums:
        """Return the sums of a grouping's combinations, each (n_crossings, m, ...)."""
        hashes, flipped = (
            id_hashes(population.ids, np.int64(self.seed + more))[grouping.order]
            if is_requested
            else NO_HASHES
            for more, is_requested in enumerate((self.replicates, self.flips))
        )
        sums = self.zero(grouping.n_crossings, len(self.amounts))
        for first in range(0, len(self.amounts), AMOUNTS_AT_ONCE):
            chosen = slice(first, min(first + AMOUNTS_AT_ONCE, len(self.amounts)))
            n_chosen = chosen.stop - first
            columns, mask = self.columns(population, grouping.order, chosen)
            for crossing, (start, end) in enumerate(pairwise(grouping.ends.tolist())):
                run = slice(start, end)
                if self.replicates:
                    resampled = resampled_sums(poisson_weights, hashes[run], columns[run], self.replicates).T
                    sums.totals[crossing, chosen] = resampled[:n_chosen]
                    sums.weights[crossing, chosen] = resampled[n_chosen:][mask]
                if self.flips:
                    signs = resampled_sums(flips, flipped[run], columns[run, :n_chosen], self.flips)
                    sums.flipped[crossing, chosen] = signs.T
                if self.has_cubes:
                    sums.cubes[crossing, chosen] = cubes_of(columns[run, :n_chosen])
        return sums

    def columns(self, population: AlignedUsers, order: Ints, chosen: slice) -> tuple[Floats, Ints]:
        """Return the c chosen amounts, scaled, with their distinct masks (1 if defined, else 0).

        They are the columns of one array (n, c + masks). The second array (c,) is the index of the mask of
        each amount.
        """
        columns: list[Floats] = []
        masks: dict[bytes, tuple[int, Floats]] = {}
        mask = []
        each = iter_amounts(self.amounts[chosen], population, order)
        for (amounts, is_defined), largest in zip(each, self.largest[chosen].tolist(), strict=True):
            columns.append(scaled(amounts, scale_of(largest)))
            index, _ = masks.setdefault(is_defined.tobytes(), (len(masks), is_defined.astype(np.float64)))
            mask.append(index)
        return np.stack([*columns, *(ones for _, ones in masks.values())], axis=1), np.array(mask)


def repeat_weights(seed: int, model: str, n_repeats: int, n_replicates: int) -> Ints:
    """Return the number of draws of each repeat of a model, 1 in row 0; see ``weights_of_repeats``.

    The draws depend on the seed and the model's name only.
    """
    [state] = id_hashes(pa.array([model]), np.int64(seed))
    return weights_of_repeats(state, n_repeats, n_replicates)


def cubes_of(differences: Floats) -> Ints:
    """Return the partial sums, shape (c, 4), of the cubes of integers (n, c) up to 2^31."""
    whole = differences.astype(np.int64)
    squares = whole * whole
    parts = []
    for half in (squares >> HALF_BITS, squares & ((1 << HALF_BITS) - 1)):
        product = half * whole
        parts += [product >> HALF_BITS, product & ((1 << HALF_BITS) - 1)]
    return np.stack([part.sum(axis=0) for part in parts], axis=1)


def check_replicates(n_cells: int, n_replicates: int) -> None:
    """Raise ConfigError TOO_MANY_REPLICATES if the sums of the replicates do not fit into memory."""
    if n_cells * n_replicates > MOST_SUMS:
        message = f"{n_cells:,} cells x {n_replicates:,} replicates = {n_cells * n_replicates:,} sums"
        hint = f"at most {MOST_SUMS:,}; choose fewer models, metrics, segments or resamples"
        raise ConfigError("TOO_MANY_REPLICATES", f"{message}; {hint}")
