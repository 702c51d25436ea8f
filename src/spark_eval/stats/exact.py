"""Sums of doubles without a rounding: integers, which any order adds to the same total.

A double is an integer times a power of two. Integers of one power are summed as such, and the powers
together in Python's integers, of any length: in units of 2^-1126, of which every double is a whole number.
So a sum has the same bits whatever the partitioning, and is rounded once, when it becomes a double again.
"""

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNIT_BITS: Final = 1126
# Halves of a mantissa: sums of so many are exact as doubles.
LOW_BITS: Final = 26
MOST_VALUES: Final = 1 << 25


def exact_sums(values: Floats, places: Ints | None = None, n_places: int = 1) -> list[int]:
    """The sum at each place, in units; values (n,) go to places (n,), None: all to the first.

    Raises ValueError for values that are no numbers.

    >>> [float(in_full(total)) for total in exact_sums(np.array([1e100, 1.0, -1e100, 0.1]))]
    [1.1]
    >>> [float(in_full(total)) for total in exact_sums(np.ones(3), np.array([0, 2, 2]), 3)]
    [1.0, 0.0, 2.0]
    """
    totals = [0] * n_places
    for start in range(0, len(values), MOST_VALUES):
        part = slice(start, start + MOST_VALUES)
        add_part(totals, values[part], None if places is None else places[part])
    return totals


def add_part(totals: list[int], values: Floats, places: Ints | None) -> None:
    """Add up to MOST_VALUES values to the totals."""
    if not np.isfinite(values).all():
        raise ValueError("a value is too large to be added")
    mantissas, exponents = np.frexp(values)
    first = int(exponents.min())
    width = int(exponents.max()) - first + 1
    cells = exponents - first if places is None else places * width + (exponents - first)
    scaled = mantissas * 2.0 ** (53 - LOW_BITS)
    high = np.floor(scaled)
    highs, lows = (
        np.bincount(cells, part, minlength=len(totals) * width)
        for part in (high, (scaled - high) * 2.0**LOW_BITS)
    )
    for cell in np.flatnonzero((highs != 0) | (lows != 0)).tolist():
        place, power = divmod(cell, width)
        mantissa = (int(highs[cell]) << LOW_BITS) + int(lows[cell])
        totals[place] += mantissa << (first + power - 53 + UNIT_BITS)


def counts(places: Ints, n_places: int) -> list[int]:
    """How many rows go to each place, in units."""
    return [number << UNIT_BITS for number in np.bincount(places, minlength=n_places).tolist()]


def in_full(total: int) -> Fraction:
    """The number whose sum in units this is."""
    return Fraction(total, 1 << UNIT_BITS)


def two_product(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """The product as a double, and what its rounding took away: together they are exact below 1e300.

    >>> product, rest = two_product(np.array([1.0 + 2.0**-30]), np.array([1.0 + 2.0**-30]))
    >>> float(product[0] - 1.0 - 2.0**-29), float(rest[0]) == 2.0**-60
    (0.0, True)

    Source: Dekker, A floating-point technique for extending the available precision, 1971.
    """
    product = one * other
    (one_high, one_low), (other_high, other_low) = halves(one), halves(other)
    rest = ((one_high * other_high - product) + one_high * other_low + one_low * other_high) + (
        one_low * other_low
    )
    return product, rest


def halves(values: Floats) -> tuple[Floats, Floats]:
    """Each value as a sum of two of half as many bits."""
    spread = values * (2.0**27 + 1)
    high = spread - (spread - values)
    return high, values - high
