"""Metrics of the order of scores: AUC, average precision, curves, thresholds.

The rows of a cell are split into ranges of scores that fit into memory; ``RangeOffset`` has the amounts above
a range. Amounts of both labels (index 1: positive) are integer arrays (..., 2, limbs), so that true and false
positives do not depend on the partitioning of the rows. Values computed from them are rounded once and summed
exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_eval.arrow.codes import Array, run_starts
from spark_eval.predictions.task import (
    AUPRC,
    BLOCK,
    DRAW,
    PLACED,
    Clusters,
    Goal,
    PredictionPlan,
    ThresholdRule,
)
from spark_eval.predictions.worker.clusters import CellRows, concat_rows
from spark_eval.predictions.worker.replicates import blocks_of, row_hashes
from spark_eval.predictions.worker.totals import Cell, amounts_of, sum_by_score, to_doubles
from spark_eval.schema import PR, ROC
from spark_eval.statistics.exact import DigitSums, Floats, Ints, exact_sums

# Largest number of powers of two that the weight of flagged rows can span, plus one.
OCTAVES: Final = 32


@dataclass(frozen=True)
class ScoreRun:
    """Distinct scores (n,) of one cell and label, ascending, with the amounts (n, limbs) at each."""

    cell: Cell
    label: int
    scores: Floats
    amounts: Array

    def part(self, start: int, end: int) -> "ScoreRun":
        """Return a copy of the scores [start, end), so that only these are serialized."""
        return ScoreRun(self.cell, self.label, self.scores[start:end].copy(), self.amounts[start:end].copy())


@dataclass(frozen=True)
class Range:
    """Distinct scores (n,) of one range of a cell, best first, with their amounts (n, 2, limbs)."""

    cell: Cell
    number: int
    scores: Floats
    amounts: Ints

    @classmethod
    def of(cls, number: int, runs: Sequence[ScoreRun]) -> "Range":
        """Merge all runs of a range."""
        scores = np.concatenate([run.scores for run in runs])
        amounts = np.zeros((len(scores), 2, runs[0].amounts.shape[1]), dtype=np.int64)
        start = 0
        for run in runs:
            end = start + len(run.scores)
            amounts[start:end, run.label] = run.amounts
            start = end
        scores, amounts = sum_by_score(scores, amounts)
        return cls(runs[0].cell, number, scores[::-1], amounts[::-1])

    @property
    def distinct(self) -> "Range":
        """Distinct scores: the range itself."""
        return self


@dataclass(frozen=True)
class RowRange:
    """Rows of one range of a cell, worst first: in place of a ``Range`` if errors are computed."""

    number: int
    rows: CellRows

    @classmethod
    def of(cls, number: int, parts: Sequence[CellRows]) -> "RowRange":
        """Sort all rows of a range by score."""
        whole = concat_rows(parts)
        return cls(number, whole.take(np.argsort(whole.score)))

    @property
    def distinct(self) -> Range:
        """Distinct scores of the rows, with their amounts."""
        scores, label, weight = self.rows.score, self.rows.label, self.rows.weight
        starts = np.flatnonzero(run_starts(scores))
        if weight is None:
            n_rows = np.diff(np.append(starts, len(scores)))
            positives = np.add.reduceat(label, starts)
            amounts = np.stack([n_rows - positives, positives], axis=1)[..., np.newaxis]
        else:
            of_label = amounts_of(weight)[:, np.newaxis] * (label[:, np.newaxis] == [0, 1])[..., np.newaxis]
            amounts = np.add.reduceat(of_label, starts, axis=0)
        return Range(self.rows.cell, self.number, scores[starts][::-1], amounts[::-1])


def merge_range(number: int, parts: Sequence[ScoreRun | CellRows]) -> Range | RowRange:
    """Merge the runs, or the rows, of a range."""
    rows = [part for part in parts if isinstance(part, CellRows)]
    runs = [part for part in parts if isinstance(part, ScoreRun)]
    return RowRange.of(number, rows) if rows else Range.of(number, runs)


@dataclass(frozen=True)
class RangeOffset:
    """Amounts (2, limbs) of the whole cell, and of the scores above a range.

    ``is_first`` is true if no score lies above the range, ``is_last`` if none lies below it. ``grid`` is the
    resolution of a reduced curve; None: the curve has all points.
    """

    total: Ints
    above: Ints
    is_first: bool
    is_last: bool
    grid: int | None


class OperatingPoint(NamedTuple):
    """Threshold with the true and false positives at or above it."""

    threshold: float
    tp: float
    fp: float


@dataclass(frozen=True)
class CurvePoints:
    """CurvePoints of a curve, by descending threshold."""

    curve: str
    x: Floats
    y: Floats
    threshold: Floats


@dataclass(frozen=True)
class RangeResult:
    """Result of one range: exact sums, the best threshold for each rule, points of curves.

    A threshold is None if none of the range satisfies its rule.
    """

    cell: Cell
    number: int
    n_scores: int
    sums: dict[str, DigitSums]
    best_points: Sequence[OperatingPoint | None]
    curves: Sequence[CurvePoints]


def measure_range(
    part: Range, offset: RangeOffset, rules: Sequence[ThresholdRule], with_curves: bool
) -> RangeResult:
    """Compute sums, best thresholds and curves of a range."""
    above = offset.above[np.newaxis]
    flagged = np.concatenate([above, above + np.cumsum(part.amounts, axis=0)])
    fp, tp = to_doubles(flagged).T
    precision = np.divide(tp, tp + fp, out=np.zeros(len(tp)), where=tp + fp > 0)
    below = to_doubles(offset.total[0] - flagged[1:, 0])
    negatives, positives = to_doubles(part.amounts).T
    # As in Spark, the curve begins at (0, precision of the best score); without weight, that precision is 1.
    heights = np.where(tp + fp > 0, precision, 1.0)
    before = heights[:-1].copy()
    if offset.is_first:
        before[:1] = heights[1:2]
    sums = {
        "pairs": positives * (below + negatives / 2),
        "steps": positives * precision[1:],
        "trapezoids": positives * ((before + heights[1:]) / 2),
    }
    n_negatives, n_positives = to_doubles(offset.total).tolist()
    points: list[CurvePoints] = []
    if with_curves and n_negatives and n_positives:
        points = curves_of(part.scores, fp / n_negatives, tp / n_positives, tp + fp, precision, offset)
    return RangeResult(
        part.cell,
        part.number,
        len(part.scores),
        {name: exact_sums(values) for name, values in sums.items()},
        [best_threshold(rule, part.scores, tp[1:], fp[1:], n_positives) for rule in rules],
        points,
    )


def add_placements(rows: RowRange, offset: RangeOffset, plan: PredictionPlan) -> CellRows:
    """Return the rows of a range with their placements: shares of the rows of the other label.

    Rows also have what a bootstrap needs: their block on the P-R curve, and without users a hash.

    That of a positive is the share of negatives below it, that of a negative the share of positives above
    it; equal scores count half. Both average to the AUC.

    Source: DeLong, DeLong, Clarke-Pearson, Comparing the areas under correlated ROC curves, 1988.
    """
    part = rows.distinct
    flagged = offset.above[np.newaxis] + np.cumsum(part.amounts, axis=0)
    here, total = to_doubles(part.amounts), to_doubles(offset.total)
    below = to_doubles(offset.total[0] - flagged[:, 0])
    above = to_doubles(flagged[:, 1] - part.amounts[:, 1])
    numbers = np.stack([above + here[:, 1] / 2, below + here[:, 0] / 2])
    shares = np.divide(
        numbers, total[::-1, np.newaxis], out=np.zeros_like(numbers), where=total[::-1, np.newaxis] > 0
    )
    index = len(part.scores) - np.cumsum(run_starts(rows.rows.score))
    columns = {PLACED: shares[rows.rows.label, index]}
    if AUPRC in plan.bootstrapped:
        fp, tp = to_doubles(flagged).T
        blocks = blocks_of(tp, fp, float(total[1]), float(total.sum()))
        columns[BLOCK] = blocks[index].astype(np.int16)
    if plan.bootstrapped and plan.intervals is Clusters.ROW:
        columns[DRAW] = row_hashes(rows.rows)
    return rows.rows.with_columns(columns)


def best_of_ranges(
    rule: ThresholdRule, points: Sequence[OperatingPoint], positives: float
) -> OperatingPoint | None:
    """Return the best of the ranges' thresholds and infinity (no flags); None if none satisfies the rule."""
    falling = sorted([OperatingPoint(np.inf, 0.0, 0.0), *points], reverse=True)
    scores, tp, fp = np.array(falling).T
    return best_threshold(rule, scores, tp, fp, positives)


def best_threshold(
    rule: ThresholdRule, scores: Floats, tp: Floats, fp: Floats, positives: float
) -> OperatingPoint | None:
    """Return the best of descending thresholds; None if none satisfies the rule.

    Ties: flags take the lowest threshold, recall the lowest among those of highest precision, costs the
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
    return OperatingPoint(*(float(values[fitting[-1]]) for values in (scores, tp, fp)))


def cost(rule: ThresholdRule, tp: Any, fp: Any, positives: float) -> Any:
    """Return the cost of the errors, for one threshold or for arrays of them."""
    return rule.false_positive * fp + rule.false_negative * (positives - tp)


def curves_of(
    scores: Floats, fpr: Floats, tpr: Floats, flags: Floats, precision: Floats, offset: RangeOffset
) -> list[CurvePoints]:
    """Return the points of the ROC curve and the P-R curve of a range.

    ``scores`` has shape (n,). The other arrays, shape (n + 1,), start with the value above the range.

    A reduced curve has the first point in each cell of a grid. Every omitted point differs from one of these
    by less than 1 / grid in both coordinates. Precision cannot change faster than the number of flags grows,
    so its grid is logarithmic in the flags, in steps of less than 1 / grid.
    """
    in_roc = in_pr = np.ones(len(scores), dtype=bool)
    if offset.grid is not None:
        grid = offset.grid
        mantissa, exponent = np.frexp(flags)
        growth = exponent * (4 * grid) + np.floor(mantissa * 2 * grid)
        in_roc = changes(np.floor(fpr * grid)) | changes(np.floor(tpr * grid))
        in_pr = changes(np.floor(tpr * grid)) | changes(growth)
        if offset.is_last and len(scores):
            in_roc[-1] = in_pr[-1] = True
    return [
        CurvePoints(ROC, fpr[1:][in_roc], tpr[1:][in_roc], scores[in_roc]),
        CurvePoints(PR, tpr[1:][in_pr], precision[1:][in_pr], scores[in_pr]),
    ]


def changes(values: Floats) -> NDArray[np.bool_]:
    """Return the mask (n - 1,) of values (n,) that differ from their predecessor."""
    is_other: NDArray[np.bool_] = values[1:] != values[:-1]
    return is_other


def grid_of(n_scores: int, most_points: int) -> int | None:
    """Return the grid resolution that limits a curve to ``most_points``; None if no reduction is needed."""
    return None if n_scores <= most_points else most_points // (OCTAVES + 2)
