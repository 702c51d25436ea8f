"""What tests need beyond sums of pairs: further passes over the users, and what they add to cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from spark_eval.comparing.options import ComparePlan, PairTest
from spark_eval.comparing.results import ComparedCell
from spark_eval.pairing.drawing import Drawing, DrawnSums, check_drawn
from spark_eval.pairing.ranking import Counting, Ranked, slices_for
from spark_eval.pairing.sums import BucketTotals
from spark_eval.stats.ranked import RankSums
from spark_eval.stats.resampling import MOST_FLIPPED, Replicates, drawn_flip_p, exact_flip_p, scale_of

NO_RANKS: Final = Ranked(RankSums(0, 0, 0, 0, ()), ())


@dataclass(frozen=True)
class Needs:
    """Which passes the tests of a plan need, beside the sums of pairs."""

    ranks: bool
    flips: bool
    replicates: bool

    @classmethod
    def of(cls, plan: ComparePlan) -> "Needs":
        """Return the needs of a plan."""
        asked = {*plan.tests, plan.interval}
        return cls(
            PairTest.WILCOXON in asked,
            PairTest.RANDOMIZATION in asked,
            not asked.isdisjoint({PairTest.BOOTSTRAP, PairTest.BCA}),
        )

    @property
    def any(self) -> bool:
        """Whether one more pass is needed."""
        return self.ranks or self.flips or self.replicates

    def counting(self, found: BucketTotals, cells: Sequence[ComparedCell], n_parts: int) -> Counting | None:
        """Return how differences are counted by their size, if a cell needs it."""
        chosen = np.zeros(found.shape, dtype=bool)
        for cell in cells:
            chosen[cell.place] = self.ranks or (self.flips and cell.n_differing <= MOST_FLIPPED)
        if not chosen.any():
            return None
        n_slices = slices_for(max(cell.sums.n for cell in cells))
        return Counting(found.totals.cells, chosen, found.largest, n_slices, n_parts)

    def drawing(
        self, found: BucketTotals, cells: Sequence[ComparedCell], plan: ComparePlan
    ) -> Drawing | None:
        """Return how differences are drawn, if a cell needs it; raise ConfigError TOO_MANY_REPLICATES."""
        needs_flips = self.flips and any(cell.n_differing > MOST_FLIPPED for cell in cells)
        if not (needs_flips or self.replicates):
            return None
        check_drawn(len(found.totals.cells) * found.largest.size, plan.resamples)
        return Drawing(
            cells=found.totals.cells,
            largest=found.largest,
            seed=plan.seed,
            replicates=plan.resamples if self.replicates else 0,
            flips=plan.resamples if needs_flips else 0,
            has_cubes=PairTest.BCA in {*plan.tests, plan.interval},
        )

    def completed(
        self,
        cell: ComparedCell,
        found: BucketTotals,
        ranked: Mapping[int, Ranked],
        drawn: DrawnSums | None,
        plan: ComparePlan,
    ) -> ComparedCell:
        """Return a cell with what the further passes found."""
        number = int(np.ravel_multi_index(cell.place, found.shape))
        of_cell = ranked.get(number, NO_RANKS)
        more = replace(cell, ranks=of_cell.ranks) if self.ranks else cell
        if self.flips and cell.sums.n:
            if cell.n_differing <= MOST_FLIPPED:
                flipped = exact_flip_p(of_cell.quanta or (), plan.alternative)
            else:
                assert drawn is not None
                flipped = drawn_flip_p(drawn.flipped[number].tolist(), cell.n_differing, plan.alternative)
            more = replace(more, flipped=flipped)
        if self.replicates and drawn is not None:
            scale = scale_of(float(found.largest[cell.place[1:]]))
            totals, weights = drawn.totals[number].tolist(), drawn.weights[number].tolist()
            acceleration = cell.sums.acceleration(drawn.cube(number, scale))
            of_draws = Replicates.of(totals, weights, scale)
            more = replace(more, replicates=of_draws, acceleration=acceleration)
        return more
