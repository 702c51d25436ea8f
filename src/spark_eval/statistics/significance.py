"""Significance of a difference: t and sign tests, equivalence, effect sizes, corrections. For the driver.

Results are None if undefined: without users, with a single user, or if all users have the same difference.
Quotients that no double holds are None; values and ends of intervals beyond all doubles are infinite.
SciPy's special functions are imported in functions: they are slow to load, and executors lack them.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np

from spark_eval.statistics.differences import (
    UNTESTED,
    ComparedSums,
    Estimate,
    PairSums,
    TestResult,
    VarianceParts,
    p_value_of,
    signed_root,
)
from spark_eval.statistics.exact import Floats
from spark_eval.statistics.intervals import finite, nearest_double

# Probability of detecting the minimal detectable effect.
POWER: Final = 0.8
# Upper bound of the number of users; larger results are useless.
MOST_NEEDED: Final = 10**15
# Maximum of users added to the number by normal quantiles, and largest effect considered.
MOST_MORE: Final = 1000
LARGEST_EFFECT: Final = Fraction(1000)


def t_test(estimate: Estimate, confidence: float, alternative: str = "two_sided") -> TestResult:
    """Test a mean against 0 with Student's t; the interval is two-sided for every alternative.

    ``greater`` and ``less`` are directions of the mean. Without any spread there is no statistic: a mean of 0
    has p 1 and the interval [0, 0]; any other mean has no p, and an interval of that one point.

    >>> result = t_test(PairSums.of([0.0, 0.0, 0.0], [0.25, 0.5, 0.75]).estimate, 0.95)
    >>> [round(number, 6) for number in result]
    [3.464102, 0.07418, -0.121034, 1.121034]

    Source: Student, The probable error of a mean, 1908; paired as in NIST/SEMATECH e-Handbook, 7.3.1.
    """
    if estimate.value is None or estimate.variance is None:
        return UNTESTED
    low, high = bounds(estimate, (1 + confidence) / 2)
    return TestResult(*t_of_mean(estimate, alternative), low, high)


def t_of_mean(estimate: Estimate, alternative: str = "two_sided") -> tuple[float | None, float | None]:
    """Return statistic and p-value of ``t_test``.

    >>> t_of_mean(PairSums.of([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]).estimate)
    (None, 1.0)
    """
    if estimate.value is None or estimate.variance is None:
        return None, None
    if not estimate.variance:
        return None, None if estimate.value else 1.0
    statistic = signed_root(estimate.value, estimate.variance)
    return finite(statistic), p_of_t(statistic, estimate.freedom, alternative)


def bounds(estimate: Estimate, confidence: float) -> tuple[float | None, float | None]:
    """Return the one-sided lower and upper bounds of a mean: mean -+ t_confidence * std_error.

    >>> bounds(PairSums.of([0.0], [0.25]).estimate, 0.95)
    (None, None)
    """
    if estimate.value is None or estimate.std_error is None:
        return None, None
    margin = 0.0
    if estimate.std_error:
        from scipy.special import stdtrit

        margin = float(stdtrit(estimate.freedom, confidence)) * estimate.std_error
    value = nearest_double(estimate.value)
    return value - margin, value + margin


def tost(estimate: Estimate, delta: float, confidence: float) -> TestResult:
    """Test that a mean is within +-delta by two one-sided t tests; return the larger p and its t.

    The interval is within +-delta exactly if p < 1 - confidence; it has 90 % confidence for 0.95.

    >>> result = tost(PairSums.of([0.5, 0.5, 0.5], [0.5, 0.5625, 0.4375]).estimate, 0.25, 0.95)
    >>> [round(number, 6) for number in result]
    [-6.928203, 0.010102, -0.105366, 0.105366]

    Source: Schuirmann, A comparison of the two one-sided tests procedure and the power approach, 1987.
    """
    if estimate.value is None or estimate.variance is None:
        return UNTESTED
    low, high = bounds(estimate, confidence)
    if not estimate.variance:
        return TestResult(ci_low=low, ci_high=high)
    side, alternative = (1, "greater") if estimate.value < 0 else (-1, "less")
    statistic = signed_root(estimate.value + side * Fraction(delta), estimate.variance)
    return TestResult(finite(statistic), p_of_t(statistic, estimate.freedom, alternative), low, high)


def sign_test(greater: int, less: int, alternative: str = "two_sided") -> TestResult:
    """Test if increases and decreases are equally frequent; users without a difference are left out.

    Exact for any number of users: p = min(1, 2 P(Bin(greater + less, 1/2) <= min(greater, less))). The
    statistic is the smaller count, for a one-sided test ``greater``. Without differences p is 1.

    >>> sign_test(6, 1).p_value
    0.125

    Source: Conover, Practical nonparametric statistics, 1999, section 3.4.
    """
    n = greater + less
    if not n:
        return TestResult(p_value=1.0)
    statistic = float(min(greater, less) if alternative == "two_sided" else greater)
    return TestResult(statistic, p_value_of(binomial_tail(less, n), binomial_tail(greater, n), alternative))


def effect_size(sums: PairSums) -> float | None:
    """Return Cohen's dz, the mean of d divided by its standard deviation; None without a spread.

    >>> effect_size(PairSums.of([0.0, 0.0, 0.0], [0.25, 0.5, 0.75]))
    2.0
    """
    estimate = sums.estimate
    if estimate.value is None or not estimate.variance:
        return None
    return signed_root(estimate.value, estimate.variance * sums.n)


def minimal_detectable_effect(estimate: Estimate, confidence: float) -> float | None:
    """Return the mean that a two-sided test detects with power 0.8: (z_(1 - alpha/2) + z_.8) std_error.

    By normal quantiles, for many users: a t test finds it in 77 % of cases with 30 users, in 67 with 8, in 35
    with 3. Over repeats of models by quantiles of t, see ``detectable_effect``.

    >>> round(minimal_detectable_effect(PairSums.of([0.0] * 3, [0.25, 0.5, 0.75]).estimate, 0.95), 6)
    0.404374

    Source: Bloom, Minimum detectable effects, 1995.
    """
    if estimate.std_error is None:
        return None
    if estimate.parts is not None:
        return detectable_effect(estimate.parts, (1 + confidence) / 2)
    normal = NormalDist()
    return (normal.inv_cdf((1 + confidence) / 2) + normal.inv_cdf(POWER)) * estimate.std_error


def detectable_effect(
    parts: VarianceParts, level: float, *, n_users: int | None = None, n_repeats: int | None = None
) -> float:
    """Return the mean that a test over users and repeats detects with power 0.8: (t_level + t_.8) std_error.

    The quantiles are those of the degrees of freedom, which are few with few repeats. ``n_users`` and
    ``n_repeats`` (of each model) are planned numbers; None: as they are.
    """
    from scipy.special import stdtrit

    variance, freedom = parts.planned(n_users, n_repeats)
    return float(stdtrit(freedom, level) + stdtrit(freedom, POWER)) * math.sqrt(variance)


def smallest_number(effect: float, detectable: Callable[[int], float]) -> int | None:
    """Return the smallest number, from 2 on, that detects an effect; None if none up to MOST_NEEDED does.

    ``detectable`` returns the effect that a number detects, which falls as the number grows.

    >>> smallest_number(0.1, lambda n: 1 / n), smallest_number(0.1, lambda n: 0.2 + 1 / n)
    (10, None)
    """
    low, high = 1, 2
    while detectable(high) > effect:
        low, high = high, 2 * high
        if high > MOST_NEEDED:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if detectable(middle) > effect else (low, middle)
    return high


def users_and_repeats_needed(
    parts: VarianceParts, effect: float, level: float
) -> tuple[int | None, int | None]:
    """Return the numbers of users, and of repeats of each model, that detect an effect with power 0.8."""
    if not effect or not parts.variance:
        return None, None
    users = smallest_number(effect, lambda n: detectable_effect(parts, level, n_users=n))
    repeats = smallest_number(effect, lambda n: detectable_effect(parts, level, n_repeats=n))
    return users, repeats


def users_needed(effect: Fraction, confidence: float) -> int | None:
    """Return the number of users needed to detect a mean above 0 by a one-sided t test with power 0.8.

    ``effect`` is the true mean in units of the users' standard deviation. Computed by the noncentral t
    distribution; at least 2, because one user has no standard error. None beyond MOST_NEEDED.

    >>> users_needed(Fraction(1, 2), 0.95), users_needed(Fraction(100), 0.95)
    (27, 2)

    Source: Cohen, Statistical power analysis for the behavioral sciences, 1988, section 2.5.
    """
    from scipy.special import nctdtr, stdtrit

    size, normal = float(min(effect, LARGEST_EFFECT)), NormalDist()
    root = max(normal.inv_cdf(confidence) + normal.inv_cdf(POWER), 0.0)
    if size * math.sqrt(MOST_NEEDED) <= root:
        return None

    def power(n: int) -> float:
        return 1 - float(nctdtr(n - 1, size * math.sqrt(n), stdtrit(n - 1, confidence)))

    # Normal quantiles give a lower bound; few users need more.
    fewest = max(2, math.ceil((root / size) ** 2))
    return fewest + bisect_left(range(fewest, 2 * fewest + MOST_MORE), POWER, key=power)


def relative_change(sums: ComparedSums) -> tuple[float | None, float | None]:
    """Return mean B / mean A - 1 and its standard error by the delta method.

    None if mean A is 0, or so small that no double holds the quotient.

    The error is that of the mean of B / mean A - A * mean B / mean A^2.

    >>> relative_change(PairSums.of([0.25, 0.75], [0.5, 1.0]))
    (0.5, 0.25)

    Source: Deng, Knoblich, Lu, Applying the delta method in metric analytics, 2018, section 3.
    """
    if sums.means is None or not sums.means[0]:
        return None, None
    baseline, candidate = sums.means
    ratio = candidate / baseline
    error = sums.combination(-ratio / baseline, 1 / baseline).std_error
    return finite(nearest_double(ratio - 1)), None if error is None else finite(error)


def p_of_t(statistic: float, freedom: float, alternative: str) -> float:
    """Return the p-value of a t statistic for an alternative."""
    from scipy.special import stdtr

    return p_value_of(float(stdtr(freedom, -statistic)), float(stdtr(freedom, statistic)), alternative)


def binomial_tail(most: int, n: int) -> float:
    """Return the probability of at most ``most`` heads in n tosses of a coin.

    Computed by the beta function: ``scipy.special.bdtr`` is wrong in the ninth digit from a million tosses
    on, and in the first digit from ten million.
    """
    from scipy.special import betainc

    return float(betainc(n - most, most + 1, 0.5)) if most < n else 1.0


def adjusted(p_values: Sequence[float | None], method: str) -> list[float | None]:
    """Return the adjusted p-value of each test; the family is all tests with a p-value.

    ``method`` is a name of CORRECTIONS. Results agree with ``statsmodels.stats.multitest.multipletests``.

    >>> adjusted([0.01, None, 0.03, 0.5], "holm")
    [0.03, None, 0.06, 0.5]
    """
    family = np.array([p for p in p_values if p is not None], dtype=np.float64)
    order = np.argsort(family, kind="stable")
    corrected = np.empty_like(family)
    corrected[order] = np.minimum(CORRECTIONS[method](family[order]), 1.0)
    values = iter(corrected.tolist())
    return [None if p is None else next(values) for p in p_values]


def holm(ascending: Floats) -> Floats:
    """Multiply each p by the number of p-values that are not smaller; make the result non-decreasing.

    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    products: Floats = np.maximum.accumulate(ascending * np.arange(len(ascending), 0, -1))
    return products


def bonferroni(ascending: Floats) -> Floats:
    """Multiply p by the size of the family."""
    return ascending * len(ascending)


def bh(ascending: Floats) -> Floats:
    """Multiply each p by the size of the family, divide by its rank; make the result non-decreasing.

    Source: Benjamini, Hochberg, Controlling the false discovery rate, 1995.
    """
    shares = ascending * len(ascending) / np.arange(1, len(ascending) + 1)
    lowest: Floats = np.minimum.accumulate(shares[::-1])[::-1]
    return lowest


CORRECTIONS: Final[Mapping[str, Callable[[Floats], Floats]]] = {
    "holm": holm,
    "bonferroni": bonferroni,
    "bh": bh,
    "none": lambda ascending: ascending,
}
