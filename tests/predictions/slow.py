"""Metrics of predictions once more: by loops over all pairs, all thresholds and all rows, in fractions."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

Label = int
# label, score, weight
Row = tuple[Label, float, Fraction]


def rows_of(
    labels: Iterable[int], scores: Iterable[float], weights: Iterable[float] | None = None
) -> list[Row]:
    pairs = list(zip(map(int, labels), map(float, scores), strict=True))
    given = [1.0] * len(pairs) if weights is None else list(weights)
    return [
        (label, score, Fraction(float(weight))) for (label, score), weight in zip(pairs, given, strict=True)
    ]


def weight_of(rows: Iterable[Row]) -> Fraction:
    return sum((weight for *_, weight in rows), Fraction(0))


def quotient(one: Fraction, other: Fraction) -> Fraction | None:
    return one / other if other else None


def auc(rows: Sequence[Row]) -> Fraction | None:
    found = Fraction(0)
    for label, score, weight in rows:
        for other_label, other_score, other_weight in rows:
            if label == 1 and other_label == 0:
                won = Fraction(1) if score > other_score else Fraction(score == other_score, 2)
                found += won * weight * other_weight
    positives, negatives = (weight_of(row for row in rows if row[0] == label) for label in (1, 0))
    return quotient(found, positives * negatives)


def matrix(rows: Sequence[Row], threshold: float) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """tp, fp, fn, tn."""
    tp, fp, fn, tn = (
        weight_of(row for row in rows if row[0] == label and (row[1] >= threshold) == flagged)
        for label, flagged in ((1, True), (0, True), (1, False), (0, False))
    )
    return tp, fp, fn, tn


def thresholds(rows: Sequence[Row]) -> list[float]:
    """Best first."""
    return sorted({score for _, score, _ in rows}, reverse=True)


def points(rows: Sequence[Row]) -> list[tuple[Fraction, Fraction]]:
    """Recall and precision at every threshold that flags anything."""
    found = []
    for threshold in thresholds(rows):
        tp, fp, fn, _ = matrix(rows, threshold)
        if tp + fp:
            found.append((tp / (tp + fn), tp / (tp + fp)))
    return found


def average_precision(rows: Sequence[Row]) -> Fraction:
    before, total = Fraction(0), Fraction(0)
    for recall, precision in points(rows):
        total += (recall - before) * precision
        before = recall
    return total


def trapezoids(rows: Sequence[Row]) -> Fraction:
    found = points(rows)
    tp, fp, _, _ = matrix(rows, thresholds(rows)[0])
    # To Spark the precision of a best score that weighs nothing is 1.
    found.insert(0, (Fraction(0), found[0][1] if tp + fp else Fraction(1)))
    total = Fraction(0)
    for (x, y), (next_x, next_y) in pairwise(found):
        total += (next_x - x) * (y + next_y) / 2
    return total


def log_loss(rows: Sequence[Row], eps: float) -> Fraction:
    total = Fraction(0)
    for label, score, weight in rows:
        clipped = min(max(score, eps), 1 - eps)
        total -= weight * Fraction(math.log(clipped) if label else math.log1p(-clipped))
    return total / weight_of(rows)


def ece(rows: Sequence[Row], n_bins: int) -> Fraction:
    total = Fraction(0)
    for number in range(n_bins):
        mine = [row for row in rows if in_bin(row[1], number, n_bins)]
        scores = sum((weight * Fraction(score) for _, score, weight in mine), Fraction(0))
        total += abs(scores - weight_of(row for row in mine if row[0] == 1))
    return total / weight_of(rows)


def in_bin(score: float, number: int, n_bins: int) -> bool:
    is_last = number == n_bins - 1
    return number / n_bins <= score and (is_last or score < (number + 1) / n_bins)


def slow_auc_errors(labels: Any, scores: Any, users: Any, weights: Any) -> float:
    """The standard error of AUC from every pair of rows, by users (Obuchowski 1997)."""
    rows = list(zip(labels, scores, users, map(Fraction, weights), strict=True))
    positives = [row for row in rows if row[0] == 1]
    negatives = [row for row in rows if row[0] == 0]
    m, n = (sum((row[3] for row in part), Fraction()) for part in (positives, negatives))

    def wins(above: Any, below: Any) -> Fraction:
        return Fraction(int(above[1] > below[1])) + Fraction(int(above[1] == below[1]), 2)

    shares = [
        (one, sum((other[3] * wins(one, other) for other in negatives), Fraction()) / n) for one in positives
    ]
    area = sum(one[3] * share for one, share in shares) / m
    of_positives: dict[Any, Fraction] = defaultdict(Fraction)
    of_negatives: dict[Any, Fraction] = defaultdict(Fraction)
    for one, share in shares:
        of_positives[one[2]] += one[3] * (share - area)
    for other in negatives:
        share = sum((one[3] * wins(one, other) for one in positives), Fraction()) / m
        of_negatives[other[2]] += other[3] * (share - area)
    n_all = len(set(users))
    with_positive = len({row[2] for row in positives if row[3]})
    with_negative = len({row[2] for row in negatives if row[3]})
    variance = Fraction(with_positive, with_positive - 1) / m**2 * sum(a * a for a in of_positives.values())
    variance += Fraction(with_negative, with_negative - 1) / n**2 * sum(b * b for b in of_negatives.values())
    both = sum(of_positives[user] * of_negatives[user] for user in set(users))
    return math.sqrt(variance + Fraction(2 * n_all, n_all - 1) / m / n * both)
