"""Gaps of a metric between groups of users, with intervals, from the exact sums of a run."""

import math
from collections.abc import Iterator, Sequence
from itertools import permutations
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import pyarrow as pa

from spark_eval.errors import DataError
from spark_eval.evaluation.summary import SumRow, mean_of
from spark_eval.monitoring.sums import read_sums
from spark_eval.options import checked_call
from spark_eval.results.driver_tables import arrow_table
from spark_eval.schema import ALL, FOLD, ddl_of
from spark_eval.statistics.intervals import Summary

LARGEST_GAP: Final = "largest - smallest"
REST_GAP: Final = "group - rest"
REST: Final = "(rest)"
CONFIDENCE: Final = 0.95


class GapRow(NamedTuple):
    """Row of ``segment_gaps``: the difference of a mean between two groups of users.

    ``gap`` is ``largest - smallest`` over all groups of a segment, or ``group - rest``. The intervals of a
    segment hold together: all of them at once with a confidence of 95 %.
    """

    model: str
    metric: str
    k: int | None
    segment: str
    gap: str
    segment_value: str
    other_value: str
    value: float | None
    other: float | None
    difference: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n_users: int
    n_other: int
    n_groups: int
    conventions: str


GAPS: Final = ddl_of(GapRow)


@checked_call
def segment_gaps(sums: Any) -> pa.Table:
    """Compare groups of users: the largest mean with the smallest, and each group with all other users.

    Args:
        sums: Rows of the table ``sums`` of one run with segments, such as ``evaluate(...).sums``: a Spark,
            pandas or polars frame, or an Arrow table.

    Returns:
        An Arrow table: for each model, metric, k and segment a row ``largest - smallest``, and a row
        ``group - rest`` per group. A segment with fewer than two groups that have a value has none.

    Raises:
        ConfigError: NOT_A_FRAME for another object; NOT_OF_PREDICTIONS for sums of predictions.
        DataError: MISSING_COLUMN, AMBIGUOUS_COLUMN or INVALID_SUMS as in ``add_sums``; INVALID_SUMS also for
            the sums of several runs, and of lists by request, whose groups share users.

    Examples:
        Two of three users have a phone, and one of the two has a hit:

        >>> import pandas as pd
        >>> from spark_eval import evaluate, segment_gaps
        >>> lists = pd.DataFrame({"user": [1, 2, 3], "item": [1, 9, 1], "rank": 1})
        >>> truth = pd.DataFrame({"user": [1, 2, 3], "item": 1})
        >>> users = pd.DataFrame({"user": [1, 2, 3], "device": ["phone", "phone", "tv"]})
        >>> asked = {"metrics": "recall", "k": 1, "segments": ["device"], "engine": "local"}
        >>> gaps = segment_gaps(evaluate(lists, truth, model="m", users=users, **asked).sums)
        >>> gaps.select(["gap", "segment_value", "other_value", "difference"]).to_pylist()[0]
        {'gap': 'largest - smallest', 'segment_value': 'tv', 'other_value': 'phone', 'difference': 0.5}
    """
    rows = read_sums(sums)
    if len({row.key for row in rows}) < len(rows):
        raise DataError("INVALID_SUMS", "sums: a mean has several rows; give the sums of one run")
    if any(row.n_requests is not None for row in rows):
        message = "sums are of lists by request, whose groups share users; evaluate a list per user"
        raise DataError("INVALID_SUMS", message)
    return arrow_table(list(gap_rows(rows)), GAPS)


def gap_rows(rows: Sequence[SumRow]) -> Iterator[GapRow]:
    """Yield the gaps of each model, metric, cutoff and segment, in the order of the rows."""
    everybody = {(*row.key[:3], row.conventions): row for row in rows if row.segment == ALL}
    of_segments: dict[tuple[Any, ...], list[SumRow]] = {}
    for row in rows:
        if row.segment not in (ALL, FOLD) and row.n_defined:
            of_segments.setdefault((*row.key[:4], row.conventions), []).append(row)
    for key, groups in of_segments.items():
        if len(groups) > 1:
            yield largest_gap(groups)
            if whole := everybody.get((*key[:3], key[4])):
                yield from (rest_gap(group, whole, len(groups)) for group in groups)


def largest_gap(groups: Sequence[SumRow]) -> GapRow:
    """Return the gap of the largest and the smallest mean.

    Chance, too, decides who these groups are, so the interval is that of the largest difference of the true
    means of any two groups. It goes from the largest lower end to the largest upper end of the intervals of
    all differences, which hold together (Bonferroni). A gap is not below 0.
    """
    ranked = sorted(groups, key=lambda group: (mean_of(group).value or 0.0, group.segment_value))
    row = difference(ranked[-1], ranked[0], LARGEST_GAP, len(groups))
    means, n_pairs = [mean_of(group) for group in groups], len(groups) * (len(groups) - 1) // 2
    ends = [interval(one, other, n_pairs) for one, other in permutations(means, 2)]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return row._replace(ci_low=None, ci_high=None)
    low, high = (max(of_pairs) for of_pairs in zip(*known, strict=True))
    return row._replace(ci_low=max(low, 0.0), ci_high=high)


def rest_gap(group: SumRow, whole: SumRow, n_groups: int) -> GapRow:
    """Return the gap of a group and all users outside of it; its sums are those of all, minus its own."""
    sums = [
        None if all_users is None or own is None else all_users - own
        for all_users, own in zip(whole.sums, group.sums, strict=True)
    ]
    counts = (whole.n_users - group.n_users, whole.n_defined - group.n_defined)
    key = (*group.key[:4], REST, group.conventions)
    return difference(group, SumRow.of(key, *counts, sums), REST_GAP, n_groups)


def difference(one: SumRow, other: SumRow, gap: str, n_groups: int) -> GapRow:
    """Return the row of the difference of two means, with the interval of one of ``n_groups``."""
    first, second = mean_of(one), mean_of(other)
    low, high = interval(first, second, n_groups) or (None, None)
    apart = None
    if first.value is not None and second.value is not None:
        apart = first.value - second.value
    return GapRow(
        model=one.model,
        metric=one.metric,
        k=one.k,
        segment=one.segment,
        gap=gap,
        segment_value=one.segment_value,
        other_value=other.segment_value,
        value=first.value,
        other=second.value,
        difference=apart,
        std_error=None if low is None else std_error(first, second),
        ci_low=low,
        ci_high=high,
        n_users=first.n,
        n_other=second.n,
        n_groups=n_groups,
        conventions=one.conventions,
    )


def interval(one: Summary, other: Summary, n_intervals: int) -> tuple[float, float] | None:
    """Return the interval of the difference of two means; ``n_intervals`` hold together (Bonferroni)."""
    if one.value is None or other.value is None or one.std_error is None or other.std_error is None:
        return None
    margin = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / (2 * n_intervals)) * std_error(one, other)
    return one.value - other.value - margin, one.value - other.value + margin


def std_error(one: Summary, other: Summary) -> float:
    """Return the standard error of the difference of the means of two groups, who share no user."""
    return math.hypot(one.std_error or 0.0, other.std_error or 0.0)
