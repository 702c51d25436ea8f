"""Exact moments of the units of an arm, and estimates with delta-method variances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Final, NamedTuple

from spark_eval.statistics.additive import Additive, added_by, by_element
from spark_eval.statistics.intervals import square_root

# Variables of a unit: 1, x and y, their values in the pre-period, and 1 if the unit has a past.
ONE, X, Y, PRE_X, PRE_Y, HAS_PAST = range(6)
N_VARIABLES: Final = 6
PAIRS: Final = tuple(combinations_with_replacement(range(N_VARIABLES), 2))
PAIR_INDEX: Final = {pair: index for index, pair in enumerate(PAIRS)} | {
    (j, i): index for index, (i, j) in enumerate(PAIRS)
}

# Covariates of a unit as ratios x / y: its value of the pre-period, and whether it has a past.
BEFORE: Final = (PRE_X, PRE_Y)
PAST: Final = (HAS_PAST, ONE)

# Linear combination of the variables of a unit.
Combination = Mapping[int, Fraction | int]


class ArmEstimate(NamedTuple):
    """Value of an arm and the variance of this value; None if undefined."""

    value: Fraction | None
    variance: Fraction | None
    n: int

    @property
    def std_error(self) -> float | None:
        """Standard error of the value."""
        return None if self.variance is None else square_root(self.variance)


@dataclass(frozen=True)
class Moments(Additive):
    """Sums over n units of the products of each pair of variables; integers, which add in any order.

    ``n_undefined`` counts units without a value, which are in no sum.

    >>> both = Moments.of_means([2]) + Moments.of_means([3])
    >>> both.n, both.product(ONE, X), both.product(X, X)
    (2, 5, 13)
    """

    products: tuple[int, ...] = field(metadata=added_by(by_element), default=(0,) * len(PAIRS))
    n_undefined: int = 0

    @classmethod
    def of_products(cls, products: Mapping[tuple[int, int], int], n_undefined: int = 0) -> "Moments":
        """Return moments with these products, all others 0."""
        return cls(tuple(products.get(pair, 0) for pair in PAIRS), n_undefined)

    @classmethod
    def of_means(cls, values: Sequence[int]) -> "Moments":
        """Return the moments of x, for a mean over units."""
        n, total = len(values), sum(values)
        squares = sum(value * value for value in values)
        pairs = {(ONE, ONE): n, (ONE, Y): n, (Y, Y): n, (ONE, X): total, (X, Y): total, (X, X): squares}
        return cls.of_products(pairs)

    @property
    def n(self) -> int:
        """Number of units."""
        return self.product(ONE, ONE)

    def product(self, one: int, other: int) -> int:
        """Return the sum over units of the product of two variables."""
        return self.products[PAIR_INDEX[one, other]]

    def total(self, combination: Combination) -> Fraction:
        """Return the sum of a combination over units."""
        return Fraction(sum(factor * self.product(ONE, name) for name, factor in combination.items()))

    def covariance(self, one: Combination, other: Combination) -> Fraction:
        """Return the covariance of two combinations over units, with the divisor n - 1."""
        sums = sum(a * b * self.product(i, j) for i, a in one.items() for j, b in other.items() if a and b)
        return Fraction(sums - self.total(one) * self.total(other) / self.n) / (self.n - 1)

    def ratio(self, x: int = X, y: int = Y) -> Fraction | None:
        """Return sum x / sum y; None if the latter is 0."""
        below = self.product(ONE, y)
        return Fraction(self.product(ONE, x), below) if below else None

    def deviation(self, x: int = X, y: int = Y) -> Combination | None:
        """Return z = (x - R y) / mean(y), whose mean has the variance of the ratio R; None if undefined.

        Source: Deng et al., Applying the delta method in metric analytics, 2018.
        """
        ratio = self.ratio(x, y)
        if ratio is None:
            return None
        inverse = Fraction(self.n, self.product(ONE, y))
        return {x: inverse, y: -ratio * inverse}

    def estimate(self, scales: tuple[int, int] = (1, 1), x: int = X, y: int = Y) -> ArmEstimate:
        """Return R = sum x / sum y, and its variance s_z^2 / n. Sums are in units of 1 / scale.

        Of means y is 1, and this is the usual variance of a mean. Clicks 1, 3 of impressions 10, 20:

        >>> pairs = {(ONE, ONE): 2, (ONE, X): 4, (X, X): 10, (ONE, Y): 30, (Y, Y): 500, (X, Y): 70}
        >>> R, variance, n = Moments.of_products(pairs).estimate()
        >>> str(R), str(variance), n
        ('2/15', '1/2025', 2)
        """
        ratio, deviation = self.ratio(x, y), self.deviation(x, y)
        if ratio is None or deviation is None:
            return ArmEstimate(None, None, self.n)
        unit = Fraction(scales[1], scales[0])
        if self.n < 2:
            return ArmEstimate(ratio * unit, None, self.n)
        variance = self.covariance(deviation, deviation) / self.n
        return ArmEstimate(ratio * unit, variance * unit * unit, self.n)


def adjusted_estimates(
    arms: Sequence[Moments], scales: tuple[int, int] = (1, 1), factors: Sequence[Fraction] = ()
) -> tuple[list[ArmEstimate], tuple[Fraction, Fraction]]:
    """Return the estimates of arms adjusted by the pre-period (CUPED), and theta of both covariates.

    The covariates of a unit are its pre-period value and whether it has a past. For a ratio, z of the period
    is adjusted by z of the pre-period. Theta minimises the variance of z - theta * covariate over all arms;
    a covariate without spread is left out; its theta is 0. Variances are those of factor * z - theta *
    covariate: a lift over the value without adjustment needs a factor of the control's z, otherwise it is 1.

    Each arm has z of the pre-period around its own ratio, as in the period. Around the ratio of all arms, z
    would differ from that of the period by what the arms differ in, which is most of the variance if the past
    explains nearly all.

    Source: Deng, Xu, Kohavi, Walker, Improving the sensitivity of online controlled experiments, 2013.
    """
    pooled = sum(arms, Moments())
    target = pooled.deviation()
    if target is None or any(arm.n < 2 or arm.ratio() is None for arm in arms):
        return [arm.estimate(scales) for arm in arms], (Fraction(), Fraction())
    pairs = covariate_pairs(arms, pooled)
    covariates = [deviation_of(pooled, pair) for pair in pairs]
    thetas = solve(
        [[pooled.covariance(one, other) for other in covariates] for one in covariates],
        [pooled.covariance(one, target) for one in covariates],
    )
    unit = Fraction(scales[1], scales[0])
    estimates = []
    for arm, times in zip(arms, factors or [Fraction(1)] * len(arms), strict=True):
        ratio = ratio_of(arm, (X, Y))
        combination = {name: times * by for name, by in deviation_of(arm, (X, Y)).items()}
        for theta, pair in zip(thetas, pairs, strict=True):
            ratio -= theta * (ratio_of(arm, pair) - ratio_of(pooled, pair))
            for name, factor in deviation_of(arm, pair).items():
                combination[name] = combination.get(name, 0) - theta * factor
        variance = arm.covariance(combination, combination) / arm.n
        estimates.append(ArmEstimate(ratio * unit, variance * unit * unit, arm.n))
    of_before = sum((theta for theta, pair in zip(thetas, pairs, strict=True) if pair != PAST), Fraction())
    return estimates, (of_before, sum(thetas, -of_before))


def covariate_pairs(arms: Sequence[Moments], pooled: Moments) -> list[tuple[int, int]]:
    """Return the covariates as ratios x / y: those that each arm has, with a spread of their own."""
    chosen: list[tuple[int, int]] = []
    for pair in (BEFORE, PAST):
        if any(arm.ratio(*pair) is None for arm in arms):
            continue
        together = [deviation_of(pooled, one) for one in (*chosen, pair)]
        if determinant([[pooled.covariance(one, other) for other in together] for one in together]):
            chosen.append(pair)
    return chosen


def ratio_of(moments: Moments, pair: tuple[int, int]) -> Fraction:
    """Return a ratio that is defined."""
    ratio = moments.ratio(*pair)
    assert ratio is not None
    return ratio


def deviation_of(moments: Moments, pair: tuple[int, int]) -> Combination:
    """Return the deviation of a ratio that is defined."""
    deviation = moments.deviation(*pair)
    assert deviation is not None
    return deviation


def determinant(matrix: Sequence[Sequence[Fraction]]) -> Fraction:
    """Return the determinant of a matrix of one or two rows."""
    if len(matrix) == 1:
        return matrix[0][0]
    (a, b), (c, d) = matrix
    return a * d - b * c


def solve(matrix: Sequence[Sequence[Fraction]], values: Sequence[Fraction]) -> list[Fraction]:
    """Return the solution of up to two linear equations, by Cramer's rule.

    >>> [int(value) for value in solve([[Fraction(2), Fraction(0)], [Fraction(0), Fraction(4)]], [2, 8])]
    [1, 2]
    """
    if not values:
        return []
    whole = determinant(matrix)
    if len(values) == 1:
        return [values[0] / whole]
    (a, b), (c, d) = matrix
    return [
        determinant([[values[0], b], [values[1], d]]) / whole,
        determinant([[a, values[0]], [c, values[1]]]) / whole,
    ]
