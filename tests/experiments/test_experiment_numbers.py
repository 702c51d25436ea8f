"""Worked numbers of experiments, and the same by SciPy and statsmodels."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from spark_eval.experiments.checks import Compared
from spark_eval.experiments.inference import Contrast, interactions, lift_interval, sample_ratio
from spark_eval.experiments.kinds import RATIO_BITS, rounded_ratios
from spark_eval.experiments.moments import (
    ArmEstimate,
    Moments,
    adjusted_estimates,
)
from spark_eval.experiments.plan import LiftMethod
from spark_eval.experiments.worker.sums import moments_by_group
from spark_eval.statistics.intervals import square_root

IMPRESSIONS = ([10, 20, 5, 8, 40, 0, 12, 15], [10, 25, 6, 9, 30, 7, 0, 18])
CLICKS = ([1, 3, 0, 2, 2, 0, 3, 1], [2, 5, 1, 1, 4, 2, 0, 3])
WATCH = ([120, 300, 30, 90, 500, 0, 160, 200], [150, 380, 20, 140, 450, 60, 10, 260])


PRE_WATCH = ([100, 260, 40, 110, 420, 10, 150, 230], [90, 300, 30, 120, 380, 0, 5, 240])


def moments_of(*columns: list[int]) -> Moments:
    """The moments of one arm: x, and optionally y, pre-period x and y, and has_past."""
    arrays = [np.array(column) for column in columns]
    ones = np.ones(len(arrays[0]), dtype=np.int64)
    variables = [ones, arrays[0], *(arrays[1:2] or [ones]), *arrays[2:]]
    return moments_by_group([*variables, *[None] * (6 - len(variables))], ones * 0, 1)[0]


def ratios() -> list[ArmEstimate]:
    """CTR of both arms."""
    return [moments_of(*arm).estimate() for arm in zip(CLICKS, IMPRESSIONS, strict=True)]


def test_ctr_has_the_error_of_the_delta_method() -> None:
    control, treatment = ratios()
    assert [round(float(one.value or 0), 6) for one in (control, treatment)] == [0.109091, 0.171429]
    assert square_root(control.variance or Fraction(0)) == pytest.approx(0.0323745, abs=1e-7)
    assert square_root(treatment.variance or Fraction(0)) == pytest.approx(0.0171604, abs=1e-7)
    contrast = Contrast.of(control, treatment)
    assert float(contrast.difference or 0) == pytest.approx(0.0623377, abs=1e-7)
    assert contrast.std_error == pytest.approx(0.0366414, abs=1e-7)
    result = contrast.test(0.95)
    found = (result.statistic, contrast.freedom, result.p_value, result.ci_low, result.ci_high)
    assert found == pytest.approx((1.701292, 10.645696, 0.117872, -0.018638, 0.143313), abs=1e-6)
    worked = {
        LiftMethod.FIELLER: (-0.108688, 3.623700),
        LiftMethod.DELTA: (-0.516229, 1.659087),
        LiftMethod.LOG: (-0.230437, 2.208817),
    }
    for method, interval in worked.items():
        found_interval = lift_interval(control, treatment, contrast, 0.95, method)
        assert found_interval == pytest.approx(interval, abs=1e-6)


def test_watch_time_adjusted_by_the_pre_period() -> None:
    ones = [1] * 8
    arms = [moments_of(x, ones, pre, ones, ones) for x, pre in zip(WATCH, PRE_WATCH, strict=True)]
    (control, treatment), thetas = adjusted_estimates(arms)
    assert [float(theta) for theta in thetas] == pytest.approx([1.150472, 0], abs=1e-6)
    contrast = Contrast.of(control, treatment)
    assert float(contrast.difference or 0) == pytest.approx(31.040393, abs=1e-6)
    assert contrast.std_error == pytest.approx(13.451699, abs=1e-6)
    assert contrast.test(0.95).p_value == pytest.approx(0.036959, abs=1e-6)
    raw = Contrast.of(arms[0].estimate(), arms[1].estimate())
    assert float((contrast.variance or 0) / (raw.variance or 1) - 1) == pytest.approx(-0.9729, abs=1e-4)
    assert float((treatment.value or 0) / (control.value or 1) - 1) == pytest.approx(0.189438, abs=1e-6)
    log = lift_interval(control, treatment, contrast, 0.95, LiftMethod.LOG)
    assert log == pytest.approx((0.012066, 0.397897), abs=1e-6)


def test_covariates_are_those_of_least_squares() -> None:
    random = np.random.default_rng(3)
    pre = random.poisson(5, 200) * (random.random(200) < 0.7)
    y = 3 * pre + random.poisson(4, 200) + 7 * (pre > 0)
    past, ones = (pre > 0).astype(int), np.ones(200, dtype=int)
    halves = [slice(0, 100), slice(100, 200)]
    arms = [moments_of(*(one[half].tolist() for one in (y, ones, pre, ones, past))) for half in halves]
    estimates, thetas = adjusted_estimates(arms)
    design = np.column_stack([ones, pre, past])
    fitted = np.linalg.lstsq(design, y)[0]
    assert [float(theta) for theta in thetas] == pytest.approx(fitted[1:].tolist())
    adjusted = y - design @ fitted + y.mean()
    for estimate, half in zip(estimates, halves, strict=True):
        assert float(estimate.value or 0) == pytest.approx(adjusted[half].mean())
        assert float(estimate.variance or 0) == pytest.approx(adjusted[half].var(ddof=1) / 100)


def test_an_adjusted_ratio_is_that_of_linearised_rows() -> None:
    random = np.random.default_rng(6)
    estimates, rows = adjusted_rates(random.poisson(random.gamma(2, 3, 120)))
    for estimate, values in zip(estimates, rows, strict=True):
        assert float(estimate.value or 0) == pytest.approx(values.mean())
        assert float(estimate.variance or 0) == pytest.approx(values.var(ddof=1) / len(values))


def adjusted_rates(clicks: Any) -> tuple[list[ArmEstimate], list[Any]]:
    """Ratios of two arms adjusted by those of the past, and the units' linearised values by numpy."""
    random = np.random.default_rng(7)
    y, pre_y = 1 + random.poisson(9, (2, len(clicks)))
    pre_x = random.poisson(1.0 + clicks)
    halves, ones = [slice(None, None, 2), slice(1, None, 2)], np.ones(len(clicks), dtype=int)
    columns = (clicks, y, pre_x, pre_y, ones)
    arms = [moments_of(*(column[half].tolist() for column in columns)) for half in halves]

    def linearised(half: slice, above: Any, below: Any) -> Any:
        above, below = above[half], below[half]
        rate = above.sum() / below.sum()
        return rate + (above - rate * below) / below.mean()

    z, before = (linearised(slice(None), *pair) for pair in ((clicks, y), (pre_x, pre_y)))
    theta = np.cov(z, before)[0, 1] / before.var(ddof=1)
    rows = [
        linearised(half, clicks, y) - theta * (linearised(half, pre_x, pre_y) - pre_x.sum() / pre_y.sum())
        for half in halves
    ]
    return adjusted_estimates(arms)[0], rows


def test_nothing_is_left_of_a_ratio_that_the_past_explains() -> None:
    """Arms of other sizes, and by chance of other ratios, which they had before."""
    random = np.random.default_rng(8)
    arms = []
    for _ in range(2):
        sizes = random.integers(1, 51, 40)
        watch = random.poisson(20, 40) * sizes
        arms.append(moments_of(*(one.tolist() for one in (3 * watch, sizes, watch, sizes, sizes * 0 + 1))))
    estimates, (theta, _) = adjusted_estimates(arms)
    assert theta == 3
    assert [one.variance for one in estimates] == [0, 0]
    assert estimates[0].value == estimates[1].value
    assert arms[0].ratio() != arms[1].ratio()


def test_a_ratio_that_an_arm_had_not_before_is_not_adjusted_by_it() -> None:
    ones, none = [1, 1, 1], [0, 0, 0]
    with_past = moments_of([1, 2, 3], [4, 5, 7], [2, 2, 5], [4, 6, 8], ones)
    without = moments_of([2, 2, 4], [4, 4, 9], none, none, none)
    estimates, (theta, of_past) = adjusted_estimates([with_past, without])
    assert theta == 0
    assert of_past != 0
    assert all(one.variance for one in estimates)


def test_a_ratio_of_clusters_has_the_error_of_clustered_regression() -> None:
    random = np.random.default_rng(4)
    sizes = random.integers(1, 20, 60)
    rates = random.beta(2, 5, 60)
    clicks = random.binomial(sizes, rates)
    [estimate] = [moments_of(clicks.tolist(), sizes.tolist()).estimate()]
    rows = np.repeat(np.arange(60), sizes)
    hits = np.concatenate([np.arange(size) < n for size, n in zip(sizes, clicks, strict=True)]).astype(float)
    # The sandwich of a regression on a constant, with residuals summed by cluster.
    of_clusters = np.bincount(rows, hits - hits.mean())
    sandwich = (of_clusters**2).sum() / len(hits) ** 2
    assert float(estimate.value or 0) == pytest.approx(hits.mean())
    error = square_root(estimate.variance or Fraction(0))
    assert error == pytest.approx(np.sqrt(sandwich * 60 / 59))


def test_a_ramp_is_compared_within_its_strata() -> None:
    def shares(n: int, n_conversions: int) -> Moments:
        return Moments.of_means([1] * n_conversions + [0] * (n - n_conversions))

    strata = [
        (Fraction(1000, 2000), shares(900, 90).estimate(), shares(100, 11).estimate()),
        (Fraction(1000, 2000), shares(500, 25).estimate(), shares(500, 30).estimate()),
    ]
    contrast = Contrast.over_strata(strata)
    assert contrast.difference == Fraction(1, 100)
    assert contrast.std_error == pytest.approx(0.018008, abs=2e-5)


def test_late_minus_early() -> None:
    early, late = [[10, 8, 12, 9], [15, 12, 16, 13]], [[9, 8, 13, 10], [11, 9, 13, 10]]
    changes = [[b - a for a, b in zip(*arm, strict=True)] for arm in zip(early, late, strict=True)]
    control, treatment = (Moments.of_means(change).estimate() for change in changes)
    contrast = Contrast.of(control, treatment)
    result = contrast.test(0.95)
    assert contrast.difference == Fraction(-7, 2)
    assert (result.statistic, result.p_value) == pytest.approx((-6.480741, 0.001890), abs=1e-6)


def means_of_ratios() -> list[ArmEstimate]:
    """CTR per user of both arms."""
    arms = [(np.array(x), np.array(y)) for x, y in zip(CLICKS, IMPRESSIONS, strict=True)]
    return [moments_of(rounded_ratios(x, y)[y != 0].tolist()).estimate((1 << RATIO_BITS, 1)) for x, y in arms]


def test_ctr_per_user_and_watch_time_are_those_of_scipy() -> None:
    per_user = [
        [x / y for x, y in zip(*arm, strict=True) if y] for arm in zip(CLICKS, IMPRESSIONS, strict=True)
    ]
    cases = (
        (means_of_ratios(), per_user, (1.329204, 0.214407)),
        ([moments_of(arm).estimate() for arm in WATCH], WATCH, (0.106986, 0.916319)),
    )
    for (control, treatment), values, worked in cases:
        contrast = Contrast.of(control, treatment)
        result = contrast.test(0.95)
        theirs = stats.ttest_ind(values[1], values[0], equal_var=False)
        assert (result.statistic, result.p_value) == pytest.approx(worked, abs=1e-6)
        assert (result.statistic, result.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))
        assert contrast.freedom == pytest.approx(theirs.df)
        interval = theirs.confidence_interval(0.95)
        assert (result.ci_low, result.ci_high) == pytest.approx((interval.low, interval.high))


def test_sample_ratios_are_those_of_scipy() -> None:
    for counts, weights in (([44_000, 45_000], [1, 1]), ([100, 210, 320], [1, 2, 3])):
        expected = np.array(weights) / sum(weights) * sum(counts)
        theirs = stats.chisquare(counts, expected)
        statistic, freedom, p_value = sample_ratio([(counts, weights)])
        assert (statistic, p_value) == pytest.approx((theirs.statistic, theirs.pvalue))
        assert freedom == len(counts) - 1
    assert sample_ratio([([3, 4], [1, 1])]) == (None, 1, None)


def test_the_unpooled_test_of_proportions() -> None:
    control, treatment = (
        Moments.of_means([1] * n_conversions + [0] * (10_000 - n_conversions)).estimate()
        for n_conversions in (480, 530)
    )
    result = Contrast.of(control, treatment).test(0.95)
    # With z instead of t it is .106377.
    assert result.p_value == pytest.approx(0.106377, abs=5e-5)


def test_the_interval_of_the_lift_agrees_with_the_test() -> None:
    random = np.random.default_rng(5)
    n_significant = 0
    for shift in np.linspace(0, 2, 40):
        arms = random.normal(5, 2, 30), random.normal(5 + shift, 2, 30)
        control, treatment = (
            Moments.of_means(whole).estimate()
            for whole in ((arm * 1000).astype(int).tolist() for arm in arms)
        )
        contrast = Contrast.of(control, treatment)
        low, high = lift_interval(control, treatment, contrast, 0.95)
        p_value = contrast.test(0.95).p_value
        assert low is not None
        assert high is not None
        assert p_value is not None
        assert (p_value < 0.05) == (not low <= 0 <= high)
        n_significant += p_value < 0.05
    assert 0 < n_significant < 40


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("scale", [-30, 0, 2, 50])
def test_the_interval_of_the_lift_has_the_ratios_that_the_t_test_does_not_reject(
    scale: int, confidence: float
) -> None:
    """Its ends R are found by a search: t of T - R C is the quantile there."""
    random = np.random.default_rng(9)
    control, treatment = (
        Moments.of_means([scale + int(value) for value in random.integers(-20, 21, n)]).estimate()
        for n in (400, 90)
    )
    contrast = Contrast.of(control, treatment)
    c, t, v, w = (
        float(one or 0) for one in (control.value, treatment.value, control.variance, treatment.variance)
    )
    quantile = stats.t.ppf((1 + confidence) / 2, contrast.freedom)

    def excess(ratio: float) -> float:
        return float(abs(t - ratio * c) / np.sqrt(w + ratio**2 * v) - quantile)

    low, high = lift_interval(control, treatment, contrast, confidence)
    if excess(1e9) <= 0:
        assert (low, high) == (None, None)
        return
    ends = sorted(optimize.brentq(excess, t / c, end, xtol=1e-14, rtol=1e-14) for end in (-1e9, 1e9))
    assert (low, high) == pytest.approx((ends[0] - 1, ends[1] - 1), rel=1e-9)


def test_without_units_or_spread_there_is_a_reason_and_no_p_value() -> None:
    some, single, none = Moments.of_means([1, 2]), Moments.of_means([3]), Moments()
    equal = Moments.of_means([1, 1])
    cases = (
        (some, none, "an arm without units"),
        (some, single, "an arm with a single unit"),
        (equal, equal, "no spread"),
        (some, some, None),
    )
    for one, other, reason in cases:
        contrast = Contrast.of(one.estimate(), other.estimate())
        strata = [(Fraction(1), one.estimate(), other.estimate())]
        assert Compared(strata, one, other, contrast).reason == reason
        assert (contrast.test(0.95).p_value is None) == (reason is not None)
    # Fieller's interval is unbounded if the control may be 0.
    wide = Moments.of_means([-1, 2]).estimate()
    assert lift_interval(wide, some.estimate(), Contrast.of(wide, some.estimate()), 0.95) == (None, None)


@pytest.mark.parametrize("k", [2, 4, 55, 1029, 1030, 1031, 1100, 2500])
def test_interactions_of_any_number_of_values_are_those_of_scipy(k: int) -> None:
    random = np.random.default_rng(k)
    differences, errors = random.normal(0, 0.02, k), random.uniform(0.005, 0.02, k)
    found = interactions(differences.tolist(), errors.tolist())
    assert found is not None
    z = (differences / errors) ** 2
    m = min(z[differences > 0].sum(), z[differences < 0].sum())
    h = np.arange(1, k)
    p_value = (stats.binom.pmf(h, k - 1, 0.5) * stats.chi2.sf(m, h)).sum() if m else 1.0
    assert (found.m, found.m_p_value) == pytest.approx((m, p_value), rel=1e-9)
    # Where the sizes of both sides are as chance has them, so is the p-value.
    calm = interactions((errors * np.where(np.arange(k) % 2, 0.7, -0.7)).tolist(), errors.tolist())
    assert calm is not None
    n_above = k // 2
    quiet = (stats.binom.pmf(h, k - 1, 0.5) * stats.chi2.sf(0.49 * n_above, h)).sum()
    assert calm.m_p_value == pytest.approx(quiet, rel=1e-9)
