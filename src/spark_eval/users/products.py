"""Exact sums of squares of each model's metric values, and of products of the two models of each pair.

Values of a column are split into digits of 21 bits, integers d_i from -2^20 to 2^20 below one unit,

    value = sum of d_i * 2^(unit - 21 i).

A matrix has one row per digit, and a row 0 that is 1 if the value is defined. Products of these matrices are
integers up to 2^40, and no sum of 2^13 of them is rounded. Three digits hold all values that are at least a
thousandth of the largest one: metrics mostly do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from spark_eval.arrow.codes import Booleans
from spark_eval.errors import DataError
from spark_eval.statistics.differences import QUANTUM_BITS
from spark_eval.statistics.exact import BLOCK, Floats, Ints

# Slices of the models, baseline and candidate: one model with each of several, or n pairs in order.
Match = tuple[slice, slice]
# Number of values that are split into digits at once: they fit into the CPU cache, and outweigh the calls.
AT_ONCE: Final = 1 << 17
UNEVEN: Final = 8
# Maximum number of users whose products are summed as 64-bit integers.
MOST_USERS: Final = 1 << 20
# Differences up to half a quantum count as 0.
LEAST: Final = 2.0 ** -(QUANTUM_BITS + 1)
DIGIT_BITS: Final = 21
# The first digit is at most 2^20, and has no bit below the unit.
FIRST_BITS: Final = 20
MANTISSA_BITS: Final = 53
# The largest scale factor is 2^998: smaller values have zeros as their first digits.
LOWEST_UNIT: Final = -998
HIGHEST: Final = 2**64 - 1
# The bits of infinity.
INFINITY: Final = 0x7FF << 52


@dataclass
class Products:
    """Sums of products in c cells: ``baseline`` and ``candidate`` with themselves, ``cross`` between the two.

    Each has shape (c, pairs, columns, 1 + digits, 1 + digits). Row and column 0 stand for 1 if the value is
    defined; row 1 + i stands for digit i, a multiple of 2^(``unit`` - 21 i). ``unit`` has shape (columns,).
    ``greater`` and ``less`` (c, pairs, columns) count differences above and below 0.
    """

    unit: Ints
    baseline: Ints
    candidate: Ints
    cross: Ints
    greater: Ints
    less: Ints

    def of_cells(self, add_up: Callable[[Ints], Ints]) -> "Products":
        """Return the sums of other cells; ``add_up`` aggregates arrays (c, ...) to them."""
        by_cell = (self.baseline, self.candidate, self.cross, self.greater, self.less)
        return Products(self.unit, *map(add_up, by_cell))

    def replace(self, pair: int, columns: Booleans, recomputed: "Products") -> None:
        """Overwrite the given columns of one pair with recomputed products."""
        for name in ("baseline", "candidate", "cross"):
            replacement = getattr(recomputed, name)
            sums = pad_digits(getattr(self, name), replacement.shape[-1])
            sums[:, pair, columns] = pad_digits(replacement, sums.shape[-1])[:, 0]
            setattr(self, name, sums)


class ProductAccumulator:
    """Accumulator of the products of values (models, columns, rows), NaN if undefined, sorted by cell.

    Each user has one row; with ``starts`` (users,), the offset of each user's rows, the values of a user are
    summed first. ``ends`` (c + 1,) are the offsets of the cells among the users. ``unit`` (columns,) is the
    exponent of the unit of the first digit; None: it follows from the values.
    """

    def __init__(
        self,
        values: Floats,
        matches: Sequence[Match],
        ends: Ints,
        starts: Ints | None = None,
        unit: Ints | None = None,
    ) -> None:
        self.values, self.matches, self.ends, self.starts = values, matches, ends, starts
        self.known, self.defined, self.is_signed = values, None, False
        most = largest_if_plain(values)
        if most is None:
            is_defined = np.isfinite(values)
            if not is_defined.all():
                self.known, self.defined = np.where(is_defined, values, 0.0), is_defined
            least, largest = (reduce(self.known, axis=(0, 2), initial=0.0) for reduce in (np.min, np.max))
            most, self.is_signed = np.maximum(largest, -least), bool((least < 0).any())
        self.rest = self.magnitudes = np.empty((*values.shape[:2], 0))
        self.stacked = np.empty((*values.shape[:2], 0, 0))
        self.unit = first_units(most) if unit is None else unit
        self.scale = 2.0 ** -self.unit.astype(np.float64)[:, None]
        check_scaled(self.known, self.scale)

    def products(self) -> Products:
        """Return the sums of all cells."""
        n_models, n_columns, _ = self.values.shape
        baselines, candidates = model_indices(self.matches)
        n_cells = len(self.ends) - 1
        own = np.zeros((n_cells, n_models, n_columns, 1, 1), dtype=np.int64)
        cross = np.zeros((n_cells, len(baselines), n_columns, 1, 1), dtype=np.int64)
        signs = np.zeros((2, n_cells, len(baselines), n_columns), dtype=np.int64)
        for users, stacked in self.blocks():
            rows = stacked.shape[2]
            own, cross = pad_digits(own, rows), pad_digits(cross, rows)
            runs = list(self.runs(users))
            for cell, start, end in runs:
                part = stacked[..., start:end]
                # Fewer columns than rows on purpose: numpy is slower for a matrix times its own transpose.
                own[cell, :, :, 1:rows, :rows] += (part[:, :, 1:] @ part.swapaxes(-1, -2)).astype(np.int64)
                own[cell, :, :, 0, 0] += (
                    end - start if self.defined is None else np.count_nonzero(part[:, :, 0], axis=-1)
                )
                for pairs, (baseline, candidate) in self.pair_slices():
                    both = part[baseline] @ part[candidate].swapaxes(-1, -2)
                    cross[cell, pairs, :, :rows, :rows] += both.astype(np.int64)
            if self.starts is None:
                self.count_signs(users, runs, signs)
        unit = self.unit if self.starts is None else self.unit + DIGIT_BITS
        return Products(unit, own[:, baselines], own[:, candidates], cross, *signs)

    def pair_slices(self) -> Iterator[tuple[slice, Match]]:
        """Yield the slice of the pairs of each match, and the match."""
        start = 0
        for baseline, candidate in self.matches:
            end = start + candidate.stop - candidate.start
            yield slice(start, end), (baseline, candidate)
            start = end

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of users with their digits; shape (models, columns, 1 + digits, users)."""
        n_models, n_columns, n_rows = self.values.shape
        # Arrays whose rows are a power of two apart would compete for the same lines of the cache.
        size = min(BLOCK, max(64, AT_ONCE // (n_models * n_columns))) - UNEVEN
        n_users = n_rows if self.starts is None else len(self.starts)
        for start in range(0, n_users, size):
            users = slice(start, min(start + size, n_users))
            if self.starts is None:
                yield users, self.digits(users)
            else:
                begins = np.append(self.starts, n_rows)[start : users.stop + 1]
                digits = self.digits(slice(begins[0], begins[-1]))
                yield users, carry_digits(np.add.reduceat(digits, begins[:-1] - begins[0], axis=-1))

    def digits(self, rows: slice) -> Floats:
        """Return mask and digits of some rows; shape (models, columns, 1 + digits, rows).

        They last until the next call: fresh memory would cost more than the digits.
        """
        part = self.known[:, :, rows]
        if part.shape[2] > self.rest.shape[2]:
            self.rest, self.magnitudes = np.empty(part.shape), np.empty(part.shape)
        rest, magnitudes = (memory[:, :, : part.shape[2]] for memory in (self.rest, self.magnitudes))
        np.multiply(part, self.scale, out=rest)
        n_digits = digits_of(np.abs(rest, out=magnitudes) if self.is_signed else rest, magnitudes)
        if n_digits >= self.stacked.shape[2] or part.shape[2] > self.stacked.shape[3]:
            self.stacked = np.empty((*part.shape[:2], 1 + n_digits, self.rest.shape[2]))
            self.stacked[:, :, 0] = 1.0
        stacked = self.stacked[:, :, : 1 + n_digits, : part.shape[2]]
        if self.defined is not None:
            stacked[:, :, 0] = self.defined[:, :, rows]
        for number in range(1, n_digits):
            digit = stacked[:, :, number]
            np.rint(rest, out=digit)
            np.subtract(rest, digit, out=rest)
            np.multiply(rest, 2.0**DIGIT_BITS, out=rest if number + 1 < n_digits else stacked[:, :, -1])
        if n_digits == 1:
            stacked[:, :, 1] = rest
        return stacked

    def runs(self, users: slice) -> Iterator[tuple[int, int, int]]:
        """Yield each cell that has users in a block, with its first and last + 1 index in the block."""
        first = int(np.searchsorted(self.ends, users.start, "right")) - 1
        last = int(np.searchsorted(self.ends, users.stop, "left"))
        for cell, (start, end) in enumerate(pairwise(self.ends[first : last + 1].tolist()), first):
            if start < end:
                yield cell, max(start, users.start) - users.start, min(end, users.stop) - users.start

    def count_signs(self, users: slice, runs: Sequence[tuple[int, int, int]], signs: Ints) -> None:
        """Add the numbers of differences above and below 0 in a block to ``signs``."""
        cells, starts = [cell for cell, *_ in runs], [start for _, start, _ in runs]
        values = self.values[:, :, users]
        for pairs, (baseline, candidate) in self.pair_slices():
            difference = values[candidate] - values[baseline]
            for sign, is_so in enumerate((difference > LEAST, difference < -LEAST)):
                if len(runs) == 1:
                    counted = [[np.count_nonzero(column) for column in of_pair] for of_pair in is_so]
                    signs[sign, cells[0], pairs] += np.array(counted)
                else:
                    of_runs = np.add.reduceat(is_so, starts, axis=-1, dtype=np.int64)
                    signs[sign, cells, pairs] += np.moveaxis(of_runs, -1, 0)


def pair_products(
    values: Floats, matches: Sequence[Match], ends: Ints, starts: Ints | None = None
) -> Products:
    """Return the products over the rows that both models of a pair have; see ``ProductAccumulator``.

    If a value is defined for only one model of a pair, the pair's column is recomputed without that row.
    """
    accumulator = ProductAccumulator(values, matches, ends, starts)
    is_defined = accumulator.defined
    if is_defined is None:
        return accumulator.products()
    baselines, candidates = model_indices(matches)
    if len(baselines) == 1:
        both = is_defined[baselines[0]] & is_defined[candidates[0]]
        return ProductAccumulator(np.where(both, values, np.nan), matches, ends, starts).products()
    products = accumulator.products()
    unit = products.unit if starts is None else products.unit - DIGIT_BITS
    for pair, models in enumerate(zip(baselines, candidates, strict=True)):
        of_baseline, of_candidate = is_defined[list(models)]
        differs = (of_baseline != of_candidate).any(axis=-1)
        if differs.any():
            both = (of_baseline & of_candidate)[differs]
            common = np.where(both, values[list(models)][:, differs], np.nan)
            recomputed = ProductAccumulator(common, [(slice(0, 1), slice(1, 2))], ends, starts, unit[differs])
            products.replace(pair, differs, recomputed.products())
    return products


def parts_of_users(
    values: Floats, ends: Ints, starts: Ints | None = None
) -> Iterator[tuple[Floats, Ints, Ints | None]]:
    """Yield values, ``ends`` and ``starts`` of up to MOST_USERS users each; see ``ProductAccumulator``."""
    n_users = int(ends[-1])
    for first in range(0, max(n_users, 1), MOST_USERS):
        last = min(first + MOST_USERS, n_users)
        own_ends = np.clip(ends, first, last) - first
        if starts is None:
            yield values[:, :, first:last], own_ends, None
        else:
            begin, end = np.append(starts, values.shape[2])[[first, last]].tolist()
            yield values[:, :, begin:end], own_ends, starts[first:last] - begin


def largest_if_plain(values: Floats) -> Floats | None:
    """Return the largest value of each column, 0 without values; None if any is undefined or has a sign."""
    # As integers, bits of positive doubles have their order; infinity, NaN and signs are above all others.
    largest = values.view(np.uint64).max(axis=(0, 2), initial=0)
    return None if (largest >= INFINITY).any() else largest.view(np.float64)


def model_indices(matches: Sequence[Match]) -> tuple[Ints, Ints]:
    """Return the model indices of the baseline and of the candidate of each pair; each of shape (pairs,)."""
    baselines, candidates = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for baseline, candidate in matches:
        candidates.append(np.arange(candidate.start, candidate.stop))
        baselines.append(np.broadcast_to(np.arange(baseline.start, baseline.stop), candidates[-1].shape))
    return np.concatenate(baselines), np.concatenate(candidates)


def carry_digits(sums: Floats) -> Floats:
    """Carry sums of digits over to the next higher digit, adding one digit after row 0, the mask."""
    digits = np.insert(sums, 1, 0.0, axis=2)
    for low in range(digits.shape[2] - 1, 1, -1):
        carry = np.rint(digits[:, :, low] * 2.0**-DIGIT_BITS)
        digits[:, :, low] -= carry * 2.0**DIGIT_BITS
        digits[:, :, low - 1] += carry
    return digits


def pad_digits(products: Ints, rows: int) -> Ints:
    """Pad products with zeros to at least ``rows`` rows and columns."""
    more = max(0, rows - products.shape[-1])
    return np.pad(products, [(0, 0)] * 3 + [(0, more)] * 2) if more else products


def first_units(largest: Floats) -> Ints:
    """Return the exponent of the unit of the first digit of each column, whose largest magnitude is given."""
    mantissa, exponents = np.frexp(largest)
    # The largest may be 2^20 units, and is so for columns up to 1.
    units = exponents.astype(np.int64) - (mantissa == 0.5) - FIRST_BITS
    return np.where(largest > 0, np.maximum(units, LOWEST_UNIT), 0)


def digits_of(magnitudes: Floats, memory: Floats) -> int:
    """Return the number of digits that hold these magnitudes, in units of the first digit.

    ``memory`` of their shape is overwritten; it may be the magnitudes themselves.
    """
    # As integers, the bits of positive doubles have their order; 0 becomes the largest, even if written -0.
    bits = np.subtract(magnitudes.view(np.uint64), np.uint64(1), out=memory.view(np.uint64))
    least = int(bits.min(initial=HIGHEST)) + 1
    if least > HIGHEST:
        return 1
    _, exponent = np.frexp(np.uint64(least).view(np.float64))
    return 1 + -(-max(0, MANTISSA_BITS - int(exponent)) // DIGIT_BITS)


def check_scaled(values: Floats, scale: Floats) -> None:
    """Raise DataError METRIC_OVERFLOW if the magnitudes in a column differ by more than a double covers."""
    for column in np.flatnonzero(scale[:, 0] < 1):
        own = values[:, column]
        if (own * scale[column] / scale[column] != own).any():
            message = "values of one metric differ too much in magnitude to be added, such as 1e300 and 1e-10"
            raise DataError("METRIC_OVERFLOW", message)
