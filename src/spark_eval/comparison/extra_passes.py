"""Extra passes over the users that some tests need, and their results in the cells."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Final, Self

import numpy as np

from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.results import ComparedCell
from spark_eval.comparison.worker.ranking import DifferenceCounter, Ranked, slices_for
from spark_eval.comparison.worker.sums import N_AMOUNTS, BucketTotals, pair_parts
from spark_eval.conventions.comparison import Interval, PairTest
from spark_eval.statistics.ranked import RankSums
from spark_eval.statistics.resampling import (
    MOST_ENUMERATED,
    Replicates,
    enumerated_flip_p,
    quotients,
    sampled_flip_p,
    scale_of,
    subtract,
)
from spark_eval.users.population import ComparisonTask
from spark_eval.users.resampling import Amount, ResampledSums, Resampler, check_replicates

NO_RANKS: Final = Ranked(RankSums(0, 0, 0, 0, ()), ())


class Need(StrEnum):
    """Input of a test that the sums of pairs do not have: it takes an extra pass over the users."""

    RANKS = "ranks"
    FLIPS = "flips"
    REPLICATES = "replicates"
    CUBES = "cubes"


# Needs of tests and intervals; the others take the sums of pairs alone.
NEEDS: Final[Mapping[str, frozenset[Need]]] = {
    PairTest.WILCOXON: frozenset({Need.RANKS}),
    PairTest.RANDOMIZATION: frozenset({Need.FLIPS}),
    PairTest.BOOTSTRAP: frozenset({Need.REPLICATES}),
    PairTest.BCA: frozenset({Need.REPLICATES, Need.CUBES}),
}


def needs_of(tests: Iterable[str], interval: str = Interval.T) -> frozenset[Need]:
    """Return the needs of tests and of the interval in their rows.

    >>> sorted(needs_of(["t", "wilcoxon"], "bca"))
    [<Need.CUBES: 'cubes'>, <Need.RANKS: 'ranks'>, <Need.REPLICATES: 'replicates'>]
    """
    return frozenset[Need]().union(*(NEEDS.get(name, ()) for name in (*tests, interval)))


@dataclass(frozen=True)
class ExtraPasses:
    """Extra passes for the needs of a plan's tests."""

    plan: ComparePlan
    needs: frozenset[Need]

    @classmethod
    def of(cls, plan: ComparePlan) -> Self:
        """Return the passes for the tests of a plan."""
        return cls(plan, needs_of(plan.tests, plan.interval))

    def completed_task(self, task: ComparisonTask) -> ComparisonTask:
        """Return the task with the sums that the passes begin from."""
        has_flips = Need.FLIPS in self.needs and task.has_clusters
        return replace(task, needs_largest=bool(self.needs), needs_differing=has_flips)

    def flips_all(self, cell: ComparedCell) -> bool:
        """Return True if the randomization test of a cell enumerates all sign flips, one for each user."""
        return Need.FLIPS in self.needs and cell.n_users_differing <= MOST_ENUMERATED

    def counter(
        self, totals: BucketTotals, cells: Sequence[ComparedCell], n_parts: int
    ) -> DifferenceCounter | None:
        """Return the counter of differences by size; None if no cell needs it."""
        chosen = np.zeros(totals.shape, dtype=bool)
        for cell in cells:
            chosen[cell.index] |= Need.RANKS in self.needs or self.flips_all(cell)
        if not chosen.any():
            return None
        n_slices = slices_for(max(cell.sums.n for cell in cells))
        by_user = bool(totals.clusters.cells)
        return DifferenceCounter(totals.totals.cells, chosen, totals.largest, n_slices, n_parts, by_user)

    def resampler(
        self, totals: BucketTotals, cells: Sequence[ComparedCell], task: ComparisonTask
    ) -> Resampler | None:
        """Return the resampler of differences; None if no cell needs it.

        Raises:
            ConfigError: TOO_MANY_REPLICATES.
        """
        has_replicates = Need.REPLICATES in self.needs
        has_flips = Need.FLIPS in self.needs and not all(map(self.flips_all, cells))
        if not (has_flips or has_replicates):
            return None
        # All pairs of a column, then the next column: so few columns are in memory at once.
        amounts = [
            Amount.difference(*pair, column) for column, pair in product(task.columns, task.value_pairs)
        ]
        parts = (pair_parts(*pair, *mean) for mean, pair in product(task.weighted, task.value_pairs))
        amounts += [part for of_pair in parts for part in of_pair]
        check_replicates(len(totals.totals.cells) * len(amounts), self.plan.resamples)
        return Resampler(
            cells=totals.totals.cells,
            amounts=amounts,
            largest=np.append(totals.largest.T, totals.largest_parts.swapaxes(0, 1)),
            seed=self.plan.seed,
            replicates=self.plan.resamples if has_replicates else 0,
            flips=self.plan.resamples if has_flips else 0,
            has_cubes=Need.CUBES in self.needs,
        )

    def completed(
        self,
        cell: ComparedCell,
        totals: BucketTotals,
        ranked: Mapping[int, Ranked],
        sampled: ResampledSums | None,
    ) -> ComparedCell:
        """Return a cell with the results of the extra passes."""
        of_cell = ranked.get(int(np.ravel_multi_index(cell.index, totals.shape)), NO_RANKS)
        if Need.RANKS in self.needs:
            cell = replace(cell, ranks=of_cell.ranks)
        if self.flips_all(cell) and cell.sums.n:
            cell = replace(
                cell, flipped=enumerated_flip_p(of_cell.quanta or (), cell.n_differing, self.plan.alternative)
            )
        elif Need.FLIPS in self.needs and cell.sums.n and sampled is not None:
            flipped = sampled.flipped[difference_of(cell, totals)].tolist()
            cell = replace(cell, flipped=sampled_flip_p(flipped, cell.n_differing, self.plan.alternative))
        if sampled is None or Need.REPLICATES not in self.needs:
            return cell
        if cell.mean is not None:
            return replace(cell, replicates=replicates_of_ratios(cell, cell.mean, totals, sampled))
        number, scale = difference_of(cell, totals), scale_of(float(totals.largest[cell.index[1:]]))
        replicates = Replicates.of(sampled.totals[number].tolist(), sampled.weights[number].tolist(), scale)
        acceleration = cell.sums.acceleration(sampled.cube(number, scale))
        return replace(cell, replicates=replicates, acceleration=acceleration)


def difference_of(cell: ComparedCell, totals: BucketTotals) -> int:
    """Return the index of a cell's differences among the resampled sums; see ``ExtraPasses.resampler``."""
    segment, pair, column = cell.index
    n_amounts = totals.largest.size + totals.largest_parts.size
    return segment * n_amounts + column * len(totals.largest) + pair


def replicates_of_ratios(
    cell: ComparedCell, mean: int, totals: BucketTotals, sampled: ResampledSums
) -> Replicates | None:
    """Return the replicates of the difference of a pair's weighted means."""
    segment, pair, _ = cell.index
    n_amounts = totals.largest.size + totals.largest_parts.size
    first = segment * n_amounts + totals.largest.size + (mean * len(totals.largest) + pair) * N_AMOUNTS
    sums = sampled.totals[first : first + N_AMOUNTS].tolist()
    scales = [scale_of(largest) for largest in totals.largest_parts[pair, mean].tolist()]
    baseline = quotients(sums[0], sums[1], scales[0] / scales[1])
    candidate = quotients(sums[2], sums[3], scales[2] / scales[3])
    return Replicates.of_means(subtract(candidate, baseline))
