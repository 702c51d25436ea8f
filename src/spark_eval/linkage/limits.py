"""Intervals of estimates from stratified samples, which hold where a sample has no variety."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

# Half of the probability that an interval of 95 % leaves out, less what rounding may change, so that a number
# just at it is in; and steps of a bisection of [0, 1].
TAIL: Final = 0.025 - 1e-9
STEPS: Final = 60


@dataclass(frozen=True)
class Total:
    """Estimated number of matches of several strata, and its distances to the limits of its interval.

    Distances of strata add as squares (MOVER).

    >>> Total(10.0, 3.0, 4.0) + Total(2.0, 4.0, 3.0)
    Total(value=12.0, below=5.0, above=5.0)

    Source: Zou, Donner, Construction of confidence limits about effect measures, 2008.
    """

    value: float = 0.0
    below: float = 0.0
    above: float = 0.0

    def __add__(self, other: "Total") -> "Total":
        """Return the total of both."""
        return Total(
            self.value + other.value,
            math.hypot(self.below, other.below),
            math.hypot(self.above, other.above),
        )


def total_of(n_pairs: int, n_reviewed: int, n_matches: int) -> Total:
    """Return the matches of a stratum of pairs, estimated from those that were reviewed.

    >>> total_of(10, 10, 4)
    Total(value=4.0, below=0.0, above=0.0)
    """
    value = n_pairs * n_matches / n_reviewed
    low, high = limits(n_pairs, n_reviewed, n_matches)
    return Total(value, value - low, high - value)


@cache
def limits(n_pairs: int, n_reviewed: int, n_matches: int) -> tuple[float, float]:
    """Return the limits of the number of matches in a stratum, an interval of 95 %.

    A number of matches is outside if fewer than 2.5 % of samples have at most as many matches as this one, or
    at least as many. Samples with just as many count one half (mid-p). Half a pair more is added on either
    side. So none of 100 reviewed pairs does not mean that none of 20,000 matches.

    >>> limits(20000, 100, 0), limits(20000, 100, 100), limits(7, 7, 3)
    ((0.0, 588.5), (19411.5, 20000.0), (3.0, 3.0))

    Source: Berry, Armitage, Mid-p confidence intervals, 1995.
    """
    if n_reviewed == n_pairs:
        return float(n_matches), float(n_matches)
    # The matches of a sample are the fewer, the more others there are: one tail serves both limits.
    high = most_matches(n_pairs, n_reviewed, n_matches)
    low = n_pairs - most_matches(n_pairs, n_reviewed, n_reviewed - n_matches)
    return max(low - 0.5, 0.0), min(high + 0.5, float(n_pairs))


def most_matches(n_pairs: int, n_reviewed: int, n_matches: int) -> int:
    """Return the largest number of matches that leaves 2.5 % of samples with these or fewer."""
    low, high = n_matches, n_pairs - n_reviewed + n_matches
    while low < high:
        middle = (low + high + 1) // 2
        if lower_tail(n_pairs, middle, n_reviewed, n_matches) >= TAIL:
            low = middle
        else:
            high = middle - 1
    return low


def lower_tail(n_pairs: int, n_true: int, n_reviewed: int, n_matches: int) -> float:
    """Return the probability of fewer matches in a sample, and half that of just as many.

    >>> round(lower_tail(10, 5, 2, 1), 6)  # none: 20 of 90; one: 50 of 90
    0.5
    """
    n_others = n_pairs - n_true
    least = max(0, n_reviewed - n_others)
    ways = (
        log_choices(n_true, n_matches)
        + log_choices(n_others, n_reviewed - n_matches)
        - log_choices(n_pairs, n_reviewed)
    )
    found = np.arange(n_matches, least, -1, dtype=np.float64)
    steps = np.log(found) + np.log(n_others - n_reviewed + found)
    steps -= np.log(n_true - found + 1) + np.log(n_reviewed - found + 1)
    return float(np.exp(ways) / 2 + np.exp(ways + np.cumsum(steps)).sum())


def log_choices(n: int, k: int) -> float:
    """Return the logarithm of the number of ways to choose k of n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def limits_of_ratio(
    predicted: Total, other: Total, n_predicted: int, of_both: int, of_predicted: int, of_match: int
) -> tuple[float, float]:
    """Return the limits of of_both * A / (of_predicted * P + of_match * (A + B)).

    A and B are the matches among predicted and other pairs, P is the number of predicted pairs. A ratio r is
    in the interval if 0 is in that of (of_both - r of_match) A - r of_match B - r of_predicted P.

    >>> limits_of_ratio(Total(90.0, 0.0, 0.0), Total(10.0, 10.0, 20.0), 100, 1, 0, 1)
    (0.75, 1.0)
    """

    def excess(ratio: float, sign: int) -> float:
        of_predicted_match, of_other = of_both - ratio * of_match, ratio * of_match
        middle = (
            of_predicted_match * predicted.value - of_other * other.value - ratio * of_predicted * n_predicted
        )
        distances = (predicted.below, other.above) if sign < 0 else (predicted.above, other.below)
        return middle + sign * math.hypot(of_predicted_match * distances[0], of_other * distances[1])

    return crossing(lambda ratio: excess(ratio, -1)), crossing(lambda ratio: excess(ratio, 1))


def crossing(excess: Callable[[float], float]) -> float:
    """Return the zero of a falling function in [0, 1]; an end without one."""
    if excess(0.0) <= 0:
        return 0.0
    if excess(1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2
