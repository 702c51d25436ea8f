"""Signed ranks from counts, against SciPy, against all signs tried, and against ranks of each user."""

import itertools
from random import Random

import numpy as np
import pytest
from scipy import stats
from tests.statistics.samples import ALTERNATIVES, ZERO_METHODS, by_chance, ranks_of, whole_differences

from spark_eval.statistics.differences import UNTESTED
from spark_eval.statistics.ranked import MOST_EXACT, RankSums, wilcoxon

CLOSE = 1e-9
METHODS = pytest.mark.parametrize("zeros", ZERO_METHODS)
SIDES = pytest.mark.parametrize("alternative", ALTERNATIVES)


def all_signs(differences: list[int], n_zeros: int, zeros: str, alternative: str) -> float:
    """The share of signs whose ranks that go up sum to something as extreme."""
    ranked = [0] * (0 if zeros == "wilcox" else n_zeros) + differences
    ranks = stats.rankdata(np.abs(ranked))[len(ranked) - len(differences) :]
    signs = np.array(list(itertools.product([0, 1], repeat=len(differences))))
    sums, theirs = signs @ ranks, ranks @ (np.array(differences) > 0)
    above, below = float((sums >= theirs).mean()), float((sums <= theirs).mean())
    return {"greater": above, "less": below, "two_sided": min(1, 2 * min(above, below))}[alternative]


@METHODS
@SIDES
def test_few_users_are_tried_with_all_signs(zeros: str, alternative: str) -> None:
    for seed in range(12):
        pair = by_chance(n=seed + 2, seed=seed)
        differences = whole_differences(pair)
        n_zeros = len(pair[0]) - len(differences)
        if differences:
            ours = wilcoxon(n_zeros, ranks_of(differences), zeros, alternative)
            assert ours.p_value == pytest.approx(
                all_signs(differences, n_zeros, zeros, alternative), rel=CLOSE
            )


@SIDES
def test_users_without_ties_are_those_of_scipy(alternative: str) -> None:
    random = np.random.default_rng(3)
    for n in (5, 30, 50):
        differences = (random.permutation(np.arange(1, n + 1)) * random.choice([1, 1, -1], n)).tolist()
        theirs = stats.wilcoxon(
            differences, alternative=alternative.replace("_", "-"), method="exact", zero_method="wilcox"
        )
        ours = wilcoxon(0, ranks_of(differences), "wilcox", alternative)
        assert ours[:2] == pytest.approx((theirs.statistic, theirs.pvalue), rel=CLOSE)


@METHODS
@SIDES
def test_many_users_are_those_of_scipy(zeros: str, alternative: str) -> None:
    for seed, n in enumerate((80, 300, 2000)):
        pair = by_chance(n, seed)
        differences = whole_differences(pair)
        n_zeros = n - len(differences)
        theirs = stats.wilcoxon(
            [0] * n_zeros + differences,
            alternative=alternative.replace("_", "-"),
            method="asymptotic",
            zero_method=zeros,
            correction=False,
        )
        ours = wilcoxon(n_zeros, ranks_of(differences), zeros, alternative, most_exact=0)
        assert ours[:2] == pytest.approx((theirs.statistic, theirs.pvalue), rel=CLOSE)


@pytest.mark.parametrize("n", [30, 400])
def test_slices_add_to_the_whole(n: int) -> None:
    random = Random(n)
    up, down = ([random.randint(0, 3) for _ in range(n)] for _ in range(2))
    cuts = [0, *sorted(random.sample(range(n), 5)), n]
    whole, together = RankSums.of(up, down), RankSums.of([], [])
    for low, high in itertools.pairwise(cuts):
        together += RankSums.of(up[low:high], down[low:high])
    assert together == whole
    assert (whole.sizes is None) == (whole.n > MOST_EXACT)


def test_sums_of_ranks_outgrow_64_bits() -> None:
    """10^8 users with one difference, and as many with a larger one: by whole numbers of Python."""
    n = 10**8
    ranks = RankSums.of([n], [0]) + RankSums.of([3], [n])
    assert ranks.ties == n**3 - n + (n + 3) ** 3 - (n + 3)
    assert ranks.doubled == n * (n + 1) + 3 * (2 * n + n + 4)
    result = wilcoxon(7, ranks, "pratt")
    assert result.statistic == 7 * (n + 3) + ranks.doubled / 2
    assert result.p_value == 0


def test_zeros_by_the_million_below_few_users() -> None:
    """They lift all ranks alike, so that only signs count: as the sign test."""
    ranks = RankSums.of([1, 1, 1, 1, 0], [0, 0, 0, 0, 1])
    assert wilcoxon(10**8, ranks, "pratt").p_value == 2 * 6 / 32
    assert wilcoxon(10**8, ranks, "wilcox").p_value == 2 * 10 / 32


@METHODS
def test_no_differences_have_no_test(zeros: str) -> None:
    assert wilcoxon(3, RankSums.of([], []), zeros) == (None, 1.0, None, None)
    assert wilcoxon(0, RankSums.of([], []), zeros) == UNTESTED
    assert wilcoxon(0, RankSums.of([1], [0]), zeros) == (0.0, 1.0, None, None)
