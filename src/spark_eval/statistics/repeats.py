"""Variance of a mean over users and over repeats of a model: crossed random effects, from exact sums.

A mean over U users and R repeats varies with the users that came and with the repeats that were made. The
method of moments takes both parts from sums that can be added in any order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from spark_eval.statistics.differences import (
    UNMEASURED,
    ComparedSums,
    Estimate,
    Means,
    PairSums,
    RatioSums,
    RepeatPart,
    VarianceParts,
)
from spark_eval.statistics.exact import Floats
from spark_eval.statistics.intervals import Summary, nearest_double, square_root


class Moments(NamedTuple):
    """Sums of squares of totals, of totals times weights, and of squares of weights."""

    squares: Fraction
    products: Fraction
    weight_squares: Fraction

    @classmethod
    def of(cls, totals: Sequence[tuple[Fraction, Fraction]]) -> Self:
        """Return the moments of totals and their weights."""
        return cls(
            sum((total * total for total, _ in totals), Fraction()),
            sum((total * weight for total, weight in totals), Fraction()),
            sum((weight * weight for _, weight in totals), Fraction()),
        )

    def around(self, mean: Fraction) -> Fraction:
        """Return the sum of squares of total - mean * weight."""
        return self.squares - 2 * mean * self.products + mean * mean * self.weight_squares


@dataclass(frozen=True)
class CrossedSums:
    """Sums of the values of n users under each repeat of a model, each with a weight.

    ``repeats`` has the total and the weight of each repeat. ``users`` are the moments of the totals and
    weights of each user over all repeats, ``cells`` those of each user under each repeat.

    >>> sums = CrossedSums.of([[0.5, 0.0], [1.0, 0.5]])
    >>> parts = sums.parts
    >>> float(sums.mean), float(parts.users), float(parts.of_repeats), float(parts.residual)
    (0.5, 0.0625, 0.0625, 0.0)
    """

    n_users: int
    repeats: Sequence[tuple[Fraction, Fraction]]
    users: Moments
    cells: Moments

    @classmethod
    def of(cls, values: Sequence[Sequence[float]] | Floats) -> Self:
        """Sum values by repeat and user."""
        numbers = [[Fraction(value) for value in of_repeat] for of_repeat in np.asarray(values).tolist()]
        n_users, one = len(numbers[0]), Fraction(1)
        return cls(
            n_users,
            [(sum(of_repeat, Fraction()), Fraction(n_users)) for of_repeat in numbers],
            Moments.of([(sum(user), Fraction(len(numbers))) for user in zip(*numbers, strict=True)]),
            Moments.of([(value, one) for of_repeat in numbers for value in of_repeat]),
        )

    @property
    def n_repeats(self) -> int:
        """Number of repeats."""
        return len(self.repeats)

    @property
    def weight(self) -> Fraction:
        """Sum of all weights."""
        return sum((weight for _, weight in self.repeats), Fraction())

    @property
    def mean(self) -> Fraction | None:
        """Mean over users and repeats; None without users."""
        total = sum((total for total, _ in self.repeats), Fraction())
        return total / self.weight if self.weight else None

    @property
    def repeat_means(self) -> list[Fraction]:
        """Mean of each repeat that has one."""
        return [total / weight for total, weight in self.repeats if weight]

    @property
    def parts(self) -> VarianceParts | None:
        """Parts of the variance of the mean; None with fewer than two users or repeats.

        Where a user lacks a value under a repeat, the mean is a ratio, and the parts are by the delta method.
        """
        mean, n_users, n_repeats = self.mean, self.n_users, self.n_repeats
        if mean is None or n_users < 2 or n_repeats < 2:
            return None
        users, cells = self.users.around(mean), self.cells.around(mean)
        repeats = Moments.of(self.repeats).around(mean)
        residual = max(cells - users / n_repeats - repeats / n_users, Fraction())
        residual *= Fraction(n_users * n_repeats, (n_users - 1) * (n_repeats - 1)) / self.weight**2
        variance = repeats * n_repeats / (n_repeats - 1) / self.weight**2
        of_users = users * n_users / (n_users - 1) / self.weight**2
        return VarianceParts(of_users, n_users, [RepeatPart(variance, n_repeats, residual)])

    @property
    def estimate(self) -> Estimate:
        """Mean over users and repeats, with the variance of both."""
        if self.mean is None:
            return UNMEASURED
        parts = self.parts
        return (
            Estimate(self.mean, None, 0)
            if parts is None
            else Estimate(self.mean, parts.variance, parts.freedom, parts)
        )

    @property
    def std_repeat(self) -> float | None:
        """Standard deviation of the repeats' means; None with fewer than two."""
        return standard_deviation(self.repeat_means)


@dataclass(frozen=True)
class RecipeSums(ComparedSums):
    """Sums over n users and the repeats of two models, for the difference of their recipes.

    ``of_means`` are the sums of the users' means over the repeats. ``repeats`` are sums of pairs of repeats:
    each of the baseline's with one of the candidate's, then each of the candidate's with one of the
    baseline's; if repeats are paired, of each pair.
    """

    of_means: PairSums | RatioSums
    repeats: Sequence[Sequence[PairSums | RatioSums]]

    @property
    def means(self) -> Means:
        """Means of the baseline and of the candidate."""
        return self.of_means.means

    def combination(self, baseline: Fraction, candidate: Fraction, *, amount: float = 0) -> Estimate:
        """Return the estimate of baseline * its mean + candidate * its mean + amount."""
        estimate = self.of_means.combination(baseline, candidate, amount=amount)
        parts = self.parts(baseline, candidate, estimate)
        if parts is None:
            return estimate
        return replace(estimate, variance=parts.variance, freedom=parts.freedom, parts=parts)

    def parts(self, baseline: Fraction, candidate: Fraction, of_means: Estimate) -> VarianceParts | None:
        """Return the parts of the variance of a combination; ``of_means`` is its estimate by users alone."""
        if of_means.variance is None:
            return None
        factors = [(baseline, candidate)]
        if len(self.repeats) > 1:
            factors = [(baseline, Fraction()), (Fraction(), candidate)]
        crossed_parts = [
            self.crossed(rows, own).parts for rows, own in zip(self.repeats, factors, strict=True)
        ]
        of_models = [parts for parts in crossed_parts if parts is not None]
        return VarianceParts(
            users=of_means.variance,
            n_users=self.n,
            repeats=[part for parts in of_models for part in parts.repeats],
        )

    def crossed(
        self, rows: Sequence[PairSums | RatioSums], factors: tuple[Fraction, Fraction]
    ) -> CrossedSums:
        """Return the sums of a combination of values over users and some pairs of repeats."""
        if isinstance(self.of_means, RatioSums):
            return crossed_ratios(self.of_means, [row for row in rows if isinstance(row, RatioSums)], factors)
        of_rows = [combined(one, *factors) for one in rows if isinstance(one, PairSums)]
        _, _, of_users = combined(self.of_means, *factors)
        squares, cells = len(rows) ** 2, [moments for _, _, moments in of_rows]
        return CrossedSums(
            n_users=self.n,
            repeats=[(total, weight) for total, weight, _ in of_rows],
            users=Moments(*(squares * number for number in of_users)),
            cells=Moments(*(sum(numbers, Fraction()) for numbers in zip(*cells, strict=True))),
        )


def combined(sums: PairSums, baseline: Fraction, candidate: Fraction) -> tuple[Fraction, Fraction, Moments]:
    """Return total, weight and moments of baseline * A + candidate * B, whose rows have both values."""
    n = Fraction(sums.n)
    total = baseline * sums.baseline + candidate * sums.candidate
    doubled = sums.baseline_squares + sums.candidate_squares - sums.difference_squares
    squares = baseline**2 * sums.baseline_squares + candidate**2 * sums.candidate_squares
    return total, n, Moments(squares + baseline * candidate * doubled, total, n)


def crossed_ratios(
    of_means: RatioSums, rows: Sequence[RatioSums], factors: tuple[Fraction, Fraction]
) -> CrossedSums:
    """Return the sums of what users and repeats add to factor * ratio of both models, by the delta method.

    A user under a repeat adds factor * (total - ratio * weight) / total weight of the model, so all add up to
    0, and the repeats have equal weights that add up to 1.
    """
    gradient: list[Fraction] = []
    for first, factor in zip((0, 2), factors, strict=True):
        total, weight = (sum((row.totals[index] for row in rows), Fraction()) for index in (first, first + 1))
        is_there = factor and weight
        gradient += [factor / weight, -factor * total / weight**2] if is_there else [Fraction()] * 2
    none = Fraction()
    return CrossedSums(
        n_users=of_means.n,
        repeats=[
            (
                sum((one * own for one, own in zip(gradient, row.totals, strict=True)), none),
                Fraction(1, len(rows)),
            )
            for row in rows
        ],
        users=Moments(len(rows) ** 2 * squared(gradient, of_means), none, none),
        cells=Moments(sum((squared(gradient, row) for row in rows), none), none, none),
    )


def squared(gradient: Sequence[Fraction], sums: RatioSums) -> Fraction:
    """Return the sum over users of the square of gradient * amounts."""
    indices = [index for index, factor in enumerate(gradient) if factor]
    products = (gradient[i] * gradient[j] * sums.products[i][j] for i in indices for j in indices)
    return sum(products, Fraction())


def standard_deviation(numbers: Sequence[Fraction]) -> float | None:
    """Return the standard deviation with the divisor n - 1; None with fewer than two numbers."""
    if len(numbers) < 2:
        return None
    if all(one == other for one, other in pairwise(numbers)):
        return 0.0
    mean = sum(numbers, Fraction()) / len(numbers)
    return square_root(sum(((number - mean) ** 2 for number in numbers), Fraction()) / (len(numbers) - 1))


def t_interval(estimate: Estimate, n: int, confidence: float = 0.95) -> Summary:
    """Return a mean over n users with the interval value +- t * std_error, t of its degrees of freedom."""
    value = None if estimate.value is None else nearest_double(estimate.value)
    error = estimate.std_error
    if value is None or error is None:
        return Summary(value, n=n)
    margin = 0.0
    if error:
        from scipy.special import stdtrit

        margin = float(stdtrit(estimate.freedom, (1 + confidence) / 2)) * error
    return Summary(value, error, value - margin, value + margin, n)
