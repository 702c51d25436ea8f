"""From exact sums to the rows of the tables that predictions publish."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from spark_eval.engine.summary import METRICS as LIST_METRICS
from spark_eval.engine.summary import MetricRow, fold_rows
from spark_eval.pointwise.metrics import POINTWISE
from spark_eval.pointwise.ordered import ROC, Candidate, Points, best, cost, grid_of
from spark_eval.pointwise.registry import Sums, Value
from spark_eval.pointwise.task import Plan
from spark_eval.pointwise.totals import Cell, Totals
from spark_eval.schema import ALL

METRICS: Final = f"{LIST_METRICS}, n_rows long"
THRESHOLDS: Final = (
    "model string, segment string, segment_value string, rule string, threshold double, precision double, "
    "recall double, flags double, cost double, tp double, fp double, fn double, tn double, conventions string"
)
CURVES: Final = (
    "model string, curve string, x double, y double, threshold double, weight double, error_bound double"
)
CALIBRATION: Final = "calibration"
Numbers = tuple[float | None, float | None, float | None, float | None, int | None, int]


def cells_of(totals: Totals) -> list[Cell]:
    """All cells: by model, all rows before the segments."""
    return sorted(totals.sums, key=lambda cell: (str(cell[0]), cell[1] != ALL, *cell[1:]))


def metric_rows(totals: Totals, plan: Plan) -> list[MetricRow]:
    """Rows of METRICS, one per cell and value.

    ``n_users`` counts the users in a mean over users, and is null for metrics of rows; ``n_undefined`` counts
    the rows, users or classes that are left out; ``n_rows`` those of the cell.
    """
    rows: list[MetricRow] = []
    for cell in cells_of(totals):
        sums = Sums(totals.of(cell), plan)
        for name in plan.metrics:
            for value in POINTWISE[name].kernel(sums):
                key = (cell[0], value.name(name), None, *cell[1:])
                row = (*key, *numbers(value), plan.stamp, sums.n_rows)
                rows.append(MetricRow(*row))
    return rows + fold_rows(rows)


def numbers(value: Value) -> Numbers:
    """value, std_error, ci_low, ci_high, n_users, n_undefined."""
    of_users = value.summary
    if of_users is None:
        return (value.value, None, None, None, None, value.n_undefined)
    interval = (of_users.std_error, of_users.ci_low, of_users.ci_high)
    return (value.value, *interval, of_users.n, value.n_undefined)


def threshold_rows(
    totals: Totals, plan: Plan, candidates: Mapping[Cell, Sequence[Sequence[Candidate | None]]]
) -> list[tuple[Any, ...]]:
    """Rows of THRESHOLDS, one per cell and rule; nulls where no threshold will do."""
    rows: list[tuple[Any, ...]] = []
    for cell in cells_of(totals) if plan.rules else []:
        negatives, positives = map(float, Sums(totals.of(cell), plan).of("labels"))
        for place, rule in enumerate(plan.rules):
            found = [one for of_range in candidates[cell] if (one := of_range[place]) is not None]
            chosen = best(rule, found, positives)
            numbers: tuple[float | None, ...] = (None,) * 9
            if chosen is not None:
                tp, fp = chosen.tp, chosen.fp
                precision = tp / (tp + fp) if tp + fp else None
                recall = tp / positives if positives else None
                errors = (tp, fp, positives - tp, negatives - fp)
                numbers = (
                    *(chosen.threshold, precision, recall, tp + fp, cost(rule, chosen, positives)),
                    *errors,
                )
            rows.append((*cell, str(rule), *numbers, plan.stamp))
    return rows


def curve_rows(
    totals: Totals, plan: Plan, points: Mapping[Cell, Sequence[Points]], n_scores: Mapping[Cell, int]
) -> list[tuple[Any, ...]]:
    """Rows of CURVES, of all rows of each model; of the calibration, bins with rows."""
    rows: list[tuple[Any, ...]] = []
    for cell in cells_of(totals) if plan.curves else []:
        if cell[1] == ALL:
            grid = grid_of(n_scores[cell], plan.curve_points)
            bound = 0.0 if grid is None else 1 / grid
            for curve in sorted(points[cell], key=lambda curve: curve.curve != ROC):  # stable
                columns = (curve.x.tolist(), curve.y.tolist(), curve.threshold.tolist())
                rows += [(cell[0], curve.curve, *point, None, bound) for point in zip(*columns, strict=True)]
            rows += [(cell[0], *row) for row in calibration(Sums(totals.of(cell), plan))]
    return rows


def calibration(sums: Sums) -> Iterator[tuple[Any, ...]]:
    """curve, x (mean score), y (rate of positives), threshold (the bin's lower edge), weight, error_bound."""
    n_bins = sums.plan.bins
    edges = np.arange(n_bins) / n_bins
    for mark, options in sums.variants() if "bins" in sums.plan.needs else []:
        weights, scores = sums.of(f"bins{mark}"), sums.of(f"bin_scores{mark}")
        name = Value(None, options).name(CALIBRATION)
        for edge, negatives, positives, score in zip(
            edges, weights[:n_bins], weights[n_bins:], scores, strict=True
        ):
            weight = negatives + positives
            if weight:
                rate = float(positives / weight)
                yield name, float(score / weight), rate, float(edge), float(weight), 0.0
