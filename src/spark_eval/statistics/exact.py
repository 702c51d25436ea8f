"""Exact sums of doubles and of their squares, by cell; they can be added in any order.

A double is split into digits of 20 bits, integers d_p from -2^19 to 2^19 at positions p of one grid,

    value = sum of d_p * 2^(20 p - 18),    value^2 = sum of d_p * d_q * 2^(20 (p + q) - 36).

At most four adjacent digits differ from 0. Digits, and products of digits with the same p + q, are integers
below 2^40: sums of 2^13 of them are exact as doubles. Only such sums are stored, as integers by position.
They are added in any order, and rounded once, at the very end.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Integers by position of the digit: an array (cells,) for each.
DigitSums = dict[int, Ints]
Amounts = TypeVar("Amounts", Floats, Ints)
# Exponent of two, and digits (n,) of as many numbers: see ``terms_of``.
Term = tuple[int, Floats]

DIGIT_BITS: Final = 20
# The highest digit of values up to 1 is at position 0; squares have twice as many bits after the binary
# point.
POINT_BITS: Final = 18
# Maximum number of adjacent digits of a value that differ from 0.
MOST_DIGITS: Final = 4
# Number of values summed as doubles, and of such sums added as 64-bit integers.
BLOCK: Final = 1 << 13
MOST_SUMMED: Final = BLOCK << 9
# Sums of a block of digits times smaller factors are exact as doubles.
LARGEST_FACTOR: Final = 2.0**19
# Sums are transferred as limbs of two digits: sums of millions of limbs fit 64 bits.
LIMB_BITS: Final = 2 * DIGIT_BITS
# Maximum number of halves of values that are summed as doubles.
MOST_HALVES: Final = 64
# Number of values whose arrays stay in the processor's cache.
VALUES_AT_ONCE: Final = 1 << 15
# The largest scale factor is 2^998: smaller values have their first digit at a lower position.
LOWEST_POSITION: Final = -49


@dataclass(frozen=True)
class Groups:
    """Cells of values: one for all values (unless ``groups_only``), then one per group, by codes (n,)."""

    groups: Sequence[tuple[Ints, int]] = ()
    groups_only: bool = False

    def block(self, start: int) -> "Groups":
        """Return the groups of the block of values that starts here."""
        parts = [(codes[start : start + BLOCK], n_groups) for codes, n_groups in self.groups]
        return Groups(parts, self.groups_only)

    def sums(self, values: Floats | NDArray[np.bool_]) -> Ints:
        """Return the sum of integers over all values, then in each group; shape (cells,)."""
        if not self.groups and not self.groups_only:
            return np.array([int(values.sum())])
        parts = [np.bincount(codes, values, minlength=n_groups) for codes, n_groups in self.groups]
        together = [] if self.groups_only else [values.sum(keepdims=True)]
        return np.concatenate([*together, *parts]).astype(np.int64)

    def squares(self, digits: Sequence[Floats]) -> DigitSums:
        """Return the sums of the squares of values with these digits, keyed as those of ``products``."""
        if self.groups or self.groups_only:
            return {offset: self.sums(product) for offset, product in products(digits).items()}
        sums = Counter[int]()
        for high, low in pairs_of_digits(len(digits)):
            # All sums are integers below 2^53, so a dot product is exact in any order.
            sums[high + low] += (1 + (high < low)) * int(digits[high] @ digits[low])
        return {offset: np.array([amount]) for offset, amount in sums.items()}


@dataclass(frozen=True)
class ExactSums:
    """Sums of values, of their squares and of their products with factors in each cell, by digit position."""

    total: DigitSums = field(default_factory=dict)
    squares: DigitSums = field(default_factory=dict)
    products: DigitSums = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        values: Floats,
        groups: Groups,
        *,
        has_total: bool = True,
        has_squares: bool = True,
        factors: Floats | None = None,
    ) -> "ExactSums":
        """Sum finite values: up to MOST_SUMMED if squares are summed too.

        ``factors`` are integers below LARGEST_FACTOR; the values are multiplied with them.

        >>> sums = ExactSums.of(np.array([0.1, 0.3]), Groups(), factors=np.array([3.0, 1.0]))
        >>> [float(one) for one in integers_of_sums(sums.products)]
        [0.6]
        """
        sums = cls()
        for start in range(0, len(values), BLOCK):
            block, chosen = groups.block(start), slice(start, start + BLOCK)
            part, times = values[chosen], np.ones(1, np.int64)
            if factors is None and part[0] == part[-1] and (part == part[0]).all():
                times, block, part = block.sums(np.ones(len(part), dtype=bool)), Groups(), part[:1]
            for first, digits in digit_runs(part):
                for offset, digit in enumerate(digits):
                    if has_total:
                        add(sums.total, first - offset, times * block.sums(digit))
                    if factors is not None:
                        add(sums.products, first - offset, block.sums(digit * factors[chosen]))
                for offset, amounts in block.squares(digits).items() if has_squares else ():
                    add(sums.squares, 2 * first - offset, times * amounts)
        return sums


def exact_sums(values: Floats, cells: Ints | None = None, n_cells: int = 1) -> DigitSums:
    """Return the sum of values in each cell; ``cells`` (n,) has the cell of each value, None: one cell.

    Raise ValueError for values that are NaN or infinite.

    >>> list(map(float, integers_of_sums(exact_sums(np.array([1e100, 1.0, -1e100, 0.1])))))
    [1.1]
    >>> list(map(float, integers_of_sums(exact_sums(np.ones(3), np.array([0, 2, 2]), 3))))
    [1.0, 0.0, 2.0]
    """
    if not np.isfinite(values).all():
        raise ValueError("a value is too large to be summed")
    groups = Groups() if cells is None else Groups([(cells, n_cells)], groups_only=True)
    return {0: np.zeros(n_cells, dtype=np.int64)} | ExactSums.of(values, groups, has_squares=False).total


def sums_by_group(values: Floats | None, groups: Ints, n_groups: int) -> Floats:
    """Return the sum of the values of each of many groups, exact until it is rounded; None: 1 each.

    >>> sums_by_group(np.array([1e16, 1.0, 1.0, -1e16, -0.25]), np.array([0, 0, 1, 0, 2]), 3).tolist()
    [1.0, 1.0, -0.25]
    """
    if values is None:
        return np.bincount(groups, minlength=n_groups).astype(np.float64)
    is_positive = values.min(initial=0.0) >= 0
    sums = GroupSums(n_groups, int(np.bincount(groups).max(initial=0)) if is_positive else None)
    sums.add(values, groups)
    return sums.rounded


def sums_of_runs(values: Floats, starts: Ints) -> Floats:
    """Return the sums of runs of finite values, exact until they are rounded; a run begins at each start.

    >>> sums_of_runs(np.array([0.1, 0.2, 0.3, 1.0]), np.array([0, 3])).tolist()
    [0.6, 1.0]
    """
    lengths = np.diff(starts, append=len(values))
    if lengths.max(initial=0) > MOST_HALVES or len(unusual(values)):
        return sums_by_group(values, np.repeat(np.arange(len(starts)), lengths), len(starts))
    # Sums of either half are exact; see ``GroupSums``.
    high = np.rint(values * 2.0**26) * 2.0**-26
    return np.asarray(np.add.reduceat(high, starts) + np.add.reduceat(values - high, starts))


def rounded_limbs(limbs: Mapping[int, Ints], n_groups: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the sums (n_groups,) as doubles, and True for those that are negative: these are imprecise."""
    total, is_negative = np.zeros(n_groups), np.zeros(n_groups, dtype=bool)
    for limb, amounts in sorted(limbs.items()):
        total += np.ldexp(amounts.astype(np.float64), LIMB_BITS * limb - POINT_BITS)
        is_negative |= amounts < 0
    return total, is_negative


def unusual(values: Floats) -> Ints:
    """Return the indices of values that are neither 0 nor at least 2^-20 and below 2^20."""
    is_small = values < 2.0**-20
    n_zeros = np.count_nonzero(values == 0)
    if np.count_nonzero(is_small) == n_zeros and values.max(initial=0.0) < 2.0**20:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero((is_small & (values != 0)) | (values >= 2.0**20))


def small_parts(n_rows: int, groups: Ints | None = None) -> Iterator[tuple[slice, Ints | slice]]:
    """Yield rows whose arrays stay in the processor's cache, and their groups; by default row n is group n.

    Larger arrays cost several times as much for each row: they are new memory each time.
    """
    for start in range(0, n_rows, VALUES_AT_ONCE):
        rows = slice(start, min(start + VALUES_AT_ONCE, n_rows))
        yield rows, rows if groups is None else groups[rows]


class GroupSums:
    """Exact sums of the values of each of many groups; values are added in any number of parts.

    Usual values (see ``unusual``) of groups with at most MOST_HALVES values are each split into a multiple
    of 2^-26 and a rest up to 2^-27, which is a multiple of 2^-72: sums of 64 of each are exact as doubles.
    ``highs`` and ``lows`` (n_groups,) are these sums, times 2^26. Other values are split into digits;
    ``digits`` are the sums of these by position, also as doubles.
    """

    def __init__(self, n_groups: int, most_rows: int | None = None) -> None:
        self.n_groups, self.has_halves = n_groups, most_rows is not None and most_rows <= MOST_HALVES
        n_halves = n_groups if self.has_halves else 0
        self.highs, self.lows = np.zeros(n_halves), np.zeros(n_halves)
        self.digits: dict[int, Floats] = {}

    def add(self, values: Floats, groups: Ints | None = None) -> None:
        """Add finite values to the sums of their groups; without groups, each to that of its index."""
        for rows, chosen in small_parts(len(values), groups):
            self.add_part(values[rows], chosen)

    def add_part(self, values: Floats, groups: Ints | slice) -> None:
        """Add a part of ``small_parts``."""
        (self.add_halves if self.has_halves else self.add_digits)(values, groups)

    def add_halves(self, values: Floats, groups: Ints | slice) -> None:
        """Add usual values by halves, and others by digits."""
        others = unusual(values)
        if len(others):
            self.add_digits(
                values[others], others + groups.start if isinstance(groups, slice) else groups[others]
            )
            values = values.copy()
            values[others] = 0.0
        scaled = values * 2.0**26
        high = np.rint(scaled)
        scaled -= high
        add_at(self.highs, groups, high)
        add_at(self.lows, groups, scaled)

    def add_digits(self, values: Floats, groups: Ints | slice) -> None:
        """Add values of any size."""
        for first, digits in digit_runs(values):
            for position, digit in zip(range(first, first - len(digits), -1), digits, strict=True):
                if position not in self.digits:
                    self.digits[position] = np.zeros(self.n_groups)
                add_at(self.digits[position], groups, digit)

    @property
    def limbs(self) -> Mapping[int, Ints]:
        """The sums as limbs (n_groups,) by index."""
        limbs = self.limbs_of_halves
        if not self.digits:
            return limbs
        sums = {position: amounts.astype(np.int64) for position, amounts in self.digits.items()}
        for limb, amounts in limbs.items():
            add(sums, 2 * limb, amounts)
        return normalize_limbs(sums)

    @property
    def limbs_of_halves(self) -> Mapping[int, Ints]:
        """The sums of the halves as limbs: multiples of 2^-18, 2^-58 and 2^-98."""
        highs, lows = self.highs.astype(np.int64), (self.lows * 2.0**46).astype(np.int64)
        limbs = {-2: (lows & ((1 << 14) - 1)) << 26, -1: ((highs & 255) << 32) + (lows >> 14), 0: highs >> 8}
        limbs[0] += limbs[-1] >> LIMB_BITS
        limbs[-1] &= (1 << LIMB_BITS) - 1
        limbs[1] = limbs[0] >> LIMB_BITS
        limbs[0] &= (1 << LIMB_BITS) - 1
        return {limb: amounts for limb, amounts in limbs.items() if amounts.any()}

    @property
    def rounded(self) -> Floats:
        """The sums as doubles."""
        limbs = self.limbs
        total, is_negative = rounded_limbs(limbs, self.n_groups)
        if is_negative.any():
            # The highest limb of a negative sum is negative, and would cancel all digits of the others.
            mirrored = normalize_limbs({2 * limb: -amounts for limb, amounts in limbs.items()})
            total = np.where(is_negative, -rounded_limbs(mirrored, self.n_groups)[0], total)
        return total

    def terms(self, groups: Ints | slice) -> list[Term]:
        """Return the sums of some groups as terms of products."""
        halves = [(-26, amounts) for amounts in (self.highs, self.lows) if self.has_halves]
        digits = [(DIGIT_BITS * at - POINT_BITS, amounts) for at, amounts in self.digits.items()]
        parts = [(exponent, terms_of(amounts[groups])) for exponent, amounts in (*halves, *digits)]
        return [(exponent + more, digit) for exponent, terms in parts for more, digit in terms]


def add_at(totals: Amounts, groups: Ints | slice, amounts: Amounts) -> None:
    """Add amounts to the totals of their groups, which may recur."""
    if isinstance(groups, slice):
        totals[groups] += amounts
    else:
        np.add.at(totals, groups, amounts)


def terms_of(values: Floats) -> list[Term]:
    """Return values as terms: integers of 20 bits, each times a power of two, which add up to the values.

    >>> [(exponent, digit.tolist()) for exponent, digit in terms_of(np.array([3.0, 5.0]))]
    [(2, [1.0, 1.0]), (-18, [-262144.0, 262144.0])]
    """
    return [
        (DIGIT_BITS * (first - offset) - POINT_BITS, digit)
        for first, digits in digit_runs(values)
        for offset, digit in enumerate(digits)
    ]


def sum_of_terms(terms: Sequence[Term]) -> Fraction:
    """Return the exact sum of one number per group.

    >>> float(sum_of_terms(terms_of(np.array([0.5, 0.25]))))
    0.75
    """
    sums = Counter[int]()
    for exponent, digit in terms:
        sums[exponent] += int(digit.sum())
    return total_of(sums)


def sum_of_term_products(one: Sequence[Term], other: Sequence[Term]) -> Fraction:
    """Return the exact sum of the products of two numbers per group.

    >>> terms = terms_of(np.array([0.75, 2.0]))
    >>> float(sum_of_term_products(terms, terms))
    4.5625
    """
    sums = Counter[int]()
    for exponent, digits in one:
        for more, others in other:
            for block in (slice(start, start + BLOCK) for start in range(0, len(digits), BLOCK)):
                # All sums are integers below 2^53, so a dot product is exact in any order.
                sums[exponent + more] += int(digits[block] @ others[block])
    return total_of(sums)


def total_of(sums: Mapping[int, int]) -> Fraction:
    """Return the total of integers, each times a power of two, by its exponent."""
    lowest = min(sums, default=0)
    whole = sum(amount << (exponent - lowest) for exponent, amount in sums.items())
    return whole * Fraction(2) ** lowest


def counts(cells: Ints, n_cells: int) -> DigitSums:
    """Return the number of values in each cell, as sums of ones."""
    return {0: np.bincount(cells, minlength=n_cells) << POINT_BITS}


def add(totals: DigitSums, position: int, amounts: Ints) -> None:
    """Add amounts (cells,) to the total of a position."""
    totals[position] = totals[position] + amounts if position in totals else amounts


def digit_runs(values: Floats) -> Iterator[tuple[int, list[Floats]]]:
    """Yield first position and digits (n,) of the values, highest first; twice if sizes differ widely."""
    largest = max(values.max(initial=0.0), -values.min(initial=0.0))
    if not largest:
        return
    _, exponent = np.frexp(largest)
    first = max(-((DIGIT_BITS - 1 - POINT_BITS - int(exponent)) // DIGIT_BITS), LOWEST_POSITION)
    scale = 2.0 ** (POINT_BITS - DIGIT_BITS * first)
    scaled = values * scale
    if scale < 1 and not (is_exact := scaled / scale == values).all():
        # Values that are much smaller than the largest lose bits when they are scaled down.
        yield from digit_runs(np.where(is_exact, 0.0, values))
        scaled = np.where(is_exact, scaled, 0.0)
    digits = []
    while scaled.any():
        digits.append(np.rint(scaled))
        scaled -= digits[-1]
        scaled *= 2.0**DIGIT_BITS
    yield first, digits


def pairs_of_digits(n_digits: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of digits, high and low, whose product may differ from 0."""
    for high in range(n_digits):
        for low in range(high, min(high + MOST_DIGITS, n_digits)):
            yield high, low


def products(digits: Sequence[Floats]) -> dict[int, Floats]:
    """Return the digits (n,) of the squares, by their distance below twice the first position."""
    squares: dict[int, Floats] = {}
    for high, low in pairs_of_digits(len(digits)):
        one, other = digits[high], digits[low]
        product = one * other if low == high else one * (other + other)
        squares[high + low] = squares[high + low] + product if high + low in squares else product
    return squares


def normalize_limbs(sums: DigitSums) -> Mapping[int, Ints]:
    """Return limbs of 40 bits by index: arrays (cells,), all but the highest from 0 to 2^40."""
    if not sums:
        return {}
    first, last = min(sums) // 2, max(sums) // 2
    n_cells = len(next(iter(sums.values())))
    # The carry beyond the last digit takes up to 64 bits.
    digits = np.zeros((2 * (last - first + 3), n_cells), dtype=np.int64)
    for position, amounts in sums.items():
        digits[position - 2 * first] = amounts
    for low in range(len(digits) - 1):
        digits[low + 1] += digits[low] >> DIGIT_BITS
        digits[low] &= (1 << DIGIT_BITS) - 1
    paired = digits[0::2] + (digits[1::2] << DIGIT_BITS)
    return {first + number: amounts for number, amounts in enumerate(paired) if amounts.any()}


def integer_of_limbs(amounts: Mapping[int, int], point_bits: int) -> Fraction:
    """Return the number with these limbs; squares have twice the POINT_BITS of values.

    >>> integer_of_limbs({0: 3, 1: 1}, POINT_BITS) == Fraction(3 + 2**40, 2**18)
    True
    """
    lowest = min(amounts, default=0)
    whole = sum(amount << LIMB_BITS * (limb - lowest) for limb, amount in amounts.items())
    return whole * Fraction(2) ** (LIMB_BITS * lowest - point_bits)


def integers_of_sums(sums: DigitSums) -> list[Fraction]:
    """Return the sums of values in all cells as fractions."""
    lowest = min(sums)
    unit = Fraction(2) ** (DIGIT_BITS * lowest - POINT_BITS)
    columns = zip(*(amounts.tolist() for amounts in sums.values()), strict=True)
    shifts = [DIGIT_BITS * (position - lowest) for position in sums]
    return [
        sum(amount << shift for amount, shift in zip(cell, shifts, strict=True)) * unit for cell in columns
    ]


def digits_of_sums(numbers: Sequence[Fraction]) -> DigitSums:
    """Return numbers as sums of values in cells: the inverse of ``integers_of_sums``.

    >>> numbers = [Fraction(3, 2**70), Fraction(-7), Fraction(0)]
    >>> integers_of_sums(digits_of_sums(numbers)) == numbers
    True
    """
    most_bits = max((number.denominator.bit_length() - 1 for number in numbers), default=0)
    position = min(0, (POINT_BITS - most_bits) // DIGIT_BITS)
    unit = Fraction(2) ** (POINT_BITS - DIGIT_BITS * position)
    rest, sums = [int(number * unit) for number in numbers], DigitSums()
    while not sums or any(rest):
        has_sign_only = all(number in (0, -1) for number in (one >> DIGIT_BITS for one in rest))
        digits = rest if has_sign_only else [number & ((1 << DIGIT_BITS) - 1) for number in rest]
        sums[position] = np.array(digits, dtype=np.int64)
        rest = [] if has_sign_only else [number >> DIGIT_BITS for number in rest]
        position += 1
    return sums


def two_product(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return a product as a double, and its rounding error; their sum is exact below 1e300.

    >>> product, rest = two_product(np.array([1.0 + 2.0**-30]), np.array([1.0 + 2.0**-30]))
    >>> float(product[0] - 1.0 - 2.0**-29), float(rest[0]) == 2.0**-60
    (0.0, True)

    Source: Dekker, A floating-point technique for extending the available precision, 1971.
    """
    product = one * other
    (one_high, one_low), (other_high, other_low) = split_double(one), split_double(other)
    rest = ((one_high * other_high - product) + one_high * other_low + one_low * other_high) + (
        one_low * other_low
    )
    return product, rest


def split_double(values: Floats) -> tuple[Floats, Floats]:
    """Split each value into the sum of two doubles with half as many bits."""
    spread = values * (2.0**27 + 1)
    high = spread - (spread - values)
    return high, values - high
