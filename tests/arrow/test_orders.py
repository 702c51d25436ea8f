"""Orders of rows: runs that are sorted together, against numpy's sort of several keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_eval.arrow import codes
from spark_eval.arrow.codes import (
    argsort_values_within_runs,
    argsort_within_runs,
    row_codes,
    run_starts,
    stable_argsort,
)
from spark_eval.statistics.exact import Ints

LARGEST = np.iinfo(np.int64).max
NUMBERS = st.integers(-3, 3) | st.sampled_from([LARGEST, -LARGEST - 1])


@settings(max_examples=60, deadline=None)
@given(
    runs=st.lists(st.lists(NUMBERS, min_size=1, max_size=9), max_size=12), longest=st.sampled_from([1, 4, 99])
)
def test_each_run_is_sorted_in_its_place(runs: list[list[int]], longest: int) -> None:
    values = np.array([value for run in runs for value in run], dtype=np.int64)
    starts = np.cumsum([0, *map(len, runs[:-1])]) if runs else np.empty(0, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "LONGEST_BATCHED", longest)
        order = argsort_values_within_runs(values, starts)
    assert sorted(order.tolist()) == list(range(len(values)))
    assert values[order].tolist() == [value for run in runs for value in sorted(run)]


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_rows_are_sorted_by_one_key_after_the_other(rows: list[tuple[int, int, int]]) -> None:
    run, first, second = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    order = stable_argsort(run, 5)
    is_first = run_starts(run[order])
    asked: list[int] = []

    def last_key(some: Ints) -> Ints:
        asked.append(len(some))
        in_last: Ints = second[some]
        return in_last

    argsort_within_runs(order, is_first, [lambda some: first[some], last_key])
    by_all = np.lexsort((second, first, run))
    keys = np.stack([run, first, second])
    assert (keys[:, order] == keys[:, by_all]).all()
    assert (
        is_first.tolist()
        == (run_starts(run[order]) | run_starts(first[order]) | run_starts(second[order])).tolist()
    )
    # Rows that the first key told apart are not looked at again.
    assert sum(asked) <= sum(
        count for count in np.unique(run * 3 + first, return_counts=True)[1] if count > 1
    )


@pytest.mark.parametrize("n_places", [5, 70_000])
def test_stable_argsort_keeps_the_order_of_equal_keys(n_places: int) -> None:
    places = np.random.default_rng(3).integers(0, n_places, 500)
    assert stable_argsort(places, n_places).tolist() == np.argsort(places, kind="stable").tolist()
    assert stable_argsort(np.sort(places), n_places).tolist() == list(range(500))


CODES = st.integers(0, 3) | st.sampled_from([2**31 - 1, 2**20])


@given(rows=st.lists(st.tuples(*[CODES] * 5), min_size=1, max_size=30))
def test_codes_of_rows_have_their_order_even_where_the_product_of_columns_is_beyond_64_bits(
    rows: list[tuple[int, ...]],
) -> None:
    distinct = sorted(set(rows))
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    assert row_codes(*columns).tolist() == [distinct.index(row) for row in rows]
