"""Exact moments of one arm, and its estimate with a delta-method variance."""

from dataclasses import astuple, dataclass
from fractions import Fraction
from typing import NamedTuple


class ArmEstimate(NamedTuple):
    """Value of an arm and the variance of this value; None if undefined."""

    value: Fraction | None
    variance: Fraction | None
    n: int


@dataclass(frozen=True)
class Moments:
    """Sums over n units of x, x^2, y, y^2 and xy; of means y is 1. They are exact and add in any order.

    >>> Moments(1, 2, 4, 1, 1, 2) + Moments(1, 3, 9, 1, 1, 3)
    Moments(n=2, x=5, xx=13, y=2, yy=2, xy=5, n_undefined=0)
    """

    n: int = 0
    x: Fraction | int = 0
    xx: Fraction | int = 0
    y: Fraction | int = 0
    yy: Fraction | int = 0
    xy: Fraction | int = 0
    n_undefined: int = 0

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))

    @classmethod
    def of_mean(cls, n: int, x: Fraction | int, xx: Fraction | int, n_undefined: int = 0) -> "Moments":
        """Return the moments for a mean of x."""
        return cls(n, x, xx, n, n, x, n_undefined)

    def estimate(self, x_scale: int = 1, y_scale: int = 1) -> ArmEstimate:
        """Return R = sum x / sum y, and its variance sum (x - R y)^2 / (n - 1) / (n mean(y)^2).

        Of means y is 1, and this is the usual variance of a mean. Sums are in units of 1 / scale.

        Clicks 1, 3 of impressions 10, 20:

        >>> R, variance, n = Moments(2, 4, 10, 30, 500, 70).estimate()
        >>> str(R), str(variance), n
        ('2/15', '1/2025', 2)

        Source: Deng et al., Applying the delta method in metric analytics, 2018.
        """
        if not self.y:
            return ArmEstimate(None, None, self.n)
        unit = Fraction(y_scale, x_scale)
        ratio = Fraction(self.x) / self.y
        if self.n < 2:
            return ArmEstimate(ratio * unit, None, self.n)
        squares = self.xx - 2 * ratio * self.xy + ratio * ratio * self.yy
        variance = Fraction(squares) * self.n / (self.n - 1) / (Fraction(self.y) ** 2)
        return ArmEstimate(ratio * unit, variance * unit * unit, self.n)
