"""Mean differences with their variances, from exact sums that can be added.

A is a user's value under the baseline, B under the candidate, d = B - A. Sums are rational and rounded once
at the end, so that results do not depend on the order of users.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple, Self

import numpy as np

from spark_eval.statistics.exact import Floats
from spark_eval.statistics.intervals import nearest_double, quotient, root_of_quotient, square_root

# As doubles, 0.6 - 0.4 differs from 0.4 - 0.2: signs, ranks and flips use differences in units of 2^-40.
QUANTUM_BITS: Final = 40
# Values that differ by less than 2^-48 of their size differ by rounding only.
DUST: Final = Fraction(1, 2**96)


class TestResult(NamedTuple):
    """Result of a test; fields are None if undefined, never NaN."""

    statistic: float | None = None
    p_value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


UNTESTED: Final = TestResult()


class RepeatPart(NamedTuple):
    """Part of a variance that the n repeats of a model add, and the residual that is in it."""

    variance: Fraction
    n: int
    residual: Fraction


@dataclass(frozen=True)
class VarianceParts:
    """Parts of the variance of a mean: of the users, and of the repeats of each model.

    The residual is in both parts, so it is subtracted once; the variance is not less than either of them.
    """

    users: Fraction
    n_users: int
    repeats: Sequence[RepeatPart]

    @property
    def of_repeats(self) -> Fraction:
        """Variance of the repeats of all models."""
        return sum((part.variance for part in self.repeats), Fraction())

    @property
    def residual(self) -> Fraction:
        """Residual of all models."""
        return sum((part.residual for part in self.repeats), Fraction())

    @property
    def variance(self) -> Fraction:
        """Variance of the mean."""
        return max(self.users + self.of_repeats - self.residual, self.users, self.of_repeats)

    @property
    def share(self) -> float:
        """Share of the variance that comes on top of the users' part."""
        return nearest_double(1 - self.users / self.variance) if self.variance else 0.0

    @property
    def freedom(self) -> float:
        """Degrees of freedom.

        Source: Satterthwaite, An approximate distribution of estimates of variance components, 1946.
        """
        parts = [(self.users, self.n_users), *((part.variance, part.n) for part in self.repeats)]
        spread = sum((variance**2 / (n - 1) for variance, n in parts), Fraction())
        return nearest_double(self.variance**2 / spread) if spread else float(self.n_users - 1)

    def planned(self, n_users: int | None = None, n_repeats: int | None = None) -> tuple[float, float]:
        """Return the expected variance and degrees of freedom with other numbers of users, or of repeats.

        More users leave what repeats add, and more repeats what users add; both shrink the residual.
        """
        n_users = n_users or self.n_users
        more_users = n_users / self.n_users
        numbers = [n_repeats or part.n for part in self.repeats]
        more_repeats = [n / part.n for n, part in zip(numbers, self.repeats, strict=True)]
        rests = [float(part.residual) for part in self.repeats]
        rest = sum(own / more for own, more in zip(rests, more_repeats, strict=True))
        shared = min(float(self.users), sum(rests))
        users = (float(self.users) - shared + (shared * rest / sum(rests) if shared else 0.0)) / more_users
        parts = [(users, n_users)]
        for part, own, n, more in zip(self.repeats, rests, numbers, more_repeats, strict=True):
            within = min(float(part.variance), own)
            parts.append(((float(part.variance) - within + within / more_users) / more, n))
        repeats = sum(part for part, _ in parts[1:])
        variance = max(users + repeats - rest / more_users, users, repeats)
        spread = sum(part**2 / (n - 1) for part, n in parts)
        return variance, variance**2 / spread if spread else float(n_users - 1)


@dataclass(frozen=True)
class Estimate:
    """A mean, its variance (the squared standard error) and its degrees of freedom.

    ``value`` is None without users, ``variance`` with fewer than two. ``parts`` are of users and
    repeats of models; None without repeats.
    """

    value: Fraction | None
    variance: Fraction | None
    freedom: float
    parts: VarianceParts | None = None

    @cached_property
    def std_error(self) -> float | None:
        """Standard error of the mean."""
        return None if self.variance is None else square_root(self.variance)


UNMEASURED: Final = Estimate(None, None, 0)


# Means of the baseline and of the candidate; None without users.
Means = tuple[Fraction, Fraction] | None


@dataclass(frozen=True)
class ComparedSums(ABC):
    """Sums over n independent users, for two means and their difference."""

    n: int

    @property
    @abstractmethod
    def means(self) -> Means:
        """Means of the baseline and of the candidate."""

    @abstractmethod
    def combination(self, baseline: Fraction, candidate: Fraction, *, amount: float = 0) -> Estimate:
        """Return the estimate of baseline * its mean + candidate * its mean + amount."""

    @property
    def estimate(self) -> Estimate:
        """Mean difference, candidate minus baseline."""
        return self.combination(Fraction(-1), Fraction(1))


@dataclass(frozen=True)
class PairSums(ComparedSums):
    """Exact sums over the n users with a value under both models.

    ``greater`` and ``less`` count users with d above and below 0, in quanta. ``difference_squares`` sums the
    squares of exact differences: squares of rounded ones would be inconsistent with the other sums, and a
    constant difference would seem to vary.

    >>> sums = PairSums.of([0.5, 0.25, 1.0], [1.0, 0.25, 0.75])
    >>> sums.greater, sums.less, sums.difference_squares
    (1, 1, Fraction(5, 16))
    """

    greater: int
    less: int
    baseline: Fraction
    candidate: Fraction
    baseline_squares: Fraction
    candidate_squares: Fraction
    difference_squares: Fraction

    @classmethod
    def of(cls, baseline: Sequence[float], candidate: Sequence[float]) -> Self:
        """Sum the values of n users under both models."""
        below, above = list(map(Fraction, baseline)), list(map(Fraction, candidate))
        signs = np.sign(to_quanta(np.subtract(candidate, baseline)))
        return cls(
            n=len(signs),
            greater=int((signs > 0).sum()),
            less=int((signs < 0).sum()),
            baseline=sum(below, Fraction()),
            candidate=sum(above, Fraction()),
            baseline_squares=sum((a * a for a in below), Fraction()),
            candidate_squares=sum((b * b for b in above), Fraction()),
            difference_squares=sum(((b - a) ** 2 for a, b in zip(below, above, strict=True)), Fraction()),
        )

    @property
    def means(self) -> Means:
        """Means over all users."""
        return (self.baseline / self.n, self.candidate / self.n) if self.n else None

    def combination(self, baseline: Fraction, candidate: Fraction, *, amount: float = 0) -> Estimate:
        """Return the mean of baseline * A + candidate * B + amount over users, with n - 1 degrees of freedom.

        Its variance is s^2 / n, where s^2 has the divisor n - 1; a variance of the size of rounding errors is
        0.
        """
        if not self.n:
            return UNMEASURED
        mean = (candidate * self.candidate + baseline * self.baseline) / self.n
        sizes = candidate**2 * self.candidate_squares + baseline**2 * self.baseline_squares
        doubled = self.baseline_squares + self.candidate_squares - self.difference_squares
        spread = sizes + candidate * baseline * doubled - self.n * mean**2
        return estimate_of(mean + Fraction(amount), spread, self.n, sizes)

    def acceleration(self, cubes: Fraction) -> float:
        """Return sum((d - mean)^3) / (6 sum((d - mean)^2)^1.5) from the sum of d^3; 0 without a spread.

        Source: Efron, Better bootstrap confidence intervals, 1987, section 7.
        """
        estimate = self.estimate
        if estimate.value is None or not estimate.variance:
            return 0.0
        mean, spread = estimate.value, estimate.variance * self.n * (self.n - 1)
        skew = cubes - 3 * mean * self.difference_squares + 2 * self.n * mean**3
        return signed_root(skew, 36 * spread**3)


def over_folds(differences: Sequence[float], test_train_ratio: float | None = None) -> Estimate:
    """Return the mean over J folds; its variance (1/J + r) s^2 allows for overlapping train sets.

    ``test_train_ratio`` r is test / train rows of a fold; None: 1 / (J - 1), as in J folds.

    >>> over_folds([0.25, 0.5, 0.75]).variance == (Fraction(1, 3) + Fraction(1, 2)) / 16
    True

    Source: Nadeau, Bengio, Inference for the generalization error, 2003.
    """
    n, exact = len(differences), list(map(Fraction, differences))
    if not n:
        return UNMEASURED
    mean, squares = Fraction(sum(exact), n), Fraction(sum(d * d for d in exact))
    plain = estimate_of(mean, squares - n * mean**2, n, squares)
    if plain.variance is None:
        return plain
    ratio = Fraction(1, n - 1) if test_train_ratio is None else Fraction(test_train_ratio)
    return replace(plain, variance=plain.variance * (1 + n * ratio))


def unpaired(
    baseline: float | None,
    baseline_error: float | None,
    n_baseline: int,
    candidate: float | None,
    candidate_error: float | None,
    n_candidate: int,
) -> Estimate:
    """Return the difference of two published means, with Welch's degrees of freedom.

    >>> difference = unpaired(0.5, 0.03, 11, 0.75, 0.04, 11)
    >>> difference.value, round(difference.std_error, 6), round(difference.freedom, 3)
    (Fraction(1, 4), 0.05, 18.546)

    Source: Welch, The generalization of "Student's" problem, 1947.
    """
    if baseline is None or candidate is None:
        return UNMEASURED
    value = Fraction(candidate) - Fraction(baseline)
    if baseline_error is None or candidate_error is None:
        return Estimate(value, None, 0)
    (one, unit_of_one), (other, unit_of_other) = map(
        float.as_integer_ratio, (baseline_error, candidate_error)
    )
    # Units are powers of two; squares of errors are integers in the square of the smaller one.
    unit = max(unit_of_one, unit_of_other)
    below, above = (one * (unit // unit_of_one)) ** 2, (other * (unit // unit_of_other)) ** 2
    variance = Fraction(below + above, unit**2)
    if not variance:
        return Estimate(value, variance, n_baseline + n_candidate - 2)
    parts = below**2 * (n_candidate - 1) + above**2 * (n_baseline - 1)
    freedom = quotient((below + above) ** 2 * (n_baseline - 1) * (n_candidate - 1), parts)
    return Estimate(value, variance, freedom)


def estimate_of(mean: Fraction, spread: Fraction, n: int, squares: Fraction) -> Estimate:
    """Return the estimate of a mean of n values whose squared deviations sum to ``spread``.

    ``squares`` is the sum of the squares of the values that were subtracted; mean and spread of the size of
    their rounding errors are 0.
    """
    variance = (spread if spread > DUST * squares else Fraction(0)) / (n - 1) / n if n > 1 else None
    return Estimate(mean if n * mean**2 > DUST * squares else Fraction(0), variance, n - 1)


def to_quanta(differences: Floats) -> Floats:
    """Return differences as multiples of 2^-40, in doubles, which represent them at any size.

    >>> to_quanta(np.array([0.6 - 0.4, 0.4 - 0.2, 0.3 - 0.2 - 0.1])).tolist()
    [219902325555.0, 219902325555.0, -0.0]
    """
    return np.rint(differences * 2.0**QUANTUM_BITS)


def p_value_of(greater: float, less: float, alternative: str) -> float:
    """Return the p-value of an alternative, from the probabilities of the two tails."""
    return {"greater": greater, "less": less, "two_sided": min(1.0, 2 * min(greater, less))}[alternative]


def signed_root(value: Fraction, variance: Fraction) -> float:
    """Return value / sqrt(variance), rounded once; infinity beyond all doubles."""
    above, below = value.numerator**2 * variance.denominator, value.denominator**2 * variance.numerator
    root = root_of_quotient(above, below)
    return -root if value < 0 else root


@dataclass(frozen=True)
class MeanSums:
    """Exact sums of one amount of each of n users: ``total`` * 2^-bits, and of squares ``squares`` * 4^-bits.

    >>> sums = MeanSums(3, 6, 14, 2)
    >>> sums.estimate.value, sums.estimate.variance
    (Fraction(1, 2), Fraction(1, 48))
    """

    n: int
    total: int
    squares: int
    bits: int

    @property
    def estimate(self) -> Estimate:
        """The mean, as of ``estimate_of``, with integers up to the end: for thousands of means."""
        n, total, squares, dust = self.n, self.total, self.squares, DUST.denominator
        if not n:
            return UNMEASURED
        spread = n * squares - total * total
        variance = None
        if n > 1:
            is_spread = spread * dust > n * squares
            variance = Fraction(spread if is_spread else 0, n * n * (n - 1) << 2 * self.bits)
        mean = Fraction(total if total * total * dust > n * squares else 0, n << self.bits)
        return Estimate(mean, variance, n - 1)

    @property
    def weight(self) -> Fraction:
        """Total weight: each user has the weight 1."""
        return Fraction(self.n)

    def combination(self, *factors: Fraction, amount: float = 0) -> Estimate:
        """Return the estimate of the only factor * mean + amount, as that of a ratio."""
        total, squares = Fraction(self.total, 1 << self.bits), Fraction(self.squares, 1 << 2 * self.bits)
        ratio = RatioSums(self.n, [total, self.weight], [[squares, total], [total, self.weight]])
        return ratio.combination(*factors, amount=amount)

    def __sub__(self, other: Self) -> "MeanSums":
        """Return the sums without some of the users, in the same unit."""
        return MeanSums(self.n - other.n, self.total - other.total, self.squares - other.squares, self.bits)


@dataclass(frozen=True)
class RatioSums(ComparedSums):
    """Exact sums over n users of the 2 r amounts of r ratios, and of all their products (2 r, 2 r).

    For a pair of models the first ratio is the baseline's, the second the candidate's.

    >>> products = [[Fraction(5), Fraction(7)], [Fraction(7), Fraction(10)]]
    >>> estimate = RatioSums(2, [Fraction(3), Fraction(4)], products).combination(Fraction(1))
    >>> estimate.value, estimate.std_error
    (Fraction(3, 4), 0.125)
    """

    totals: Sequence[Fraction]
    products: Sequence[Sequence[Fraction]]

    def __sub__(self, other: Self) -> "RatioSums":
        """Return the sums without some of the users."""
        products = [
            [one - less for one, less in zip(*rows, strict=True)]
            for rows in zip(self.products, other.products, strict=True)
        ]
        totals = [one - less for one, less in zip(self.totals, other.totals, strict=True)]
        return RatioSums(self.n - other.n, totals, products)

    @property
    def weight(self) -> Fraction:
        """Total weight of the first ratio."""
        return self.totals[1]

    @property
    def ratios(self) -> list[Fraction] | None:
        """Weighted means; None if a total weight is 0."""
        weights = self.totals[1::2]
        if not all(weights):
            return None
        return [total / weight for total, weight in zip(self.totals[::2], weights, strict=True)]

    @property
    def means(self) -> Means:
        """Weighted means of a pair of models."""
        ratios = self.ratios
        return None if ratios is None else (ratios[0], ratios[1])

    def combination(self, *factors: Fraction, amount: float = 0) -> Estimate:
        """Return the sum of factor * ratio, plus ``amount``, with n - 1 degrees of freedom.

        A user contributes e = sum of factor * (weighted value - ratio * weight) / total weight. The variance
        is n / (n - 1) * sum(e^2); a variance of the size of rounding errors is 0.

        Source: Deng, Knoblich, Lu, Applying the delta method in metric analytics, 2018, section 3; over rows
        it equals Cameron, Miller, A practitioner's guide to cluster-robust inference, 2015, section II.
        """
        if self.ratios is None:
            return UNMEASURED
        gradient: list[Fraction] = []
        value = Fraction(amount)
        for factor, ratio, weight in zip(factors, self.ratios, self.totals[1::2], strict=True):
            gradient += [factor / weight, -factor * ratio / weight]
            value += factor * ratio
        indices = range(len(gradient))
        spread = Fraction(
            sum(gradient[i] * gradient[j] * self.products[i][j] for i in indices for j in indices)
        )
        sizes = Fraction(sum(gradient[i] ** 2 * self.products[i][i] for i in indices))
        # Each user's share times n: the mean of these is the sum of ratios.
        return estimate_of(value, spread * self.n**2, self.n, sizes * self.n**2)


@dataclass(frozen=True)
class PairEstimate(ComparedSums):
    """Values of the baseline and the candidate, their variances and covariance; None with too few users.

    The statistic is t with n - 1 degrees of freedom, or normal.

    >>> pair = PairEstimate(5, (Fraction(1), Fraction(3)), (Fraction(4), Fraction(4), Fraction(3)), False)
    >>> pair.estimate.value, pair.estimate.std_error, pair.estimate.freedom
    (Fraction(2, 1), 1.4142135623730951, 4)
    """

    values: tuple[Fraction, Fraction]
    variances: tuple[Fraction, Fraction, Fraction] | None
    is_normal: bool

    @property
    def means(self) -> Means:
        """The two values."""
        return self.values if self.n else None

    def combination(self, baseline: Fraction, candidate: Fraction, *, amount: float = 0) -> Estimate:
        """Return the estimate of baseline * its value + candidate * its value + amount.

        A variance of the size of rounding errors is 0.
        """
        value = baseline * self.values[0] + candidate * self.values[1] + Fraction(amount)
        freedom = math.inf if self.is_normal else self.n - 1
        if self.variances is None:
            return Estimate(value, None, freedom)
        of_baseline, of_candidate, both = self.variances
        sizes = baseline**2 * of_baseline + candidate**2 * of_candidate
        variance = sizes + 2 * baseline * candidate * both
        return Estimate(value, variance if variance > DUST * sizes else Fraction(0), freedom)
