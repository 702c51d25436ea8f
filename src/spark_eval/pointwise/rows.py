"""What a row of predictions adds to the sums that metrics are made of. Each value is rounded once, no sum is.

Names of sums: ``rows`` counts rows; of probabilities corrected for sampling they end in ``'``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_eval.errors import DataError
from spark_eval.pointwise.task import Plan, Scores, Task
from spark_eval.pointwise.totals import Addend
from spark_eval.stats.exact import Floats, Ints, two_product

# What a sum of corrected probabilities is called behind its name.
CORRECTED: Final = "'"


@dataclass(frozen=True)
class Rows:
    """Sound rows: ``label`` (n,) is a number, or the place of a class; ``scores`` are one column, or one per
    class; ``weight`` (n,) is None where every row counts once."""

    label: Floats
    scores: Sequence[Floats]
    weight: Floats | None = None

    @property
    def score(self) -> Floats:
        """The only score."""
        return self.scores[0]

    def weighted(self, values: Floats) -> Floats:
        """Values times weights."""
        return values if self.weight is None else values * self.weight


def addends(rows: Rows, plan: Plan) -> Iterator[Addend]:
    """What the rows add to the sums that the plan needs.

    Raises DataError METRIC_OVERFLOW for numbers whose squares no double holds.
    """
    yield Addend("rows")
    match plan.task:
        case Task.BINARY:
            yield Addend("labels", rows.weight, rows.label.astype(np.int64), 2)
            for rate in plan.variants:
                yield from binary_addends(rows, plan, rate)
        case Task.MULTICLASS:
            yield from multiclass_addends(rows, plan)
        case Task.REGRESSION:
            yield from regression_addends(rows, plan)


def binary_addends(rows: Rows, plan: Plan, rate: float | None) -> Iterator[Addend]:
    """Of each label, how much lies at or above each threshold; losses; calibration bins."""
    mark = "" if rate is None else CORRECTED
    score = rows.score if rate is None else corrected(rows.score, rate)
    label = rows.label.astype(np.int64)
    if "flags" in plan.needs:
        size = len(plan.thresholds) + 1
        passed = np.zeros(len(score), dtype=np.int64)
        for threshold in plan.thresholds:
            passed += score >= threshold
        yield Addend(f"flags{mark}", rows.weight, label * size + passed, 2 * size)
    if "loss" in plan.needs:
        clipped = np.clip(score, plan.eps, 1 - plan.eps)
        loss = -np.log1p(-clipped)
        positive = label == 1
        loss[positive] = -np.log(clipped[positive])
        yield Addend(f"loss{mark}", rows.weighted(loss))
    if "errors" in plan.needs:
        error = np.abs(rows.label - score)
        yield Addend(f"error{mark}", rows.weighted(error))
        yield Addend(f"squares{mark}", rows.weighted(error * error))
    if "bins" in plan.needs:
        places = bins_of(score, plan.bins)
        yield Addend(f"bins{mark}", rows.weight, label * plan.bins + places, 2 * plan.bins)
        yield Addend(f"bin_scores{mark}", rows.weighted(score), places, plan.bins)


def multiclass_addends(rows: Rows, plan: Plan) -> Iterator[Addend]:
    """Of each class, how much there is, how much is predicted, how much of that rightly; losses."""
    n_classes = len(plan.classes)
    label = rows.label.astype(np.int64)
    # The first of equal probabilities.
    predicted = rows.score.astype(np.int64) if plan.scores is Scores.CLASS else np.argmax(rows.scores, axis=0)
    yield Addend("labels", rows.weight, label, n_classes)
    yield Addend("predicted", rows.weight, predicted, n_classes)
    yield Addend("right", rows.weighted((predicted == label).astype(np.float64)), label, n_classes)
    if "confusion" in plan.needs:
        yield Addend("confusion", rows.weight, label * n_classes + predicted, n_classes**2)
    if "loss" in plan.needs:
        of_label = np.array(rows.scores)[label, np.arange(len(label))]
        yield Addend("loss", rows.weighted(-np.log(np.clip(of_label, plan.eps, 1 - plan.eps))))


def regression_addends(rows: Rows, plan: Plan) -> Iterator[Addend]:
    """Weights, errors, their squares, their share of the label; labels and their squares, to the last bit."""
    ones = np.ones(len(rows.label))
    weight = ones if rows.weight is None else rows.weight
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(rows.label - rows.score)
        found = {"weight": weight, "error": error * weight, "squares": error * error * weight}
        if "shares" in plan.needs:
            is_zero = rows.label == 0
            found["shares"] = weight * np.where(
                is_zero, 0.0, error / np.abs(np.where(is_zero, 1.0, rows.label))
            )
            found["share_weight"] = np.where(is_zero, 0.0, weight)
            found["zero"] = is_zero.astype(np.float64)
        if "label_squares" in plan.needs:
            product, rest = two_product(weight, rows.label)
            square, square_rest = two_product(product, rows.label)
            found |= {"label": product, "label+": rest}
            found |= {"label_squares": square, "label_squares+": square_rest + rest * rows.label}
    for name, values in found.items():
        if not np.isfinite(values).all():
            message = "predictions: a label or score is too large for its square; check their units"
            raise DataError("METRIC_OVERFLOW", message)
        yield Addend(name, values)


def corrected(probabilities: Floats, rate: float) -> Floats:
    """p / (p + (1 - p) / w): what a model means that was trained on negatives sampled at rate w.

    One positive to four negatives, of which every second was kept, looks like one in three:

    >>> corrected(np.array([1 / 3, 0.0, 1.0]), 0.5).round(6).tolist()
    [0.2, 0.0, 1.0]

    Source: He et al., Practical lessons from predicting clicks on ads at Facebook, 2014.
    """
    return probabilities / (probabilities + (1 - probabilities) / rate)


def bins_of(probabilities: Floats, n_bins: int) -> Ints:
    """The bin of each probability: [0, 1/n), [1/n, 2/n), ..., [(n-1)/n, 1], edges as doubles.

    >>> bins_of(np.array([0.0, 0.1, 0.3, 0.7, 1.0]), 10).tolist()
    [0, 1, 3, 7, 9]
    """
    edges = np.arange(n_bins + 1) / n_bins
    places = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    places -= probabilities < edges[places]
    places += (probabilities >= edges[places + 1]) & (places < n_bins - 1)
    return places
