"""Worked numbers of experiments, and the same by SciPy and statsmodels."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from spark_eval.experiments.inference import Contrast, lift_interval, sample_ratio
from spark_eval.experiments.moments import ArmEstimate, Moments
from spark_eval.experiments.plan import Metric, MetricKind, Term
from spark_eval.experiments.worker.bucket import moments_of
from spark_eval.statistics.intervals import square_root

IMPRESSIONS = ([10, 20, 5, 8, 40, 0, 12, 15], [10, 25, 6, 9, 30, 7, 0, 18])
CLICKS = ([1, 3, 0, 2, 2, 0, 3, 1], [2, 5, 1, 1, 4, 2, 0, 3])
WATCH = ([120, 300, 30, 90, 500, 0, 160, 200], [150, 380, 20, 140, 450, 60, 10, 260])


def estimates(kind: MetricKind, x: tuple[list[int], ...], y: tuple[list[int], ...]) -> list[ArmEstimate]:
    term = Term("any")
    metric = Metric("m", kind, term, None if kind is MetricKind.MEAN else term)
    arms = zip(x, y, strict=True)
    return [moments_of(metric, [np.array(one) for one in arm]).estimate() for arm in arms]


def test_ctr_has_the_error_of_the_delta_method() -> None:
    control, treatment = estimates(MetricKind.RATIO, CLICKS, IMPRESSIONS)
    assert [round(float(one.value or 0), 6) for one in (control, treatment)] == [0.109091, 0.171429]
    assert square_root(control.variance or Fraction(0)) == pytest.approx(0.0323745, abs=1e-7)
    assert square_root(treatment.variance or Fraction(0)) == pytest.approx(0.0171604, abs=1e-7)
    contrast = Contrast.of(control, treatment)
    assert float(contrast.difference or 0) == pytest.approx(0.0623377, abs=1e-7)
    assert contrast.std_error == pytest.approx(0.0366414, abs=1e-7)
    result = contrast.test(0.95)
    found = (result.statistic, contrast.freedom, result.p_value, result.ci_low, result.ci_high)
    assert found == pytest.approx((1.701292, 10.645696, 0.117872, -0.018638, 0.143313), abs=1e-6)
    fieller = lift_interval(control, treatment, contrast.quantile(0.95))
    assert fieller == pytest.approx((-0.108688, 3.623700), abs=1e-6)


def test_ctr_per_user_and_watch_time_are_those_of_scipy() -> None:
    per_user = [
        [x / y for x, y in zip(*arm, strict=True) if y] for arm in zip(CLICKS, IMPRESSIONS, strict=True)
    ]
    cases = (
        (estimates(MetricKind.MEAN_OF_RATIOS, CLICKS, IMPRESSIONS), per_user, (1.329204, 0.214407)),
        (estimates(MetricKind.MEAN, WATCH, WATCH), WATCH, (0.106986, 0.916319)),
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
        statistic, freedom, p_value = sample_ratio(counts, weights)
        assert (statistic, p_value) == pytest.approx((theirs.statistic, theirs.pvalue))
        assert freedom == len(counts) - 1
    assert sample_ratio([3, 4], [1, 1]) == (None, 1, None)


def test_the_unpooled_test_of_proportions() -> None:
    control, treatment = (
        Moments.of_mean(10_000, n_conversions, n_conversions).estimate() for n_conversions in (480, 530)
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
            Moments.of_mean(30, sum(whole), sum(one * one for one in whole)).estimate()
            for whole in ((arm * 1000).astype(int).tolist() for arm in arms)
        )
        contrast = Contrast.of(control, treatment)
        low, high = lift_interval(control, treatment, contrast.quantile(0.95))
        p_value = contrast.test(0.95).p_value
        assert low is not None
        assert high is not None
        assert p_value is not None
        assert (p_value < 0.05) == (not low <= 0 <= high)
        n_significant += p_value < 0.05
    assert 0 < n_significant < 40


def test_without_units_or_spread_there_is_a_reason_and_no_p_value() -> None:
    some, single, none = Moments.of_mean(2, 3, 5), Moments.of_mean(1, 3, 9), Moments()
    equal = Moments.of_mean(2, 2, 2)
    cases = (
        (some, none, "an arm without units"),
        (some, single, "an arm with a single unit"),
        (equal, equal, "no spread"),
        (some, some, None),
    )
    for one, other, reason in cases:
        contrast = Contrast.of(one.estimate(), other.estimate())
        assert contrast.reason == reason
        assert (contrast.test(0.95).p_value is None) == (reason is not None)
    # Fieller's interval is unbounded if the control may be 0.
    wide = Moments.of_mean(2, 0, 2).estimate()
    assert lift_interval(wide, some.estimate(), 4.3) == (None, None)
