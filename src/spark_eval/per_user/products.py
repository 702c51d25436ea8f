"""Exact sums of squares of each model's metric values, and of products of the two models of each pair.

Values are split into digits as in ``statistics.exact``. A matrix has one row per digit, and a row 0 that is
1 if the value is defined. Products of these matrices are integers, and no sum of them is rounded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from spark_eval.arrow.codes import Booleans
from spark_eval.errors import DataError
from spark_eval.statistics.differences import QUANTUM_BITS
from spark_eval.statistics.exact import BLOCK, DIGIT_BITS, LOWEST_POSITION, POINT_BITS, Floats, Ints

# Slices of the models, baseline and candidate: one model with each of several, or n pairs in order.
Match = tuple[slice, slice]
# Number of values that are split into digits at once, so that values and digits fit into the CPU cache.
AT_ONCE: Final = 1 << 15
# Differences up to half a quantum count as 0.
LEAST: Final = 2.0 ** -(QUANTUM_BITS + 1)
# Number of digits that most values need.
USUAL_DIGITS: Final = 3


@dataclass
class Products:
    """Sums of products in c cells: ``baseline`` and ``candidate`` with themselves, ``cross`` between the two.

    Each has shape (c, pairs, columns, 1 + digits, 1 + digits). Row and column 0 stand for 1 if the value is
    defined; row i stands for the digit with exponent ``first`` + 1 - i, as in ``statistics.exact``.
    ``first`` has shape (columns,). ``greater`` and ``less`` (c, pairs, columns) count differences above and
    below 0.
    """

    first: Ints
    baseline: Ints
    candidate: Ints
    cross: Ints
    greater: Ints
    less: Ints

    def of_cells(self, add_up: Callable[[Ints], Ints]) -> "Products":
        """Return the sums of other cells; ``add_up`` aggregates arrays (c, ...) to them."""
        by_cell = (self.baseline, self.candidate, self.cross, self.greater, self.less)
        return Products(self.first, *map(add_up, by_cell))

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
    summed first. ``ends`` (c + 1,) are the offsets of the cells among the users. ``first`` (columns,) is the
    exponent of the highest digit; None: it follows from the values.
    """

    def __init__(
        self,
        values: Floats,
        matches: Sequence[Match],
        ends: Ints,
        starts: Ints | None = None,
        first: Ints | None = None,
    ) -> None:
        self.values, self.matches, self.ends, self.starts = values, matches, ends, starts
        is_defined = np.isfinite(values)
        self.defined = None if is_defined.all() else is_defined
        self.known = values if self.defined is None else np.where(is_defined, values, 0.0)
        self.first = first_positions(self.known) if first is None else first
        self.scale = 2.0 ** (POINT_BITS - DIGIT_BITS * self.first.astype(np.float64))[:, None]
        check_scaled(self.known, self.scale)

    def products(self) -> Products:
        """Return the sums of all cells."""
        n_models, n_columns, _ = self.values.shape
        baselines, candidates = model_indices(self.matches)
        n_cells, rows = len(self.ends) - 1, 1 + USUAL_DIGITS
        own = np.zeros((n_cells, n_models, n_columns, rows, rows), dtype=np.int64)
        cross = np.zeros((n_cells, len(baselines), n_columns, rows, rows), dtype=np.int64)
        signs = np.zeros((2, n_cells, len(baselines), n_columns), dtype=np.int64)
        for users, stacked in self.blocks():
            rows = stacked.shape[2]
            own, cross = pad_digits(own, rows), pad_digits(cross, rows)
            runs = list(self.runs(users))
            for cell, start, end in runs:
                part = stacked[..., start:end]
                # Fewer columns than rows on purpose: numpy is slower for a matrix times its own transpose.
                own[cell, :, :, 1:rows, :rows] += (part[:, :, 1:] @ part.swapaxes(-1, -2)).astype(np.int64)
                own[cell, :, :, 0, 0] += np.count_nonzero(part[:, :, 0], axis=-1)
                for pairs, (baseline, candidate) in self.pair_slices():
                    both = part[baseline] @ part[candidate].swapaxes(-1, -2)
                    cross[cell, pairs, :, :rows, :rows] += both.astype(np.int64)
            if self.starts is None:
                self.count_signs(users, runs, signs)
        first = self.first if self.starts is None else self.first + 1
        return Products(first, own[:, baselines], own[:, candidates], cross, *signs)

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
        size = min(BLOCK, max(64, AT_ONCE // (n_models * n_columns)))
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
        """Return mask and digits of some rows; shape (models, columns, 1 + digits, rows)."""
        rest = self.known[:, :, rows] * self.scale
        stacked = np.empty((*rest.shape[:2], 2 + USUAL_DIGITS, rest.shape[2]))
        stacked[:, :, 0] = 1.0 if self.defined is None else self.defined[:, :, rows]
        n_digits = 0
        while n_digits < USUAL_DIGITS or rest.any():
            n_digits += 1
            if n_digits == stacked.shape[2]:
                stacked = np.concatenate([stacked, np.empty_like(stacked)], axis=2)
            digit = stacked[:, :, n_digits]
            np.rint(rest, out=digit)
            np.subtract(rest, digit, out=rest)
            np.multiply(rest, 2.0**DIGIT_BITS, out=rest)
        return stacked[:, :, : n_digits + 1]

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
                    signs[sign, cells[0], pairs] += np.count_nonzero(is_so, axis=-1)
                else:
                    of_runs = np.add.reduceat(is_so, starts, axis=-1, dtype=np.int64)
                    signs[sign, cells, pairs] += np.moveaxis(of_runs, -1, 0)


def pair_products(
    values: Floats, matches: Sequence[Match], ends: Ints, starts: Ints | None = None
) -> Products:
    """Return the products over the rows that both models of a pair have; see ``ProductAccumulator``.

    If a value is defined for only one model of a pair, the pair's column is recomputed without that row.
    """
    is_defined = np.isfinite(values)
    if is_defined.all():
        return ProductAccumulator(values, matches, ends, starts).products()
    baselines, candidates = model_indices(matches)
    if len(baselines) == 1:
        both = is_defined[baselines[0]] & is_defined[candidates[0]]
        return ProductAccumulator(np.where(both, values, np.nan), matches, ends, starts).products()
    products = ProductAccumulator(values, matches, ends, starts).products()
    first = products.first if starts is None else products.first - 1
    for pair, models in enumerate(zip(baselines, candidates, strict=True)):
        of_baseline, of_candidate = is_defined[list(models)]
        differs = (of_baseline != of_candidate).any(axis=-1)
        if differs.any():
            both = (of_baseline & of_candidate)[differs]
            common = np.where(both, values[list(models)][:, differs], np.nan)
            recomputed = ProductAccumulator(
                common, [(slice(0, 1), slice(1, 2))], ends, starts, first[differs]
            )
            products.replace(pair, differs, recomputed.products())
    return products


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


def first_positions(values: Floats) -> Ints:
    """Return the exponent of the highest digit of each column of values (models, columns, users)."""
    largest = np.maximum(values.max(axis=(0, 2), initial=0.0), -values.min(axis=(0, 2), initial=0.0))
    _, exponents = np.frexp(largest)
    first = -((DIGIT_BITS - 1 - POINT_BITS - exponents.astype(np.int64)) // DIGIT_BITS)
    return np.where(largest > 0, np.maximum(first, LOWEST_POSITION), 0)


def check_scaled(values: Floats, scale: Floats) -> None:
    """Raise DataError METRIC_OVERFLOW if the magnitudes in a column differ by more than a double covers."""
    for column in np.flatnonzero(scale[:, 0] < 1):
        own = values[:, column]
        if (own * scale[column] / scale[column] != own).any():
            message = "values of one metric differ too much in magnitude to be added, such as 1e300 and 1e-10"
            raise DataError("METRIC_OVERFLOW", message)
