"""Means over users who weigh or repeat, and their differences: ratios of sums, errors by the delta method.

Of each ratio a user has two amounts: in a weighted mean his weight times his value, and his weight; in a mean
over rows (folds) the sum of his rows, and their number. The ratio is the sum of the first by the sum of the
second. What he adds to it is what moves it, to first order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from spark_eval.stats.differences import UNMEASURED, ComparedSums, Estimate, Means, estimate_of


@dataclass(frozen=True)
class RatioSums(ComparedSums):
    """Exact sums over n users: of the 2 r amounts of r ratios, and of the products (2 r, 2 r) of any two.

    Of a pair of models the first ratio is the candidate's, the second the baseline's.

    >>> products = [[Fraction(5), Fraction(7)], [Fraction(7), Fraction(10)]]
    >>> estimate = RatioSums(2, [Fraction(3), Fraction(4)], products).combination(Fraction(1))
    >>> estimate.value, estimate.std_error
    (Fraction(3, 4), 0.125)
    """

    totals: Sequence[Fraction]
    products: Sequence[Sequence[Fraction]]

    @property
    def ratios(self) -> list[Fraction] | None:
        """The weighted means; None where nothing weighs."""
        weights = self.totals[1::2]
        if not all(weights):
            return None
        return [total / weight for total, weight in zip(self.totals[::2], weights, strict=True)]

    @property
    def means(self) -> Means:
        """The weighted means of a pair of models."""
        ratios = self.ratios
        return None if ratios is None else (ratios[0], ratios[1])

    def combination(self, *factors: Fraction, amount: float = 0) -> Estimate:
        """Return the sum of factor * ratio, and ``amount``, with n - 1 degrees of freedom.

        A user adds e = sum of factor * (weighted value - ratio * weight) / total weight, and the variance is
        n / (n - 1) * sum(e^2). What rounding alone can make is none.

        Source: Deng, Knoblich, Lu, Applying the delta method in metric analytics, 2018, section 3; over rows
        the same as Cameron, Miller, A practitioner's guide to cluster-robust inference, 2015, section II.
        """
        if self.ratios is None:
            return UNMEASURED
        gradient: list[Fraction] = []
        value = Fraction(amount)
        for factor, ratio, weight in zip(factors, self.ratios, self.totals[1::2], strict=True):
            gradient += [factor / weight, -factor * ratio / weight]
            value += factor * ratio
        places = range(len(gradient))
        spread = Fraction(
            sum(gradient[i] * gradient[j] * self.products[i][j] for i in places for j in places)
        )
        sizes = Fraction(sum(gradient[i] ** 2 * self.products[i][i] for i in places))
        # Each user's share, n times: their mean is the sum of ratios.
        return estimate_of(value, spread * self.n**2, self.n, sizes * self.n**2)
