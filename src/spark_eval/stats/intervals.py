"""Exact means and their normal confidence intervals.

A sum of doubles depends on the order of its terms, and Spark adds them in no fixed order. So values are
summed as integers, which any order adds to the same total: each value v >= 0 is split into limbs,

    v = limb_0 * 2^-60 + limb_1 * 2^-28 + limb_2 * 2^4,

``limb_0`` rounded half to even, and Spark sums each limb on its own. This module turns the sums of the
limbs back into a number by rational arithmetic and rounds once, at the end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final

UNIT_BITS: Final = 60
LIMB_BITS: Final = 32
# What the limbs hold: 2^62 units of the top one.
LARGEST: Final = 2.0**66

# Twice the most that rounding to units, and to the 53 bits of a double, can move a number (of size 1).
_UNIT: Final = Fraction(1, 2**UNIT_BITS)
_DOUBLE_EPSILON: Final = Fraction(1, 2**52)


@dataclass(frozen=True)
class Summary:
    """A mean over n users, its standard error and confidence interval; None where undefined."""

    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n: int


def from_limbs(limbs: Sequence[int]) -> Fraction:
    """The number whose limbs, lowest first, these are; sums of limbs give the sum of the numbers.

    >>> from_limbs([2**59, 0, 0]), from_limbs([0, 2**28, 0]), from_limbs([0, 0, 1])
    (Fraction(1, 2), Fraction(1, 1), Fraction(16, 1))
    """
    units = sum(limb << (LIMB_BITS * place) for place, limb in enumerate(limbs))
    return units * _UNIT


def summarise(total: Fraction, total_of_squares: Fraction, n: int, confidence: float = 0.95) -> Summary:
    """Mean of n values with the interval value +- z * std_error, from their sum and sum of squares.

    ``value`` is the correctly rounded quotient, total / n. ``std_error`` = s / sqrt(n), where s^2 =
    (sum of squares - total^2 / n) / (n - 1) is the sample variance. z is the normal quantile at
    (1 + confidence) / 2, 1.96 for 0.95. The interval is symmetric and may reach outside the metric's
    bounds. Without values nothing is defined; from one value its mean alone is.

    Values 0, 0, 1, 1: s^2 = (2 - 1) / 3, std_error = sqrt(1 / 12).

    >>> summary = summarise(Fraction(2), Fraction(2), 4)
    >>> summary.value, round(summary.std_error, 6), round(summary.ci_low, 6), round(summary.ci_high, 6)
    (0.5, 0.288675, -0.065793, 1.065793)

    Source: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2, with z for t as n is large.
    """
    if n == 0:
        return Summary(None, None, None, None, 0)
    value = float(total / n)
    if n == 1:
        return Summary(value, None, None, None, 1)
    std_error = math.sqrt(sample_variance(total, total_of_squares, n) / n)
    margin = NormalDist().inv_cdf((1 + confidence) / 2) * std_error
    return Summary(value, std_error, value - margin, value + margin, n)


def sample_variance(total: Fraction, total_of_squares: Fraction, n: int) -> Fraction:
    """Variance of n > 1 values with the divisor n - 1, never negative.

    A value's square is rounded twice before it is summed, to a double and to whole units. So the two sums
    may not fit together to the last bit: equal values can come out with a variance a little below or
    above zero. A spread that these roundings alone can make counts as none, hence equal values have
    the variance 0; real deviations below 1.5e-8 of the values' size, or below 1e-9, are lost with it.

    >>> sample_variance(Fraction(1), Fraction(1), 2), sample_variance(Fraction(2), Fraction(2) + _UNIT, 2)
    (Fraction(1, 2), Fraction(0, 1))
    """
    spread = total_of_squares - total * total / n
    roundings = n * _UNIT + total_of_squares * _DOUBLE_EPSILON
    return spread / (n - 1) if spread > roundings else Fraction(0)
