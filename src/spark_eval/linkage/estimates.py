"""Estimates of precision and recall from a stratified sample of reviewed pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

from spark_eval.errors import DataError
from spark_eval.linkage.limits import Total, limits_of_ratio, total_of
from spark_eval.statistics.intervals import square_root


@dataclass(frozen=True)
class Stratum:
    """Stratum of pairs that are all predicted, or all not: its pairs, those reviewed, and their matches."""

    name: str
    is_predicted: bool
    n_pairs: int
    n_reviewed: int
    n_matches: int


class Estimated(NamedTuple):
    """An estimated ratio, its standard error over samples, and its interval; None without a denominator."""

    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None


def estimates(strata: Sequence[Stratum]) -> dict[str, Estimated]:
    """Return precision, recall and F1 from reviewed pairs; recall is within the candidates.

    With weights w = N/n of a stratum, y = 1 for a match and p = 1 for a predicted pair, precision is
    sum(w p y) / sum(w p), recall sum(w p y) / sum(w y) and F1 2 sum(w p y) / sum(w (p + y)). The standard
    error is that of a combined ratio: sqrt(sum of N^2 (1 - n/N) s^2(e) / n) / X, where X is the estimated
    denominator, e = numerator - ratio * denominator of a pair, and s^2 has the divisor n - 1. It is 0 where
    all reviewed pairs of each stratum are alike; the width of the interval of 95 % is not, see ``limits``.

    >>> given = [(True, 2000, 100, 97), (True, 500, 100, 70), (False, 1000, 100, 12), (False, 100000, 200, 1)]
    >>> found = estimates([Stratum(str(at), *one) for at, one in enumerate(given)])
    >>> [(round(one.value, 6), round(one.std_error, 6)) for one in found.values()]
    [(0.916, 0.015703), (0.786942, 0.135368), (0.84658, 0.07876)]
    >>> [(round(one.ci_low, 3), round(one.ci_high, 3)) for one in found.values()]
    [(0.874, 0.939), (0.472, 0.941), (0.622, 0.929)]

    Raises DataError TOO_FEW_REVIEWS for a stratum with fewer than two decided pairs, of more than one.

    Source: Cochran, Sampling techniques, 1977, section 6.11.
    """
    few = [one.name for one in strata if one.n_reviewed < min(2, one.n_pairs)]
    if few:
        message = f"strata {', '.join(few)} have fewer than two decided pairs"
        raise DataError("TOO_FEW_REVIEWS", f"{message}; review more of them")
    kinds = {"precision": (1, 1, 0), "recall": (1, 0, 1), "f1": (2, 1, 1)}
    return {name: combined_ratio(strata, *factors) for name, factors in kinds.items()}


def combined_ratio(strata: Sequence[Stratum], of_both: int, of_predicted: int, of_match: int) -> Estimated:
    """Return the ratio of of_both * p y over of_predicted * p + of_match * y, with its standard error."""
    above = below = Fraction()
    for one in strata:
        weight, p = Fraction(one.n_pairs, one.n_reviewed), int(one.is_predicted)
        above += weight * of_both * p * one.n_matches
        below += weight * (of_predicted * p * one.n_reviewed + of_match * one.n_matches)
    if not below:
        return Estimated(None, None, None, None)
    ratio, variance = above / below, Fraction()
    for one in strata:
        p, n, n_matches = int(one.is_predicted), one.n_reviewed, one.n_matches
        if n == one.n_pairs:
            continue  # all pairs are known
        e_match = of_both * p - ratio * (of_predicted * p + of_match)
        e_other = -ratio * of_predicted * p
        # The variance of a value that is one of two: (x - y)^2 times the variance of 0 and 1.
        spread = (e_match - e_other) ** 2 * Fraction(n_matches * (n - n_matches), n * (n - 1))
        variance += one.n_pairs**2 * (1 - Fraction(n, one.n_pairs)) * spread / n
    totals = {True: Total(), False: Total()}
    for one in strata:
        matches = total_of(one.n_pairs, one.n_reviewed, one.n_matches)
        totals[one.is_predicted] += matches
    n_predicted = sum(one.n_pairs for one in strata if one.is_predicted)
    low, high = limits_of_ratio(totals[True], totals[False], n_predicted, of_both, of_predicted, of_match)
    return Estimated(float(ratio), square_root(variance) / float(below), low, high)


def cohens_kappa(labels: Mapping[str, Mapping[tuple[str, str], str]]) -> tuple[float | None, int]:
    """Return Cohen's kappa between reviewers, and the number of pairs of labels.

    ``labels`` maps reviewers to the label of each pair. With more than two reviewers, it is the mean over all
    two of them, weighted by the number of pairs that both labelled. Two that give one label to all of these
    have no kappa, as chance alone explains their agreement. None, with the number of pairs in common, if no
    two have one.

    >>> one = {("a", "b"): "match", ("a", "c"): "match", ("b", "c"): "non_match", ("c", "d"): "non_match"}
    >>> cohens_kappa({"ann": one, "bob": one | {("a", "c"): "non_match"}})
    (0.5, 4)

    Source: Cohen, A coefficient of agreement for nominal scales, 1960.
    """
    total, n_total, n_common = Fraction(), 0, 0
    for one, other in combinations(sorted(labels), 2):
        both = sorted(labels[one].keys() & labels[other].keys())
        n = len(both)
        n_common += n
        if not n:
            continue
        agreed = sum(labels[one][pair] == labels[other][pair] for pair in both)
        names = {labels[who][pair] for who in (one, other) for pair in both}
        chance = sum(
            Fraction(sum(labels[one][pair] == name for pair in both), n)
            * Fraction(sum(labels[other][pair] == name for pair in both), n)
            for name in names
        )
        if chance == 1:
            continue
        total += n * (Fraction(agreed, n) - chance) / (1 - chance)
        n_total += n
    return (float(total / n_total), n_total) if n_total else (None, n_common)
