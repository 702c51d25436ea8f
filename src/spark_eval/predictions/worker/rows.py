"""Rows of predictions: validation, and their contributions to the sums of the metrics.

Each contribution is rounded once; sums are exact. The sum ``rows`` counts rows. Names of sums over
probabilities that are corrected for sampling end in ``'``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans, to_numpy
from spark_eval.arrow.row_faults import (
    fill_null_with_false,
    first_fault_code,
    is_any_null,
    is_inexact_as_double,
)
from spark_eval.errors import DataError
from spark_eval.predictions.task import CORRECTED, Class, PredictionPlan, Scores, Task
from spark_eval.predictions.worker.totals import LARGEST_WEIGHT, LEAST_WEIGHT, Addend
from spark_eval.schema import FOLD, INEXACT, LABEL, MODEL, SCORE, SEGMENT_COLUMN, USER, WEIGHT, Fault
from spark_eval.statistics.exact import Floats, Ints, two_product
from spark_eval.statistics.logarithm import log, log1p

# Column of each class's probability, and of the length of an array of probabilities.
SCORE_COLUMN: Final = "score_{}"
SIZE: Final = "n_scores"
# Allowed deviation of a row's sum of probabilities from 1; 32-bit floats deviate.
DISTRIBUTION_TOLERANCE: Final = 1e-3


@dataclass(frozen=True)
class Rows:
    """Rows as numbers, NaN for null and for unknown classes.

    ``label`` (n,) is a number, or the index of a class; ``scores`` are one column (n,), or one per class;
    ``weight`` (n,) is None if every row counts once.
    """

    label: Floats
    scores: Sequence[Floats]
    weight: Floats | None = None

    @classmethod
    def of(cls, table: pa.Table, plan: PredictionPlan) -> "Rows":
        """Read the columns of a table."""
        names = [SCORE] if SCORE in table.column_names else map(SCORE_COLUMN.format, range(len(plan.classes)))
        scores = [table[name] for name in names]
        is_class = plan.scores is Scores.CLASS
        return cls(
            class_indices(table[LABEL], plan.classes) if plan.classes else doubles(table[LABEL]),
            # Adding 0.0 turns -0.0 into 0.0: they are the same score.
            [class_indices(one, plan.classes) if is_class else doubles(one) + 0.0 for one in scores],
            doubles(table[WEIGHT]) if WEIGHT in table.column_names else None,
        )

    @property
    def score(self) -> Floats:
        """First score column."""
        return self.scores[0]

    def weighted(self, values: Floats) -> Floats:
        """Return values times weights."""
        return values if self.weight is None else values * self.weight

    def take(self, indices: Ints) -> "Rows":
        """Return the rows with these indices."""
        weight = None if self.weight is None else self.weight[indices]
        return Rows(self.label[indices], [score[indices] for score in self.scores], weight)


def with_elements(table: pa.Table, n_classes: int) -> pa.Table:
    """Return rows with a column for each class in the place of an array of probabilities, and its length.

    >>> with_elements(pa.table({"score": [[0.25, 0.75], [1.0], None]}), 2).to_pydict()
    {'n_scores': [2, 1, None], 'score_0': [0.25, 1.0, None], 'score_1': [0.75, None, None]}
    """
    if SCORE not in table.column_names or not pa.types.is_list(table[SCORE].type):
        return table
    arrays = table[SCORE].combine_chunks()
    lengths, elements = pc.list_value_length(arrays), pc.list_flatten(arrays)
    n_elements = to_numpy(lengths.fill_null(0)).astype(np.int64)
    first = np.cumsum(n_elements) - n_elements
    columns = {
        SCORE_COLUMN.format(number): elements.take(pa.array(first + number, mask=n_elements <= number))
        for number in range(n_classes)
    }
    others = {name: table[name] for name in table.column_names if name != SCORE}
    return pa.table({**others, SIZE: lengths, **columns})


def doubles(column: pa.ChunkedArray) -> Floats:
    """Return a column of numbers as doubles, NaN for null."""
    return to_numpy(column.cast(pa.float64(), safe=False))


def class_indices(column: pa.ChunkedArray, classes: Sequence[Class]) -> Floats:
    """Return the index of each row's class (n,), NaN for unknown classes."""
    if isinstance(classes[0], str):
        return doubles(pc.index_in(column.cast(pa.string()), pa.array(classes, pa.string())))
    values = doubles(column)
    indices = np.full(len(values), np.nan)
    for index, one in enumerate(classes):
        indices[values == float(one)] = index
    return indices


def fault_codes(table: pa.Table, rows: Rows, plan: PredictionPlan) -> pa.Array | None:
    """Return the code of each invalid row (n,), null for valid rows; None if all rows are valid."""
    codes = first_fault_code(list(row_faults(table, rows, plan)))
    return None if codes is None else codes.cast(pa.string())


def row_faults(table: pa.Table, rows: Rows, plan: PredictionPlan) -> Iterator[tuple[Fault, Booleans]]:
    """Yield each code with the mask (n,) of its rows; the first code of a row counts."""
    folds = [SEGMENT_COLUMN.format(number) for number, name in enumerate(plan.segments) if name == FOLD]
    yield Fault.NULL_MODEL, is_any_null(table, MODEL)
    yield Fault.NULL_ID, is_any_null(table, USER, *folds)
    yield Fault.NULL_LABEL, is_any_null(table, LABEL)
    if plan.task is Task.REGRESSION:
        yield Fault.LABEL_NOT_FINITE, ~np.isfinite(rows.label)
    elif plan.scores is not Scores.CLASS:
        yield Fault.UNKNOWN_CLASS, np.isnan(rows.label)
    yield from score_faults(table, rows, plan)
    if rows.weight is not None:
        yield Fault.NULL_WEIGHT, is_any_null(table, WEIGHT)
        is_valid = (rows.weight == 0.0) | ((rows.weight >= LEAST_WEIGHT) & (rows.weight <= LARGEST_WEIGHT))
        yield Fault.WEIGHT_OUT_OF_RANGE, ~is_valid


def score_faults(table: pa.Table, rows: Rows, plan: PredictionPlan) -> Iterator[tuple[Fault, Booleans]]:
    """Yield each code of invalid scores with its mask (n,); for arrays, NO_DISTRIBUTION comes first."""
    is_null = is_any_null(table, *(name for name in table.column_names if name.startswith(SCORE)))
    if plan.scores is Scores.CLASS:
        yield Fault.NULL_SCORE, is_null
        yield Fault.UNKNOWN_CLASS, np.isnan(rows.label) | np.isnan(rows.score)
        return
    is_off = np.zeros(len(table), dtype=bool)
    if plan.task is Task.MULTICLASS:
        with np.errstate(invalid="ignore"):  # inf - inf
            is_off = ~is_null & ~(np.abs(sum(rows.scores) - 1) <= DISTRIBUTION_TOLERANCE)
    if SIZE in table.column_names:
        yield (
            Fault.NO_DISTRIBUTION,
            is_off | fill_null_with_false(pc.not_equal(table[SIZE], len(plan.classes))),
        )
    yield Fault.NULL_SCORE, is_null
    yield Fault.SCORE_NOT_FINITE, np.any([~np.isfinite(score) for score in rows.scores], axis=0)
    if plan.by_score or plan.by_user:
        yield Fault.SCORE_NOT_EXACT, is_inexact(table)
    if plan.scores is Scores.PROBABILITY:
        is_outside = [~((score >= 0.0) & (score <= 1.0)) for score in rows.scores]
        yield Fault.NOT_A_PROBABILITY, np.any(is_outside, axis=0)
    yield Fault.NO_DISTRIBUTION, is_off


def is_inexact(table: pa.Table) -> Booleans:
    """Return the mask (n,) of scores that may be equal to other scores only after rounding to doubles."""
    inexact = table[INEXACT] if INEXACT in table.column_names else is_inexact_as_double(table[SCORE])
    is_none = isinstance(inexact, pa.Scalar)
    return np.zeros(len(table), dtype=bool) if is_none else fill_null_with_false(inexact)


def addends(rows: Rows, plan: PredictionPlan) -> Iterator[Addend]:
    """Yield the contributions of the rows to the sums that the plan needs.

    Raise DataError METRIC_OVERFLOW for numbers whose squares overflow a double.
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


def binary_addends(rows: Rows, plan: PredictionPlan, rate: float | None) -> Iterator[Addend]:
    """Yield the weight of each label between thresholds, losses, errors and calibration bins."""
    mark = "" if rate is None else CORRECTED
    score = rows.score if rate is None else correct_for_sampling(rows.score, rate)
    label = rows.label.astype(np.int64)
    if "flags" in plan.needs:
        size = len(plan.thresholds) + 1
        passed = np.zeros(len(score), dtype=np.int64)
        for threshold in plan.thresholds:
            passed += score >= threshold
        yield Addend(f"flags{mark}", rows.weight, label * size + passed, 2 * size)
    if "loss" in plan.needs:
        clipped = np.clip(score, plan.eps, 1 - plan.eps)
        loss = -log1p(-clipped)
        positive = label == 1
        loss[positive] = -log(clipped[positive])
        yield Addend(f"loss{mark}", rows.weighted(loss))
    if "errors" in plan.needs:
        error = np.abs(rows.label - score)
        yield Addend(f"error{mark}", rows.weighted(error))
        yield Addend(f"squares{mark}", rows.weighted(error * error))
    if "bins" in plan.needs:
        bins = bins_of(score, plan.bins)
        yield Addend(f"bins{mark}", rows.weight, label * plan.bins + bins, 2 * plan.bins)
        yield Addend(f"bin_scores{mark}", rows.weighted(score), bins, plan.bins)


def multiclass_addends(rows: Rows, plan: PredictionPlan) -> Iterator[Addend]:
    """Yield the weight of labels, predictions and correct predictions per class, and losses."""
    n_classes = len(plan.classes)
    label = rows.label.astype(np.int64)
    # argmax takes the first of equal probabilities.
    predicted = rows.score.astype(np.int64) if plan.scores is Scores.CLASS else np.argmax(rows.scores, axis=0)
    yield Addend("labels", rows.weight, label, n_classes)
    yield Addend("predicted", rows.weight, predicted, n_classes)
    yield Addend("right", rows.weighted((predicted == label).astype(np.float64)), label, n_classes)
    if "confusion" in plan.needs:
        yield Addend("confusion", rows.weight, label * n_classes + predicted, n_classes**2)
    if "loss" in plan.needs:
        of_label = np.array(rows.scores)[label, np.arange(len(label))]
        yield Addend("loss", rows.weighted(-log(np.clip(of_label, plan.eps, 1 - plan.eps))))


def regression_addends(rows: Rows, plan: PredictionPlan) -> Iterator[Addend]:
    """Yield weights, absolute, squared and relative errors; labels and their squares without rounding."""
    ones = np.ones(len(rows.label))
    weight = ones if rows.weight is None else rows.weight
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(rows.label - rows.score)
        by_name = {"weight": weight, "error": error * weight, "squares": error * error * weight}
        if "shares" in plan.needs:
            is_zero = rows.label == 0
            by_name["shares"] = weight * np.where(
                is_zero, 0.0, error / np.abs(np.where(is_zero, 1.0, rows.label))
            )
            by_name["share_weight"] = np.where(is_zero, 0.0, weight)
            by_name["zero"] = is_zero.astype(np.float64)
        if "label_squares" in plan.needs:
            product, rest = two_product(weight, rows.label)
            square, square_rest = two_product(product, rows.label)
            by_name |= {"label": product, "label+": rest}
            by_name |= {"label_squares": square, "label_squares+": square_rest + rest * rows.label}
    for name, values in by_name.items():
        if not np.isfinite(values).all():
            message = "predictions: the square of a label or score overflows; check their units"
            raise DataError("METRIC_OVERFLOW", message)
        yield Addend(name, values)


def correct_for_sampling(probabilities: Floats, rate: float) -> Floats:
    """Return p / (p + (1 - p) / w), the true probability if the model was trained on negatives sampled at w.

    Of one positive and four negatives, half of the negatives are sampled: the model predicts one in three.

    >>> correct_for_sampling(np.array([1 / 3, 0.0, 1.0]), 0.5).round(6).tolist()
    [0.2, 0.0, 1.0]

    Source: He et al., Practical lessons from predicting clicks on ads at Facebook, 2014.
    """
    # Of the smallest rates 1 / w is infinite, and the limit of the result is 0.
    with np.errstate(over="ignore"):
        return probabilities / (probabilities + (1 - probabilities) / rate)


def bins_of(probabilities: Floats, n_bins: int) -> Ints:
    """Return the bin of each probability: [0, 1/n), [1/n, 2/n), ..., [(n-1)/n, 1], edges as doubles.

    >>> bins_of(np.array([0.0, 0.1, 0.3, 0.7, 1.0]), 10).tolist()
    [0, 1, 3, 7, 9]
    """
    edges = np.arange(n_bins + 1) / n_bins
    bins = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    bins -= probabilities < edges[bins]
    bins += (probabilities >= edges[bins + 1]) & (bins < n_bins - 1)
    return bins
