"""What replicates say: intervals of means by the bootstrap, p-values of flipped signs.

Differences are drawn as whole numbers (``scaled``), which add exactly; ``draws.drawn_sums`` adds them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from spark_eval.stats.exact import Floats

SCALE_BITS: Final = 31
DEFAULT_RESAMPLES: Final = 1_000
MOST_RESAMPLES: Final = 100_000
# All signs of so many users are tried.
MOST_FLIPPED: Final = 20
# A lower and an upper end, as far as they are known.
LowHigh = tuple[float | None, float | None]


@dataclass(frozen=True)
class Replicates:
    """A mean of the users as they are, and the means of the replicates that anybody was drawn for."""

    value: float
    means: Floats

    @classmethod
    def of(cls, totals: Sequence[int], weights: Sequence[int], scale: float) -> "Replicates | None":
        """Divide sums of scaled differences by sums of weights; the first of each are those of all users.

        None without users.

        >>> Replicates.of([3 << 31, 2 << 31, 0], [6, 8, 0], 1.0)
        Replicates(value=0.5, means=array([0.25]))
        """
        return cls.known(quotients(totals, weights, scale * 2.0**-SCALE_BITS))

    @classmethod
    def known(cls, means: Sequence[float | None]) -> "Replicates | None":
        """Return the mean of the users, which comes first, and those of replicates that have one."""
        first, *drawn = means
        if first is None:
            return None
        return cls(first, np.array([mean for mean in drawn if mean is not None], dtype=np.float64))


def quotients(above: Sequence[int], below: Sequence[int], unit: float) -> list[float | None]:
    """Return quotients of whole numbers in a unit; None where they have none.

    Each is rounded once, whatever the size of the numbers, so that equal means are equal doubles.
    """
    pairs = zip(map(int, above), map(int, below), strict=True)
    return [one / other * unit if other else None for one, other in pairs]


def less(means: Sequence[float | None], others: Sequence[float | None]) -> list[float | None]:
    """Return means less others, None where one is not known."""
    pairs = zip(means, others, strict=True)
    return [None if one is None or other is None else one - other for one, other in pairs]


def scale_of(largest: float) -> float:
    """Return the least power of two that is no smaller than the largest of the sizes; of none, 1.

    >>> scale_of(0.4), scale_of(0.5), scale_of(3.0), scale_of(0.0)
    (0.5, 0.5, 4.0, 1.0)
    """
    fraction, exponent = math.frexp(largest)
    return math.ldexp(1.0, exponent - (fraction == 0.5)) if largest else 1.0


def scaled(differences: Floats, scale: float) -> Floats:
    """Return differences as whole numbers of scale / 2^31, from -2^31 to 2^31."""
    return np.rint(differences * (2.0**SCALE_BITS / scale))


def percentile_interval(replicates: Replicates | None, confidence: float) -> LowHigh:
    """Return the percentiles of the means that leave out as much on either side (linear between two).

    >>> percentile_interval(Replicates(2.0, np.arange(5.0)), 0.5)
    (1.0, 3.0)

    Source: Efron, Tibshirani, An introduction to the bootstrap, 1993, section 13.3.
    """
    outside = (1 - confidence) / 2
    return interval_at(replicates, outside, 1 - outside)


def bca_interval(replicates: Replicates | None, acceleration: float, confidence: float) -> LowHigh:
    """Return the percentiles that mend bias and skew; None where all means lie on one side of the value.

    Means that are equal to the value count one half. ``acceleration`` is ``PairSums.acceleration``.

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
    bias, reach = normal.inv_cdf(twice / (2 * len(replicates.means))), normal.inv_cdf((1 + confidence) / 2)
    sides = [bias - reach, bias + reach]
    if any(acceleration * side >= 1 for side in sides):
        return None, None
    low, high = (normal.cdf(bias + side / (1 - acceleration * side)) for side in sides)
    return interval_at(replicates, low, high)


def interval_at(replicates: Replicates | None, low: float, high: float) -> LowHigh:
    """Return two quantiles of the means; None without any."""
    if replicates is None or not len(replicates.means):
        return None, None
    lower, upper = np.quantile(replicates.means, [low, high]).tolist()
    return lower, upper


def exact_flip_p(quanta: Sequence[int], alternative: str = "two_sided") -> float:
    """Return the share of all signs of up to MOST_FLIPPED differences whose sum is as extreme as theirs.

    ``quanta`` are those that differ from 0. One quantum of each is no difference.

    >>> exact_flip_p([300, 200, -100])
    0.5

    Source: Fisher, The design of experiments, 1935, section 21.
    """
    sums = np.zeros(1, dtype=np.int64 if sum(map(abs, quanta)) < 2**62 else object)
    for amount in quanta:
        sums = np.concatenate([sums + amount, sums - amount])
    return int(as_extreme(sums, sum(quanta), len(quanta), alternative)) / len(sums)


def drawn_flip_p(sums: Sequence[int], n_differing: int, alternative: str = "two_sided") -> float:
    """Return the share of drawn signs whose sum is as extreme as theirs, which itself is one of them.

    ``sums`` are those of scaled differences: first theirs, then of each draw.

    >>> drawn_flip_p([10, 4, -9, 2], n_differing=1)
    0.5

    Source: Phipson, Smyth, Permutation p-values should never be zero, 2010.
    """
    first, *drawn = map(int, sums)
    count = as_extreme(np.array(drawn, dtype=np.int64), first, n_differing, alternative)
    return (1 + count) / (1 + len(drawn))


def as_extreme(sums: np.ndarray, theirs: int, slack: int, alternative: str) -> int:
    """Return how many sums lie as far to the side that the alternative names, or further."""
    match alternative:
        case "greater":
            return int(np.count_nonzero(sums >= theirs - slack))
        case "less":
            return int(np.count_nonzero(sums <= theirs + slack))
    return int(np.count_nonzero(abs(sums) >= abs(theirs) - slack))
