"""Count training interactions by bucket of users: rows and users, and the popularity of each item."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_eval.accounting import Counts
from spark_eval.arrow.codes import (
    Codes,
    count_by_code,
    count_unique,
    run_starts,
    unique_in_order_of_appearance,
    unique_sorted,
)
from spark_eval.arrow.messages import Content
from spark_eval.evaluation.worker.users import Users, has_user, number_users
from spark_eval.schema import FOLD, ITEM, N_ROWS, N_TAKERS, Fault, Outcome
from spark_eval.statistics.exact import Ints


@dataclass(frozen=True)
class TrainSummary:
    """Summary of a bucket's training interactions, without items.

    ``n_users`` counts users with valid rows by fold; ``activity`` counts users by their number of valid rows.
    """

    counts: Counts
    n_users: Counter[int | None]
    activity: Counter[int]


def count_train(
    rows: Mapping[Content, pa.Table], *, sees_takers: bool
) -> tuple[TrainSummary, pa.Table | None]:
    """Count the training interactions of a bucket, by fold if there are folds.

    Return its summary and a table by item (and fold) with ``n_rows`` and, if requested, the distinct users
    ``n_takers``; None without a valid row.
    """
    valid, bad = rows.get(Content.TRAIN), rows.get(Content.BAD_TRAIN)
    named = [None if table is None else table.filter(has_user(table)) for table in (valid, bad)]
    people, numbers = number_users([table for table in named if table is not None])
    user, bad_user = (numbers.pop(0) if table is not None else np.empty(0, np.int64) for table in named)
    n_rows = count_by_code(user, len(people))
    has_rows = n_rows > 0
    n_bad = 0 if bad is None else len(bad)
    counts = Counts(largest=int(n_rows.max(initial=0)))
    counts.note((Outcome.IN, None), len(user) + n_bad, len(people))
    counts.note((Outcome.USED, None), len(user), int(np.count_nonzero(has_rows)))
    counts.note((Outcome.QUARANTINED, Fault.NULL_ID), n_bad, count_unique(bad_user))
    n_users: Counter[int | None] = Counter({None: int(np.count_nonzero(has_rows))})
    if people.folds is not None:
        n_users = occurrences(people.folds[has_rows])
    summary = TrainSummary(counts, n_users, occurrences(n_rows[has_rows]))
    return summary, None if valid is None else counts_by_item(valid, people, user, sees_takers=sees_takers)


def occurrences(numbers: Ints) -> Counter[Any]:
    """Count how often each number occurs."""
    distinct, n_times = np.unique(numbers, return_counts=True)
    return Counter(dict(zip(distinct.tolist(), n_times.tolist(), strict=True)))


def counts_by_item(rows: pa.Table, people: Users, user: Ints, *, sees_takers: bool) -> pa.Table:
    """Count rows and users by item (and fold); ``user`` (rows,) are indices of users."""
    codes = Codes.of([rows[ITEM]])
    item, group = unique_sorted(codes.columns[0])
    columns: dict[str, pa.Array] = {ITEM: codes.ids(item)}
    if people.folds is not None:
        folds, fold = np.unique(people.folds, return_inverse=True)
        groups, group = unique_in_order_of_appearance(fold[user] * len(item) + group)
        of_group, of_item = np.divmod(groups, len(item))
        columns = {ITEM: codes.ids(item[of_item]), FOLD: pa.array(folds[of_group])}
    n_groups = len(columns[ITEM])
    columns[N_ROWS] = pa.array(count_by_code(group, n_groups))
    if sees_takers:
        pairs = user * n_groups + group
        pairs = np.sort(pairs.astype(np.uint32) if len(people) * n_groups <= 1 << 32 else pairs)
        columns[N_TAKERS] = pa.array(count_by_code(pairs[run_starts(pairs)] % n_groups, n_groups))
    return pa.table(columns)
