"""Intervals of means by the bootstrap, and p-values by random sign flips, from replicates.

Differences are resampled as integers (``scaled``), whose sums are exact (``draws.resampled_sums``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from spark_eval.statistics.exact import Floats
from spark_eval.statistics.intervals import LowHigh

SCALE_BITS: Final = 31
DEFAULT_RESAMPLES: Final = 1_000
MOST_RESAMPLES: Final = 100_000
# Up to this many users, all signs are enumerated.
MOST_ENUMERATED: Final = 20


@dataclass(frozen=True)
class Replicates:
    """Mean over all users, and the means of the replicates with at least one user."""

    value: float
    means: Floats

    @classmethod
    def of(cls, totals: Sequence[int], weights: Sequence[int], scale: float) -> "Replicates | None":
        """Divide sums of scaled differences by sums of weights; the first of each is over all users.

        Return None without users.

        >>> Replicates.of([3 << 31, 2 << 31, 0], [6, 8, 0], 1.0)
        Replicates(value=0.5, means=array([0.25]))
        """
        means = quotients(totals, weights, 2.0**-SCALE_BITS)
        return cls.of_means([None if mean is None else mean * scale for mean in means])

    @classmethod
    def of_means(cls, means: Sequence[float | None]) -> "Replicates | None":
        """Return replicates from means, the first over all users; None if the first is None."""
        first, *drawn = means
        if first is None:
            return None
        return cls(first, np.array([mean for mean in drawn if mean is not None], dtype=np.float64))


def quotients(numerators: Sequence[int], denominators: Sequence[int], unit: float) -> list[float | None]:
    """Return quotients of integers in a unit; None where the divisor is 0.

    Each is rounded once, for numbers of any size, so equal means are equal doubles.
    """
    pairs = zip(map(int, numerators), map(int, denominators), strict=True)
    return [one / other * unit if other else None for one, other in pairs]


def subtract(means: Sequence[float | None], others: Sequence[float | None]) -> list[float | None]:
    """Subtract means pairwise; None where either is None."""
    pairs = zip(means, others, strict=True)
    return [None if one is None or other is None else one - other for one, other in pairs]


def scale_of(largest: float) -> float:
    """Return the least power of two that is at least ``largest``; 1 for 0.

    >>> scale_of(0.4), scale_of(0.5), scale_of(3.0), scale_of(0.0)
    (0.5, 0.5, 4.0, 1.0)
    """
    fraction, exponent = math.frexp(largest)
    return math.ldexp(1.0, exponent - (fraction == 0.5)) if largest else 1.0


def scaled(differences: Floats, scale: float) -> Floats:
    """Return differences as integers of scale / 2^31, from -2^31 to 2^31."""
    # Of the smallest doubles, 2^31 / scale is beyond all doubles.
    return np.rint(differences / scale * 2.0**SCALE_BITS)


def percentile_interval(replicates: Replicates | None, confidence: float) -> LowHigh:
    """Return equal-tailed percentiles of the means, with linear interpolation.

    >>> percentile_interval(Replicates(2.0, np.arange(5.0)), 0.5)
    (1.0, 3.0)

    Source: Efron, Tibshirani, An introduction to the bootstrap, 1993, section 13.3.
    """
    outside = (1 - confidence) / 2
    return quantiles_of(replicates, outside, 1 - outside)


def bca_interval(replicates: Replicates | None, acceleration: float, confidence: float) -> LowHigh:
    """Return percentiles corrected for bias and skew; None if all means are on one side of the value.

    Means that equal the value count one half. ``acceleration`` is ``PairSums.acceleration``.

    >>> bca_interval(Replicates(2.0, np.arange(5.0)), 0.0, 0.5)
    (1.0, 3.0)

    Source: Efron, Better bootstrap confidence intervals, 1987.
    """
    if replicates is None:
        return None, None
    below = np.count_nonzero(replicates.means < replicates.value)
    twice = 2 * below + np.count_nonzero(replicates.means == replicates.value)
    if not 0 < twice < 2 * len(replicates.means):
        return None, None
    normal = NormalDist()
    bias, half_width = (
        normal.inv_cdf(twice / (2 * len(replicates.means))),
        normal.inv_cdf((1 + confidence) / 2),
    )
    ends = [bias - half_width, bias + half_width]
    if any(acceleration * end >= 1 for end in ends):
        return None, None
    low, high = (normal.cdf(bias + end / (1 - acceleration * end)) for end in ends)
    return quantiles_of(replicates, low, high)


def quantiles_of(replicates: Replicates | None, low: float, high: float) -> LowHigh:
    """Return two quantiles of the means; None if there are no means."""
    if replicates is None or not len(replicates.means):
        return None, None
    lower, upper = np.quantile(replicates.means, [low, high]).tolist()
    return lower, upper


def enumerated_flip_p(quanta: Sequence[int], n_differing: int, alternative: str = "two_sided") -> float:
    """Return the share of all signs of up to MOST_ENUMERATED differences with a sum as extreme as observed.

    ``quanta`` are the differences of users other than 0; each may be the sum of several rows. ``n_differing``
    is the number of rows that differ. Sums are equal if they differ by at most one quantum per row.

    >>> enumerated_flip_p([300, 200, -100], n_differing=3)
    0.5

    Source: Fisher, The design of experiments, 1935, section 21.
    """
    sums = np.zeros(1, dtype=np.int64 if sum(map(abs, quanta)) < 2**62 else object)
    for amount in quanta:
        sums = np.concatenate([sums + amount, sums - amount])
    return int(count_as_extreme(sums, sum(quanta), n_differing, alternative)) / len(sums)


def sampled_flip_p(sums: Sequence[int], n_differing: int, alternative: str = "two_sided") -> float:
    """Return the share of random signs with a sum as extreme as observed, including the observed one.

    ``sums`` are of scaled differences: first the observed sum, then one per draw.

    >>> sampled_flip_p([10, 4, -9, 2], n_differing=1)
    0.5

    Source: Phipson, Smyth, Permutation p-values should never be zero, 2010.
    """
    first, *drawn = map(int, sums)
    count = count_as_extreme(np.array(drawn, dtype=np.int64), first, n_differing, alternative)
    return (1 + count) / (1 + len(drawn))


def count_as_extreme(sums: np.ndarray, observed: int, slack: int, alternative: str) -> int:
    """Count the sums at least as extreme as ``observed`` in the direction of the alternative."""
    match alternative:
        case "greater":
            return int(np.count_nonzero(sums >= observed - slack))
        case "less":
            return int(np.count_nonzero(sums <= observed + slack))
    return int(np.count_nonzero(abs(sums) >= abs(observed) - slack))
