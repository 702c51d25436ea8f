"""Exact numbers with their derivatives by the sums that they are computed from, for the delta method."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

# Name of a sum, and the index among the sums of that name.
SumKey = tuple[str, int]
Slopes = Mapping[SumKey, float]


@dataclass(frozen=True)
class Number:
    """Exact number; ``slopes`` are its derivatives by sums, as doubles; None if unknown.

    >>> clicks, rows = Number(Fraction(1), {("clicks", 0): 1.0}), Number(Fraction(4), {("rows", 0): 1.0})
    >>> (clicks / rows).value, (clicks / rows).slopes
    (Fraction(1, 4), {('clicks', 0): 0.25, ('rows', 0): -0.0625})

    Source: Griewank, Walther, Evaluating derivatives, 2008, chapter 3 (forward mode).
    """

    value: Fraction
    slopes: Slopes | None = field(default_factory=dict)

    def __add__(self, other: "Number | int") -> "Number":
        other = number_of(other)
        return Number(self.value + other.value, combined(self.slopes, 1.0, other.slopes, 1.0))

    __radd__ = __add__

    def __neg__(self) -> "Number":
        return Number(-self.value, combined(self.slopes, -1.0, {}, 0.0))

    def __sub__(self, other: "Number | int") -> "Number":
        return self + -number_of(other)

    def __rsub__(self, other: int) -> "Number":
        return number_of(other) - self

    def __mul__(self, other: "Number | int") -> "Number":
        other = number_of(other)
        slopes = combined(self.slopes, float(other.value), other.slopes, float(self.value))
        return Number(self.value * other.value, slopes)

    __rmul__ = __mul__

    def __truediv__(self, other: "Number | int") -> "Number":
        other = number_of(other)
        value = self.value / other.value
        slopes = combined(self.slopes, float(1 / other.value), other.slopes, float(-value / other.value))
        return Number(value, slopes)

    def __abs__(self) -> "Number":
        return -self if self.value < 0 else self

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def scaled_slopes(self, factor: float) -> Slopes | None:
        """Return the slopes of a function of this number whose own derivative is ``factor``."""
        return combined(self.slopes, factor, {}, 0.0)


def number_of(number: "Number | int") -> Number:
    """Return a number; an integer has no slopes."""
    return number if isinstance(number, Number) else Number(Fraction(number))


def combined(one: Slopes | None, by: float, other: Slopes | None, other_by: float) -> Slopes | None:
    """Return the slopes of ``by * one + other_by * other``; None if one of both is unknown."""
    if one is None or other is None:
        return None
    slopes = {key: slope * by for key, slope in one.items()}
    for key, slope in other.items():
        slopes[key] = slopes.get(key, 0.0) + slope * other_by
    return slopes


def root_slopes(number: Number) -> Slopes | None:
    """Return the slopes of the square root of a number; None if unknown, or at 0.

    >>> root_slopes(Number(Fraction(1, 4), {("errors", 0): 3.0}))
    {('errors', 0): 3.0}
    """
    return number.scaled_slopes(0.5 / math.sqrt(number.value)) if number.value > 0 else None
