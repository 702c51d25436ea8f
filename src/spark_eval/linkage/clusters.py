"""Agreement of two clusterings by their contingency: no pair of a cluster is enumerated."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from spark_eval.arrow.codes import run_starts
from spark_eval.statistics.exact import Floats, Ints, exact_sums, integers_of_sums


@dataclass(frozen=True)
class Contingency:
    """Records in both clusterings: cells of a predicted and a true cluster, with their numbers of records.

    ``rows`` and ``columns`` (cells,) are the clusters of each cell, ``counts`` (cells,) its records;
    ``predicted`` and ``true`` are the sizes of the clusters.

    >>> found = Contingency.of(np.array([0, 0, 1, 2, 1, 3, 3, 3]), np.array([0, 0, 0, 1, 1, 2, 2, 3]))
    >>> found.n_common, found.n_predicted_pairs, found.n_true_pairs
    (2, 5, 5)
    """

    rows: Ints
    columns: Ints
    counts: Ints
    predicted: Ints
    true: Ints

    @classmethod
    def of(cls, predicted: Ints, true: Ints) -> Self:
        """Count the records of each cell; the arrays (records,) have the clusters of each record, from 0."""
        n_true = int(true.max(initial=-1)) + 1
        cells, starts = distinct(predicted * n_true + true)
        counts = np.diff(starts, append=len(predicted))
        of_predicted, of_true = np.bincount(predicted), np.bincount(true)
        return cls(cells // max(n_true, 1), cells % max(n_true, 1), counts, of_predicted, of_true)

    @property
    def n_records(self) -> int:
        """Number of records in both."""
        return int(self.counts.sum())

    @property
    def n_common(self) -> int:
        """Number of pairs within a cluster of both."""
        return n_pairs(self.counts)

    @property
    def n_predicted_pairs(self) -> int:
        """Number of pairs within predicted clusters."""
        return n_pairs(self.predicted)

    @property
    def n_true_pairs(self) -> int:
        """Number of pairs within true clusters."""
        return n_pairs(self.true)

    @cached_property
    def squares(self) -> Floats:
        """Square of the number of records of each cell."""
        squares: Floats = self.counts.astype(np.float64) ** 2
        return squares

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
        a, b = self.predicted[self.rows].astype(np.float64), self.true[self.columns].astype(np.float64)
        weights = b if by_cluster else np.ones(len(b))
        n = int(np.count_nonzero(self.true)) if by_cluster else self.n_records
        return mean(self.squares / (a * weights), n), mean(self.squares / (b * weights), n)

    def exact(self) -> tuple[float | None, float | None]:
        """Return the share of predicted clusters that are true ones, and that of true ones predicted."""
        a, b = self.predicted[self.rows], self.true[self.columns]
        n = int(np.count_nonzero((self.counts == a) & (self.counts == b)))
        n_predicted, n_true = (int(np.count_nonzero(sizes)) for sizes in (self.predicted, self.true))
        return share(n, n_predicted), share(n, n_true)

    def closest(self) -> tuple[float | None, float | None]:
        """Return the mean best Jaccard index of predicted clusters, and that of true clusters.

        Source: Benjelloun et al., Swoosh: a generic approach to entity resolution, 2009 (closest cluster).
        """
        a, b = self.predicted[self.rows], self.true[self.columns]
        jaccard = self.counts / (a + b - self.counts)
        means = []
        for groups, sizes in ((self.rows, self.predicted), (self.columns, self.true)):
            best = np.zeros(len(sizes))
            np.maximum.at(best, groups, jaccard)
            means.append(mean(best[sizes > 0], int(np.count_nonzero(sizes))))
        return means[0], means[1]


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
    wide = sizes.astype(np.int64)
    return int((wide * (wide - 1) // 2).sum())


def mean(values: Floats, n: int) -> float | None:
    """Return the sum of values over n, whatever their order; None if n is 0."""
    return float(integers_of_sums(exact_sums(values))[0]) / n if n else None


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
