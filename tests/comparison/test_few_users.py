"""Buckets of no, one, two and three users on either side: they add up."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.comparison.plain_pairs import plain_sums, population_of, table_of

from spark_eval.comparison.worker.ranking import DifferenceCounter
from spark_eval.comparison.worker.sums import BucketTotals, pair_sums, sum_bucket
from spark_eval.users.cells import EVERYBODY
from spark_eval.users.population import BASELINE, CANDIDATE, AlignedUsers, ComparisonTask
from spark_eval.users.resampling import Amount, Resampler

COLUMNS = ("auc_at_5", "auc_impressions_at_5")
# Users of the baseline and of the candidate in a bucket.
COUNTS = list(product(range(4), range(4)))


def task_of(*, folds: int, segments: int) -> ComparisonTask:
    names = ("country", "age")[:segments]
    return ComparisonTask(
        [(BASELINE, "a"), (CANDIDATE, "b")],
        [(slice(0, 1), slice(1, 2))],
        COLUMNS,
        (*names, "fold") if folds else names,
        by_fold=folds > 0,
        moved=names,
        has_truth=True,
        weighted=[COLUMNS],
        needs_largest=True,
    )


def users(first: int, n: int, *, folds: int, is_defined: bool) -> pd.DataFrame:
    """Users from a number on, who differ in their segments."""
    ids = np.repeat(np.arange(first, first + n, dtype=np.int64), max(folds, 1))
    rows = pd.DataFrame({"user": ids, "fold": np.tile(np.arange(max(folds, 1)), n), "n_relevant": 2})
    texts = {"country": [f"c{user % 2}" for user in ids], "age": [str(user % 3) for user in ids]}
    rows = rows.assign(**{name: pd.Series(own, dtype="object") for name, own in texts.items()})
    values = (ids % 5) / 4 if is_defined else np.full(len(ids), np.nan)
    return rows.assign(auc_at_5=values, auc_impressions_at_5=np.where(np.isnan(values), np.nan, 3.0))


def bucket(
    task: ComparisonTask, start: int, n_baseline: int, n_candidate: int, **more: Any
) -> tuple[AlignedUsers, list[pd.DataFrame]]:
    """A bucket of users of both sides, whose last users are common."""
    own = [users(start + 4 - n, n, **more) for n in (n_baseline, n_candidate)]
    own[1]["auc_at_5"] = 1 - own[1]["auc_at_5"] / 2
    return population_of(task, list(map(table_of, own))), own


def check_everybody(totals: BucketTotals, sides: list[pd.DataFrame]) -> None:
    """The sums of everybody are those of a loop over users."""
    a, b = sides
    both = a.merge(b, on=["user", "fold"], suffixes=("_a", "_b"))
    both = both.rename(columns={"auc_at_5_a": "a", "auc_at_5_b": "b"})
    assert totals.totals.cells[0] == EVERYBODY
    assert pair_sums(totals.totals, (0, 0, 0)) == plain_sums(both)


@pytest.mark.parametrize("is_defined", [True, False])
@pytest.mark.parametrize("segments", [0, 1, 2])
@pytest.mark.parametrize("folds", [0, 2])
def test_buckets_of_few_users_add_up(folds: int, segments: int, is_defined: bool) -> None:
    task = task_of(folds=folds, segments=segments)
    sides: list[list[pd.DataFrame]] = [[], []]
    whole = None
    for number, counts in enumerate(COUNTS):
        population, own = bucket(task, 10 * number, *counts, folds=folds, is_defined=is_defined)
        found = sum_bucket(population)
        check_everybody(found, own)
        for all_rows, rows in zip(sides, own, strict=True):
            all_rows.append(rows)
        if whole is None:
            whole = found
        else:
            whole += found
    assert whole is not None
    check_everybody(whole, [pd.concat(rows) for rows in sides])
    drawn = [Amount.difference(0, 1, column) for column in COLUMNS]
    cells, shape = whole.totals.cells, (len(whole.totals.cells), 1, len(COLUMNS))
    resampler = Resampler(cells, drawn, whole.largest.ravel(), 0, replicates=3, flips=3, has_cubes=True)
    counting = DifferenceCounter(cells, np.ones(shape, dtype=bool), whole.largest, 4, 3)
    n_differing = 0
    for number, counts in enumerate(COUNTS):
        population, own = bucket(task, 10 * number, *counts, folds=folds, is_defined=is_defined)
        n_common = min(counts) * max(folds, 1)
        assert len(population) == n_common
        assert resampler.sums(population).weights[0, 0] == n_common * is_defined
        n_differing += sum(int((one.greater + one.less).sum()) for _, one in counting.counts(population))
    assert (n_differing > 0) == is_defined
