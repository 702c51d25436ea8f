"""Alarms: the value of a day, judged by the values of the days before."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from statistics import NormalDist
from typing import Final, NamedTuple

from scipy.special import stdtr, stdtrit

from spark_eval.monitoring.plan import WatchPlan

NORMAL: Final = NormalDist()
# Fewer runs before the day leave it undecided.
LEAST_RUNS: Final = 7
# With at least this number of runs before, each weekday has its own level.
LEAST_FOR_WEEKDAYS: Final = 21
# Allowance and limit of the cumulative sum.
ALLOWANCE: Final = 0.5
LIMIT: Final = 7.0
# Smallest standard error, as a share of the largest value: where nothing varies, weights stay finite.
LEAST_ERROR: Final = 1e-9


class Point(NamedTuple):
    """Value of a day, with its standard error."""

    day: date
    value: float
    std_error: float


class Level(NamedTuple):
    """Level of several days: its value, its variance, and the variance between days."""

    value: float
    variance: float
    between: float


@dataclass(frozen=True)
class Judgement:
    """Judgement of the newest day of a series.

    ``u`` is its distance from the ``level``, in standard deviations; negative is worse. ``cusum`` is the
    cumulative sum of the last runs. All are None with too few runs. ``freedom`` are the degrees of freedom of
    ``u``; None if it counts as normal.
    """

    point: Point
    n_runs: int
    level: Level | None
    u: float | None
    cusum: float
    limit: float
    freedom: int | None = None

    @property
    def is_decided(self) -> bool:
        """True if there are enough runs before."""
        return self.u is not None

    @property
    def is_alarm(self) -> bool:
        """True if the value fell: at once, or by a slow drift."""
        return self.u is not None and (self.u < -self.limit or self.cusum >= LIMIT)

    @property
    def p_value(self) -> float | None:
        """One-sided p-value of a value that is as bad or worse."""
        if self.u is None or self.freedom is None:
            return None if self.u is None else NORMAL.cdf(self.u)
        return float(stdtr(self.freedom, self.u))

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the day's value around the level."""
        if self.level is None:
            return None
        return math.sqrt(self.level.between + self.point.std_error**2 + self.level.variance)

    def __str__(self) -> str:
        if self.level is None or self.u is None:
            return f"{self.n_runs} comparable runs before, {LEAST_RUNS} are needed"
        return (
            f"{self.point.value:.6g} where {self.level.value:.6g} is usual: {self.u:.2f} standard deviations "
            f"(alarm below {-self.limit:.2f}), drift {self.cusum:.2f} (alarm from {LIMIT:g})"
        )


def level_of(points: Sequence[Point], groups: Sequence[int], group: int) -> Level | None:
    """Return the level of one group of days; the variance between days is common to all groups.

    With weights w = 1/se^2 and the weighted mean mu of each group, Q = sum(w (x - mu)^2), and tau^2, the
    variance between days, is max(0, (Q - n + number of groups) / sum of (sum(w) - sum(w^2) / sum(w))). The
    level is the mean with weights 1 / (se^2 + tau^2).

    None if no group has two days.

    >>> days = [Point(date(2024, 3, day), x, 0.001) for day, x in ((1, 0.16), (2, 0.162), (3, 0.158))]
    >>> level = level_of(days, [0, 0, 0], 0)
    >>> round(level.value, 6), round(level.between, 8)
    (0.16, 3e-06)

    Source: DerSimonian, Laird, Meta-analysis in clinical trials, 1986; with groups, DerSimonian, Kacker,
    Random-effects model for meta-analysis of clinical trials, 2007.
    """
    q, scale = 0.0, 0.0
    for one in set(groups):
        own = [point for point, other in zip(points, groups, strict=True) if other == one]
        weights = [point.std_error**-2 for point in own]
        total = math.fsum(weights)
        mean = math.fsum(w * point.value for w, point in zip(weights, own, strict=True)) / total
        q += math.fsum(w * (point.value - mean) ** 2 for w, point in zip(weights, own, strict=True))
        scale += total - math.fsum(w * w for w in weights) / total
    if scale <= 0:
        return None
    between = max(0.0, (q - (len(points) - len(set(groups)))) / scale)
    own = [point for point, other in zip(points, groups, strict=True) if other == group]
    weights = [1 / (point.std_error**2 + between) for point in own]
    total = math.fsum(weights)
    value = math.fsum(w * point.value for w, point in zip(weights, own, strict=True)) / total
    return Level(value, 1 / total, between)


class Distance(NamedTuple):
    """Distance ``u`` of a day from the level of the days before, in standard deviations.

    ``freedom`` are the degrees of freedom of the variance between days, if each weekday has a level of its
    own; None without: the weekdays' differences are then part of that variance, which is too large rather
    than too small.
    """

    level: Level
    u: float
    freedom: int | None


def distance_of(point: Point, before: Sequence[Point]) -> Distance | None:
    """Return the distance of a day from the level of the days before; None with too few days."""
    if len(before) < LEAST_RUNS:
        return None
    weekdays = [one.day.weekday() for one in before]
    by_weekday = len(before) >= LEAST_FOR_WEEKDAYS and point.day.weekday() in weekdays
    groups = weekdays if by_weekday else [0] * len(before)
    level = level_of(before, groups, point.day.weekday() if by_weekday else 0)
    if level is None:
        return None
    deviation = math.sqrt(level.between + point.std_error**2 + level.variance)
    freedom = len(before) - len(set(groups)) if by_weekday else None
    return Distance(level, (point.value - level.value) / deviation, freedom)


def judge(
    series: Sequence[Point], plan: WatchPlan, *, is_lower_better: bool = False, is_reference: bool = False
) -> Judgement:
    """Judge the newest day of a series by the days before; the order of the series does not matter.

    Each of the last ``plan.days`` days is judged by as many days before it, for the cumulative sum. The limit
    of u is the normal quantile of alpha; the quantile of t once each weekday has a level, for then the
    variance between days is of few degrees of freedom. A reference keeps the normal quantile: its alarms only
    name what moved.

    >>> values = (0.16, 0.158, 0.163, 0.161, 0.155, 0.159, 0.162, 0.15)
    >>> errors = (0.001, 0.001, 0.0012, 0.001, 0.0011, 0.001, 0.001, 0.001)
    >>> days = [Point(date(2024, 3, at + 1), *point) for at, point in enumerate(zip(values, errors))]
    >>> found = judge(days, WatchPlan(metrics=("ndcg@10",)))
    >>> round(found.level.value, 10), round(found.u, 8), found.is_alarm
    (0.1597053995, -3.57749976, True)
    """
    points = positive_errors(sorted(series))
    newest = points[-1]
    cusum, found = 0.0, None
    sign = -1.0 if is_lower_better else 1.0
    for at, point in enumerate(points):
        if (newest.day - point.day).days >= plan.days:
            continue
        before = [one for one in points[:at] if (point.day - one.day).days <= plan.days]
        found = distance_of(point, before)
        if found is not None:
            cusum = max(0.0, cusum - sign * found.u - ALLOWANCE)
    n_runs = sum(0 < (newest.day - one.day).days <= plan.days for one in points)
    freedom = None if found is None or is_reference else found.freedom
    limit = -NORMAL.inv_cdf(plan.alpha) if freedom is None else -float(stdtrit(freedom, plan.alpha))
    if found is None:
        return Judgement(newest, n_runs, None, None, cusum, limit)
    return Judgement(newest, n_runs, found.level, sign * found.u, cusum, limit, freedom)


def positive_errors(points: Sequence[Point]) -> list[Point]:
    """Return points whose standard errors are not 0."""
    least = LEAST_ERROR * max((abs(point.value) for point in points), default=0.0) or LEAST_ERROR
    return [point._replace(std_error=max(point.std_error, least)) for point in points]
