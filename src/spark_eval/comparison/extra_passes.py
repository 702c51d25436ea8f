"""Additional passes over the users for some tests, and their results in the cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.results import ComparedCell
from spark_eval.comparison.worker.ranking import DifferenceCounter, Ranked, slices_for
from spark_eval.comparison.worker.sums import N_AMOUNTS, BucketTotals, pair_parts
from spark_eval.conventions.comparison import PairTest
from spark_eval.per_user.drawing import Amount, ResampledSums, Resampler, check_replicates
from spark_eval.per_user.population import ComparisonTask
from spark_eval.statistics.ranked import RankSums
from spark_eval.statistics.resampling import (
    MOST_FLIPPED,
    Replicates,
    drawn_flip_p,
    exact_flip_p,
    quotients,
    scale_of,
    subtract,
)

# Tests that resample users.
RESAMPLED: Final = (PairTest.BOOTSTRAP, PairTest.BCA)
NO_RANKS: Final = Ranked(RankSums(0, 0, 0, 0, ()), ())


@dataclass(frozen=True)
class RequiredPasses:
    """Additional passes that the tests of a plan need."""

    plan: ComparePlan
    by_fold: bool

    def has(self, *tests: PairTest) -> bool:
        """Return True if the plan has one of these tests, or shows the interval of one."""
        return not {*self.plan.tests, self.plan.interval}.isdisjoint(tests)

    def flips_all(self, cell: ComparedCell) -> bool:
        """Return True if the randomization test of a cell enumerates all sign flips.

        Over folds, all rows of a user share a sign, and flips are sampled.
        """
        is_few = cell.n_differing <= MOST_FLIPPED
        return is_few and not self.by_fold and self.has(PairTest.RANDOMIZATION)

    @property
    def any(self) -> bool:
        """True if an additional pass is needed."""
        return self.has(PairTest.WILCOXON, PairTest.RANDOMIZATION, *RESAMPLED)

    def counting(
        self, summed: BucketTotals, cells: Sequence[ComparedCell], n_parts: int
    ) -> DifferenceCounter | None:
        """Return the counter of differences by size; None if no cell needs it."""
        chosen = np.zeros(summed.shape, dtype=bool)
        for cell in cells:
            chosen[cell.place] |= self.has(PairTest.WILCOXON) or self.flips_all(cell)
        if not chosen.any():
            return None
        n_slices = slices_for(max(cell.sums.n for cell in cells))
        return DifferenceCounter(summed.totals.cells, chosen, summed.largest, n_slices, n_parts)

    def drawing(
        self, summed: BucketTotals, cells: Sequence[ComparedCell], question: ComparisonTask
    ) -> Resampler | None:
        """Return the resampler of differences; None if no cell needs it.

        Raises:
            ConfigError: TOO_MANY_REPLICATES.
        """
        plan, has_replicates = self.plan, self.has(*RESAMPLED)
        has_flips = self.has(PairTest.RANDOMIZATION) and not all(map(self.flips_all, cells))
        if not (has_flips or has_replicates):
            return None
        # All pairs of a column, then the next column: so few columns are in memory at once.
        pairs = [(int(left), int(right)) for left, right in zip(*question.ends, strict=True)]
        drawn = [Amount.difference(*pair, column) for column, pair in product(question.columns, pairs)]
        parts = (pair_parts(*pair, *mean) for mean, pair in product(question.weighted, pairs))
        drawn += [part for of_pair in parts for part in of_pair]
        check_replicates(len(summed.totals.cells) * len(drawn), plan.resamples)
        return Resampler(
            cells=summed.totals.cells,
            drawn=drawn,
            largest=np.append(summed.largest.T, summed.largest_parts.swapaxes(0, 1)),
            seed=plan.seed,
            replicates=plan.resamples if has_replicates else 0,
            flips=plan.resamples if has_flips else 0,
            has_cubes=self.has(PairTest.BCA),
        )

    def completed(
        self,
        cell: ComparedCell,
        summed: BucketTotals,
        ranked: Mapping[int, Ranked],
        drawn: ResampledSums | None,
    ) -> ComparedCell:
        """Return a cell with the results of the additional passes."""
        of_cell = ranked.get(int(np.ravel_multi_index(cell.place, summed.shape)), NO_RANKS)
        more = replace(cell, ranks=of_cell.ranks) if self.has(PairTest.WILCOXON) else cell
        side = self.plan.alternative
        if self.flips_all(cell) and cell.sums.n:
            more = replace(more, flipped=exact_flip_p(of_cell.quanta or (), side))
        elif self.has(PairTest.RANDOMIZATION) and cell.sums.n and drawn is not None:
            flipped = drawn.flipped[difference_of(cell, summed)].tolist()
            more = replace(more, flipped=drawn_flip_p(flipped, cell.n_differing, side))
        if drawn is None or not self.has(*RESAMPLED):
            return more
        if cell.mean is not None:
            return replace(more, replicates=replicates_of_ratios(cell, cell.mean, summed, drawn))
        number, scale = difference_of(cell, summed), scale_of(float(summed.largest[cell.place[1:]]))
        of_draws = Replicates.of(drawn.totals[number].tolist(), drawn.weights[number].tolist(), scale)
        acceleration = cell.sums.acceleration(drawn.cube(number, scale))
        return replace(more, replicates=of_draws, acceleration=acceleration)


def difference_of(cell: ComparedCell, summed: BucketTotals) -> int:
    """Return the index of a cell's differences among the resampled sums; see ``RequiredPasses.drawing``."""
    at, pair, column = cell.place
    return at * (summed.largest.size + summed.largest_parts.size) + column * len(summed.largest) + pair


def replicates_of_ratios(
    cell: ComparedCell, mean: int, summed: BucketTotals, drawn: ResampledSums
) -> Replicates | None:
    """Return the replicates of the difference of a pair's weighted means."""
    at, pair, _ = cell.place
    n_pairs = len(summed.largest)
    first = at * (summed.largest.size + summed.largest_parts.size) + summed.largest.size
    first += (mean * n_pairs + pair) * N_AMOUNTS
    totals = drawn.totals[first : first + N_AMOUNTS].tolist()
    scales = [scale_of(one) for one in summed.largest_parts[pair, mean].tolist()]
    candidate = quotients(totals[0], totals[1], scales[0] / scales[1])
    baseline = quotients(totals[2], totals[3], scales[2] / scales[3])
    return Replicates.known(subtract(candidate, baseline))
