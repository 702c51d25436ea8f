"""The correlation of true effects behind pairs of noisy effects, by restricted maximum likelihood."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize

from spark_eval.statistics.true_effects import Fit

Floats: TypeAlias = npt.NDArray[np.float64]
# Half the quantile of chi-square with one degree of freedom at 95 %: drop of the profile at its ends.
DROP: Final = NormalDist().inv_cdf(0.975) ** 2 / 2
# Bounds of standard deviations of scaled effects, and of atanh of their correlation.
LEAST_SPREAD: Final = 1e-5
MOST_SPREAD: Final = 1e3
MOST_ATANH: Final = 9.0
# A likelihood that is lower by less than this is as large.
ALIKE: Final = 1e-2
# Starting points of the search: standard deviations as shares of the observed, and correlations.
STARTS: Final = ((0.9, 0.5), (0.5, 0.5), (0.5, -0.5), (0.1, 0.9), (0.1, -0.9))


class Points(NamedTuple):
    """Observed offline effects x and online effects y, with their standard errors and covariance."""

    x: Floats
    x_error: Floats
    y: Floats
    y_error: Floats
    covariance: Floats

    def in_order(self) -> "Points":
        """Return the points ordered by their numbers, so that sums do not depend on the order of rows."""
        order = np.lexsort(self[::-1])
        return Points(*(column[order] for column in self))

    def scaled(self, x_scale: float, y_scale: float) -> "Points":
        """Return the points in units of these scales."""
        scales = (x_scale, x_scale, y_scale, y_scale, x_scale * y_scale)
        return Points(*(column / scale for column, scale in zip(self, scales, strict=True)))


class Solved(NamedTuple):
    """Restricted log likelihood, its gradient, and the means by generalised least squares."""

    likelihood: float
    gradient: Floats
    means: tuple[float, float]


def solve(points: Points, x_spread: float, y_spread: float, rho: float) -> Solved:
    """Return the restricted log likelihood; its gradient is by log x_spread, log y_spread and atanh rho."""
    shared = rho * x_spread * y_spread
    of_x, of_y = x_spread**2 + points.x_error**2, y_spread**2 + points.y_error**2
    of_both = shared + points.covariance
    size = of_x * of_y - of_both**2
    # The inverse of each point's covariance matrix, and of their sum.
    a, b, c = of_y / size, -of_both / size, of_x / size
    total_a, total_b, total_c = a.sum(), b.sum(), c.sum()
    total = total_a * total_c - total_b**2
    u, v = (a * points.x + b * points.y).sum(), (b * points.x + c * points.y).sum()
    x_mean, y_mean = (total_c * u - total_b * v) / total, (total_a * v - total_b * u) / total
    x, y = points.x - x_mean, points.y - y_mean
    u, v = a * x + b * y, b * x + c * y
    likelihood = -(np.log(size).sum() + math.log(total) + (x * u + y * v).sum()) / 2
    p, q, r = total_c / total, -total_b / total, total_a / total
    by_x = (a - (a * a * p + 2 * a * b * q + b * b * r) - u * u).sum()
    by_both = (b - (a * b * p + (a * c + b * b) * q + b * c * r) - u * v).sum()
    by_y = (c - (b * b * p + 2 * b * c * q + c * c * r) - v * v).sum()
    gradient = -np.array(
        [
            x_spread**2 * by_x + shared * by_both,
            y_spread**2 * by_y + shared * by_both,
            (1 - rho**2) * x_spread * y_spread * by_both,
        ]
    )
    return Solved(float(likelihood), gradient, (float(x_mean), float(y_mean)))


def maximise(objective: Callable[[Floats], tuple[float, Floats]], start: Floats) -> tuple[float, Floats]:
    """Return the largest value of an objective within the bounds, from a start, and where it is."""
    spreads = (math.log(LEAST_SPREAD), math.log(MOST_SPREAD))
    bounds = [spreads, spreads, (-MOST_ATANH, MOST_ATANH)]
    optimum = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds[: len(start)],
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500},
    )
    return -float(optimum.fun), np.asarray(optimum.x)


def profile_at(points: Points, rho: float, start: Floats) -> tuple[float, Floats]:
    """Return the largest likelihood with this correlation, and the log standard deviations there."""

    def objective(at: Floats) -> tuple[float, Floats]:
        solved = solve(points, math.exp(at[0]), math.exp(at[1]), rho)
        return -solved.likelihood, -solved.gradient[:2]

    return maximise(objective, start)


def best_of(points: Points) -> tuple[float, Floats]:
    """Return the largest likelihood of all starts, and its log standard deviations and atanh rho."""

    def objective(at: Floats) -> tuple[float, Floats]:
        solved = solve(points, math.exp(at[0]), math.exp(at[1]), math.tanh(at[2]))
        return -solved.likelihood, -solved.gradient

    starts = [np.array([math.log(share), math.log(share), math.atanh(rho)]) for share, rho in STARTS]
    return max((maximise(objective, start) for start in starts), key=lambda one: one[0])


def end_of(points: Points, top: float, rho: float, start: Floats, edge: float) -> float:
    """Return the correlation between the best and -1 or 1 where the profile has dropped, or that edge."""

    def left(at: float) -> float:
        return profile_at(points, at, start)[0] - (top - DROP)

    if left(edge) >= 0 or rho == edge:
        return edge
    return float(brentq(left, rho, edge, xtol=1e-9))


def fit(points: Points) -> Fit | None:
    """Fit the distribution of true effects; None if noise explains all differences of one side.

    x_i = xi_i + e_i and y_i = eta_i + f_i, with errors of known variance; (xi, eta) is normal. Standard
    deviations and the correlation are of the largest restricted likelihood, means are those of generalised
    least squares.

    Source: Daniels, Hughes, Meta-analysis for the evaluation of potential surrogate markers, 1997; van
    Houwelingen, Arends, Stijnen, Advanced methods in meta-analysis, 2002.
    """
    scales = float(points.x.std()), float(points.y.std())
    if min(scales) == 0:
        return None
    scaled = points.in_order().scaled(*scales)
    top, (log_x, log_y, atanh) = best_of(scaled)
    without = (
        solve(scaled, LEAST_SPREAD, math.exp(log_y), 0.0),
        solve(scaled, math.exp(log_x), LEAST_SPREAD, 0.0),
    )
    if max(one.likelihood for one in without) > top - ALIKE:
        return None
    rho = math.copysign(1.0, atanh) if abs(atanh) == MOST_ATANH else math.tanh(atanh)
    start = np.array([log_x, log_y])
    low, high = (end_of(scaled, top, rho, start, edge) for edge in (-1.0, 1.0))
    spreads = math.exp(log_x), math.exp(log_y)
    means = solve(scaled, *spreads, rho).means
    return Fit(
        x_mean=means[0] * scales[0],
        y_mean=means[1] * scales[1],
        x_spread=spreads[0] * scales[0],
        y_spread=spreads[1] * scales[1],
        rho=rho,
        rho_low=low,
        rho_high=high,
    )
