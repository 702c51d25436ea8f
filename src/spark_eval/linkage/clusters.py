"""Agreement of two clusterings by their contingency: no pair of a cluster is enumerated."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, Self

import numpy as np

from spark_eval.arrow.codes import lexsort, run_starts
from spark_eval.linkage.record_codes import Codes32
from spark_eval.statistics.exact import ExactSums, Floats, Groups, Ints, integers_of_sums

# Bits of a digit of the numbers of cells: products of such digits with values are exact.
FACTOR_BITS: Final = 19


class Best(NamedTuple):
    """Best Jaccard indices of clusters with one of the other side, and the number of clusters with each."""

    indices: Floats
    times: Ints

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.times.sum())


@dataclass(frozen=True)
class Contingency:
    """Records in both clusterings by cell, a predicted and a true cluster; cells of equal sizes are one row.

    ``counts`` (sizes,) are the records of a cell, ``predicted`` and ``true`` those of its clusters, and
    ``times`` the number of cells with these three. ``best_predicted`` and ``best_true`` are of the clusters.

    >>> found = Contingency.of(np.array([0, 0, 1, 2, 1, 3, 3, 3]), np.array([0, 0, 0, 1, 1, 2, 2, 3]))
    >>> found.n_common, found.n_predicted_pairs, found.n_true_pairs
    (2, 5, 5)
    """

    counts: Ints
    predicted: Ints
    true: Ints
    times: Ints
    best_predicted: Best
    best_true: Best

    @classmethod
    def of(cls, predicted: Ints | Codes32, true: Ints | Codes32) -> Self:
        """Count the records of each cell; the arrays (records,) have the clusters of each record, from 0."""
        n_true = int(true.max(initial=-1)) + 1
        cells, starts = distinct(predicted.astype(np.int64) * n_true + true)
        counts = np.diff(starts, append=len(predicted))
        rows, columns = cells // max(n_true, 1), cells % max(n_true, 1)
        of_predicted, of_true = np.bincount(predicted), np.bincount(true)
        a, b = of_predicted[rows], of_true[columns]
        jaccard = counts / (a + b - counts)
        best = []
        for groups, sizes in ((rows, of_predicted), (columns, of_true)):
            highest = np.zeros(len(sizes))
            np.maximum.at(highest, groups, jaccard)
            own = highest[sizes > 0]
            best.append(Best(own, np.ones(len(own), dtype=np.int64)))
        return cls(*together(counts, a, b), *best)

    @property
    def n_records(self) -> int:
        """Number of records in both."""
        return int((self.counts * self.times).sum())

    @property
    def n_common(self) -> int:
        """Number of pairs within a cluster of both."""
        return int((n_pairs_of(self.counts) * self.times).sum())

    @property
    def n_predicted_pairs(self) -> int:
        """Number of pairs within predicted clusters: half of each record's number of others."""
        return int((self.counts * (self.predicted - 1) * self.times).sum()) // 2

    @property
    def n_true_pairs(self) -> int:
        """Number of pairs within true clusters."""
        return int((self.counts * (self.true - 1) * self.times).sum()) // 2

    def b_cubed(self, *, by_cluster: bool) -> tuple[float | None, float | None]:
        """Return B-cubed precision and recall: means over records, or over true clusters of their means.

        A record's precision is the share of its predicted cluster that is in its true one, its recall the
        share of its true cluster that is in its predicted one.

        >>> found = Contingency.of(np.array([0, 0, 1, 2, 1, 3, 3, 3]), np.array([0, 0, 0, 1, 1, 2, 2, 3]))
        >>> [round(value, 6) for value in (*found.b_cubed(by_cluster=False), *found.b_cubed(by_cluster=True))]
        [0.708333, 0.708333, 0.645833, 0.763889]

        Source: Bagga, Baldwin, Entity-based cross-document coreferencing using the vector space model, 1998;
        by cluster, Binette et al., How to evaluate entity resolution systems, 2024.
        """
        squares = self.counts.astype(np.float64) ** 2
        a, b = self.predicted.astype(np.float64), self.true.astype(np.float64)
        weights = b if by_cluster else np.ones(len(b))
        n = self.best_true.n_clusters if by_cluster else self.n_records
        return mean(squares / (a * weights), self.times, n), mean(squares / (b * weights), self.times, n)

    def exact(self) -> tuple[float | None, float | None]:
        """Return the share of predicted clusters that are true, and the share of true clusters predicted."""
        is_exact = (self.counts == self.predicted) & (self.counts == self.true)
        n = int(self.times[is_exact].sum())
        return share(n, self.best_predicted.n_clusters), share(n, self.best_true.n_clusters)

    def closest(self) -> tuple[float | None, float | None]:
        """Return the mean best Jaccard index of predicted clusters, and of true clusters.

        Source: Benjelloun et al., Swoosh: a generic approach to entity resolution, 2009 (closest cluster).
        """
        of_predicted, of_true = (
            mean(best.indices, best.times, best.n_clusters) for best in (self.best_predicted, self.best_true)
        )
        return of_predicted, of_true


def together(counts: Ints, predicted: Ints, true: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the distinct sizes of cells, and the number of cells with each.

    >>> [found.tolist() for found in together(np.array([1, 2, 1]), np.array([3, 2, 3]), np.array([1, 2, 1]))]
    [[1, 2], [3, 2], [1, 2], [2, 1]]
    """
    order = lexsort(counts, predicted, true)
    sizes = [part[order] for part in (counts, predicted, true)]
    is_first = np.zeros(len(order), dtype=np.bool_)
    for part in sizes:
        is_first |= run_starts(part)
    starts = np.flatnonzero(is_first)
    one, other, third = (part[starts] for part in sizes)
    return one, other, third, np.diff(starts, append=len(order))


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values in ascending order, and where each begins among all values in that order.

    numpy's own ``unique`` would hash them, which takes several times as long as to sort them.

    >>> [found.tolist() for found in distinct(np.array([7, 3, 7]))]
    [[3, 7], [0, 1]]
    """
    ordered = np.sort(values)
    starts = np.flatnonzero(run_starts(ordered))
    return ordered[starts], starts


def n_pairs(sizes: Ints) -> int:
    """Return the number of pairs within groups of these sizes.

    >>> n_pairs(np.array([3, 1, 1_000_000]))
    499999500003
    """
    return int(n_pairs_of(sizes).sum())


def n_pairs_of(sizes: Ints) -> Ints:
    """Return the number of pairs within each group."""
    wide = sizes.astype(np.int64)
    return wide * (wide - 1) // 2


def mean(values: Floats, times: Ints, n: int) -> float | None:
    """Return the sum of values, each counted ``times`` times, over n, in any order; None if n is 0.

    >>> mean(np.array([0.1, 0.2]), np.array([10**9, 1]), 10**9 + 1)
    0.1000000001
    """
    if not n:
        return None
    total = Fraction()
    for digit in range(0, int(times.max()).bit_length(), FACTOR_BITS):
        factors = (times >> digit & (1 << FACTOR_BITS) - 1).astype(np.float64)
        sums = ExactSums.of(values, Groups(), has_total=False, has_squares=False, factors=factors)
        total += integers_of_sums({0: np.zeros(1, dtype=np.int64)} | sums.products)[0] * 2**digit
    return float(total) / n


def share(part: int, whole: int) -> float | None:
    """Return a share, rounded once; None of nothing."""
    return part / whole if whole else None


def f1(part: int, predicted: int, true: int) -> float | None:
    """Return F1 of pairs, rounded once; None without any pair."""
    return 2 * part / (predicted + true) if predicted + true else None


def harmonic(precision: float | None, recall: float | None) -> float | None:
    """Return the harmonic mean of precision and recall; 0 if both are."""
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
