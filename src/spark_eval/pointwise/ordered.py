"""Everything that follows from the order of scores: AUC, average precision, curves, thresholds.

Rows of one cell are cut into ranges of scores, each of which fits into memory; ``Standing`` says what lies
above a range. Amounts of both labels (1: positive) are arrays (..., 2, limbs) of integers, so that every
threshold has the same true and false positives wherever the rows came from. What is computed of them is
rounded once and summed exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_eval.pointwise.task import Goal, ThresholdRule
from spark_eval.pointwise.totals import Cell, at_distinct, in_doubles
from spark_eval.stats.exact import ByPlace, Floats, Ints, exact_sums

ROC: Final = "roc"
PR: Final = "pr"
# Powers of two that flags can span, plus one.
OCTAVES: Final = 32


@dataclass(frozen=True)
class ScoreRun:
    """Ascending distinct scores of a cell's rows of one label, with the amount (n, limbs) at each."""

    cell: Cell
    label: int
    scores: Floats
    amounts: NDArray[Any]

    def part(self, start: int, end: int) -> "ScoreRun":
        """Return the scores between two places: a copy, so that nothing more travels."""
        return ScoreRun(self.cell, self.label, self.scores[start:end].copy(), self.amounts[start:end].copy())


@dataclass(frozen=True)
class Range:
    """The distinct scores of a part of a cell, best first, with their amounts (n, 2, limbs)."""

    cell: Cell
    number: int
    scores: Floats
    amounts: Ints

    @classmethod
    def of(cls, number: int, runs: Sequence[ScoreRun]) -> "Range":
        """Merge all runs of a part."""
        scores = np.concatenate([run.scores for run in runs])
        amounts = np.zeros((len(scores), 2, runs[0].amounts.shape[1]), dtype=np.int64)
        start = 0
        for run in runs:
            end = start + len(run.scores)
            amounts[start:end, run.label] = run.amounts
            start = end
        scores, amounts = at_distinct(scores, amounts)
        return cls(runs[0].cell, number, scores[::-1], amounts[::-1])


@dataclass(frozen=True)
class Standing:
    """Amounts (2, limbs): all of the cell's, and those with better scores than a range has.

    ``is_first`` and ``is_last`` say that no score lies above or below it, whatever it weighs; ``grid`` is the
    resolution of a reduced curve, None: whole.
    """

    total: Ints
    above: Ints
    is_first: bool
    is_last: bool
    grid: int | None


class Candidate(NamedTuple):
    """A threshold, with what is flagged at or above it."""

    threshold: float
    tp: float
    fp: float


@dataclass(frozen=True)
class Points:
    """Points of a curve, in the order of falling thresholds."""

    curve: str
    x: Floats
    y: Floats
    threshold: Floats


@dataclass(frozen=True)
class Ordered:
    """What a range adds to its cell: exact sums, a candidate for each rule, points of curves."""

    cell: Cell
    number: int
    n_scores: int
    sums: dict[str, ByPlace]
    candidates: Sequence[Candidate | None]
    points: Sequence[Points]


def measured_range(
    part: Range, standing: Standing, rules: Sequence[ThresholdRule], with_curves: bool
) -> Ordered:
    """Return what a range gives, where it stands."""
    above = standing.above[np.newaxis]
    flagged = np.concatenate([above, above + np.cumsum(part.amounts, axis=0)])
    fp, tp = in_doubles(flagged).T
    precision = np.divide(tp, tp + fp, out=np.zeros(len(tp)), where=tp + fp > 0)
    below = in_doubles(standing.total[0] - flagged[1:, 0])
    negatives, positives = in_doubles(part.amounts).T
    # As for Spark, a curve begins at (0, the precision of its best score), which is 1 where nothing weighs.
    heights = np.where(tp + fp > 0, precision, 1.0)
    before = heights[:-1].copy()
    if standing.is_first:
        before[:1] = heights[1:2]
    sums = {
        "pairs": positives * (below + negatives / 2),
        "steps": positives * precision[1:],
        "trapezoids": positives * ((before + heights[1:]) / 2),
    }
    n_negatives, n_positives = in_doubles(standing.total).tolist()
    points: list[Points] = []
    if with_curves and n_negatives and n_positives:
        points = curves(part.scores, fp / n_negatives, tp / n_positives, tp + fp, precision, standing)
    return Ordered(
        part.cell,
        part.number,
        len(part.scores),
        {name: exact_sums(values) for name, values in sums.items()},
        [best_of(rule, part.scores, tp[1:], fp[1:], n_positives) for rule in rules],
        points,
    )


def best(rule: ThresholdRule, candidates: Sequence[Candidate], positives: float) -> Candidate | None:
    """Return the best of all ranges and of flagging nothing (threshold infinity); None where none will do."""
    falling = sorted([Candidate(np.inf, 0.0, 0.0), *candidates], reverse=True)
    scores, tp, fp = np.array(falling).T
    return best_of(rule, scores, tp, fp, positives)


def best_of(
    rule: ThresholdRule, scores: Floats, tp: Floats, fp: Floats, positives: float
) -> Candidate | None:
    """Return the best of falling thresholds; None where none will do.

    Of equally good ones: for flags the lowest, for recall the lowest of the highest precision, for costs the
    highest.
    """
    flags = tp + fp
    match rule.goal:
        case Goal.FLAGS:
            fitting = np.flatnonzero(flags <= rule.limit)
        case Goal.COST:
            fitting = np.argmin(cost(rule, tp, fp, positives), keepdims=True)
        case Goal.RECALL:
            recall = tp / positives if positives else np.full(len(tp), -np.inf)
            fitting = np.flatnonzero((recall >= rule.limit) & (flags > 0))
            precision = tp[fitting] / flags[fitting]
            fitting = fitting[precision == precision.max(initial=0.0)]
    if not len(fitting):
        return None
    return Candidate(*(float(values[fitting[-1]]) for values in (scores, tp, fp)))


def cost(rule: ThresholdRule, tp: Any, fp: Any, positives: float) -> Any:
    """Return what the errors cost at one threshold, or at several."""
    return rule.false_positive * fp + rule.false_negative * (positives - tp)


def curves(
    scores: Floats, fpr: Floats, tpr: Floats, flags: Floats, precision: Floats, standing: Standing
) -> list[Points]:
    """Return the points of the ROC and the P-R curve; all arrays but the scores begin with what lies above.

    A reduced curve keeps the first point in each cell of a grid, so that a point left out differs from one
    that is kept by less than 1 / grid in both coordinates. The precision can change no faster than the flags
    grow: its grid follows their logarithm, in steps of less than 1 / grid.
    """
    in_roc = in_pr = np.ones(len(scores), dtype=bool)
    if standing.grid is not None:
        grid = standing.grid
        mantissa, exponent = np.frexp(flags)
        growth = exponent * (4 * grid) + np.floor(mantissa * 2 * grid)
        in_roc = moves(np.floor(fpr * grid)) | moves(np.floor(tpr * grid))
        in_pr = moves(np.floor(tpr * grid)) | moves(growth)
        if standing.is_last and len(scores):
            in_roc[-1] = in_pr[-1] = True
    return [
        Points(ROC, fpr[1:][in_roc], tpr[1:][in_roc], scores[in_roc]),
        Points(PR, tpr[1:][in_pr], precision[1:][in_pr], scores[in_pr]),
    ]


def moves(values: Floats) -> NDArray[np.bool_]:
    """Return where a value differs from the one before; one shorter."""
    is_other: NDArray[np.bool_] = values[1:] != values[:-1]
    return is_other


def grid_of(n_scores: int, most_points: int) -> int | None:
    """Return the resolution at which a curve of so many scores keeps to so many points; None: all fit."""
    return None if n_scores <= most_points else most_points // (OCTAVES + 2)
