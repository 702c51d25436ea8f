"""Build the rows of the published predictions tables from exact sums."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.registry import Sums, Value
from spark_eval.predictions.task import (
    AUC,
    ECE_DEBIASED,
    REPLICATES,
    AucInterval,
    Clusters,
    PredictionPlan,
    ThresholdRule,
)
from spark_eval.predictions.worker.clusters import (
    N_OF_LABEL,
    N_USERS,
    CellSlopes,
    column_of,
    influence_name,
    key_of,
)
from spark_eval.predictions.worker.ordered import OperatingPoint, RangeResult, best_of_ranges, cost, grid_of
from spark_eval.predictions.worker.totals import Cell, Totals
from spark_eval.results.rows import fold_rows
from spark_eval.schema import ALL, CALIBRATION, ROC, ddl_of
from spark_eval.statistics.exact import Floats
from spark_eval.statistics.intervals import Summary, logit_interval, normal_interval, square_root
from spark_eval.statistics.slopes import SumKey

# Returns a value with its interval, from the value, its standard error and the number of users.
Interval = Callable[[Fraction | None, float | None, int], Summary]


class PredictionRow(NamedTuple):
    """Row of METRICS: the value of a metric of predictions in a segment.

    ``n_users`` counts the users in a mean over users, or those whose rows the standard error is of; None
    without users. ``n_undefined`` counts the users, or rows, without a value. ``k`` is None.
    """

    model: str | None
    metric: str
    k: int | None
    segment: str
    segment_value: str
    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n_users: int | None
    n_undefined: int | None
    conventions: str
    n_rows: int


METRICS: Final = ddl_of(PredictionRow)


class ThresholdRow(NamedTuple):
    """Row of ``thresholds``: a rule's threshold in a cell, with its results; None if no threshold fits."""

    model: str | None
    segment: str
    segment_value: str
    rule: str
    threshold: float | None = None
    precision: float | None = None
    recall: float | None = None
    flags: float | None = None
    cost: float | None = None
    tp: float | None = None
    fp: float | None = None
    fn: float | None = None
    tn: float | None = None
    conventions: str = ""


class CurveRow(NamedTuple):
    """Row of ``curves``: one point."""

    model: str | None
    curve: str
    x: float
    y: float
    threshold: float
    weight: float | None
    error_bound: float


class PredictionSumRow(NamedTuple):
    """Row of SUMS: an exact sum over the rows of a segment, ``total`` times 2^unit.

    ``metric`` is the name of the sum: ``labels_1``, ``loss``, ``flags_3``, ``bins_0``. Columns that only sums
    over users have are None.
    """

    model: str | None
    metric: str
    k: int | None
    segment: str
    segment_value: str
    n_users: int | None
    n_defined: int | None
    total: str
    squares: str | None
    weight: str | None
    unit: int
    conventions: str

    @classmethod
    def of(cls, cell: Cell, key: SumKey, number: Fraction, stamp: str) -> "PredictionSumRow":
        """Return the row of a sum, in the largest unit that makes it an integer."""
        bits = number.denominator.bit_length() - 1
        model, segment, segment_value = cell
        total = str(int(number * 2**bits))
        of_users = (None, None)
        return cls(
            *(model, column_of(key), None, segment, segment_value, *of_users),
            *(total, None, None, -bits, stamp),
        )

    @property
    def cell(self) -> Cell:
        """Model, segment and its value."""
        return (self.model, self.segment, self.segment_value)

    @property
    def key(self) -> SumKey:
        """Name of the sum, and its index."""
        return key_of(self.metric)

    @property
    def number(self) -> Fraction:
        """The sum."""
        return int(self.total) * Fraction(2) ** self.unit


THRESHOLDS: Final = ddl_of(ThresholdRow)
CURVES: Final = ddl_of(CurveRow)
SUMS: Final = ddl_of(PredictionSumRow)
# Needs of metrics whose sums of days do not add up to those of all rows: the order of all scores, or of the
# scores of each user, and replicates. And the names of these sums; those over users begin with ``users``.
NOT_ADDITIVE: Final = frozenset({"order", "users", REPLICATES})
SUMS_OF_ORDER: Final = ("pairs", "steps", "trapezoids", "users")


@dataclass(frozen=True)
class MeasuredPredictions:
    """Result of an evaluation of predictions: exact sums, and the results of the score ranges, by cell.

    ``influences`` are the sums of the users' influences on the values; empty without standard errors.
    ``replicates`` are the values of the sample and of its bootstrap replicates, by cell and metric.
    """

    plan: PredictionPlan
    totals: Totals
    ranges: Mapping[Cell, Sequence[RangeResult]]
    influences: Totals
    replicates: Mapping[Cell, Mapping[str, Floats]] = field(default_factory=dict, kw_only=True)

    @property
    def models(self) -> list[str]:
        """Names of the evaluated models."""
        return sorted({str(model) for model, _, _ in self.totals.sums})

    def sums_by_cell(self) -> Iterator[tuple[Cell, Sums]]:
        """Yield the sums of every cell, sorted by model, with the cell of all rows before the segments."""
        for cell in sorted(self.totals.sums, key=lambda cell: (str(cell[0]), cell[1] != ALL, *cell[1:])):
            yield cell, Sums(self.totals.of(cell), self.plan)

    @cached_property
    def values(self) -> dict[Cell, list[tuple[str, Value]]]:
        """Values of each cell, with the names of their metrics, in the order of the rows of ``metrics``."""
        return {
            cell: [
                (name, value if name != ECE_DEBIASED else self.debiased(cell, value))
                for name in self.plan.metrics
                for value in PREDICTION_METRICS[name].kernel(sums)
            ]
            for cell, sums in self.sums_by_cell()
        }

    def debiased(self, cell: Cell, value: Value) -> Value:
        """Return the value that follows from the replicates of a cell, with its interval."""
        drawn = self.replicates.get(cell, {}).get(ECE_DEBIASED + value.mark)
        if drawn is None:
            return value
        n_units, error, std_error, low, high = drawn.tolist()
        if not math.isfinite(error):
            return replace(value, summary=Summary(n=int(n_units)))
        return replace(value, value=error, summary=Summary(error, std_error, low, high, int(n_units)))

    @property
    def slopes(self) -> CellSlopes:
        """Slopes of each value of each cell."""
        return {cell: [value.slopes for _, value in values] for cell, values in self.values.items()}

    @cached_property
    def metric_rows(self) -> list[PredictionRow]:
        """Rows of METRICS: one per cell and value, and the means over folds."""
        rows = []
        for cell, values in self.values.items():
            n_rows = int(self.totals.of(cell)["rows"][0])
            influences = self.influences.of(cell) if cell in self.influences.sums else {}
            for index, (name, value) in enumerate(values):
                drawn = self.replicates.get(cell, {}).get(name + value.mark)
                mean = value.summary or summary_of(value, index, influences, drawn, self.interval_of(name))
                is_of_rows = self.plan.intervals is Clusters.ROW and name == ECE_DEBIASED
                has_users = value.summary is not None or (influences and self.plan.intervals is Clusters.USER)
                rows.append(
                    PredictionRow(
                        *(cell[0], value.name(name), None, *cell[1:]),
                        value=value.value,
                        std_error=mean.std_error,
                        ci_low=mean.ci_low,
                        ci_high=mean.ci_high,
                        n_users=mean.n if has_users and not is_of_rows else None,
                        n_undefined=value.n_undefined,
                        conventions=self.plan.stamp,
                        n_rows=n_rows,
                    )
                )
        return rows + fold_rows(rows, ("n_users", "n_undefined", "n_rows"))

    def interval_of(self, metric: str) -> Interval:
        """Return the function that makes the intervals of a metric."""
        is_logit = metric == AUC and self.plan.auc_interval is AucInterval.LOGIT
        return logit_interval if is_logit else normal_interval

    @cached_property
    def sum_rows(self) -> list[PredictionSumRow]:
        """Rows of SUMS: the sums of each cell that add up over days, in the order of their names."""
        return [
            PredictionSumRow.of(cell, (name, index), number, self.plan.stamp)
            for cell, sums in self.sums_by_cell()
            for name in sorted(sums.sums)
            if not name.startswith(SUMS_OF_ORDER)
            for index, number in enumerate(sums.sums[name])
        ]

    @cached_property
    def threshold_rows(self) -> list[ThresholdRow]:
        """Rows of THRESHOLDS: one per cell and rule."""
        return [
            threshold_row(
                cell, rule, [one for part in self.ranges[cell] if (one := part.best_points[number])], sums
            )
            for cell, sums in (self.sums_by_cell() if self.plan.rules else ())
            for number, rule in enumerate(self.plan.rules)
        ]

    @cached_property
    def curve_rows(self) -> list[CurveRow]:
        """Rows of CURVES: the points of each model's curves over all rows."""
        rows: list[CurveRow] = []
        for cell, sums in self.sums_by_cell() if self.plan.curves else ():
            if cell[1] == ALL:
                rows += points_of(cell[0], self.ranges[cell], self.plan.curve_points)
                rows += calibration(cell[0], sums)
        return rows


def metrics_by_model(rows: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Format the values over all rows as header and lines: a line per metric, a column per model."""
    values = [row for row in rows if row["segment"] == ALL]
    models = list(dict.fromkeys(row["model"] for row in values))
    cells = {(row["metric"], row["model"]): row["value"] for row in values}
    names = dict.fromkeys(row["metric"] for row in values)
    lines = [[name, *(six_digits(cells.get((name, model))) for model in models)] for name in names]
    return ["metric", *models], lines


def six_digits(value: float | None) -> str:
    """Format a value with six significant digits; "-" if it is None."""
    return "-" if value is None else f"{value:.6g}"


def summary_of(
    value: Value,
    index: int,
    influences: Mapping[str, Sequence[Fraction]],
    drawn: Floats | None = None,
    interval: Interval = normal_interval,
) -> Summary:
    """Return the standard error and interval of a value from the sums of the users' influences on it.

    ``drawn`` are the values of the sample and of its bootstrap replicates, if it has an interval by these.
    """
    if not influences:
        return Summary()
    n = int(influences[N_USERS][0])
    if drawn is not None and value.value is not None:
        return summary_of_replicates(value.value, drawn, n)
    if value.value is None or not value.slopes:
        return Summary(n=n)
    variance = variance_of(influences, index, len(value.slopes))
    # Influences and their squares are rounded: where nothing varies, the variance may be just below 0.
    error = None if variance is None else square_root(max(variance, Fraction(0)))
    return interval(Fraction(value.value), error, n)


def summary_of_replicates(value: float, drawn: Floats, n: int) -> Summary:
    """Return the standard deviation and the percentiles of the replicates, at least two.

    ``drawn`` begins with the value of the sample itself. It differs a little if replicates are measured in
    blocks of scores: they are moved by that difference.
    """
    first, replicates = drawn[0], drawn[1:]
    defined = replicates[np.isfinite(replicates)]
    if n < 2 or len(defined) < 2:
        return Summary(n=n)
    low, high = np.clip(np.quantile(defined, [0.025, 0.975]) + (value - first), 0.0, 1.0).tolist()
    return Summary(value, float(np.std(defined, ddof=1)), low, high, n)


def variance_of(influences: Mapping[str, Sequence[Fraction]], index: int, n_parts: int) -> Fraction | None:
    """Return the variance of a value; None for a single user.

    A value with two parts (AUC) has influences by label: each part varies over the users with rows of its
    label.

    Source: Deng, Knoblich, Lu, Applying the delta method in metric analytics, 2018; of AUC: Obuchowski,
    Nonparametric analysis of clustered ROC curve data, Biometrics 1997.
    """
    n = int(influences[N_USERS][0])
    if n_parts == 1:
        [influence], [square] = influences[influence_name(index, 0)], influences[influence_name(index, 0, 0)]
        return (square - influence * influence / n) * n / (n - 1) if n > 1 else None
    of_label = [int(influences[f"{N_OF_LABEL} {label}"][0]) for label in (0, 1)]
    if min(of_label) < 2:
        return None
    squares = (
        influences[influence_name(index, label, label)][0] * n_label / (n_label - 1)
        for label, n_label in enumerate(of_label)
    )
    return sum(squares, influences[influence_name(index, 0, 1)][0] * 2 * n / (n - 1))


def threshold_row(
    cell: Cell, rule: ThresholdRule, points: Sequence[OperatingPoint], sums: Sums
) -> ThresholdRow:
    """Return the row of ``thresholds`` with the best threshold by a rule."""
    negatives, positives = map(float, sums.of("labels"))
    chosen = best_of_ranges(rule, points, positives)
    if chosen is None:
        return ThresholdRow(*cell, rule=str(rule), conventions=sums.plan.stamp)
    tp, fp = chosen.tp, chosen.fp
    return ThresholdRow(
        *cell,
        rule=str(rule),
        threshold=chosen.threshold,
        precision=tp / (tp + fp) if tp + fp else None,
        recall=tp / positives if positives else None,
        flags=tp + fp,
        cost=cost(rule, tp, fp, positives),
        tp=tp,
        fp=fp,
        fn=positives - tp,
        tn=negatives - fp,
        conventions=sums.plan.stamp,
    )


def points_of(model: str | None, ranges: Sequence[RangeResult], most_points: int) -> Iterator[CurveRow]:
    """Yield the points of the ROC curve, then those of the P-R curve."""
    grid = grid_of(sum(part.n_scores for part in ranges), most_points)
    bound = 0.0 if grid is None else 1 / grid
    for curve in sorted((one for part in ranges for one in part.curves), key=lambda one: one.curve != ROC):
        for x, y, threshold in zip(curve.x.tolist(), curve.y.tolist(), curve.threshold.tolist(), strict=True):
            yield CurveRow(model, curve.curve, x, y, threshold, None, bound)


def calibration(model: str | None, sums: Sums) -> Iterator[CurveRow]:
    """Yield a point per nonempty bin: mean score, rate of positives, lower edge of the bin, weight."""
    n_bins = sums.plan.bins
    edges = (np.arange(n_bins) / n_bins).tolist()
    for mark, options in sums.variants() if "bins" in sums.plan.needs else ():
        weights, scores = sums.of(f"bins{mark}"), sums.of(f"bin_scores{mark}")
        name = Value(None, options).name(CALIBRATION)
        for edge, negatives, positives, score in zip(
            edges, weights[:n_bins], weights[n_bins:], scores, strict=True
        ):
            if weight := negatives + positives:
                mean, rate = float(score / weight), float(positives / weight)
                yield CurveRow(model, name, mean, rate, edge, float(weight), 0.0)
