"""Draws by user, sums of draws and what they say, against whole numbers of Python and against t."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.statistics.samples import ALTERNATIVES, by_chance, pair_sums

from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.statistics.draws import (
    POISSON_STEPS,
    USERS_AT_ONCE,
    Draw,
    flips,
    poisson_weights,
    resampled_sums,
)
from spark_eval.statistics.exact import Floats
from spark_eval.statistics.resampling import (
    Replicates,
    bca_interval,
    enumerated_flip_p,
    percentile_interval,
    sampled_flip_p,
    scale_of,
    scaled,
)
from spark_eval.statistics.significance import t_test

DRAWS = pytest.mark.parametrize("draw", [poisson_weights, flips])
MASK = 2**64 - 1


def hashes_of(n: int, seed: int = 0) -> NDArray[np.uint64]:
    return id_hashes(pa.array(range(n)), np.int64(seed))


def slow_outputs(state: int, n: int) -> list[int]:
    """SplitMix64 as it was published: the state takes a step before each output."""
    found = []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        found.append(z ^ (z >> 31))
    return found


def resampled(differences: Floats, n_replicates: int = 1000, seed: int = 0) -> Replicates:
    scale = scale_of(abs(differences).max())
    columns = np.stack([scaled(differences, scale), np.ones_like(differences)], axis=1)
    hashes = hashes_of(len(differences), seed)
    totals, weights = resampled_sums(poisson_weights, hashes, columns, n_replicates).T.tolist()
    replicates = Replicates.of(totals, weights, scale)
    assert replicates is not None
    return replicates


@pytest.mark.parametrize("n_replicates", [1, 4, 63, 65, 130])
def test_draws_are_lanes_and_bits_of_the_generator(n_replicates: int) -> None:
    hashes = hashes_of(7)
    weights, signs = (draw(hashes, n_replicates).tolist() for draw in (poisson_weights, flips))
    for user, state in enumerate(hashes.tolist()):
        words = slow_outputs(state, 40)
        for b in range(n_replicates):
            lane = words[b // 4] >> 16 * (b % 4) & 0xFFFF
            assert weights[user][b] == sum(step <= lane for step in POISSON_STEPS)
            assert signs[user][b] == (-1 if words[b // 64] >> b % 64 & 1 else 1)


def test_steps_are_those_of_poisson() -> None:
    assert list(POISSON_STEPS) == np.floor(stats.poisson.cdf(range(8), 1) * 2**16).tolist()
    drawn = poisson_weights(hashes_of(2000), 500)
    assert drawn.mean() == pytest.approx(1, abs=0.01)
    assert drawn.var() == pytest.approx(1, abs=0.01)
    assert flips(hashes_of(2000), 500).mean() == pytest.approx(0, abs=0.01)


@DRAWS
def test_sums_are_whole_numbers_whatever_the_order_and_parts(draw: Draw) -> None:
    n, random = 2 * USERS_AT_ONCE + 70, np.random.default_rng(4)
    hashes = hashes_of(n)
    largest = np.where(random.random(n) < 0.5, -(2.0**31), 2.0**31)
    columns = np.stack([largest, np.full(n, 2.0**31), np.rint(random.normal(0, 2**28, n))], axis=1)
    sums = resampled_sums(draw, hashes, columns, 20)
    signs = np.concatenate([np.ones((n, 1), dtype=np.int8), draw(hashes, 20)], axis=1).T.tolist()
    numbers = columns.T.astype(np.int64).tolist()
    assert sums.tolist() == [[sum(map(int.__mul__, row, column)) for column in numbers] for row in signs]
    order = random.permutation(n)
    parts = [resampled_sums(draw, hashes[part], columns[part], 20) for part in np.array_split(order, 3)]
    assert sum(parts).tolist() == sums.tolist()  # type: ignore[union-attr]


def test_fewer_replicates_are_the_first_of_more() -> None:
    for draw in (poisson_weights, flips):
        assert (draw(hashes_of(50), 30) == draw(hashes_of(50), 200)[:, :30]).all()


@pytest.mark.parametrize("size", [5e-324, 0.3, 0.5, 1.0, 1.5, 1e6])
def test_the_scale_is_the_next_power_of_two(size: float) -> None:
    scale = scale_of(size)
    assert scale / 2 < size <= scale
    assert math.frexp(scale)[0] == 0.5


def test_differences_turned_round_mirror_the_interval_and_halved_ones_halve_it() -> None:
    baseline, candidate = by_chance(200, seed=1)
    differences = candidate - baseline
    plain = resampled(differences)
    assert (resampled(-differences).means == -plain.means).all()
    assert (resampled(differences / 2).means == plain.means / 2).all()
    low, high = percentile_interval(plain, 0.9)
    assert low is not None
    assert high is not None
    assert percentile_interval(resampled(-differences), 0.9) == pytest.approx((-high, -low), rel=1e-12)
    assert percentile_interval(resampled(differences / 2), 0.9) == (low / 2, high / 2)


def test_a_constant_difference_has_a_point() -> None:
    replicates = resampled(np.full(40, 0.1))
    for interval in (percentile_interval(replicates, 0.95), bca_interval(replicates, 0.0, 0.95)):
        assert interval == (replicates.value, replicates.value)
    assert set(replicates.means.tolist()) == {replicates.value}
    assert replicates.value == pytest.approx(0.1, abs=2**-33)


def test_replicates_spread_like_the_standard_error() -> None:
    baseline, candidate = by_chance(20_000, seed=6)
    replicates = resampled(candidate - baseline)
    estimate = pair_sums((baseline, candidate)).estimate
    assert np.std(replicates.means) == pytest.approx(estimate.std_error, rel=0.1)
    t = t_test(estimate, 0.95)
    for interval in (percentile_interval(replicates, 0.95), bca_interval(replicates, 0.001, 0.95)):
        assert interval == pytest.approx((t.ci_low, t.ci_high), abs=0.2 * (estimate.std_error or 0))


@pytest.mark.parametrize("acceleration", [-0.03, 0.0, 0.02])
def test_bca_is_that_of_the_formula(acceleration: float) -> None:
    baseline, candidate = by_chance(60, seed=9)
    replicates = resampled(candidate - baseline)
    below = (replicates.means < replicates.value).mean() + (replicates.means == replicates.value).mean() / 2
    bias, reach = stats.norm.ppf(below), stats.norm.ppf(0.95)
    levels = [stats.norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z))) for z in (-reach, reach)]
    expected = np.percentile(replicates.means, 100 * np.array(levels))
    assert bca_interval(replicates, acceleration, 0.9) == pytest.approx(tuple(expected), rel=1e-12)


def test_what_is_undefined_is_none() -> None:
    assert Replicates.of([0, 0], [0, 3], 1.0) is None
    assert percentile_interval(None, 0.95) == bca_interval(None, 0.0, 0.95) == (None, None)
    one_sided = Replicates(0.0, np.arange(1.0, 9.0))
    assert bca_interval(one_sided, 0.0, 0.95) == (None, None)
    nobody_drawn = Replicates.of([5, 0], [1, 0], 1.0)
    assert nobody_drawn is not None
    assert percentile_interval(nobody_drawn, 0.95) == (None, None)
    assert bca_interval(Replicates(4.0, np.arange(9.0)), 1.0, 0.95) == (None, None)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("size", [1, 2**30, 2**61])
def test_all_flips_are_tried(alternative: str, size: int) -> None:
    quanta = [size * step + 40 for step in (5, 4, -3, 4, 2, -2)]
    limit = sum(quanta)
    sums = [sum(map(int.__mul__, signs, quanta)) for signs in itertools.product([1, -1], repeat=6)]
    found = {
        "greater": sum(one >= limit - 6 for one in sums),
        "less": sum(one <= limit + 6 for one in sums),
        "two_sided": sum(abs(one) >= abs(limit) - 6 for one in sums),
    }[alternative]
    assert enumerated_flip_p(quanta, len(quanta), alternative) == found / 64


def test_sums_that_tie_in_decimals_tie() -> None:
    """0.1 + 0.2 and 0.3 are one quantum apart."""
    quanta = [round(step * 2**40) for step in (0.1, 0.2, -0.3)]
    assert enumerated_flip_p(quanta, len(quanta)) == 1
    assert enumerated_flip_p([], 0) == enumerated_flip_p([7], 1) == 1


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_drawn_flips_come_near_to_t(alternative: str) -> None:
    baseline, candidate = by_chance(400, seed=21)
    differences = candidate - baseline - 0.015
    signs = resampled_sums(flips, hashes_of(400, seed=1), scaled(differences, 1.0)[:, None], 4000)[:, 0]
    ours = sampled_flip_p(signs.tolist(), 400, alternative)
    t = t_test(pair_sums((np.zeros(400), differences)).estimate, 0.95, alternative)
    assert ours == pytest.approx(t.p_value, abs=0.03)


def test_no_draw_is_as_extreme_and_all_are() -> None:
    assert sampled_flip_p([100, 5, -7, 20], 3) == 1 / 4
    assert sampled_flip_p([100, 97, -97, 96], 3) == 3 / 4
    assert sampled_flip_p([100, 97, 96], 3, "greater") == sampled_flip_p([100, 103, 104], 3, "less") == 2 / 3
    assert sampled_flip_p([0, 5, -7, 20], 3) == 1
    assert Fraction(sampled_flip_p([2**62, 2**62], 1)) == 1
