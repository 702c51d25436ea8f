"""Inference from the estimates of two arms: Welch's t, Fieller's interval, sample ratios. For the driver.

Results are None if undefined: without units, with a single unit, or without any spread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from spark_eval.experiments.moments import ArmEstimate
from spark_eval.statistics.differences import TestResult, signed_root
from spark_eval.statistics.intervals import square_root
from spark_eval.statistics.significance import p_of_t

LEAST_EXPECTED = 5


@dataclass(frozen=True)
class Contrast:
    """Treatment minus a multiple of the control, with its variance and Satterthwaite's degrees of freedom."""

    difference: Fraction | None = None
    variance: Fraction | None = None
    freedom: float | None = None

    @classmethod
    def of(cls, control: ArmEstimate, treatment: ArmEstimate, times: Fraction | int = 1) -> "Contrast":
        """Return treatment - times * control.

        Source: Welch, The generalization of Student's problem, 1947; Satterthwaite 1946.
        """
        if control.value is None or treatment.value is None:
            return cls()
        difference = treatment.value - times * control.value
        if control.variance is None or treatment.variance is None:
            return cls(difference)
        of_control = times * times * control.variance
        variance = of_control + treatment.variance
        if not variance:
            return cls(difference, variance)
        parts = of_control**2 / (control.n - 1) + treatment.variance**2 / (treatment.n - 1)
        return cls(difference, variance, float(variance**2 / parts))

    @property
    def std_error(self) -> float | None:
        """Standard error of the difference."""
        return None if self.variance is None else square_root(self.variance)

    @property
    def reason(self) -> str | None:
        """Reason why there is no p-value; None if there is one."""
        if self.difference is None:
            return "an arm without units"
        if self.variance is None:
            return "an arm with a single unit"
        return None if self.variance else "no spread"

    def quantile(self, confidence: float) -> float | None:
        """Return the two-sided quantile of t; None without degrees of freedom."""
        from scipy.special import stdtrit

        return None if self.freedom is None else float(stdtrit(self.freedom, (1 + confidence) / 2))

    def test(self, confidence: float, alternative: str = "two_sided") -> TestResult:
        """Test the difference against 0 with Welch's t; the interval is two-sided."""
        quantile = self.quantile(confidence)
        if self.difference is None or not self.variance or self.freedom is None or quantile is None:
            return TestResult()
        statistic = signed_root(self.difference, self.variance)
        value, margin = float(self.difference), quantile * square_root(self.variance)
        p_value = p_of_t(statistic, self.freedom, alternative)
        return TestResult(statistic, p_value, value - margin, value + margin)


def lift_interval(
    control: ArmEstimate, treatment: ArmEstimate, quantile: float | None
) -> tuple[float | None, float | None]:
    """Return Fieller's interval of treatment / control - 1; None if it is unbounded.

    It excludes 0 exactly if the t test of the difference at this quantile is significant, because it has the
    same degrees of freedom.

    Source: Fieller, Some problems in interval estimation, 1954.
    """
    if quantile is None or control.value is None or treatment.value is None:
        return None, None
    if control.variance is None or treatment.variance is None:
        return None, None
    square = Fraction(quantile) ** 2
    below = control.value**2 - square * control.variance
    if below <= 0:
        return None, None
    spread = treatment.value**2 * control.variance + control.value**2 * treatment.variance
    root = Fraction(quantile) * Fraction(square_root(spread - square * control.variance * treatment.variance))
    middle = control.value * treatment.value
    return float((middle - root) / below - 1), float((middle + root) / below - 1)


def sample_ratio(counts: Sequence[int], weights: Sequence[float]) -> tuple[float | None, int, float | None]:
    """Return chi^2 of unit counts against planned weights, its degrees of freedom, and p.

    p is None if an expected count is below 5.

    >>> statistic, df, p_value = sample_ratio([44_000, 45_000], [0.5, 0.5])
    >>> round(statistic, 6), df, round(p_value, 9)
    (11.235955, 1, 0.000802278)

    Source: Fabijan et al., Diagnosing sample ratio mismatch in online controlled experiments, 2019.
    """
    from scipy.special import chdtrc

    total, whole = sum(counts), math.fsum(weights)
    expected = [total * weight / whole for weight in weights]
    freedom = len(counts) - 1
    if min(expected) < LEAST_EXPECTED:
        return None, freedom, None
    statistic = math.fsum((n - mean) ** 2 / mean for n, mean in zip(counts, expected, strict=True))
    return statistic, freedom, float(chdtrc(freedom, statistic))
