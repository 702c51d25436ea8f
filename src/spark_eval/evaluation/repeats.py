"""Repeats of a model: rows of ``sums`` and ``metrics`` over users and repeats, from those of each repeat."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import Final

from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.summary import (
    Key,
    MeanKey,
    MetricRow,
    SumRow,
    checked_summary,
)
from spark_eval.evaluation.worker.lists import NOBODY, ColumnSums, SegmentCell
from spark_eval.kernels.columns import weighted
from spark_eval.names import repeat_name, split_repeat, summarize_names
from spark_eval.results.rows import sum_or_none
from spark_eval.runtime import events
from spark_eval.schema import ALL, REPEAT
from spark_eval.statistics.differences import Estimate
from spark_eval.statistics.intervals import LowHigh
from spark_eval.statistics.repeats import CrossedSums, Moments, standard_deviation, t_interval

REQUEST_COUNTS: Final = ("n_requests", "n_requests_defined")


def with_repeats(
    rows: Sequence[SumRow], users: Mapping[SegmentCell, Mapping[str, ColumnSums]], plan: Plan
) -> list[SumRow]:
    """Return a row over all repeats before the rows of each: the keys are equal.

    ``rows`` are those of each repeat, whose model is named with it; ``users`` are the sums of the users over
    all repeats, as of ``worker.requests.sums_of_users``.
    """
    columns = user_columns(plan)
    by_key: dict[Key, list[SumRow]] = {}
    for row in rows:
        model, repeat = split_repeat(row.model)
        own = row._replace(model=model, repeat=repeat)
        by_key.setdefault(own.key, []).append(own)
    return [row for key, own in by_key.items() for row in (over_repeats(key, own, users, columns), *own)]


def user_columns(plan: Plan) -> dict[tuple[str, int | None], str]:
    """Return the column of the users' sums of each mean, by metric and k."""
    columns = {}
    for value in plan.metrics:
        columns[value.name, value.k] = value.column
        for name, weight in zip(value.weights, value.columns[1:], strict=True):
            columns[name, value.k] = weighted(value, weight)
    return columns


def over_repeats(
    key: Key,
    rows: Sequence[SumRow],
    users: Mapping[SegmentCell, Mapping[str, ColumnSums]],
    columns: Mapping[tuple[str, int | None], str],
) -> SumRow:
    """Return the row over the users and all repeats."""
    model, metric, k, segment, value, _ = key
    own = users.get((model, segment, value), {}).get(columns[metric, k], NOBODY)
    totals = [total_and_weight(row) for row in rows]
    sums = [
        sum((total for total, _ in totals), Fraction()),
        own.squares,
        sum((weight for _, weight in totals), Fraction()),
        own.products,
        own.weight_squares,
    ]
    n_requests = [sum_or_none([getattr(row, name) for row in rows]) for name in REQUEST_COUNTS]
    return SumRow.of(key, own.n_users, own.n_defined, sums, n_requests)


def total_and_weight(row: SumRow) -> tuple[Fraction, Fraction]:
    """Return the total of a repeat's values, and their number or weight."""
    total, _, weight, *_ = row.sums
    return total or Fraction(), Fraction(row.n_defined) if weight is None else weight


def cell_moments(row: SumRow) -> Moments:
    """Return the moments of the users under a repeat."""
    total, squares, _, products, weight_squares = (number or Fraction() for number in row.sums)
    if row.weight is None:
        return Moments(squares, total, Fraction(row.n_defined))
    return Moments(squares, products, weight_squares)


def crossed_sums(row: SumRow, repeats: Sequence[SumRow]) -> CrossedSums:
    """Return the sums over users and repeats, from the row over all repeats and the row of each."""
    _, squares, _, products, weight_squares = (number or Fraction() for number in row.sums)
    cells = [cell_moments(one) for one in repeats]
    return CrossedSums(
        n_users=row.n_defined,
        repeats=[total_and_weight(one) for one in repeats],
        users=Moments(squares, products, weight_squares),
        cells=Moments(*(sum(numbers, Fraction()) for numbers in zip(*cells, strict=True))),
    )


def repeat_metric_rows(
    sums: Sequence[SumRow], intervals: Mapping[MeanKey, LowHigh] | None = None, *, by_repeat: bool
) -> list[MetricRow]:
    """Return the rows of METRICS over users and repeats; with ``by_repeat`` rows of each repeat follow.

    Rows of repeats have the segment ``repeat``. ``intervals`` replace those by standard errors, except of
    one value over all repeats. Raises DataError METRIC_OVERFLOW for values too large for a double.
    """
    rows, of_repeats = [], list[MetricRow]()
    numbers = {row.model: set[str]() for row in sums}
    for row in sums:
        numbers[row.model] |= set() if row.repeat is None else {row.repeat}
    for _, group in groupby(sums, key=lambda row: row.key):
        whole, *repeats = group
        n_repeats = len(numbers[whole.model])
        own = recipe_row(whole, repeats, intervals) if repeats else MetricRow.of_mean(whole)
        rows.append(own._replace(n_repeats=n_repeats))
        if by_repeat and whole.segment == ALL:
            of_repeats += [
                repeat_row(one, intervals)._replace(segment=REPEAT, segment_value=one.repeat or "")
                for one in repeats
            ]
    return [*rows, *of_repeats]


def repeat_row(row: SumRow, intervals: Mapping[MeanKey, LowHigh] | None) -> MetricRow:
    """Return the row of a repeat; ``intervals`` know it by the name of model and repeat."""
    named = row._replace(model=repeat_name(row.model, row.repeat or ""))
    return MetricRow.of_mean(named, intervals)._replace(model=row.model)


def recipe_row(
    whole: SumRow, repeats: Sequence[SumRow], intervals: Mapping[MeanKey, LowHigh] | None
) -> MetricRow:
    """Return the row of the mean over users and repeats; with one repeat its own row."""
    if len(repeats) == 1:
        return repeat_row(repeats[0], intervals)
    crossed = crossed_sums(whole, repeats)
    summary = t_interval(crossed.estimate, whole.n_defined)
    if intervals is not None and summary.std_error is not None:
        ci_low, ci_high = intervals[whole[:5]]
        summary = replace(summary, ci_low=ci_low, ci_high=ci_high)
    summary = checked_summary(summary, whole.metric, whole.k)
    parts = crossed.parts
    n_lists = whole.n_requests_defined
    return MetricRow(
        *whole[:5],
        value=summary.value,
        std_error=summary.std_error,
        ci_low=summary.ci_low,
        ci_high=summary.ci_high,
        n_users=whole.n_defined,
        n_undefined=whole.n_users - whole.n_defined if n_lists is None else (whole.n_requests or 0) - n_lists,
        conventions=whole.conventions,
        n_requests=n_lists,
        std_repeat=crossed.std_repeat,
        repeat_share=None if parts is None else parts.share,
    )


def repeat_run_rows(rows: Sequence[MetricRow], *, by_repeat: bool) -> list[MetricRow]:
    """Return the means over repeats of values of a run; repeats alone make their errors.

    ``rows`` are those of each repeat, whose model is named with it.
    """
    by_key: dict[Key, list[tuple[str, MetricRow]]] = {}
    for row in rows:
        model, repeat = split_repeat(row.model)
        own = row._replace(model=model)
        by_key.setdefault((*own[:5], own.conventions), []).append((repeat or "", own))
    means, of_repeats = [], list[MetricRow]()
    for named_rows in by_key.values():
        first = named_rows[0][1]
        values = [Fraction(row.value) for _, row in named_rows if row.value is not None]
        deviation = standard_deviation(values)
        variance = None if deviation is None else Fraction(deviation) ** 2 / len(values)
        mean = sum(values, Fraction()) / len(values) if values else None
        summary = t_interval(Estimate(mean, variance, len(values) - 1), first.n_users)
        means.append(
            first._replace(
                value=summary.value,
                std_error=summary.std_error,
                ci_low=summary.ci_low,
                ci_high=summary.ci_high,
                n_users=max(row.n_users for _, row in named_rows),
                n_repeats=len(named_rows),
                std_repeat=deviation,
                repeat_share=None if deviation is None else float(deviation > 0),
            )
        )
        if by_repeat and first.segment == ALL:
            of_repeats += [row._replace(segment=REPEAT, segment_value=repeat) for repeat, row in named_rows]
    return [*means, *of_repeats]


def warn_of_copies(digests: Mapping[str, int]) -> None:
    """Warn COPIED_REPEATS of models with repeats whose lists are equal, by their checksums."""
    seen: dict[tuple[str, int], str] = {}
    copies = []
    for name, digest in sorted(digests.items()):
        model, repeat = split_repeat(name)
        other = seen.setdefault((model, digest), repeat or "")
        if other != repeat:
            copies.append(f"{repeat!r} of {model!r} is {other!r} again")
    if copies:
        message = f"COPIED_REPEATS: repeats with equal lists: {summarize_names(copies)}"
        message += "; a copy is no repeat: train or draw again, or leave it out"
        events.say("copied_repeats", message, logging.WARNING, copies=copies)
