"""Exact sums of products of metric values, of each model with itself and of the two models of each pair.

Values are cut into digits as in ``stats.exact``. Rows of digits, and one that says where a value is defined,
are multiplied as matrices: all their products are whole numbers, and no sum of them rounds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from spark_eval.arrow.hashes import changes
from spark_eval.errors import DataError
from spark_eval.stats.exact import BLOCK, DIGIT_BITS, LOWEST_PLACE, POINT_BITS, Floats, Ints

# Which models are compared: one on the left with each on the right, or each with the one beside it.
Match = tuple[slice, slice]
# So many values are cut into digits at once: they and their digits stay near the processor.
AT_ONCE: Final = 1 << 15
# Differences of less than half of this are none: .6 - .4 and .4 - .2 are equal.
QUANTUM: Final = 2.0**-40
# Most values have no digits behind these.
USUAL_DIGITS: Final = 3


@dataclass
class Products:
    """Sums of products in c cells, each of shape (c, models or pairs, columns, 1 + digits, 1 + digits).

    Row and column 0 stand for 1 where a value is defined; row i for its digit at place ``first`` + 1 - i,
    ``first`` (columns,) being a place of ``stats.exact``. ``greater`` and ``less`` (c, pairs, columns) count
    differences above and below 0.
    """

    first: Ints
    own: Ints
    cross: Ints
    greater: Ints
    less: Ints


class Multiplying:
    """Multiplies values (models, columns, users), NaN where undefined, as they lie: cell after cell.

    ``ends`` (c + 1,) are the users with whom a cell begins or ends.
    """

    def __init__(self, values: Floats, matches: Sequence[Match], ends: Ints) -> None:
        self.values, self.matches, self.ends = values, matches, ends
        self.n_models, self.n_columns, self.n_users = values.shape
        is_defined = np.isfinite(values)
        self.defined = None if is_defined.all() else is_defined
        self.known = values if self.defined is None else np.where(is_defined, values, 0.0)
        self.first = first_places(self.known)
        self.scale = 2.0 ** (POINT_BITS - DIGIT_BITS * self.first.astype(np.float64))[:, None]
        check_scaled(self.known, self.scale)

    def products(self) -> Products:
        """Return the sums in all cells."""
        n_cells, n_pairs, digits = len(self.ends) - 1, count_pairs(self.matches), USUAL_DIGITS + 1
        own = np.zeros((n_cells, self.n_models, self.n_columns, digits + 1, digits + 1), dtype=np.int64)
        cross = np.zeros((n_cells, n_pairs, *own.shape[2:]), dtype=np.int64)
        signs = np.zeros((2, n_cells, n_pairs, self.n_columns), dtype=np.int64)
        for block, stacked in self.blocks():
            rows = stacked.shape[2]
            if rows > own.shape[-1]:
                wider = [(0, 0)] * 3 + [(0, rows - own.shape[-1])] * 2
                own, cross = np.pad(own, wider), np.pad(cross, wider)
            runs = list(self.runs(block))
            for cell, start, end in runs:
                part = stacked[..., start:end]
                # Not as many columns as rows: numpy takes longer for a matrix with itself.
                own[cell, :, :, 1:rows, :rows] += whole(part[:, :, 1:] @ part.swapaxes(-1, -2))
                own[cell, :, :, 0, 0] += whole(part[:, :, 0].sum(axis=-1))
                for pairs, (left, right) in self.places():
                    cross[cell, pairs, :, :rows, :rows] += whole(part[left] @ part[right].swapaxes(-1, -2))
            self.count_signs(block, runs, signs)
        return Products(self.first, own, cross, *signs)

    def places(self) -> Iterator[tuple[slice, Match]]:
        """Yield the places of the pairs of each match, and the match."""
        start = 0
        for match in self.matches:
            end = start + count_pairs([match])
            yield slice(start, end), match
            start = end

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of users, with their digits (models, columns, 1 + digits, users)."""
        size = min(BLOCK, max(64, AT_ONCE // (self.n_models * self.n_columns)))
        stacked = np.ones((self.n_models, self.n_columns, 1 + USUAL_DIGITS, size))
        for start in range(0, self.n_users, size):
            block = slice(start, min(start + size, self.n_users))
            n_users = block.stop - start
            if self.defined is not None:
                stacked[:, :, 0, :n_users] = self.defined[:, :, block]
            rest, digits = self.known[:, :, block] * self.scale, 0
            while digits < USUAL_DIGITS or rest.any():
                digits += 1
                if digits == stacked.shape[2]:
                    stacked = np.concatenate([stacked, np.empty_like(stacked[:, :, :1])], axis=2)
                digit = stacked[:, :, digits, :n_users]
                np.rint(rest, out=digit)
                np.subtract(rest, digit, out=rest)
                np.multiply(rest, 2.0**DIGIT_BITS, out=rest)
            yield block, stacked[:, :, : digits + 1, :n_users]

    def runs(self, block: slice) -> Iterator[tuple[int, int, int]]:
        """Yield the cells of a block, and the users in the block with whom each begins and ends."""
        first = int(np.searchsorted(self.ends, block.start, "right")) - 1
        last = int(np.searchsorted(self.ends, block.stop, "left"))
        for cell, (start, end) in enumerate(pairwise(self.ends[first : last + 1].tolist()), first):
            if start < end:
                yield cell, max(start, block.start) - block.start, min(end, block.stop) - block.start

    def count_signs(self, block: slice, runs: Sequence[tuple[int, int, int]], signs: Ints) -> None:
        """Add how many differences of a block are above and below 0."""
        cells, starts = [cell for cell, *_ in runs], [start for _, start, _ in runs]
        values = self.values[:, :, block]
        for pairs, (left, right) in self.places():
            difference = values[right] - values[left]
            for sign, is_so in enumerate((difference > QUANTUM / 2, difference < -QUANTUM / 2)):
                if len(runs) == 1:
                    signs[sign, cells[0], pairs] += np.count_nonzero(is_so, axis=-1)
                else:
                    counted_so = np.add.reduceat(is_so, starts, axis=-1, dtype=np.int64)
                    signs[sign, cells, pairs] += np.moveaxis(counted_so, -1, 0)


def whole(sums: Floats) -> Ints:
    """Return sums that are whole numbers as such."""
    return sums.astype(np.int64)


def count_pairs(matches: Sequence[Match]) -> int:
    """Return how many pairs of models there are."""
    return sum(right.stop - right.start for _, right in matches)


def first_places(values: Floats) -> Ints:
    """Return the place of the highest digit of each column's values (models, columns, users)."""
    largest = np.maximum(values.max(axis=(0, 2), initial=0.0), -values.min(axis=(0, 2), initial=0.0))
    _, exponents = np.frexp(largest)
    first = -((DIGIT_BITS - 1 - POINT_BITS - exponents.astype(np.int64)) // DIGIT_BITS)
    return np.where(largest > 0, np.maximum(first, LOWEST_PLACE), 0)


def check_scaled(values: Floats, scale: Floats) -> None:
    """Raise DataError METRIC_OVERFLOW for a column whose values lie further apart than doubles reach."""
    for column in np.flatnonzero(scale[:, 0] < 1):
        own = values[:, column]
        if (own * scale[column] / scale[column] != own).any():
            message = "values of one metric are too far apart to be added, such as 1e300 and 1e-10"
            raise DataError("METRIC_OVERFLOW", message)
