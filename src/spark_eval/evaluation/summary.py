"""Rows of the tables ``sums`` and ``metrics``, computed from exact sums and from counts of items."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import add
from typing import Any, Final, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Booleans
from spark_eval.arrow.messages import sum_equal_keys
from spark_eval.errors import DataError
from spark_eval.evaluation.plan import ListWeight, Plan, filled_column
from spark_eval.evaluation.worker.items.attributes import ItemAttributes
from spark_eval.evaluation.worker.items.counts import (
    CELL,
    COUNTED,
    CUT,
    IS_LISTED,
    IS_TRAINED,
    ITEM_BITS,
    SLOT_BITS,
)
from spark_eval.evaluation.worker.lists import NOBODY, ColumnSums, SegmentCell
from spark_eval.kernels.beyond.catalog import GroupWeights, ItemCounts
from spark_eval.kernels.columns import weighted
from spark_eval.kernels.values import MetricValue
from spark_eval.schema import ALL, FOLD, GROUP, ddl_of
from spark_eval.statistics.differences import RatioSums
from spark_eval.statistics.intervals import LowHigh, Summary, nearest_double, normal_interval, summarise

# Powers of the unit for total, squares, weight, products and squares of weights.
POWERS: Final = (1, 2, 1, 2, 2)


# model, metric, k, segment, segment_value, conventions
Key = tuple[str, str, int | None, str, str, str]
# The key without conventions, and the ends of an interval.
MeanKey = tuple[str, str, int | None, str, str]


class SumRow(NamedTuple):
    """Row of SUMS: exact sums over the users of a segment; the mean is computed from them.

    ``n_defined`` of the ``n_users`` have a value. The sum of the values is ``total`` times 2^unit, of their
    squares ``squares`` times 4^unit. For a weighted mean, ``total`` sums weight * value and ``squares`` its
    squares; ``weight`` times 2^unit is the sum of the weights. Times 4^unit, ``products`` sums weight * value
    * weight, ``weight_squares`` the squares of the weights.

    If users have a list per request, the mean over requests is such a weighted mean: ``total`` sums the
    users' totals, ``weight`` their numbers of lists. ``n_requests`` counts the lists, and
    ``n_requests_defined`` those with a value; both are null otherwise.

    If models have repeats, each has rows of its own, named by ``repeat``. A row without one sums over users
    and repeats: ``total`` times 2^unit is the sum of all values, ``squares`` times 4^unit that of the squares
    of the users' totals, and ``weight`` the number of values, or the sum of their weights. Rows of a mean of
    one value over all repeats, such as ``pass_all``, are like those without repeats.
    """

    model: str
    metric: str
    k: int | None
    segment: str
    segment_value: str
    n_users: int
    n_defined: int
    total: str
    squares: str | None
    weight: str | None
    unit: int
    conventions: str
    products: str | None = None
    weight_squares: str | None = None
    n_requests: int | None = None
    n_requests_defined: int | None = None
    repeat: str | None = None

    @classmethod
    def of(
        cls,
        key: Key,
        n_users: int,
        n_defined: int,
        sums: Sequence[Fraction | None],
        n_requests: Sequence[int | None] = (None, None),
    ) -> "SumRow":
        """Return a row of exact sums, in the largest unit that makes all of them integers."""
        unit = -max(
            -(-(number.denominator.bit_length() - 1) // power)
            for number, power in zip(sums, POWERS, strict=True)
            if number is not None
        )
        total, squares, weight, *of_ratio = (
            None if number is None else str(int(number * 2 ** (-unit * power)))
            for number, power in zip(sums, POWERS, strict=True)
        )
        products, weight_squares = of_ratio
        of_mean = (unit, key[5], products, weight_squares)
        row = cls(*key[:5], n_users, n_defined, total or "0", squares, weight, *of_mean)
        return row._replace(n_requests=n_requests[0], n_requests_defined=n_requests[1])

    @property
    def key(self) -> Key:
        """Values that identify the row."""
        return (*self[:5], self.conventions)

    @property
    def sums(self) -> list[Fraction | None]:
        """Total, squares, weight, products and squares of weights as numbers."""
        texts = (self.total, self.squares, self.weight, self.products, self.weight_squares)
        digits = zip(texts, POWERS, strict=True)
        return [None if text is None else int(text) * Fraction(2) ** (self.unit * n) for text, n in digits]


class MetricRow(NamedTuple):
    """Row of METRICS: the value of a metric for a model in a segment.

    ``n_users`` counts the users in the mean, ``n_undefined`` those without a value. If users have a list per
    request, ``n_requests`` counts the lists in the mean, and ``n_undefined`` the lists without a value.

    If models have repeats, the mean is over users and ``n_repeats`` repeats, and ``std_error`` has both
    parts. ``std_repeat`` is the standard deviation of the repeats' means, and ``repeat_share`` the share of
    the variance that the repeats add to the variance of the users.
    """

    model: str
    metric: str
    k: int | None
    segment: str
    segment_value: str
    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n_users: int
    n_undefined: int
    conventions: str
    n_requests: int | None = None
    n_repeats: int | None = None
    std_repeat: float | None = None
    repeat_share: float | None = None

    @classmethod
    def of_mean(cls, sums: SumRow, intervals: Mapping[MeanKey, LowHigh] | None = None) -> Self:
        """Return the row of a mean over users; ``intervals`` replace the one by its standard error."""
        return cls.of_summary(sums, mean_of(sums, intervals))

    @classmethod
    def of_summary(cls, sums: SumRow, mean: Summary) -> Self:
        """Return the row of a mean that was computed from these sums."""
        n_all, n_defined = sums.n_users, mean.n
        if sums.n_requests is not None and sums.n_requests_defined is not None:
            n_all, n_defined = sums.n_requests, sums.n_requests_defined
        return cls(
            *sums[:5],
            value=mean.value,
            std_error=mean.std_error,
            ci_low=mean.ci_low,
            ci_high=mean.ci_high,
            n_users=mean.n,
            n_undefined=n_all - n_defined,
            conventions=sums.conventions,
            n_requests=sums.n_requests_defined,
        )

    @classmethod
    def of_run(cls, key: Key, value: float, n_users: int) -> Self:
        """Return the row of a metric of the whole run, without values per user; NaN means undefined."""
        shown = None if math.isnan(value) else value
        return cls(*key[:5], shown, None, None, None, n_users, 0, key[5])


AnyRow = TypeVar("AnyRow", SumRow, MetricRow)
SUMS: Final = ddl_of(SumRow)
METRICS: Final = ddl_of(MetricRow)


def sum_rows(
    totals: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    models: Sequence[str],
    metrics: Sequence[MetricValue],
    stamp: str,
) -> list[SumRow]:
    """Return a row per model, segment and metric value from the sums of ``worker.lists.merge_sums``.

    A model without users in the mean has sums over 0 users. Raises DataError METRIC_OVERFLOW for values too
    large for a double.
    """
    rows = []
    for cell, value in product(cells_of_models(totals, models), metrics):
        (model, segment, segment_value), of_cell = cell, totals.get(cell, {})
        sums = of_cell.get(value.column, NOBODY)
        if sums.n_infinite:
            raise overflow(value.column)
        users = (sums.n_users, sums.n_defined)
        key = (model, value.name, value.k, segment, segment_value, stamp)
        rows.append(SumRow.of(key, *users, (sums.total, sums.squares, None, None, None)))
        for name, weight in zip(value.weights, value.columns[1:], strict=True):
            own, both = (of_cell.get(column, NOBODY) for column in (weight, weighted(value, weight)))
            key = (model, name, value.k, segment, segment_value, stamp)
            of_ratio = (both.total, both.squares, own.total, both.products, own.squares)
            rows.append(SumRow.of(key, *users, of_ratio))
    return rows


def request_sum_rows(
    lists: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    users: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    models: Sequence[str],
    plan: Plan,
    metrics: Sequence[MetricValue],
) -> list[SumRow]:
    """Return the rows of ``sum_rows`` for users with a list per request, from sums over lists and over users.

    A mean over requests is a ratio of the users' totals and weights; totals are those of the lists, exactly.
    """
    rows = []
    for cell, value in product(cells_of_models(lists, models), metrics):
        (model, segment, segment_value), of_lists, of_users = cell, lists.get(cell, {}), users.get(cell, {})
        alone = of_lists.get(value.column, NOBODY)
        if alone.n_infinite:
            raise overflow(value.column)
        means = {value.name: (value.column, alone.total, Fraction(alone.n_defined))}
        for name, weight in zip(value.weights, value.columns[1:], strict=True):
            both, own = (of_lists.get(column, NOBODY) for column in (weighted(value, weight), weight))
            means[name] = (weighted(value, weight), both.total, own.total)
        for name, (column, total, weight_total) in means.items():
            own = of_users.get(column, NOBODY)
            is_mean = plan.weight is ListWeight.USERS and name == value.name
            key = (model, name, value.k, segment, segment_value, plan.stamp)
            rows.append(request_sum_row(key, alone, own, None if is_mean else (total, weight_total)))
    return rows


def request_sum_row(
    key: Key, of_lists: ColumnSums, of_users: ColumnSums, ratio: tuple[Fraction, Fraction] | None
) -> SumRow:
    """Return the row of a mean over lists by request: the ``ratio`` of two totals, or the mean over users."""
    if ratio is None:
        exact: list[Fraction | None] = [of_users.total, of_users.squares, None, None, None]
    else:
        total, weight = ratio
        exact = [total, of_users.squares, weight, of_users.products, of_users.weight_squares]
    n_lists = (of_lists.n_users, of_lists.n_defined)
    return SumRow.of(key, of_users.n_users, of_users.n_defined, exact, n_lists)


def run_rows(
    plan: Plan,
    histograms: Sequence[pa.Table],
    attributes: ItemAttributes,
    totals: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    models: Sequence[str],
) -> list[MetricRow]:
    """Return the rows of METRICS of the metrics of a whole run, in each cell.

    ``totals`` are the sums of ``means.added``; they have the numbers of users.
    """
    of_cells = counts_by_cell(histograms)
    rows = []
    for cell in cells_of_models(totals, models):
        for value in plan.of_run:
            users = totals.get(cell, {}).get(filled_column(value.k), NOBODY)
            counts = item_counts(
                of_cells.get((*cell, plan.run_cuts.index(value.k)), []), attributes, cell, users
            )
            key = (cell[0], value.name, value.k, *cell[1:], plan.stamp)
            rows.append(MetricRow.of_run(key, value.of_run(counts, plan.conventions), users.n_users))
    return rows


def counts_by_cell(histograms: Sequence[pa.Table]) -> dict[tuple[Any, ...], list[tuple[int, ...]]]:
    """Return sorted tuples of n_lists, bits, n_items and slots (if counted), by cell and cutoff."""
    by_cell: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    if not histograms:
        return by_cell
    added = sum_equal_keys(histograms, [*CELL, CUT, COUNTED[0], ITEM_BITS])
    for model, segment, value, cut, *counts in zip(*added.to_pydict().values(), strict=True):
        by_cell.setdefault((model, segment, value, cut), []).append(tuple(counts))
    return {cell: sorted(rows) for cell, rows in by_cell.items()}


def item_counts(
    rows: Sequence[tuple[int, ...]], attributes: ItemAttributes, cell: SegmentCell, users: ColumnSums
) -> ItemCounts:
    """Return the counts of a cell as input of the kernels."""
    width = len(rows[0]) if rows else 3
    n_lists, bits, n_items, *parts = np.array(rows, dtype=np.int64).reshape(-1, width).T
    high, low = (part.tolist() for part in parts or [np.zeros_like(n_lists)] * 2)
    both = zip(high, low, strict=True)
    slots = [math.ldexp((one << SLOT_BITS) + other, -2 * SLOT_BITS) for one, other in both]
    return ItemCounts(
        n_lists=n_lists,
        n_items=n_items,
        is_listed=bits & IS_LISTED > 0,
        is_trained=bits & IS_TRAINED > 0,
        slots=np.array(slots, dtype=np.float64),
        n_catalog=n_of_table(attributes, attributes.catalog.is_listed, cell),
        n_trained=n_of_table(attributes, attributes.is_trained, cell),
        n_population=users.n_users,
        n_filled=users.n_defined,
    )


def n_of_table(attributes: ItemAttributes, table: Booleans | None, cell: SegmentCell) -> int:
    """Count the items of the cell's fold, or of any fold, in a table of the catalogue."""
    if table is None:
        return 0
    _, segment, value = cell
    if segment == FOLD and attributes.folds is not None:
        return int(np.count_nonzero(table[np.searchsorted(attributes.folds, int(value))]))
    return int(np.count_nonzero(table.any(axis=0)))


def group_rows(
    plan: Plan,
    parts: Sequence[Mapping[tuple[int, str], GroupWeights]],
    attributes: ItemAttributes,
    totals: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    models: Sequence[str],
) -> list[MetricRow]:
    """Return the rows of METRICS of metrics by item group, with the catalogue's value in each.

    ``parts`` are the weights of each bucket, ``totals`` the sums of ``means.added``. Groups are values of the
    segment GROUP.
    """
    rows = []
    for index, value in enumerate(plan.of_groups):
        of_catalog = GroupWeights.of_catalog(attributes.catalog)
        for model in models:
            weights = [part[index, model] for part in parts if (index, model) in part]
            if not weights:
                continue
            users = totals.get((model, ALL, ALL), {}).get(filled_column(value.k), NOBODY)
            both = {value.name: reduce(add, weights), value.catalog_name: of_catalog}
            for name, one in both.items():
                for group, share in value.of_groups(one, plan.conventions).items():
                    key = (model, name, value.k, GROUP, group, plan.stamp)
                    rows.append(MetricRow.of_run(key, share, users.n_users))
    return rows


def merge_sum_rows(rows: Iterable[SumRow]) -> list[SumRow]:
    """Add the sums of several runs, such as days: a row per model, metric, k, segment and conventions.

    For readers of published sums, as in docs/operations.md under "Days added"; no verb adds runs.
    """
    totals: dict[Key, SumRow] = {}
    for row in rows:
        other = totals.get(row.key)
        if other is not None:
            sums = [
                None if one is None or more is None else one + more
                for one, more in zip(row.sums, other.sums, strict=True)
            ]
            n_requests = [
                None if one is None or more is None else one + more
                for one, more in (
                    (row.n_requests, other.n_requests),
                    (row.n_requests_defined, other.n_requests_defined),
                )
            ]
            n_users, n_defined = row.n_users + other.n_users, row.n_defined + other.n_defined
            row = SumRow.of(row.key, n_users, n_defined, sums, n_requests)
        totals[row.key] = row
    return list(totals.values())


def metric_rows(
    sums: Iterable[SumRow], intervals: Mapping[MeanKey, LowHigh] | None = None
) -> list[MetricRow]:
    """Return the row of METRICS for each row of SUMS, in the same order.

    ``intervals`` replace those computed from the standard errors. Raises DataError METRIC_OVERFLOW for values
    too large for a double.
    """
    return [MetricRow.of_mean(row, intervals) for row in sums]


def mean_of(sums: SumRow, intervals: Mapping[MeanKey, LowHigh] | None = None) -> Summary:
    """Return the mean of exact sums, its standard error and its interval; all are null over no users.

    ``intervals`` replace the interval by the standard error. Weighted means, such as the micro average, have
    standard errors by the delta method. Raises DataError METRIC_OVERFLOW for values too large for a double.
    """
    total, squares, weight, products, weight_squares = (number or Fraction() for number in sums.sums)
    if sums.weight is None:
        summary = summarise(total, squares, sums.n_defined)
    elif sums.products is None:
        summary = Summary(nearest_double(total / weight) if weight else None, n=sums.n_defined)
    else:
        of_ratio = ((squares, products), (products, weight_squares))
        estimate = RatioSums(sums.n_defined, (total, weight), of_ratio).combination(Fraction(1))
        summary = normal_interval(estimate.value, estimate.std_error, sums.n_defined)
    if intervals is not None and summary.std_error is not None:
        ci_low, ci_high = intervals[sums[:5]]
        summary = replace(summary, ci_low=ci_low, ci_high=ci_high)
    return checked_summary(summary, sums.metric, sums.k)


def checked_summary(summary: Summary, metric: str, k: int | None) -> Summary:
    """Return a summary; raise DataError METRIC_OVERFLOW for numbers too large for a double."""
    numbers = (summary.value, summary.std_error, summary.ci_low, summary.ci_high)
    if not all(math.isfinite(number) for number in numbers if number is not None):
        raise overflow(f"{metric}@{ALL if k is None else k}")
    return summary


def in_requested_order(rows: Iterable[AnyRow], requested: Sequence[MetricValue]) -> list[AnyRow]:
    """Sort rows by model and segment (all users first), then in the order of the requested metrics."""
    names = [(name, value.k) for value in requested for name in value.names]
    order = {name: number for number, name in enumerate(names)}

    def key(row: AnyRow) -> tuple[object, ...]:
        return (*everybody_first((row.model, row.segment, row.segment_value)), order[row.metric, row.k])

    return sorted(rows, key=key)


def cells_of_models(cells: Iterable[SegmentCell], models: Sequence[str]) -> list[SegmentCell]:
    """Return the sorted cells of these models, with the cell of all users for each."""
    own = {cell for cell in cells if cell[0] in models}
    return sorted(own | {(model, ALL, ALL) for model in models}, key=everybody_first)


def everybody_first(cell: SegmentCell) -> tuple[str, bool, str, str]:
    """Return the sort key of a cell: by model, all users before the segments."""
    model, segment, segment_value = cell
    return (model, segment != ALL, segment, segment_value)


def overflow(metric: str) -> DataError:
    """Return the error for a metric with a value or interval too large for a double."""
    message = f"{metric} has a value or an interval larger than any double"
    return DataError("METRIC_OVERFLOW", f"{message}; scale the relevances of the truth down")
