"""Means and their normal confidence intervals, from exact sums.

A sum of doubles depends on the order of its terms, and Spark does not add in a fixed order. So values are
summed exactly (``statistics.exact``). Here the sums become doubles by rational arithmetic, rounded once.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final

# Lower and upper end of an interval; None if unknown.
LowHigh = tuple[float | None, float | None]
# More bits than a double has, so that rounding the root again has no effect.
ROOT_BITS: Final = 64
# Standard errors of a two-sided interval of 95 %.
CERTAIN: Final = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Summary:
    """Mean over n users, standard error and confidence interval; None if undefined."""

    value: float | None = None
    std_error: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0


def summarise(total: Fraction, total_of_squares: Fraction, n: int, confidence: float = 0.95) -> Summary:
    """Return the mean of n values with the interval value +- z * std_error, from their sums.

    ``value`` is total / n, correctly rounded. ``std_error`` = s / sqrt(n), where s^2 = (sum of squares -
    total^2 / n) / (n - 1) is the sample variance; it is correctly rounded as well. z is the normal quantile
    at (1 + confidence) / 2, 1.96 for 0.95. The interval is symmetric and may exceed the metric's bounds.
    Without values everything is undefined; with one value only the mean is defined.

    Values 0, 0, 1, 1: s^2 = (2 - 1) / 3, std_error = sqrt(1 / 12).

    >>> summary = summarise(Fraction(2), Fraction(2), 4)
    >>> summary.value, round(summary.std_error, 6), round(summary.ci_low, 6), round(summary.ci_high, 6)
    (0.5, 0.288675, -0.065793, 1.065793)

    Source: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2, with z for t as n is large.
    """
    if n < 2:
        return normal_interval(total / n if n else None, None, n, confidence)
    return normal_interval(
        total / n, square_root((total_of_squares - total * total / n) / (n - 1) / n), n, confidence
    )


def normal_interval(
    mean: Fraction | None, std_error: float | None, n: int, confidence: float = 0.95
) -> Summary:
    """Return a mean over n users with the interval value +- z * std_error; None if undefined."""
    value = None if mean is None else nearest_double(mean)
    if value is None or std_error is None:
        return Summary(value, n=n)
    margin = NormalDist().inv_cdf((1 + confidence) / 2) * std_error
    return Summary(value, std_error, value - margin, value + margin, n)


def logit_interval(
    share: Fraction | None, std_error: float | None, n: int, confidence: float = 0.95
) -> Summary:
    """Return a share p in [0, 1] over n users with an interval within (0, 1).

    Its ends are those of logit p = log(p / (1 - p)), +- z * std_error / (p (1 - p)), taken back to shares.
    Shares of 0 and 1 have no logit, and so no interval.

    >>> summary = logit_interval(Fraction(43, 60), 0.1307827, 4)
    >>> round(summary.ci_low, 6), round(summary.ci_high, 6)
    (0.417177, 0.899379)

    Source: Qin, Hotilovac, Comparison of non-parametric confidence intervals for the area under the ROC curve
    of a continuous-scale diagnostic test, Statistical Methods in Medical Research, 2008.
    """
    summary = normal_interval(share, std_error, n, confidence)
    value, error = summary.value, summary.std_error
    if value is None or error is None:
        return summary
    if not 0 < value < 1:
        return Summary(value, error, n=n)
    margin = NormalDist().inv_cdf((1 + confidence) / 2) * error / (value * (1 - value))
    logit = math.log(value / (1 - value))
    # The inverse of the logit, as a hyperbolic tangent, which does not overflow.
    low, high = ((1 + math.tanh(end / 2)) / 2 for end in (logit - margin, logit + margin))
    return Summary(value, error, low, high, n)


def square_root(number: Fraction) -> float:
    """Return the double nearest to the square root of a number of any size; infinity beyond all doubles.

    >>> square_root(Fraction(1, 4)), square_root(Fraction(1, 10**600)), square_root(Fraction(2)) == 2**0.5
    (0.5, 1e-300, True)
    """
    return root_of_quotient(number.numerator, number.denominator)


def root_of_quotient(above: int, below: int) -> float:
    """Return the double nearest to the square root of above / below.

    >>> root_of_quotient(8, 2)
    2.0
    """
    # The root of above / below * 4^shift has at least ROOT_BITS bits.
    shift = ROOT_BITS + (below.bit_length() - above.bit_length()) // 2 + 1
    above, below = (above << 2 * shift, below) if shift >= 0 else (above, below << -2 * shift)
    root = math.isqrt(above // below)
    # A remainder sets the last bit, which decides between two doubles.
    root |= root * root * below != above
    return quotient(root, 1 << shift) if shift >= 0 else quotient(root << -shift, 1)


def nearest_double(number: Fraction) -> float:
    """Return the double nearest to a number; infinity, with its sign, beyond all doubles.

    >>> nearest_double(Fraction(1, 4)), nearest_double(Fraction(-(10**600)))
    (0.25, -inf)
    """
    return quotient(number.numerator, number.denominator)


def quotient(above: int, below: int) -> float:
    """Return the double nearest to above / below, for ``below`` > 0; infinity beyond all doubles.

    >>> quotient(1, 3) == 1 / 3, quotient(-(10**600), 3)
    (True, -inf)
    """
    try:
        return above / below
    except OverflowError:
        return math.inf if above > 0 else -math.inf


def finite(number: float) -> float | None:
    """Return the number; None if it is infinite, because no double holds it."""
    return number if math.isfinite(number) else None


def wilson_interval(n_hits: int, n: int) -> LowHigh:
    """Return the interval of 95 % of a share of n trials; None without a trial.

    >>> [round(end, 6) for end in wilson_interval(7, 8)]
    [0.529112, 0.977583]

    Source: Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    if n == 0:
        return None, None
    share, square = n_hits / n, CERTAIN**2
    middle = share + square / (2 * n)
    margin = CERTAIN * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low, high = ((middle + sign * margin) / (1 + square / n) for sign in (-1, 1))
    return (0.0 if n_hits == 0 else low), (1.0 if n_hits == n else high)
