"""Exact sums of products of metric values, of each model with itself and of the two models of each pair.

Values are cut into digits as in ``stats.exact``. Rows of digits, and one that says where a value is defined,
are multiplied as matrices: all their products are whole numbers, and no sum of them rounds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from spark_eval.arrow.hashes import Booleans
from spark_eval.errors import DataError
from spark_eval.stats.differences import QUANTUM_BITS
from spark_eval.stats.exact import BLOCK, DIGIT_BITS, LOWEST_PLACE, POINT_BITS, Floats, Ints

# Which models are compared: one on the left with each on the right, or each with the one beside it.
Match = tuple[slice, slice]
# So many values are cut into digits at once: they and their digits stay near the processor.
AT_ONCE: Final = 1 << 15
# Differences of no more than half a quantum are none.
LEAST: Final = 2.0 ** -(QUANTUM_BITS + 1)
# Most values have no digits behind these.
USUAL_DIGITS: Final = 3


@dataclass
class Products:
    """Sums of products in c cells, each of shape (c, pairs, columns, 1 + digits, 1 + digits).

    Those of the baseline's rows with themselves, of the candidate's, and of the baseline's with the
    candidate's. Row and column 0 stand for 1 where a value is defined; row i for its digit at place
    ``first`` + 1 - i, ``first`` (columns,) being a place of ``stats.exact``. ``greater`` and ``less``
    (c, pairs, columns) count differences above and below 0.
    """

    first: Ints
    baseline: Ints
    candidate: Ints
    cross: Ints
    greater: Ints
    less: Ints

    def of_cells(self, add_up: Callable[[Ints], Ints]) -> "Products":
        """Return the sums of other cells, which ``add_up`` makes of those of these (c, ...)."""
        by_cell = (self.baseline, self.candidate, self.cross, self.greater, self.less)
        return Products(self.first, *map(add_up, by_cell))

    def replace(self, pair: int, columns: Booleans, other: "Products") -> None:
        """Put the only pair of others in the place of some columns of a pair."""
        for name in ("baseline", "candidate", "cross"):
            theirs = getattr(other, name)
            mine = widened(getattr(self, name), theirs.shape[-1])
            mine[:, pair, columns] = widened(theirs, mine.shape[-1])[:, 0]
            setattr(self, name, mine)


class Multiplying:
    """Multiplies values (models, columns, rows), NaN where undefined, as they lie: cell after cell.

    Rows are those of users, one each, unless ``starts`` says with which row each user begins: then products
    are those of the sums over a user's rows. ``ends`` (c + 1,) are the users with whom a cell begins or ends.
    ``first`` (columns,) is the place of the highest digits where others have chosen it.
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
        self.first = first_places(self.known) if first is None else first
        self.scale = 2.0 ** (POINT_BITS - DIGIT_BITS * self.first.astype(np.float64))[:, None]
        check_scaled(self.known, self.scale)

    def products(self) -> Products:
        """Return the sums in all cells."""
        n_models, n_columns, _ = self.values.shape
        lefts, rights = models_of(self.matches)
        n_cells, rows = len(self.ends) - 1, 1 + USUAL_DIGITS
        own = np.zeros((n_cells, n_models, n_columns, rows, rows), dtype=np.int64)
        cross = np.zeros((n_cells, len(lefts), n_columns, rows, rows), dtype=np.int64)
        signs = np.zeros((2, n_cells, len(lefts), n_columns), dtype=np.int64)
        for users, stacked in self.blocks():
            rows = stacked.shape[2]
            own, cross = widened(own, rows), widened(cross, rows)
            runs = list(self.runs(users))
            for cell, start, end in runs:
                part = stacked[..., start:end]
                # Not as many columns as rows: numpy takes longer for a matrix with itself.
                own[cell, :, :, 1:rows, :rows] += (part[:, :, 1:] @ part.swapaxes(-1, -2)).astype(np.int64)
                own[cell, :, :, 0, 0] += np.count_nonzero(part[:, :, 0], axis=-1)
                for pairs, (left, right) in self.places():
                    both = part[left] @ part[right].swapaxes(-1, -2)
                    cross[cell, pairs, :, :rows, :rows] += both.astype(np.int64)
            if self.starts is None:
                self.count_signs(users, runs, signs)
        first = self.first if self.starts is None else self.first + 1
        return Products(first, own[:, lefts], own[:, rights], cross, *signs)

    def places(self) -> Iterator[tuple[slice, Match]]:
        """Yield the places of the pairs of each match, and the match."""
        start = 0
        for left, right in self.matches:
            end = start + right.stop - right.start
            yield slice(start, end), (left, right)
            start = end

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of users, with the digits of their rows (models, columns, 1 + digits, users)."""
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
                yield users, carried(np.add.reduceat(digits, begins[:-1] - begins[0], axis=-1))

    def digits(self, rows: slice) -> Floats:
        """Return where the values of some rows are defined, and their digits; all (models, columns, rows)."""
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
        """Yield the cells of a block, and the users in the block with whom each begins and ends."""
        first = int(np.searchsorted(self.ends, users.start, "right")) - 1
        last = int(np.searchsorted(self.ends, users.stop, "left"))
        for cell, (start, end) in enumerate(pairwise(self.ends[first : last + 1].tolist()), first):
            if start < end:
                yield cell, max(start, users.start) - users.start, min(end, users.stop) - users.start

    def count_signs(self, users: slice, runs: Sequence[tuple[int, int, int]], signs: Ints) -> None:
        """Add how many differences of a block are above and below 0."""
        cells, starts = [cell for cell, *_ in runs], [start for _, start, _ in runs]
        values = self.values[:, :, users]
        for pairs, (left, right) in self.places():
            difference = values[right] - values[left]
            for sign, is_so in enumerate((difference > LEAST, difference < -LEAST)):
                if len(runs) == 1:
                    signs[sign, cells[0], pairs] += np.count_nonzero(is_so, axis=-1)
                else:
                    of_runs = np.add.reduceat(is_so, starts, axis=-1, dtype=np.int64)
                    signs[sign, cells, pairs] += np.moveaxis(of_runs, -1, 0)


def pair_products(
    values: Floats, matches: Sequence[Match], ends: Ints, starts: Ints | None = None
) -> Products:
    """Return the products of values as ``Multiplying`` takes them, of the rows that both models have.

    Where a row is only defined for one model of a pair, the two are multiplied again without it.
    """
    is_defined = np.isfinite(values)
    if is_defined.all():
        return Multiplying(values, matches, ends, starts).products()
    lefts, rights = models_of(matches)
    if len(lefts) == 1:
        both = is_defined[lefts[0]] & is_defined[rights[0]]
        return Multiplying(np.where(both, values, np.nan), matches, ends, starts).products()
    products = Multiplying(values, matches, ends, starts).products()
    first = products.first if starts is None else products.first - 1
    for pair, models in enumerate(zip(lefts, rights, strict=True)):
        one, other = is_defined[list(models)]
        differs = (one != other).any(axis=-1)
        if differs.any():
            both = (one & other)[differs]
            own = np.where(both, values[list(models)][:, differs], np.nan)
            again = Multiplying(own, [(slice(0, 1), slice(1, 2))], ends, starts, first[differs])
            products.replace(pair, differs, again.products())
    return products


def models_of(matches: Sequence[Match]) -> tuple[Ints, Ints]:
    """Return the places of the baseline and of the candidate of each pair among the models."""
    lefts, rights = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for left, right in matches:
        rights.append(np.arange(right.start, right.stop))
        lefts.append(np.broadcast_to(np.arange(left.start, left.stop), rights[-1].shape))
    return np.concatenate(lefts), np.concatenate(rights)


def carried(sums: Floats) -> Floats:
    """Return sums of digits as digits again, one more in front, behind the row that counts."""
    digits = np.insert(sums, 1, 0.0, axis=2)
    for low in range(digits.shape[2] - 1, 1, -1):
        carry = np.rint(digits[:, :, low] * 2.0**-DIGIT_BITS)
        digits[:, :, low] -= carry * 2.0**DIGIT_BITS
        digits[:, :, low - 1] += carry
    return digits


def widened(products: Ints, rows: int) -> Ints:
    """Return products with so many rows and columns of digits, if they have fewer."""
    more = max(0, rows - products.shape[-1])
    return np.pad(products, [(0, 0)] * 3 + [(0, more)] * 2) if more else products


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
