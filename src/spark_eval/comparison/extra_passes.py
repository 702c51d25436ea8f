"""Sums of the users of all pairs, the extra passes over them that some tests need, and the cells of both."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from itertools import product
from operator import add, iadd
from typing import Any, Final, Self

import numpy as np

from spark_eval.comparison.matching import Requested, check_counts
from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.results import ComparedCell, ComparedCells, cells_of_pairs, cells_of_rows
from spark_eval.comparison.worker.ranking import DifferenceCounter, Ranked, merge_slices, slices_for
from spark_eval.comparison.worker.sums import N_AMOUNTS, BucketTotals, pair_parts, sum_bucket
from spark_eval.conventions.comparison import Interval, PairTest
from spark_eval.errors import DataError
from spark_eval.runners.spread import NumberedObject, collect_or_raise, group_by_key
from spark_eval.runners.user_buckets import Buckets, UserTable, buckets_of_users
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
from spark_eval.users.population import AlignedUsers, ComparisonTask
from spark_eval.users.resampling import Amount, ResampledSums, Resampler, check_replicates

# Number of shuffle partitions of counted differences, per concurrent task.
PARTS_PER_TASK: Final = 4
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


def measure_cells(
    tables: Mapping[str, UserTable],
    task: ComparisonTask,
    passes: ExtraPasses,
    shown: Requested,
    requested: Requested,
) -> ComparedCells:
    """Return the cells of a task, completed by the extra passes."""
    task, pairs = passes.completed_task(task), requested.pairs
    with ExitStack() as stack:
        buckets = buckets_of_users(tables, task)
        if passes.needs and buckets.is_sent:
            buckets = replace(buckets, frame=buckets.frame.persist(stack))
        totals = sum_pairs(buckets)
        check_counts(pairs, totals.counts)
        cells = cells_of_pairs(totals, pairs, requested.list_metrics, task)
        of_rows = cells_of_rows(cells, shown)
        of_rows = run_extra_passes(passes, of_rows, task, buckets, totals)
    return ComparedCells(cells, of_rows, totals.counts, task.moved, totals.slices, task)


def run_extra_passes(
    passes: ExtraPasses,
    cells: Sequence[ComparedCell],
    task: ComparisonTask,
    buckets: Buckets,
    totals: BucketTotals,
) -> list[ComparedCell]:
    """Return the cells, completed by a pass for ranks and one for replicates if their tests need them."""
    at_once = buckets.frame.at_once
    ranked, sampled = dict[int, Ranked](), None
    if (counter := passes.counter(totals, cells, PARTS_PER_TASK * at_once)) is not None:
        ranked = merge_slices(collect_or_raise(ranked_pairs(buckets, counter)))
    if (resampler := passes.resampler(totals, cells, task)) is not None:
        sampled = reduce(add, collect_or_raise(buckets.added(resampler.sums)))
    return [passes.completed(cell, totals, ranked, sampled) for cell in cells]


def sum_pairs(buckets: Buckets) -> BucketTotals:
    """Return the sums of all pairs; raise DataError NO_COMMON_USERS if there are no users."""
    parts = collect_or_raise(buckets.added(sum_bucket))
    if not parts:
        raise DataError("NO_COMMON_USERS", "no side has any user")
    totals: BucketTotals = reduce(iadd, parts)
    return totals


def ranked_pairs(buckets: Buckets, counter: DifferenceCounter) -> Any:
    """Return rank statistics of slices of cells, from differences counted by size: one shuffle of counts."""

    def count(populations: Iterator[AlignedUsers]) -> Iterator[NumberedObject]:
        for population in populations:
            yield from counter.counts(population)

    def rank(_: int, parts: Sequence[Any]) -> Any:
        errors = [part for part in parts if isinstance(part, DataError)]
        return errors[0] if errors else counter.ranked(parts)

    return group_by_key(buckets.map(count), counter.n_parts, rank)
