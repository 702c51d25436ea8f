"""Wilcoxon's signed-rank test from counts: exact for few users, normal for many; all sums are integers.

Users are counted by |q|, the size of their difference in quanta, ascending: those with an increase, and those
with a decrease. Counts may come in slices of the range of |q|; sums of slices (``RankSums``) are added in
ascending order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from spark_eval.statistics.differences import UNTESTED, TestResult, p_value_of, signed_root
from spark_eval.statistics.exact import Ints

# Up to this many users, all signs of the ranks are enumerated.
MOST_EXACT: Final = 50


@dataclass(frozen=True)
class RankSums:
    """Sums for the test over the users of a slice of |q|, none of them 0.

    ``doubled`` is twice the sum of the mid-ranks, within the slice, of users with an increase; ``ties`` the
    sum of t^3 - t over groups of t users with equal |q|. ``sizes`` are these t, ascending by |q|; None if too
    many.

    >>> below, above = RankSums.of([2, 0], [1, 1]), RankSums.of([1], [0])
    >>> below + above == RankSums.of([2, 0, 1], [1, 1, 0])
    True
    """

    greater: int
    less: int
    doubled: int
    ties: int
    sizes: tuple[int, ...] | None

    @classmethod
    def of(cls, greater: Sequence[int] | Ints, less: Sequence[int] | Ints) -> "RankSums":
        """Sum counts (m,) by ascending |q|, of up to 2^30 users together."""
        up = np.asarray(greater, dtype=np.int64)
        groups = up + np.asarray(less, dtype=np.int64)
        ranks = 2 * groups.cumsum() - groups + 1
        n, n_greater = int(groups.sum()), int(up.sum())
        # Cubes overflow 64 bits, and there are few different sizes.
        ties = sum(
            times * (size**3 - size)
            for size, times in zip(*map(np.ndarray.tolist, np.unique_counts(groups)), strict=True)
        )
        sizes = tuple(groups[groups > 0].tolist()) if n <= MOST_EXACT else None
        return cls(n_greater, n - n_greater, int(ranks @ up), ties, sizes)

    @property
    def n(self) -> int:
        """Number of users in the slice."""
        return self.greater + self.less

    def __add__(self, above: "RankSums") -> "RankSums":
        """Return the sums over this slice and one above it."""
        is_small = self.n + above.n <= MOST_EXACT
        return RankSums(
            greater=self.greater + above.greater,
            less=self.less + above.less,
            doubled=self.doubled + above.doubled + 2 * self.n * above.greater,
            ties=self.ties + above.ties,
            sizes=(self.sizes or ()) + (above.sizes or ()) if is_small else None,
        )


def wilcoxon(
    zeros: int,
    ranks: RankSums,
    zero_method: str = "pratt",
    alternative: str = "two_sided",
    most_exact: int = MOST_EXACT,
) -> TestResult:
    """Test if differences are symmetric about 0, by the ranks of their sizes; not a test of the mean.

    ``zeros`` users have no difference. With up to ``most_exact`` other users all signs of their ranks are
    enumerated, also with ties; else p is from a normal z without continuity correction. The statistic is the
    smaller sum of ranks, for a one-sided test the sum of the users with an increase. Without differences p is
    1.

    >>> wilcoxon(5, RankSums.of([4, 2], [1, 0]), "wilcox").p_value
    0.09375

    Source: Wilcoxon, Individual comparisons by ranking methods, 1945; zeros as Pratt, Remarks on zeros and
    ties in the Wilcoxon signed rank procedures, 1959.
    """
    if not ranks.n:
        return TestResult(p_value=1.0) if zeros else UNTESTED
    n_below = 0 if zero_method == "wilcox" else zeros
    n_split = zeros if zero_method == "zsplit" else 0
    up = ranks.doubled + 2 * n_below * ranks.greater
    down = ranks.n * (ranks.n + 1 + 2 * n_below) - up
    of_zeros = Fraction(n_split * (n_split + 1), 4)
    statistic = float(Fraction(min(up, down) if alternative == "two_sided" else up, 2) + of_zeros)
    if ranks.sizes is not None and ranks.n <= most_exact:
        tails = (exact_lower_tail(down, ranks.sizes, n_below), exact_lower_tail(up, ranks.sizes, n_below))
    else:
        of_ranks = six_times_square_pyramidal(n_below + ranks.n) - six_times_square_pyramidal(
            n_below - n_split
        )
        variance = Fraction(of_ranks, 24) - Fraction(ranks.ties + n_split**3 - n_split, 48)
        z = signed_root(Fraction(up - down, 4), variance)
        tails = (normal_tail(z), normal_tail(-z))
    return TestResult(statistic, p_value_of(*tails, alternative))


def exact_lower_tail(most: int, sizes: Sequence[int], n_below: int) -> float:
    """Return the share of sign assignments with a doubled positive rank sum of at most ``most``.

    ``sizes`` are those of the groups of tied ranks; ``n_below`` further ranks are lower.
    """
    n = sum(sizes)
    # Number of sign assignments by number of positive ranks, and by twice their sum without lower ranks.
    signs = np.zeros((n + 1, n * (n + 1) + 1), dtype=np.int64)
    signs[0, 0] = 1
    before = 0
    for size in sizes:
        rank = 2 * before + size + 1
        for _ in range(size):
            signs[1:, rank:] += signs[:-1, :-rank]
        before += size
    n_up, doubled = np.indices(signs.shape, sparse=True)
    return int(signs[doubled + 2 * n_below * n_up <= most].sum()) / (1 << n)


def normal_tail(z: float) -> float:
    """Return the probability of a standard normal above z."""
    return math.erfc(z / math.sqrt(2)) / 2


def six_times_square_pyramidal(n: int) -> int:
    """Return six times the sum of the squares of 1 to n."""
    return n * (n + 1) * (2 * n + 1)
