"""Inference from the estimates of two arms: tests, intervals, sample ratios, power. For the driver.

Results are None if undefined: without units, with a single unit, or without any spread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final, NamedTuple

from spark_eval.experiments.moments import ArmEstimate
from spark_eval.experiments.plan import LiftMethod
from spark_eval.statistics.differences import TestResult, p_value_of, signed_root
from spark_eval.statistics.intervals import square_root
from spark_eval.statistics.significance import p_of_t

LEAST_EXPECTED: Final = 5
# Weight of the planned ratios in the sequential test of sample ratios, in units.
PRIOR_UNITS: Final = 10_000
NORMAL: Final = NormalDist()


@dataclass(frozen=True)
class Contrast:
    """Treatment minus a multiple of the control, with its variance and degrees of freedom (inf: normal)."""

    difference: Fraction | None = None
    variance: Fraction | None = None
    freedom: float | None = None

    @classmethod
    def of(cls, control: ArmEstimate, treatment: ArmEstimate, times: Fraction | int = 1) -> "Contrast":
        """Return treatment - times * control, with Satterthwaite's degrees of freedom.

        Source: Welch, The generalization of Student's problem, 1947; Satterthwaite 1946.
        """
        return cls.over_strata([(Fraction(1), control, treatment)], times)

    @classmethod
    def over_strata(
        cls, strata: Sequence[tuple[Fraction, ArmEstimate, ArmEstimate]], times: Fraction | int = 1
    ) -> "Contrast":
        """Return the sum of weight * (treatment - times * control); strata are (weight, control, treatment).

        >>> arms = [ArmEstimate(Fraction(value), Fraction(2), 3) for value in (1, 4)]
        >>> contrast = Contrast.over_strata([(Fraction(1), *arms)])
        >>> int(contrast.difference), int(contrast.variance), contrast.freedom
        (3, 4, 4.0)
        """
        difference, variance, parts = Fraction(0), Fraction(0), Fraction(0)
        is_single = False
        for weight, control, treatment in strata:
            if control.value is None or treatment.value is None:
                return cls()
            difference += weight * (treatment.value - times * control.value)
            for factor, arm in ((weight * times, control), (weight, treatment)):
                if arm.variance is None:
                    is_single = True
                else:
                    share = factor * factor * arm.variance
                    variance += share
                    parts += share**2 / (arm.n - 1)
        if not strata:
            return cls()
        if is_single:
            return cls(difference)
        return cls(difference, variance, float(variance**2 / parts) if parts else None)

    @classmethod
    def z_pooled(cls, strata: Sequence[tuple[Fraction, ArmEstimate, ArmEstimate]]) -> "Contrast":
        """Return the difference of two shares, with the variance of the pooled share of each stratum.

        >>> shares = [ArmEstimate(Fraction(n, 10_000), None, 10_000) for n in (480, 530)]
        >>> result = Contrast.z_pooled([(Fraction(1), *shares)]).test(0.95)
        >>> round(result.statistic, 6), round(result.p_value, 6)
        (1.614588, 0.1064)
        """
        difference, variance = Fraction(0), Fraction(0)
        for weight, control, treatment in strata:
            if control.value is None or treatment.value is None:
                return cls()
            n = control.n + treatment.n
            share = (control.value * control.n + treatment.value * treatment.n) / n
            difference += weight * (treatment.value - control.value)
            units = Fraction(1, control.n) + Fraction(1, treatment.n)
            variance += weight**2 * share * (1 - share) * units
        return cls(difference, variance, math.inf)

    def relative(self, base: Fraction | None, variance: Fraction | None) -> "Contrast":
        """Return the lift: the difference divided by ``base``, with this variance divided by its square."""
        if self.difference is None or not base:
            return Contrast()
        return Contrast(
            self.difference / base, None if variance is None else variance / base**2, self.freedom
        )

    @property
    def std_error(self) -> float | None:
        """Standard error of the difference."""
        return None if self.variance is None else square_root(self.variance)

    def quantile(self, confidence: float) -> float | None:
        """Return the two-sided quantile; None without degrees of freedom."""
        return None if self.freedom is None else t_quantile(self.freedom, (1 + confidence) / 2)

    def test(self, confidence: float, alternative: str = "two_sided") -> TestResult:
        """Test the difference against 0; the interval is two-sided."""
        quantile = self.quantile(confidence)
        if self.difference is None or not self.variance or self.freedom is None or quantile is None:
            return TestResult()
        statistic = signed_root(self.difference, self.variance)
        value, margin = float(self.difference), quantile * square_root(self.variance)
        p_value = p_of(statistic, self.freedom, alternative)
        return TestResult(statistic, p_value, value - margin, value + margin)

    def always_valid(self, confidence: float, tau_squared: Fraction) -> TestResult:
        """Test the difference at any look: p = min(1, 1 / L), with L mixed over effects from N(0, tau^2).

        The statistic is L. The interval is the asymptotic confidence sequence.

        >>> contrast = Contrast(Fraction("0.008"), Fraction("1.9712e-5"), math.inf)
        >>> result = contrast.always_valid(0.95, Fraction("0.01") ** 2)
        >>> round(result.statistic, 6), round(result.p_value, 6), round(result.ci_high - 0.008, 7)
        (1.574815, 0.634995, 0.0135629)

        Source: Johari, Koomen, Pekelis, Walsh, Always valid inference, 2022; Waudby-Smith et al., 2024.
        """
        if self.difference is None or not self.variance:
            return TestResult()
        v, tau = float(self.variance), float(tau_squared)
        value, alpha = float(self.difference), 1 - confidence
        exponent = tau * value**2 / (2 * v * (v + tau))
        log_ratio = 0.5 * math.log(v / (v + tau)) + exponent
        half = math.sqrt(v * (v + tau) / tau * (2 * math.log(1 / alpha) + math.log((v + tau) / v)))
        statistic = math.exp(min(log_ratio, 700.0))
        return TestResult(statistic, math.exp(-max(log_ratio, 0.0)), value - half, value + half)


def tau_squared_of(tightest_at: float, n_units: int, variance: Fraction, confidence: float) -> Fraction:
    """Return the variance of the mixture whose interval is tightest at a number of units.

    >>> tau = tau_squared_of(5_000, 10_000, Fraction("1.9712e-5"), 0.95)
    >>> result = Contrast(Fraction("0.008"), Fraction("1.9712e-5"), math.inf).always_valid(0.95, tau)
    >>> round(result.p_value, 6), round(result.ci_high - 0.008, 7)
    (0.891969, 0.0135924)

    Source: Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences, 2024.
    """
    alpha = 1 - confidence
    rho = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / tightest_at
    return Fraction(rho) * n_units * variance


def t_quantile(freedom: float, probability: float) -> float:
    """Return a quantile of Student's t; normal if ``freedom`` is infinite."""
    if math.isinf(freedom):
        return NORMAL.inv_cdf(probability)
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def p_of(statistic: float, freedom: float, alternative: str) -> float:
    """Return the p-value of a statistic; normal if ``freedom`` is infinite."""
    if not math.isinf(freedom):
        return p_of_t(statistic, freedom, alternative)
    return p_value_of(NORMAL.cdf(-statistic), NORMAL.cdf(statistic), alternative)


def lift_interval(
    control: ArmEstimate,
    treatment: ArmEstimate,
    contrast: Contrast,
    confidence: float,
    method: LiftMethod = LiftMethod.FIELLER,
) -> tuple[float | None, float | None]:
    """Return the interval of treatment / control - 1; None if it is unbounded.

    - ``fieller`` excludes 0 exactly if the t test of the difference is significant.
    - ``delta`` is the delta method for the ratio, with the degrees of freedom of the difference.
    - ``log`` is the delta method for the log of the ratio, with degrees of freedom of its own.

    Source: Fieller, Some problems in interval estimation, 1954.
    """
    c, t, v, w = control.value, treatment.value, control.variance, treatment.variance
    if not c or t is None or v is None or w is None or contrast.freedom is None:
        return None, None
    if method is LiftMethod.FIELLER:
        quantile = Fraction(t_quantile(contrast.freedom, (1 + confidence) / 2))
        below = c**2 - quantile**2 * v
        if below <= 0:
            return None, None
        spread = t**2 * v + c**2 * w - quantile**2 * v * w
        root = quantile * Fraction(square_root(spread))
        return float((c * t - root) / below - 1), float((c * t + root) / below - 1)
    if method is LiftMethod.DELTA:
        result = contrast.relative(c, w + (t / c) ** 2 * v).test(confidence)
        return result.ci_low, result.ci_high
    if t / c <= 0:
        return None, None
    of_control, of_treatment = v / c**2, w / t**2
    variance = of_control + of_treatment
    freedom = variance**2 / (of_control**2 / (control.n - 1) + of_treatment**2 / (treatment.n - 1))
    half = t_quantile(float(freedom), (1 + confidence) / 2) * square_root(variance)
    middle = math.log(t / c)
    return math.expm1(middle - half), math.expm1(middle + half)


class TrustTest(NamedTuple):
    """Test of a check of trust; p is None if there is none, as of ratios if an expected number is below 5."""

    statistic: float | None
    freedom: float | None
    p_value: float | None


def sample_ratio(strata: Sequence[tuple[Sequence[int], Sequence[float]]]) -> TrustTest:
    """Return chi^2 of unit counts against planned weights, summed over strata of (counts, weights).

    >>> test = sample_ratio([([44_000, 45_000], [0.5, 0.5])])
    >>> round(test.statistic, 6), test.freedom, round(test.p_value, 9)
    (11.235955, 1, 0.000802278)

    Source: Fabijan et al., Diagnosing sample ratio mismatch in online controlled experiments, 2019.
    """
    from scipy.special import chdtrc

    terms, freedom = [], 0
    for counts, weights in strata:
        total, whole = sum(counts), math.fsum(weights)
        expected = [total * weight / whole for weight in weights]
        freedom += len(counts) - 1
        if min(expected) < LEAST_EXPECTED:
            return TrustTest(None, freedom, None)
        terms += [(n - mean) ** 2 / mean for n, mean in zip(counts, expected, strict=True)]
    statistic = math.fsum(terms)
    return TrustTest(statistic, freedom, float(chdtrc(freedom, statistic)))


def sequential_sample_ratio(strata: Sequence[tuple[Sequence[int], Sequence[float]]]) -> TrustTest:
    """Return the Bayes factor of other ratios than the planned ones, and p = min(1, 1 / factor) at any look.

    The prior is Dirichlet's around the planned ratios, with the weight of 10,000 units.

    >>> round(sequential_sample_ratio([([44_000, 45_000], [0.5, 0.5])]).p_value, 4)
    0.0202

    Source: Lindon, Malek, Anytime-valid inference for multinomial count data, 2022.
    """
    log_factor, freedom = 0.0, 0
    for counts, weights in strata:
        whole, total = math.fsum(weights), sum(counts)
        log_factor += math.lgamma(PRIOR_UNITS) - math.lgamma(PRIOR_UNITS + total)
        freedom += len(counts) - 1
        for n, weight in zip(counts, weights, strict=True):
            share = weight / whole
            prior = PRIOR_UNITS * share
            log_factor += math.lgamma(prior + n) - math.lgamma(prior) - n * math.log(share)
    return TrustTest(math.exp(min(log_factor, 700.0)), freedom, math.exp(-max(log_factor, 0.0)))


class Interactions(NamedTuple):
    """Tests of differences over independent groups: pooled difference, Cochran's Q, Gail and Simon's m."""

    pooled: float
    q: float
    q_p_value: float
    m: float
    m_p_value: float


def interactions(differences: Sequence[float], std_errors: Sequence[float]) -> Interactions | None:
    """Test K differences for heterogeneity, and for opposite signs; None for fewer than two.

    Q is the heterogeneity around the pooled difference. m = min(Q+, Q-) tests whether some differences are
    above 0 and others below: p = sum over h of C(K - 1, h) 2^(1 - K) P(chi^2_h > m).

    >>> found = interactions([0.010, -0.008, 0.012, -0.009], [0.003, 0.004, 0.005, 0.003])
    >>> [round(value, 6) for value in (found.pooled, found.q, found.m, found.m_p_value)]
    [0.000281, 29.845547, 13.0, 0.00126]

    Source: Gail, Simon, Testing for qualitative interactions, 1985; Cochran 1954.
    """
    from scipy.special import chdtrc

    k = len(differences)
    if k < 2:
        return None
    weights = [error**-2 for error in std_errors]
    pooled = math.fsum(w * d for w, d in zip(weights, differences, strict=True)) / math.fsum(weights)
    q = math.fsum(w * (d - pooled) ** 2 for w, d in zip(weights, differences, strict=True))
    above, below = (
        math.fsum(w * d * d for w, d in zip(weights, differences, strict=True) if sign * d > 0)
        for sign in (1, -1)
    )
    m = min(above, below)
    terms, number, of_all = [], 1, 1 << (k - 1)
    for h in range(1, k):
        # The binomial coefficient itself is too large for a double if k is above 1,030.
        number = number * (k - h) // h
        terms.append(number / of_all * float(chdtrc(h, m)))
    p_value = math.fsum(terms)
    # Without opposite signs nothing speaks against the null.
    return Interactions(pooled, q, float(chdtrc(k - 1, q)), m, p_value if m else 1.0)


def effect_factor(confidence: float, power: float, n_guardrails: int) -> float:
    """Return z_(1 - alpha / 2) + z_(1 - beta'), with beta' = beta / (guardrails + 1).

    Source: Schultzberg, Ankargren, Frånberg, Risk-aware product decisions in A/B tests, 2024.
    """
    beta = (1 - power) / (n_guardrails + 1)
    return NORMAL.inv_cdf((1 + confidence) / 2) + NORMAL.inv_cdf(1 - beta)


def needed_units(effect: float, variances: tuple[float, float], factor: float, ratio: float = 1.0) -> int:
    """Return the units of the control to detect an effect; the treatment has ``ratio`` times as many.

    ``variances`` are those of a unit in control and treatment.

    >>> needed_units(0.02, (1, 1), effect_factor(0.95, 0.8, 0))
    39245
    >>> needed_units(0.005, (0.05 * 0.95, 0.055 * 0.945), effect_factor(0.95, 0.8, 0))
    31231
    >>> needed_units(0.02, (1, 1), effect_factor(0.95, 0.8, 3))
    64974
    """
    return math.ceil(factor**2 * (variances[0] + variances[1] / ratio) / effect**2)
