"""Numbers worked out beforehand with scipy, statsmodels and by hand: to their last printed digit."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.statistics.samples import S1, S2, Pair, clusters_of, pair_sums, ranks_of, whole_differences

from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.statistics.differences import over_folds, unpaired
from spark_eval.statistics.draws import poisson_weights, resampled_sums, splitmix64
from spark_eval.statistics.ranked import wilcoxon
from spark_eval.statistics.resampling import (
    Replicates,
    bca_interval,
    enumerated_flip_p,
    percentile_interval,
    scale_of,
    scaled,
)
from spark_eval.statistics.significance import (
    adjusted,
    bounds,
    effect_size,
    minimal_detectable_effect,
    relative_change,
    sign_test,
    t_test,
    tost,
)

ONE, LOSS = pair_sums(S1), pair_sums(S1[::-1])
COMMON = Fraction(-1), Fraction(1)


def printed(*values: float | None, digits: int = 6) -> list[float | None]:
    return [None if value is None else round(value, digits) for value in values]


def test_t_of_s1() -> None:
    estimate = ONE.estimate
    assert estimate.value is not None
    assert printed(float(estimate.value), *t_test(estimate, 0.95)) == [
        0.116667, 2.244412, 0.046342, 0.002257, 0.231076,
    ]  # fmt: skip
    assert printed(effect_size(ONE), minimal_detectable_effect(estimate, 0.95)) == [0.647906, 0.145629]


def test_signs() -> None:
    assert (ONE.greater, ONE.n - ONE.greater - ONE.less, ONE.less) == (6, 5, 1)
    assert sign_test(ONE.greater, ONE.less).p_value == 0.125
    two = pair_sums(S2)
    assert (two.greater, two.n - two.greater - two.less, two.less) == (9, 9, 2)
    assert printed(t_test(two.estimate, 0.95).p_value) == [0.091371]
    assert printed(sign_test(two.greater, two.less).p_value) == [0.065430]
    many = sign_test(20_010_000, 19_990_000).p_value
    assert printed(many, digits=9) == [0.001566252]


@pytest.mark.parametrize(
    ("pair", "zeros", "found"),
    [
        (S1, "wilcox", (3, 0.053206)),
        (S1, "pratt", (8, 0.051890)),
        (S1, "zsplit", (15.5, 0.061031)),
        (S2, "wilcox", (15, 0.105822)),
        (S2, "pratt", (33, 0.051040)),
    ],
)
def test_normal_wilcoxon(pair: Pair, zeros: str, found: tuple[float, float]) -> None:
    differences = whole_differences(pair)
    result = wilcoxon(len(pair[0]) - len(differences), ranks_of(differences), zeros, most_exact=0)
    assert (result.statistic, *printed(result.p_value)) == found


@pytest.mark.parametrize(
    ("pair", "zeros", "p_value"),
    [
        (S1, "wilcox", 0.093750),
        (S1, "pratt", 0.093750),
        (S2, "wilcox", 0.117188),
        (S2, "pratt", 0.060547),
    ],
)
def test_exact_wilcoxon(pair: Pair, zeros: str, p_value: float) -> None:
    differences = whole_differences(pair)
    found = wilcoxon(len(pair[0]) - len(differences), ranks_of(differences), zeros).p_value
    assert printed(found) == [p_value]


def test_all_flips() -> None:
    assert enumerated_flip_p(whole_differences(S1), 7) == 12 / 128
    assert enumerated_flip_p(whole_differences(S2), 11) == 240 / 2048


def test_corrections() -> None:
    six = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06]
    assert printed(*adjusted(six, "holm")) == [0.006, 0.04, 0.156, 0.156, 0.156, 0.156]
    assert printed(*adjusted(six, "bh")) == [0.006, 0.024, 0.0504, 0.0504, 0.0504, 0.06]
    seven = [0.02, 0.02, 0.5, 0.004, None, 0.9, 0.03, 0.011]
    assert printed(*adjusted(seven, "holm")) == [0.1, 0.1, 1, 0.028, None, 1, 0.1, 0.066]
    assert printed(*adjusted(seven, "bh")) == [0.035, 0.035, 0.583333, 0.028, None, 0.9, 0.042, 0.035]


def test_equivalence_and_relative_change() -> None:
    estimate = ONE.estimate
    p_values = [tost(estimate, delta, 0.95).p_value for delta in (0.2, 0.25)]
    assert printed(*p_values) == [0.068602, 0.013141]
    assert printed(*relative_change(ONE)) == [0.291667, 0.166450]


def test_draws_and_percentiles() -> None:
    hashes = id_hashes(pa.array(range(1, 13)), np.int64(0))
    assert splitmix64(np.array([1234567], dtype=np.uint64), 1).tolist() == [[6457827717110365317]]
    assert int(hashes[0]) == 358500231933474740
    assert poisson_weights(hashes, 12)[0].tolist() == [3, 3, 1, 1, 1, 2, 0, 0, 0, 2, 1, 1]
    differences = S1[1] - S1[0]
    scale = scale_of(abs(differences).max())
    columns = np.stack([scaled(differences, scale), np.ones(12)], axis=1)
    totals, weights = resampled_sums(poisson_weights, hashes, columns, 1000).T.tolist()
    replicates = Replicates.of(totals, weights, scale)
    assert printed(*percentile_interval(replicates, 0.95)) == [0.015, 0.222292]
    # Of the means 509 are below that of the users and 14 are equal to it: z0 is that of 516 / 1000.
    assert printed(*bca_interval(replicates, acceleration_of_s1(), 0.95)) == [0.019365, 0.228571]


def test_bca_of_means_added_as_doubles() -> None:
    """Added from left to right, 8 of the 14 equal means are above: z0 is that of 512 / 1000."""
    weights = poisson_weights(id_hashes(pa.array(range(1, 13)), np.int64(0)), 1000).T.tolist()
    differences = np.round(S1[1] - S1[0], 1).tolist()
    means = [sum(w * d for w, d in zip(row, differences, strict=True)) / sum(row) for row in weights]
    replicates = Replicates(sum(differences) / 12, np.array(means))
    assert printed(*bca_interval(replicates, acceleration_of_s1(), 0.95)) == [0.018182, 0.227221]


def acceleration_of_s1() -> float:
    cubes = sum(((Fraction(b) - Fraction(a)) ** 3 for a, b in zip(*S1, strict=True)), Fraction())
    return ONE.acceleration(cubes)


def test_folds() -> None:
    differences = [0.012, 0.008, 0.020, -0.003, 0.011]
    result = t_test(over_folds(differences), 0.95)
    assert printed(result.statistic, result.p_value) == [1.719089, 0.160721]
    assert printed(t_test(over_folds(differences, 0), 0.95).p_value) == [0.061416]


def test_users_with_several_rows() -> None:
    differences = [0.2, 0.1, 0, 0.3, -0.1, 0.2, 0.2, 0, 0.4, 0.1]
    estimate = clusters_of([1, 1, 2, 2, 3, 4, 4, 5, 6, 6], differences).estimate
    assert estimate.value is not None
    assert printed(float(estimate.value), estimate.std_error) == [0.14, 0.041105]
    assert printed(t_test(estimate, 0.95).p_value) == [0.019128]
    assert printed(clusters_of(range(10), differences).estimate.std_error) == [0.047610]


def test_what_gates_ask() -> None:
    absolute, wide = (LOSS.combination(*COMMON, amount=drop) for drop in (0.01, 0.25))
    assert printed(bounds(absolute, 0.95)[1], t_test(absolute, 0.95, "less").p_value) == [-0.013315, 0.032374]
    relative = LOSS.combination(Fraction("0.05") - 1, Fraction(1))
    assert printed(*bounds(relative, 0.95)) == [-0.182950, 0.001283]
    assert printed(bounds(wide, 0.95)[0]) == [0.039982]


def test_two_published_means() -> None:
    difference = unpaired(0.33, 0.011, 1000, 0.30, 0.012, 900)
    result = t_test(difference, 0.95)
    assert printed(result.statistic, result.p_value) == [-1.842885, 0.065505]
    assert printed(difference.freedom, digits=2) == [1861.68]
