"""Everything that follows from the order of scores: AUC, average precision, curves, thresholds.

Rows of one cell are cut into ranges of scores, each of which fits into memory; ``Standing`` says what lies
above a range. Within one, amounts are summed as integers, so that every threshold has the same true and
false positives wherever the rows came from; what is computed of them is rounded once and summed exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_eval.pointwise.amounts import at_distinct, in_doubles
from spark_eval.pointwise.task import Goal, Rule
from spark_eval.pointwise.totals import Cell
from spark_eval.stats.exact import ByPlace, Floats, Ints, exact_sums

ROC: Final = "roc"
PR: Final = "pr"
# Powers of two that flags can span, plus one.
OCTAVES: Final = 32


@dataclass(frozen=True)
class Run:
    """Ascending distinct scores of a cell's rows of one label (1: positive), with the amount at each."""

    cell: Cell
    label: int
    scores: Floats
    amounts: Ints

    def part(self, start: int, end: int) -> "Run":
        """The scores between two places; a copy, so that nothing more travels."""
        return Run(self.cell, self.label, self.scores[start:end].copy(), self.amounts[start:end].copy())


@dataclass(frozen=True)
class Range:
    """The distinct scores of a part of a cell, best first, with the amounts of both labels (n, limbs)."""

    cell: Cell
    number: int
    scores: Floats
    negatives: Ints
    positives: Ints

    @classmethod
    def of(cls, cell: Cell, number: int, runs: Sequence[Run], n_limbs: int) -> "Range":
        """All runs of a part together."""
        found = [merged([run for run in runs if run.label == label], n_limbs) for label in (0, 1)]
        scores = np.union1d(found[0][0], found[1][0])
        spread = []
        for known, amounts in found:
            everywhere = np.zeros((len(scores), n_limbs), dtype=np.int64)
            everywhere[np.searchsorted(scores, known)] = amounts
            spread.append(everywhere[::-1])
        return cls(cell, number, scores[::-1], *spread)


@dataclass(frozen=True)
class Standing:
    """Amounts (limbs) of both labels: all of the cell's, and those with better scores than a range has.

    ``is_first`` and ``is_last`` say that no score lies above or below it, whatever it weighs; ``grid`` is the
    resolution of a reduced curve, None: whole.
    """

    negatives: Ints
    positives: Ints
    negatives_above: Ints
    positives_above: Ints
    is_first: bool
    is_last: bool
    grid: int | None


@dataclass(frozen=True)
class Candidate:
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
    sums: dict[str, ByPlace]
    candidates: Sequence[Candidate | None]
    points: Sequence[Points]


def merged(runs: Sequence[Run], n_limbs: int) -> tuple[Floats, Ints]:
    """Ascending distinct scores of several runs, with their amounts."""
    scores = np.concatenate([np.empty(0), *(run.scores for run in runs)])
    amounts = np.concatenate(
        [np.empty((0, n_limbs), dtype=np.int64), *(run.amounts.astype(np.int64) for run in runs)]
    )
    return at_distinct(scores, amounts)


def ordered(part: Range, standing: Standing, rules: Sequence[Rule], with_curves: bool) -> Ordered:
    """What a range gives, where it stands."""
    flagged = {
        label: np.vstack([above, above + np.cumsum(amounts, axis=0)])
        for label, above, amounts in (
            (0, standing.negatives_above, part.negatives),
            (1, standing.positives_above, part.positives),
        )
    }
    fp, tp = (in_doubles(flagged[label]) for label in (0, 1))
    precision = np.divide(tp, tp + fp, out=np.zeros(len(tp)), where=tp + fp > 0)
    below = in_doubles(standing.negatives - flagged[0][1:])
    negatives, positives = in_doubles(part.negatives), in_doubles(part.positives)
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
    n_negatives, n_positives = (
        float(in_doubles(amounts[np.newaxis])[0]) for amounts in (standing.negatives, standing.positives)
    )
    points: list[Points] = []
    if with_curves and n_negatives and n_positives:
        points = curves(part.scores, fp / n_negatives, tp / n_positives, tp + fp, precision, standing)
    return Ordered(
        part.cell,
        part.number,
        {name: exact_sums(values) for name, values in sums.items()},
        [candidate(rule, part.scores, tp[1:], fp[1:], n_positives) for rule in rules],
        points,
    )


def candidate(rule: Rule, scores: Floats, tp: Floats, fp: Floats, positives: float) -> Candidate | None:
    """The best threshold of a range; None where none will do. Of equally good ones: for flags the lowest, for
    recall the lowest of the highest precision, for costs the highest."""
    if rule.goal is Goal.FLAGS:
        fitting = np.flatnonzero(tp + fp <= rule.limit)
        return chosen(scores, tp, fp, fitting[-1]) if len(fitting) else None
    if rule.goal is Goal.COST:
        cost = rule.false_positive * fp + rule.false_negative * (positives - tp)
        return chosen(scores, tp, fp, np.argmin(cost))
    recall = tp / positives if positives else np.full(len(tp), -np.inf)
    fitting = np.flatnonzero((recall >= rule.limit) & (tp + fp > 0))
    if not len(fitting):
        return None
    precision = tp[fitting] / (tp + fp)[fitting]
    return chosen(scores, tp, fp, fitting[np.flatnonzero(precision == precision.max())[-1]])


def chosen(scores: Floats, tp: Floats, fp: Floats, place: np.intp) -> Candidate:
    """The threshold at a place."""
    return Candidate(float(scores[place]), float(tp[place]), float(fp[place]))


def best(rule: Rule, candidates: Sequence[Candidate], positives: float) -> Candidate | None:
    """The best of all ranges and of flagging nothing (threshold infinity); None where none will do."""
    nothing = Candidate(np.inf, 0.0, 0.0)
    if rule.goal is Goal.FLAGS:
        return min([nothing, *candidates], key=lambda one: one.threshold)
    if rule.goal is Goal.COST:
        return min([nothing, *candidates], key=lambda one: (cost(rule, one, positives), -one.threshold))
    return min(candidates, key=lambda one: (-one.tp / (one.tp + one.fp), one.threshold), default=None)


def cost(rule: Rule, one: Candidate, positives: float) -> float:
    """What the errors at a threshold cost."""
    return rule.false_positive * one.fp + rule.false_negative * (positives - one.tp)


def curves(
    scores: Floats, fpr: Floats, tpr: Floats, flags: Floats, precision: Floats, standing: Standing
) -> list[Points]:
    """The points of the ROC and the P-R curve; all arrays but the scores begin with what lies above.

    A reduced curve keeps the first point in each cell of a grid, so that a point left out differs from one
    that is kept by less than 1 / grid in both coordinates. The precision can change no faster than the flags
    grow: its grid follows their logarithm, in steps of less than 1 / grid.
    """
    kept_roc = kept_pr = np.ones(len(scores), dtype=bool)
    if standing.grid is not None:
        grid = standing.grid
        mantissa, exponent = np.frexp(flags)
        growth = exponent * (4 * grid) + np.floor(mantissa * 2 * grid)
        kept_roc = moves(np.floor(fpr * grid)) | moves(np.floor(tpr * grid))
        kept_pr = moves(np.floor(tpr * grid)) | moves(growth)
        if standing.is_last and len(scores):
            kept_roc[-1] = kept_pr[-1] = True
    return [
        Points(ROC, fpr[1:][kept_roc], tpr[1:][kept_roc], scores[kept_roc]),
        Points(PR, tpr[1:][kept_pr], precision[1:][kept_pr], scores[kept_pr]),
    ]


def moves(values: Floats) -> np.ndarray:
    """Where a value differs from the one before; one shorter."""
    found: np.ndarray = values[1:] != values[:-1]
    return found


def grid_of(n_scores: int, most_points: int) -> int | None:
    """The resolution at which a curve of so many distinct scores keeps to so many points; None: all fit."""
    return None if n_scores <= most_points else most_points // (OCTAVES + 2)
