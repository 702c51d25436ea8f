"""Wilcoxon's signed ranks from counts: exact for few users, normal for many; all sums are whole numbers.

Users are counted by |q|, the size of their difference in quanta, ascending: how many went up, how many down.
Counts may come in slices of the range of |q|; what is known of slices (``RankSums``) adds in ascending order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from spark_eval.stats.differences import UNTESTED, TestResult, p_value_of, signed_root
from spark_eval.stats.exact import Ints

# All signs of the ranks of so many users are counted.
MOST_EXACT: Final = 50


@dataclass(frozen=True)
class RankSums:
    """What the test takes from the users of a slice of |q|, none of them 0.

    ``doubled`` is twice the sum of the mid-ranks, within the slice, of those who went up; ``ties`` the sum of
    t^3 - t over groups of t users of one |q|. ``sizes`` are these t, ascending by |q|: None if too many.

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
        # Cubes outgrow 64 bits, and there are few different sizes.
        ties = sum(
            times * (size**3 - size)
            for size, times in zip(*map(np.ndarray.tolist, np.unique_counts(groups)), strict=True)
        )
        sizes = tuple(groups[groups > 0].tolist()) if n <= MOST_EXACT else None
        return cls(n_greater, n - n_greater, int(ranks @ up), ties, sizes)

    @property
    def n(self) -> int:
        """All users of the slice."""
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
    """Test whether differences lie about 0, by the ranks of their sizes; not a test of the mean.

    ``zeros`` users have no difference. Up to ``most_exact`` others all signs of their ranks are counted, ties
    as well; else p is that of a normal z without continuity correction. The statistic is the smaller of the
    sums of ranks, of a one-sided test that of users who went up. Where nobody differs p is 1.

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
        tails = (share_up_to(down, ranks.sizes, n_below), share_up_to(up, ranks.sizes, n_below))
    else:
        of_ranks = cubic(n_below + ranks.n) - cubic(n_below - n_split)
        variance = Fraction(of_ranks, 24) - Fraction(ranks.ties + n_split**3 - n_split, 48)
        z = signed_root(Fraction(up - down, 4), variance)
        tails = (normal_tail(z), normal_tail(-z))
    return TestResult(statistic, p_value_of(*tails, alternative))


def share_up_to(most: int, sizes: Sequence[int], n_below: int) -> float:
    """Return the share of all signs for which twice the sum of the ranks that go up is no more than ``most``.

    Mid-ranks of groups of these sizes stand above ``n_below`` lower ranks.
    """
    n = sum(sizes)
    # Signs by how many ranks go up, and by twice the sum of these as if nothing stood below.
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
    """Return the chance of a normal number above z."""
    return math.erfc(z / math.sqrt(2)) / 2


def cubic(n: int) -> int:
    """Return six times the sum of the squares of 1 to n."""
    return n * (n + 1) * (2 * n + 1)
