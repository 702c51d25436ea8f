"""Kinds of online metrics: the values of units. A new kind is a class here, and its line in KINDS."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

import numpy as np

from spark_eval.arrow.codes import Booleans
from spark_eval.errors import DataError
from spark_eval.experiments.moments import ONE, Moments, X, Y
from spark_eval.statistics.exact import Ints

# Ratios of units are rounded to this number of binary digits after the point.
RATIO_BITS: Final = 32
# Sums of units are below this number.
LARGEST_SUM: Final = 2.0**62
# Variables of units (n,), as in ``moments``, None for 0; and True for units with a value, None for all.
Variables = tuple[list[Ints | None], Booleans | None]
# x and y of units (n,); and True for those with a value, None for all.
Values = tuple[Ints, Ints, Booleans | None]


class SumsOfMetric(Protocol):
    """Sums of a metric over the events of n units; arrays have shape (n,)."""

    @property
    def ones(self) -> Ints:
        """1 for each unit."""

    @property
    def divisors(self) -> Ints:
        """Addend of each unit to the divisor of a mean: 1 for a share, otherwise its users."""

    @property
    def has_past(self) -> Ints:
        """1 for units with an event in the pre-period."""

    @property
    def used(self) -> Sequence[Ints]:
        """Sums of the used events, for each term."""

    @property
    def past(self) -> Sequence[Ints]:
        """Sums of the pre-period, for each term."""

    def on_day(self) -> tuple[Ints, Booleans]:
        """Return the sums of the first term on the metric's day, and True for units whose day is over."""


@dataclass(frozen=True)
class MetricKind(ABC):
    """Kind of a metric, which is sum of x / sum of y over the units of an arm.

    ``keys`` are those of its terms in a config. If ``is_mean``, y is the number of users, or of units. If
    ``has_values`` is false, its events are counted. If ``needs_day``, it is of one day since exposure. A kind
    with ``has_slices`` has rows by hour, day and columns of the events; with ``has_novelty``, by day since
    exposure; with ``has_past``, its pre-period is checked. With ``has_undefined`` some units have no value.
    """

    keys: ClassVar[tuple[str, ...]] = ("numerator", "denominator")
    is_mean: ClassVar[bool] = False
    has_values: ClassVar[bool] = True
    needs_day: ClassVar[bool] = False
    has_slices: ClassVar[bool] = True
    has_novelty: ClassVar[bool] = False
    has_past: ClassVar[bool] = True
    has_undefined: ClassVar[bool] = False

    def __str__(self) -> str:
        return next(name for name, kind in KINDS.items() if kind == self)

    def is_share(self, *, is_any: bool) -> bool:
        """Return True for the share of units that have an event; ``is_any`` if the term is 1 or 0."""
        return self.is_mean and is_any

    @abstractmethod
    def values(self, sums: Sequence[Ints], ones: Ints, divisors: Ints) -> Values:
        """Return x and y of units from the sums of each term; arrays have shape (n,)."""

    def variables(self, sums: SumsOfMetric) -> Variables:
        """Return the variables of units. One that is there twice is one array: products are computed once."""
        x, y, is_defined = self.values(sums.used, sums.ones, sums.divisors)
        pre_x, pre_y, was_defined = self.values(sums.past, sums.ones, sums.divisors)
        has_past = sums.has_past if was_defined is None else was_defined.astype(np.int64)
        return [sums.ones, x, y, pre_x, pre_y, has_past], is_defined

    def scales(self, *of_terms: int) -> tuple[int, int]:
        """Return the numbers of units in 1 of the sums of x and of y, from those of the terms."""
        return of_terms[0], 1 if self.is_mean else of_terms[1]

    def completed(self, moments: Moments, units: Moments) -> Moments:
        """Return the moments of a slice over all units: those without events add 0 to x, and to y of ratios.

        ``moments`` are those of units with events in it, ``units`` those of 1 and y of all.
        """
        if self.has_undefined:
            return replace(moments, n_undefined=units.n + units.n_undefined - moments.n)
        of_y = units if self.is_mean else moments
        pairs = {(ONE, ONE): units.n, (ONE, X): moments.product(ONE, X), (X, X): moments.product(X, X)}
        pairs |= {(ONE, Y): of_y.product(ONE, Y), (Y, Y): of_y.product(Y, Y), (X, Y): moments.product(X, Y)}
        return Moments.of_products(pairs)


@dataclass(frozen=True)
class Mean(MetricKind):
    """Sum over all units by the number of users, or of units if they are 0 or 1."""

    keys = ("of",)
    is_mean = True
    has_novelty = True

    def values(self, sums: Sequence[Ints], ones: Ints, divisors: Ints) -> Values:
        """Return the sum, and the addend to the number of users."""
        del ones
        return sums[0], divisors, None


@dataclass(frozen=True)
class Ratio(MetricKind):
    """Sum of the numerators by the sum of the denominators."""

    def values(self, sums: Sequence[Ints], ones: Ints, divisors: Ints) -> Values:
        """Return numerator and denominator."""
        del ones, divisors
        return sums[0], sums[1], None


@dataclass(frozen=True)
class MeanOfRatios(MetricKind):
    """Mean of each unit's numerator by its denominator; units whose denominator is 0 have none."""

    has_undefined = True

    def values(self, sums: Sequence[Ints], ones: Ints, divisors: Ints) -> Values:
        """Return the ratio, and 1."""
        del divisors
        return rounded_ratios(sums[0], sums[1]), ones, sums[1] != 0

    def scales(self, *of_terms: int) -> tuple[int, int]:
        """Return the scales; ratios are in units of 2^-32 of those of the numerator."""
        return of_terms[0] << RATIO_BITS, of_terms[1]


@dataclass(frozen=True)
class Retention(Mean):
    """Share of the units with an event on a day since exposure, of those whose day is over."""

    has_values = False
    needs_day = True
    has_slices = False
    has_novelty = False
    has_past = False
    has_undefined = True

    def is_share(self, *, is_any: bool) -> bool:
        """Return True."""
        del is_any
        return True

    def variables(self, sums: SumsOfMetric) -> Variables:
        """Return 1 for units with an event on the day; a day since exposure has no pre-period."""
        events, is_over = sums.on_day()
        return [sums.ones, np.minimum(events, 1), sums.divisors, None, sums.divisors, sums.has_past], is_over


KINDS: Final[Mapping[str, MetricKind]] = {
    "mean": Mean(),
    "ratio": Ratio(),
    "mean_of_ratios": MeanOfRatios(),
    "retention": Retention(),
}


def rounded_ratios(x: Ints, y: Ints) -> Ints:
    """Return x / y (n,), rounded to 2^-32, as integers; 0 where y is 0.

    >>> rounded_ratios(np.array([1, 3]), np.array([4, 0])).tolist()
    [1073741824, 0]
    """
    ratios = np.rint(np.ldexp(np.divide(x, y, out=np.zeros(len(x)), where=y != 0), RATIO_BITS))
    if np.abs(ratios).max(initial=0.0) >= LARGEST_SUM:
        raise DataError("METRIC_OVERFLOW", "a ratio of a user exceeds 2^30 in units of its last decimal")
    return ratios.astype(np.int64)
