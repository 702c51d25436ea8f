"""Calibration error without its bias, and an interval that covers it, from bootstrap replicates."""

from typing import Final, NamedTuple

import numpy as np

from spark_eval.statistics.exact import Floats

# Shares of sums below the observed one: with the lower limit, with the value, with the upper limit.
LOW: Final = 0.975
MIDDLE: Final = 0.5
HIGH: Final = 0.025
# The lower limit concentrates on gaps of this number of standard errors or more.
CLEAR: Final = 1.5
STEPS: Final = 30
NORMAL: Final = 1.959964


class DebiasedError(NamedTuple):
    """Calibration error, its standard error and limits; NaN of fewer than two units."""

    value: float = np.nan
    std_error: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan


def debiased_error(gaps: Floats, n_units: int) -> DebiasedError:
    """Return the calibration error from gaps (bins, 1 + n): score less label in each bin, over all weight.

    The first column is the sample, the others are its replicates, of ``n_units`` drawn users or rows. The sum
    of the absolute gaps is too large: chance moves each gap, and the sum counts it either way. So take true
    gaps of a total t, and chance as the replicates have it. The value is the t that has half of the sums
    below the observed one. The limits have 2.5 % of the sums above it, or below.

    True gaps are in the proportion of the observed ones. Since these are uncertain, the lower limit is also
    that of the clear gaps alone: chance adds most to their sum. The upper one is also that of gaps in all
    bins, equally clear: chance adds least to their sum.

    >>> chance = np.random.default_rng(0).normal(0, 0.01, (10, 1000))
    >>> own = chance[:, :1]
    >>> [round(float(one), 4) for one in debiased_error(np.hstack([own, own + chance]), 100)]
    [0.0251, 0.0234, 0.0, 0.1188]

    Source: Carpenter, Test inversion bootstrap confidence intervals, JRSS B 1999.
    """
    own, drawn = gaps[:, 0], gaps[:, 1:]
    drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
    if n_units < 2 or drawn.shape[1] < 2 or not np.isfinite(own).all():
        return DebiasedError()
    chance = (drawn - own[:, np.newaxis]) * few_units(n_units)
    spread = chance.std(axis=1)
    clear, all_bins = np.where(np.abs(own) >= CLEAR * spread, own, 0.0), np.sign(own) * spread
    observed = float(np.abs(own).sum())
    low = min(total_with(LOW, observed, one, chance) for one in (own, clear) if one.any() or one is own)
    high = max(total_with(HIGH, observed, one, chance) for one in (own, all_bins) if one.any() or one is own)
    value = total_with(MIDDLE, observed, own, chance)
    return DebiasedError(value, float(np.abs(drawn).sum(axis=0).std(ddof=1)), low, min(high, 1.0))


def few_units(n_units: int) -> float:
    """Return the ratio of chance to that of replicates, which is too small of few units: t, divisor n - 1.

    >>> round(few_units(20), 3), round(few_units(1000), 3)
    (1.091, 1.002)
    """
    degrees = n_units - 1
    widening: float = np.sqrt(n_units / degrees) * (1 + (NORMAL**2 + 1) / (4 * degrees))
    return float(widening)


def total_with(share: float, observed: float, direction: Floats, chance: Floats) -> float:
    """Return the total of true gaps of this direction that has this share of sums below the observed one."""
    size = float(np.abs(direction).sum())
    unit = direction[:, np.newaxis] / size if size else np.zeros((len(direction), 1))

    def quantile(total: float) -> float:
        return float(np.quantile(np.abs(total * unit + chance).sum(axis=0), share))

    if not size or quantile(0.0) >= observed:
        return 0.0
    low, high = 0.0, observed
    while quantile(high) < observed:
        high *= 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if quantile(middle) < observed else (low, middle)
    return (low + high) / 2
