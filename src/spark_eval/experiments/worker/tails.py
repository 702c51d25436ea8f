"""Largest sums of units: what winsorised terms are capped at. For workers, and for the driver that merges."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

import numpy as np

from spark_eval.experiments.plan import ExperimentPlan, TermKey
from spark_eval.experiments.worker.bucket import BucketSums, SourceRows, bucket_from
from spark_eval.experiments.worker.units import USED, UnitSums
from spark_eval.statistics.exact import Ints

# A bucket gives this many times its share of the units above the quantile, and this many more.
MARGIN: Final = 2
LEAST: Final = 100


class Tail(NamedTuple):
    """Number of units in a bucket, and their largest sums, in ascending order."""

    n: int
    largest: Ints

    @classmethod
    def of(cls, values: Ints, quantile: float, *, is_whole: bool) -> "Tail":
        """Return the tail of the sums (n,) of the units of a bucket; all of them if ``is_whole``."""
        n_largest = len(values) if is_whole else ceil(MARGIN * (1 - quantile) * len(values)) + LEAST
        return cls(len(values), np.sort(values)[-n_largest:])


# Tails of the terms of experiments.
Tails = Mapping[TermKey, Tail]


def measure_tails(
    parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan, *, is_whole: bool = False
) -> dict[TermKey, Tail]:
    """Return the tail of each winsorised term over the units of a bucket, by experiment."""
    bucket = bucket_from(parts, plan, BucketSums())
    tails: dict[TermKey, Tail] = {}
    for number, experiment in enumerate(plan.experiments):
        units, _ = bucket.exposed(number, experiment)
        sums = UnitSums(plan, units, bucket.count_events(units))
        for term, scale in plan.winsorised:
            values = sums.of_members(term, scale, USED)
            assert term.winsorise is not None
            tails[experiment.name, term, scale] = Tail.of(values, term.winsorise, is_whole=is_whole)
    return tails


def quantile_of(tails: Sequence[Tail], probability: float) -> int | None:
    """Return the quantile (inverted CDF) of the sums of all units; None if the tails are too short for it.

    >>> quantile_of([Tail(4, np.array([3, 4])), Tail(4, np.array([7, 8]))], 0.75)
    >>> quantile_of([Tail(4, np.array([3, 4])), Tail(4, np.array([1, 2, 7, 8]))], 0.75)
    4
    """
    n_units = sum(tail.n for tail in tails)
    if not n_units:
        return None
    ordered = np.sort(np.concatenate([tail.largest for tail in tails]))
    n_above = n_units - ceil(Fraction(str(probability)) * n_units)
    if len(ordered) <= n_above:
        return None
    quantile = int(ordered[-1 - n_above])
    is_cut = any(
        len(tail.largest) < tail.n and (not len(tail.largest) or tail.largest[0] > quantile) for tail in tails
    )
    return None if is_cut else quantile
