"""True offline and online effects behind noisy ones: their distribution, and forecasts by it."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple


@dataclass(frozen=True)
class Fit:
    """Distribution of true offline and online effects: a bivariate normal.

    ``rho_low`` and ``rho_high`` are the ends of the profile interval of 95 %; an end that the profile does
    not reach is -1 or 1.
    """

    x_mean: float
    y_mean: float
    x_spread: float
    y_spread: float
    rho: float
    rho_low: float
    rho_high: float

    @property
    def slope(self) -> float:
        """True online effect per unit of true offline effect."""
        return self.rho * self.y_spread / self.x_spread

    def predict(self, difference: float, std_error: float) -> "Forecast":
        """Return the true online effect that the fitted values expect behind an observed offline effect."""
        covariance = self.rho * self.x_spread * self.y_spread
        weight = covariance / (self.x_spread**2 + std_error**2)
        expected = self.y_mean + weight * (difference - self.x_mean)
        spread = math.sqrt(max(self.y_spread**2 - weight * covariance, 0.0))
        if spread == 0:
            return Forecast(expected, 0.0, float(expected > 0))
        return Forecast(expected, spread, NormalDist().cdf(expected / spread))


class Forecast(NamedTuple):
    """Expected true online effect, its standard deviation, and the probability that it is above 0."""

    expected: float
    deviation: float
    p_win: float
