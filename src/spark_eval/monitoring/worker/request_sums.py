"""Exact sums over lists by request, and over the users who have them, of several days."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Codes, to_numpy, unique_sorted
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.worker.lists import SegmentTotals, sums
from spark_eval.evaluation.worker.requests import means_of, sums_of_users
from spark_eval.kernels.columns import sum_of_columns
from spark_eval.monitoring.worker.user_rows import UserRows, rows_of_segment
from spark_eval.monitoring.worker.user_sums import as_floats, segment_codes
from spark_eval.schema import FOLD, REQUEST, USER
from spark_eval.statistics.exact import Ints


def sums_of_requests(
    given: UserRows, model: str, columns: Sequence[str], segments: Sequence[str], plan: Plan
) -> tuple[SegmentTotals, SegmentTotals, int]:
    """Return the sums over lists and over users of all rows of some users, and the number of users."""
    rows = given.whole(columns)
    user, n_users = numbers_of_users(rows)
    # A user's values are added in this order; rows come in the order of the days.
    order = np.lexsort((numbers_of_requests(rows), user))
    values = {name: as_floats(rows, name)[order] for name in plan.columns}
    everybody = (np.zeros(len(order), dtype=np.int64), [model])
    cells = {}
    for segment in segments:
        [code], names = segment_codes([rows[segment]])
        cells[segment] = (code[order], names)
    of_lists = sums(values, sum_of_columns(plan.metrics), everybody, cells, has_squares=False)
    of_users = sums_of_users(means_of(plan.metrics), plan.weight, values, user[order], everybody, cells)
    return of_lists, of_users, n_users


def item_sums_of_requests(
    given: UserRows, model: str, segments: Sequence[str], plan: Plan
) -> tuple[list[SegmentTotals], list[SegmentTotals]]:
    """Return the sums of ``sums_of_requests`` for each segment of items, over rows of ``item_segments``."""
    columns = [USER, REQUEST, FOLD, *plan.columns]
    of_segments = [
        sums_of_requests(
            rows_of_segment(given, segment, columns), model, [*columns, segment], [segment], plan
        )
        for segment in segments
    ]
    return [lists for lists, _, _ in of_segments], [users for _, users, _ in of_segments]


def numbers_of_users(rows: pa.Table) -> tuple[Ints, int]:
    """Return the number of each row's user, in its fold if there are folds, and the number of users."""
    codes = Codes.of([rows[USER]])
    distinct, user = unique_sorted(codes.columns[0])
    if FOLD not in rows.column_names:
        return user, len(distinct)
    fold = unique_sorted(to_numpy(rows[FOLD]).astype(np.int64))[1]
    return unique_sorted(fold * len(distinct) + user)[1], len(distinct)


def numbers_of_requests(rows: pa.Table) -> Ints:
    """Return integers in the order of the requests, the null request first."""
    is_null = to_numpy(rows[REQUEST].is_null())
    codes = Codes.of([rows[REQUEST].drop_null()])
    numbers = np.zeros(len(rows), dtype=np.int64)
    numbers[~is_null] = unique_sorted(codes.in_order(codes.columns[0]))[1] + 1
    return numbers
