"""Split the scores of a cell into ranges that fit into memory, by quantiles of samples of its runs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_eval.predictions.worker.clusters import CellRows
from spark_eval.predictions.worker.ordered import Range, RangeOffset, ScoreRun, grid_of
from spark_eval.predictions.worker.totals import Cell
from spark_eval.statistics.exact import Floats, Ints

# A sample has every STEP-th score of a run.
STEP: Final = 1 << 12


@dataclass(frozen=True)
class Sample:
    """Sample of every STEP-th score, with the total number of scores."""

    cell: Cell
    scores: Floats
    n_scores: int

    @classmethod
    def of(cls, cell: Cell, scores: Floats) -> "Sample":
        """Sample scores, starting in the middle of the first STEP."""
        n_scores = len(scores)
        return cls(cell, scores[min(STEP, n_scores) // 2 :: STEP].copy(), n_scores)


@dataclass(frozen=True)
class ScoreRanges:
    """Ranges of a cell's scores, numbered from ``first``, best scores first.

    The ``edges`` between them are ascending; each belongs to the better range.
    """

    first: int
    edges: Floats

    @property
    def n_ranges(self) -> int:
        """Number of ranges."""
        return len(self.edges) + 1

    def parts_of_rows(self, rows: CellRows) -> Iterator[tuple[int, CellRows]]:
        """Split rows by range; yield the number of each range and its rows."""
        above = self.n_ranges - 1 - np.searchsorted(self.edges, rows.score, side="right")
        for index, part in rows.by_group(above, self.n_ranges):
            yield self.first + index, part

    def parts(self, run: ScoreRun) -> Iterator[tuple[int, ScoreRun]]:
        """Split a run by range; yield the number of each range and the run's scores in it."""
        offsets = [0, *np.searchsorted(run.scores, self.edges).tolist(), len(run.scores)]
        for number in range(self.n_ranges):
            start, end = offsets[number : number + 2]
            if start < end:
                yield self.first + self.n_ranges - 1 - number, run.part(start, end)


@dataclass(frozen=True)
class RangeSize:
    """Size of a range: the number of distinct scores, and the amounts (2, limbs) of both labels."""

    cell: Cell
    number: int
    n_scores: int
    amounts: Ints

    @classmethod
    def of(cls, part: Range) -> "RangeSize":
        """Measure a range."""
        return cls(part.cell, part.number, len(part.scores), part.amounts.sum(axis=0))


def score_ranges(samples: Iterable[Sample], most: int) -> dict[Cell, ScoreRanges]:
    """Return ranges of about ``most`` scores for each cell; a score counts once per run that has it."""
    by_cell: dict[Cell, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_cell[sample.cell].append(sample)
    ranges, first = {}, 0
    for cell in sorted(by_cell, key=str):
        sampled = np.sort(np.concatenate([sample.scores for sample in by_cell[cell]]))
        n_ranges = -(-sum(sample.n_scores for sample in by_cell[cell]) // most)
        edges = np.unique(sampled[np.arange(1, n_ranges) * len(sampled) // n_ranges])
        ranges[cell] = ScoreRanges(first, edges)
        first += ranges[cell].n_ranges
    return ranges


def range_offsets(sizes: Iterable[RangeSize], curve_points: int) -> Mapping[int, RangeOffset]:
    """Return by number the totals of each range's cell and the amounts above the range."""
    by_cell: dict[Cell, list[RangeSize]] = defaultdict(list)
    for size in sorted(sizes, key=lambda size: size.number):
        by_cell[size.cell].append(size)
    by_number = {}
    for ranges in by_cell.values():
        cumulative = np.cumsum([one.amounts for one in ranges], axis=0)
        grid = grid_of(sum(one.n_scores for one in ranges), curve_points)
        for one, until_here in zip(ranges, cumulative, strict=True):
            above = until_here - one.amounts
            by_number[one.number] = RangeOffset(
                cumulative[-1], above, one is ranges[0], one is ranges[-1], grid
            )
    return by_number
