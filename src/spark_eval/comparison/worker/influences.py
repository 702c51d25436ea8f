"""Sums of users' influences on the values of two models of predictions, over buckets of users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Final

import numpy as np

from spark_eval.predictions.values import SlopedValue
from spark_eval.predictions.worker.clusters import column_of
from spark_eval.statistics.additive import Accumulator
from spark_eval.statistics.exact import DigitSums, Floats, exact_sums, integers_of_sums
from spark_eval.statistics.slopes import Slopes, SumKey
from spark_eval.users.cells import SegmentValue
from spark_eval.users.population import AlignedUsers, PairCounts

# Contributions that differ by less than this share of their size are equal.
EQUAL: Final = 2.0**-40
# Counts of users: with a better, with a lower contribution of the candidate, and with rows of either label.
COUNTS: Final = ("greater", "less", "of_label_0", "of_label_1")
# Names of sums: segment and its value, pair, value, name.
InfluenceKey = tuple[SegmentValue, int, str, str]


@dataclass
class InfluenceTotals(Accumulator):
    """Sums over some buckets: ``counts`` and exact ``sums`` by name; users of each pair, by segment value."""

    users: dict[SegmentValue, PairCounts]
    counts: dict[InfluenceKey, int] = field(default_factory=dict)
    sums: dict[InfluenceKey, DigitSums] = field(default_factory=dict)

    def number(self, cell: SegmentValue, pair: int, value: str, name: str) -> Fraction:
        """Return an exact sum."""
        return integers_of_sums(self.sums[cell, pair, value, name])[0]


@dataclass(frozen=True)
class InfluenceAdder:
    """Adder of the influences of users; ``models`` are the values of each model of the task by name.

    They are given by segment value.
    """

    models: Mapping[SegmentValue, Sequence[Mapping[str, SlopedValue]]]

    def sums(self, population: AlignedUsers) -> InfluenceTotals:
        """Return the sums of all pairs and values over a bucket."""
        task, cell = population.task, population.cell
        columns = dict(zip(task.columns, range(len(task.columns)), strict=True))
        totals = InfluenceTotals({cell: population.counts()})
        numbers = population.values(task.columns)
        for pair, ((baseline, candidate), common) in enumerate(
            zip(task.pairs, population.common(), strict=True)
        ):
            sides = [numbers[model][:, common] for model in (baseline, candidate)]
            of_baseline, of_candidate = (self.models[cell][model] for model in (baseline, candidate))
            for name in (name for name in of_baseline if name in of_candidate):
                values = (of_baseline[name], of_candidate[name])
                parts = [
                    [influence(part, side, columns) for part in value.slopes]
                    for value, side in zip(values, sides, strict=True)
                ]
                slopes = mean_slopes(*values)
                contributions = [influence(slopes, side, columns) for side in sides]
                add_pair(totals, (cell, pair, name), parts, contributions)
                for label in (0, 1):
                    if (column := column_of(("labels", label))) in columns:
                        n_with_label = int((sides[0][columns[column]] > 0).sum())
                        totals.counts[cell, pair, name, f"of_label_{label}"] = n_with_label
        return totals


def add_pair(
    totals: InfluenceTotals,
    key: tuple[SegmentValue, int, str],
    parts: Sequence[Sequence[Floats]],
    contributions: Sequence[Floats],
) -> None:
    """Add the sums of products of all parts of both models, and the counts of better and worse users."""
    below, above = contributions
    is_other = abs(above - below) > EQUAL * np.maximum(abs(above), abs(below))
    totals.counts[*key, "greater"] = int(((above > below) & is_other).sum())
    totals.counts[*key, "less"] = int(((above < below) & is_other).sum())
    influences = {
        f"{side}{part}": one
        for side, of_side in zip("ab", parts, strict=True)
        for part, one in enumerate(of_side)
    }
    for name, one in influences.items():
        totals.sums[*key, name] = exact_sums(one)
    for (name, one), (other_name, other) in product(influences.items(), repeat=2):
        if name <= other_name:
            totals.sums[*key, name + other_name] = exact_sums(one * other)


def influence(slopes: Slopes, sums: Floats, columns: Mapping[str, int]) -> Floats:
    """Return each user's influence (n,) on a value; ``sums`` has shape (columns, n)."""
    total = np.zeros(sums.shape[1])
    for key in sorted(slopes):
        if slopes[key]:
            total += slopes[key] * sums[columns[column_of(key)]]
    return total


def mean_slopes(baseline: SlopedValue, candidate: SlopedValue) -> Slopes:
    """Return the mean slopes of two models: by them users' contributions to both are compared."""
    total: dict[SumKey, float] = {}
    for part in (*baseline.slopes, *candidate.slopes):
        for key, slope in part.items():
            total[key] = total.get(key, 0.0) + slope / 2
    return total
