"""Where to cut the scores of a cell into ranges that fit into memory, by samples of its runs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_eval.pointwise.ordered import Range, ScoreRun, Standing, grid_of
from spark_eval.pointwise.totals import Cell
from spark_eval.stats.exact import Floats, Ints

# A sample of a run has every STEP-th score.
STEP: Final = 1 << 12


@dataclass(frozen=True)
class Sample:
    """Every STEP-th score of a run, ascending, and how many scores it has."""

    cell: Cell
    scores: Floats
    n_scores: int

    @classmethod
    def of(cls, run: ScoreRun) -> "Sample":
        """Sample a run, from the middle of the first STEP."""
        n_scores = len(run.scores)
        return cls(run.cell, run.scores[min(STEP, n_scores) // 2 :: STEP].copy(), n_scores)


@dataclass(frozen=True)
class ScoreCut:
    """The ranges of a cell: numbered from ``first``, best scores first.

    The ``edges`` between them ascend, and belong to the better range.
    """

    first: int
    edges: Floats

    @property
    def n_ranges(self) -> int:
        """How many there are."""
        return len(self.edges) + 1

    def parts(self, run: ScoreRun) -> Iterator[tuple[int, ScoreRun]]:
        """Yield the part that a run has of each range, with the number of the range."""
        places = [0, *np.searchsorted(run.scores, self.edges).tolist(), len(run.scores)]
        for number in range(self.n_ranges):
            start, end = places[number : number + 2]
            if start < end:
                yield self.first + self.n_ranges - 1 - number, run.part(start, end)


@dataclass(frozen=True)
class Extent:
    """How much there is in a range: distinct scores, and amounts (2, limbs)."""

    cell: Cell
    number: int
    n_scores: int
    amounts: Ints

    @classmethod
    def of(cls, part: Range) -> "Extent":
        """Measure a range."""
        return cls(part.cell, part.number, len(part.scores), part.amounts.sum(axis=0))


def cuts_of(samples: Iterable[Sample], most: int) -> dict[Cell, ScoreCut]:
    """Return the ranges of every cell, of about ``most`` scores, counted in every run."""
    by_cell: dict[Cell, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_cell[sample.cell].append(sample)
    cuts, first = {}, 0
    for cell in sorted(by_cell, key=str):
        known = np.sort(np.concatenate([sample.scores for sample in by_cell[cell]]))
        n_ranges = -(-sum(sample.n_scores for sample in by_cell[cell]) // most)
        edges = np.unique(known[np.arange(1, n_ranges) * len(known) // n_ranges])
        cuts[cell] = ScoreCut(first, edges)
        first += cuts[cell].n_ranges
    return cuts


def standings(extents: Iterable[Extent], curve_points: int) -> Mapping[int, Standing]:
    """Return where each range stands in its cell, by its number."""
    by_cell: dict[Cell, list[Extent]] = defaultdict(list)
    for extent in sorted(extents, key=lambda extent: extent.number):
        by_cell[extent.cell].append(extent)
    by_number = {}
    for ranges in by_cell.values():
        reached = np.cumsum([one.amounts for one in ranges], axis=0)
        grid = grid_of(sum(one.n_scores for one in ranges), curve_points)
        for one, until in zip(ranges, reached, strict=True):
            above = until - one.amounts
            by_number[one.number] = Standing(reached[-1], above, one is ranges[0], one is ranges[-1], grid)
    return by_number
