"""t and sign tests, equivalence and sizes of effects, against SciPy and against sums done the long way."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.statistics.samples import ALTERNATIVES, by_chance, clusters_of, clusters_of_both, filled, pair_sums

from spark_eval.statistics.differences import UNMEASURED, UNTESTED, Estimate, PairSums, over_folds, unpaired
from spark_eval.statistics.significance import (
    binomial_tail,
    bounds,
    effect_size,
    minimal_detectable_effect,
    p_of_t,
    relative_change,
    sign_test,
    t_test,
    tost,
    users_needed,
)

CLOSE = 1e-9
THEIR_NAMES = {"two_sided": "two-sided", "greater": "greater", "less": "less"}
SIZES = pytest.mark.parametrize("n", [2, 3, 12, 400])
values = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20)


@SIZES
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_t_is_that_of_scipy(n: int, alternative: str) -> None:
    for seed in range(5):
        baseline, candidate = by_chance(n, seed)
        if np.ptp(candidate - baseline) < 1e-9:
            continue
        ours = t_test(pair_sums((baseline, candidate)).estimate, 0.9, alternative)
        theirs = stats.ttest_rel(candidate, baseline, alternative=THEIR_NAMES[alternative])
        interval = stats.ttest_rel(candidate, baseline).confidence_interval(0.9)
        assert ours == pytest.approx((theirs.statistic, theirs.pvalue, *interval), rel=CLOSE, abs=1e-12)


@pytest.mark.parametrize("freedom", [10**4, 10**8])
@pytest.mark.parametrize("t", [0.01, 1.0, 1.96, 5.0])
def test_t_of_many_users_is_nearly_normal(freedom: int, t: float) -> None:
    """The first terms of the expansion in 1 / freedom."""
    normal = NormalDist()
    first = (t**3 + t) / 4
    second = (3 * t**7 - 7 * t**5 - 5 * t**3 - 3 * t) / 96
    upper = math.erfc(t / math.sqrt(2)) / 2 + normal.pdf(t) * (first / freedom + second / freedom**2)
    assert p_of_t(t, freedom, "greater") == pytest.approx(upper, rel=1e-7 if freedom < 10**6 else 1e-10)


def test_without_any_difference_p_is_1() -> None:
    same = PairSums.of([0.2, 0.4, 0.6], [0.2, 0.4, 0.6])
    assert t_test(same.estimate, 0.95) == (None, 1.0, 0.0, 0.0)
    assert sign_test(0, 0) == (None, 1.0, None, None)
    assert tost(same.estimate, 0.1, 0.95) == (None, None, 0.0, 0.0)
    assert effect_size(same) is None
    assert minimal_detectable_effect(same.estimate, 0.95) == 0
    assert relative_change(same) == (0.0, 0.0)


# The same step in decimals; as doubles the differences vary in their last bits.
STEPS = {
    "binary": ([0.5, 0.25, 0.0], [0.75, 0.5, 0.25], 0.25),
    "decimal": ([0.1, 0.2, 0.5, 0.9], [0.2, 0.3, 0.6, 1.0], 0.1),
    "large": ([1e6 + 0.1, 3.0, 0.2], [1e6 + 0.3, 3.2, 0.4], 0.2),
}


@pytest.mark.parametrize(("baseline", "candidate", "step"), STEPS.values(), ids=STEPS)
def test_a_constant_difference_has_a_point_and_no_p(
    baseline: list[float], candidate: list[float], step: float
) -> None:
    sums = PairSums.of(baseline, candidate)
    for result in (t_test(sums.estimate, 0.95), tost(sums.estimate, 1, 0.95)):
        assert filled(result) == pytest.approx(filled([None, None, step, step]), rel=CLOSE)
    assert effect_size(sums) is None
    dropped = sums.combination(Fraction(1), Fraction(-1), amount=step)
    assert dropped == Estimate(Fraction(0), Fraction(0), len(baseline) - 1)
    assert bounds(dropped, 0.95) == (0, 0)


def test_a_small_spread_is_one() -> None:
    sums = PairSums.of([0.0, 0.0, 0.0], [0.5, 0.5 + 2.0**-47, 0.5 - 2.0**-47])
    assert sums.estimate.std_error == pytest.approx(2.0**-47 / math.sqrt(3), rel=1e-9, abs=0)


def test_one_user_or_none_is_not_tested() -> None:
    alone, nobody = PairSums.of([0.5], [0.75]), PairSums.of([], [])
    assert alone.estimate == Estimate(Fraction(1, 4), None, 0)
    assert nobody.estimate == UNMEASURED
    for sums in (alone, nobody):
        assert t_test(sums.estimate, 0.95) == UNTESTED == tost(sums.estimate, 0.1, 0.95)
        assert bounds(sums.estimate, 0.95) == (None, None)
        assert effect_size(sums) is None
        assert minimal_detectable_effect(sums.estimate, 0.95) is None
    assert relative_change(alone) == (0.5, None)
    assert relative_change(nobody) == (None, None)
    assert relative_change(PairSums.of([0.0, 0.0], [0.5, 1.0])) == (None, None)
    assert sign_test(1, 0).p_value == 1


@given(values)
def test_models_turned_round_mirror_the_test(pairs: list[tuple[float, float]]) -> None:
    baseline, candidate = map(list, zip(*pairs, strict=True))
    up, down = (PairSums.of(*sides).estimate for sides in ((baseline, candidate), (candidate, baseline)))
    ours, mirrored = t_test(up, 0.95), t_test(down, 0.95)
    assert ours.p_value == mirrored.p_value
    assert not any(number is not None and math.isnan(number) for number in ours)
    if ours.ci_low is not None:
        assert mirrored.ci_high == -ours.ci_low
    assert t_test(up, 0.95, "greater").p_value == t_test(down, 0.95, "less").p_value


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_signs_are_those_of_scipy(alternative: str) -> None:
    for up, down in [(0, 1), (0, 5), (3, 3), (4, 3), (30, 12), (700, 641), (5001, 4800)]:
        theirs = stats.binomtest(up, up + down, alternative=THEIR_NAMES[alternative])
        assert sign_test(up, down, alternative).p_value == pytest.approx(theirs.pvalue, rel=CLOSE)


@pytest.mark.parametrize("n", [10, 2000])
def test_tails_are_sums_of_whole_numbers(n: int) -> None:
    total = 0
    for heads in range(n + 1):
        total += math.comb(n, heads)
        assert binomial_tail(heads, n) == pytest.approx(float(Fraction(total, 2**n)), rel=CLOSE)


@pytest.mark.parametrize("n", [10**6, 4 * 10**7, 10**8])
def test_tails_of_many_throws(n: int) -> None:
    """Half of all is below the middle, whose chance Stirling's series gives."""
    middle = math.sqrt(2 / (math.pi * n)) * (1 - 1 / (4 * n))
    assert binomial_tail(n // 2 - 1, n) == pytest.approx((1 - middle) / 2, rel=1e-11)


@SIZES
@pytest.mark.parametrize("delta", [0.01, 0.2])
def test_equivalence_is_two_tests_of_scipy(n: int, delta: float) -> None:
    baseline, candidate = by_chance(n, seed=7)
    differences = candidate - baseline
    above, below = (
        stats.ttest_1samp(differences, bound, alternative=side)
        for bound, side in ((-delta, "greater"), (delta, "less"))
    )
    worse = max(above, below, key=lambda one: one.pvalue)
    ours = tost(pair_sums((baseline, candidate)).estimate, delta, 0.95)
    interval = stats.ttest_1samp(differences, 0).confidence_interval(0.9)
    assert ours == pytest.approx((worse.statistic, worse.pvalue, *interval), rel=CLOSE)
    assert (worse.pvalue < 0.05) == (-delta < interval.low and interval.high < delta)


def test_the_error_of_a_relative_change_is_that_of_the_delta_method() -> None:
    baseline, candidate = by_chance(300, seed=3)
    (a, ab), (_, b) = np.cov(baseline, candidate)
    mean_a, mean_b = baseline.mean(), candidate.mean()
    variance = (b / mean_a**2 + mean_b**2 * a / mean_a**4 - 2 * mean_b * ab / mean_a**3) / 300
    assert relative_change(pair_sums((baseline, candidate))) == pytest.approx(
        (mean_b / mean_a - 1, math.sqrt(variance)), rel=CLOSE
    )


def test_acceleration_is_that_of_leaving_users_out() -> None:
    baseline, candidate = by_chance(60, seed=11)
    differences = candidate - baseline
    without = np.array([np.delete(differences, user).mean() for user in range(60)])
    away = without.mean() - without
    cubes = sum((Fraction(b) - Fraction(a)) ** 3 for a, b in zip(baseline, candidate, strict=True))
    ours = pair_sums((baseline, candidate)).acceleration(Fraction(cubes))
    assert ours == pytest.approx((away**3).sum() / (6 * (away**2).sum() ** 1.5), rel=CLOSE)
    assert PairSums.of([0.0, 0.0], [0.5, 0.5]).acceleration(Fraction(1, 4)) == 0


def test_clusters_are_those_of_sums_done_the_long_way() -> None:
    random = np.random.default_rng(5)
    users, differences = random.integers(0, 30, 200), random.normal(0.1, 1, 200)
    mean = differences.mean()
    squares = [((differences - mean)[users == user].sum()) ** 2 for user in set(users.tolist())]
    estimate = clusters_of(users.tolist(), differences.tolist()).estimate
    assert (float(estimate.value or 0), estimate.std_error, estimate.freedom) == pytest.approx(
        (mean, math.sqrt(len(squares) / (len(squares) - 1) * sum(squares)) / 200, len(squares) - 1), rel=CLOSE
    )


@pytest.mark.parametrize(("candidate", "baseline"), [(1, -1), (1, -0.95), (-1, 1.25), (0, 1)])
def test_clusters_combine_what_their_users_add(candidate: float, baseline: float) -> None:
    generator = np.random.default_rng(8)
    users, before, after = generator.integers(0, 9, 40), generator.random(40), generator.random(40)
    c = candidate * after + baseline * before
    sums = [(c - c.mean())[users == user].sum() for user in np.unique(users)]
    error = math.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()) / 40
    clusters = clusters_of_both(users.tolist(), before.tolist(), after.tolist())
    estimate = clusters.combination(Fraction(baseline), Fraction(candidate), amount=0.5)
    assert (float(estimate.value or 0), estimate.std_error) == pytest.approx(
        (c.mean() + 0.5, error), rel=CLOSE
    )
    assert (clusters.n, estimate.freedom) == (len(sums), len(sums) - 1)


def test_clusters_with_one_row_each_are_users() -> None:
    baseline, candidate = by_chance(25, seed=2)
    plain = pair_sums((np.zeros(25), candidate - baseline)).estimate
    assert clusters_of(range(25), (candidate - baseline).tolist()).estimate == plain
    assert clusters_of([1, 1], [0.5, 0.25]).estimate == Estimate(Fraction(3, 8), None, 0)
    assert clusters_of([], []).estimate == UNMEASURED
    constant = clusters_of([1, 1, 2], [0.1 + 0.2, 0.3, 0.3]).estimate
    assert filled(t_test(constant, 0.95)) == pytest.approx(filled([None, None, 0.3, 0.3]))


def test_folds_share_their_train_sets() -> None:
    differences = np.random.default_rng(1).normal(0.1, 1, 10)
    plain = over_folds(differences.tolist(), 0)
    assert t_test(plain, 0.95)[:2] == pytest.approx(tuple(stats.ttest_1samp(differences, 0)), rel=CLOSE)
    for ratio in (0.25, None):
        fixed = over_folds(differences.tolist(), ratio)
        share = 1 / 9 if ratio is None else ratio
        assert fixed.std_error == pytest.approx(np.std(differences, ddof=1) * math.sqrt(0.1 + share))
        assert (fixed.value, fixed.freedom) == (plain.value, 9)
    assert over_folds([]) == UNMEASURED
    assert over_folds([0.5]) == Estimate(Fraction(1, 2), None, 0)
    assert t_test(over_folds([0.1, 0.1]), 0.95) == (None, None, 0.1, 0.1)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_unpaired_means_are_compared_as_scipy_does(alternative: str) -> None:
    for below, above in [((0.33, 0.011, 1000), (0.30, 0.012, 900)), ((5.0, 1.0, 2), (4.0, 0.1, 40))]:
        spreads = [(mean, error * math.sqrt(n), n) for mean, error, n in (above, below)]
        theirs = stats.ttest_ind_from_stats(
            *spreads[0], *spreads[1], equal_var=False, alternative=THEIR_NAMES[alternative]
        )
        ours = t_test(unpaired(*below, *above), 0.95, alternative)
        assert ours[:2] == pytest.approx((theirs.statistic, theirs.pvalue), rel=CLOSE)


def test_unpaired_means_without_spread_or_users() -> None:
    assert t_test(unpaired(0.5, 0.0, 10, 0.5, 0.0, 10), 0.95) == (None, 1.0, 0.0, 0.0)
    assert unpaired(None, None, 0, 0.5, 0.1, 10) == UNMEASURED
    assert unpaired(0.5, None, 1, 0.75, 0.1, 10) == Estimate(Fraction(1, 4), None, 0)


def passed_by_chance(n: int, effect: float, confidence: float, seed: int) -> float:
    """The share of samples of n users, whose mean is ``effect`` deviations, with a lower bound above 0."""
    samples = np.random.default_rng(seed).normal(effect, 1, (40_000, n))
    error = samples.std(axis=1, ddof=1) / math.sqrt(n)
    return float((samples.mean(axis=1) > stats.t.ppf(confidence, n - 1) * error).mean())


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("effect", [10.0, 3.0, 1.0, 0.5, 0.25])
def test_so_many_users_pass_in_four_of_five_cases(effect: float, confidence: float) -> None:
    n = users_needed(Fraction(effect), confidence)
    assert n is not None
    assert n >= 2
    assert passed_by_chance(n, effect, confidence, seed=n) > 0.8 - 0.006
    assert n == 2 or passed_by_chance(n - 1, effect, confidence, seed=n) < 0.8 + 0.006


@given(st.floats(1e-6, 50), st.floats(0.5, 0.9999))
def test_the_number_of_users_is_that_of_normal_quantiles_and_some_more(
    effect: float, confidence: float
) -> None:
    n = users_needed(Fraction(effect), confidence)
    quantile = NormalDist().inv_cdf(confidence)
    by_normal = ((quantile + NormalDist().inv_cdf(0.8)) / effect) ** 2
    assert n is not None
    # Guenther's correction, and what few users cost beyond it.
    assert by_normal * (1 - 1e-9) <= n <= by_normal + quantile**2 / 2 + 2 + 20 / by_normal + quantile**4 / 20
    more = users_needed(Fraction(effect) / 2, confidence)
    assert more is not None
    assert n <= more


@pytest.mark.parametrize("effect", [Fraction(1, 10**400), Fraction(1, 10**12)])
def test_more_users_than_there_are_anywhere_are_no_number(effect: Fraction) -> None:
    assert users_needed(effect, 0.95) is None
    assert users_needed(1 / effect, 0.95) == 2


@pytest.mark.parametrize(("n", "kept"), [(3, 0.35), (8, 0.67), (30, 0.77), (1000, 0.80)])
def test_what_the_smallest_effect_to_be_found_promises(n: int, kept: float) -> None:
    """By normal quantiles: docs/comparison.md says what is kept of the 80 % with few users."""
    estimate = Estimate(Fraction(0), Fraction(1), n - 1)
    effect = minimal_detectable_effect(estimate, 0.95)
    critical = stats.t.ppf(0.975, n - 1)
    assert stats.nct.sf(critical, n - 1, effect) == pytest.approx(kept, abs=0.005)
