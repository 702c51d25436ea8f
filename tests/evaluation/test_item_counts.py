"""Counts of items: dense or sparse, in parts or at once, of known items and others, full lists or gaps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drive import Layout, Tables, drive, table_of

from spark_eval.accounting import table_entries
from spark_eval.arrow.messages import Content
from spark_eval.evaluation.plan import make_plan
from spark_eval.evaluation.worker.items import counts
from spark_eval.evaluation.worker.items.training import count_train
from spark_eval.evaluation.worker.ranks import has_no_duplicates, rows_by_rank
from spark_eval.kernels.beyond import catalog
from spark_eval.kernels.beyond.catalog import Catalog, Entries, ItemContext

# Lists of two models for forty users, some short, one with a gap; no item is in a catalogue.
LISTS = [
    (model, user, (user * 7 + rank * rank) % 23, rank + (user == 5 and rank > 2))
    for model in "ab"
    for user in range(40)
    for rank in range(1, 2 + (user * 3 + ord(model)) % 6)
]
METRICS = ["gini_recommended", "entropy", "entropy(weights=slots)", "personalization"]


def found(layout: Layout) -> Any:
    ids = {"user": pa.int64(), "item": pa.int64()}
    rows: dict[tuple[str, int, int], int] = {}
    for model, user, item, rank in LISTS:
        rows.setdefault((model, user, item), rank)
    lists = [(*key, rank) for key, rank in rows.items()]
    truth = [(user, 1, 1.0) for user in range(40)]
    tables = Tables(
        table_of(lists, model=pa.string(), **ids, rank=pa.int64()),
        table_of(truth, **ids, relevance=pa.float64()),
    )
    users = [(user, "ab"[user % 2]) for user in range(40)]
    tables = replace(tables, users=table_of(users, user=pa.int64(), country=pa.string()))
    return drive(make_plan(metrics=METRICS, k=[2, 4, "all"], segments=["country"]), tables, layout).metrics


@pytest.mark.parametrize(("name", "value"), [("MOST_AMOUNTS", 0), ("SPARSEST_COUNTS", 0)])
def test_counts_are_the_same_however_they_are_held(name: str, value: int) -> None:
    expected = found(Layout(n_buckets=1, n_tasks=1))
    assert len(expected) == len(METRICS) * 3 * 2 * 3  # of all users, and in two countries
    # Personalization of lists without a cutoff has no value.
    assert [row[1:3] for row in expected if row[5] is None] == [("personalization", None)] * 6
    assert found(Layout(n_buckets=5)) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, name, value)
        assert found(Layout(n_buckets=5)) == expected


def lists_of(kind: str, random: np.random.Generator) -> Entries:
    """Items 0 to 4 of fifty lists; every seventh list is empty."""
    ranks = np.arange(1, 10)
    lists = [ranks if kind == "even" else ranks[random.random(9) < 0.5] for _ in range(50)]
    lists[::7] = [ranks[:0]] * 8
    if kind == "clashing":  # as many entries as an even table, but two of them share a rank
        lists = [np.array([1, 1]), np.array([1, 2])]
    row, rank = np.repeat(np.arange(len(lists)), [len(one) for one in lists]), np.concatenate(lists)
    item = random.integers(-1, 5, len(row))
    return Entries(len(lists), row, rank, item, item)


@pytest.mark.parametrize("kind", ["even", "with gaps"])
@pytest.mark.parametrize(("n_folds", "n_used"), [(1, 1), (3, 3), (3, 1)])
def test_totals_have_the_bits_of_sums_in_rank_order(kind: str, n_folds: int, n_used: int) -> None:
    random = np.random.default_rng(3)
    entries, fold = lists_of(kind, random), random.integers(0, n_used, 50)
    assert entries.is_even is (kind == "even")
    table = random.random((n_folds, 6)) ** 5
    none = np.zeros(0, dtype=np.int64)
    items = ItemContext(Catalog(5), fold, none, none, listed=entries)
    weight = table[fold[entries.row], entries.index]
    totals = items.totals(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "SPARSEST_LISTS", 0)
        sparse = replace(items).totals(table)
        for k in (3, None, 1, 7, 20):
            assert (totals(k) == entries.total(weight, k)).all()
            assert (sparse(k) == totals(k)).all()
            within = entries.rank <= (k or 99)
            assert entries.count(k).tolist() == np.bincount(entries.row[within], minlength=50).tolist()


@pytest.mark.parametrize("kind", ["even", "with gaps", "clashing"])
def test_entries_of_chosen_lists_and_ranks(kind: str) -> None:
    random = np.random.default_rng(4)
    entries = lists_of(kind, random)
    assert entries.is_even is (kind == "even")
    rows = random.integers(0, entries.n_rows, 60)
    chosen = entries.of_rows(rows)
    expected = [
        (number, rank, item)
        for number, row in enumerate(rows.tolist())
        for rank, item in zip(entries.rank[entries.row == row], entries.item[entries.row == row], strict=True)
    ]
    assert list(zip(chosen.row, chosen.rank, chosen.item, strict=True)) == expected
    for above, last in ((0, 1), (1, 4), (4, None), (20, 30)):
        within = (entries.rank > above) & (entries.rank <= (last or 99))
        assert entries.between(entries.item, above, last).tolist() == entries.item[within].tolist()


@pytest.mark.parametrize(
    ("item", "rank", "is_regular"),
    [
        ([5, 6, 5], [1, 2, 1], True),
        ([5, 5, 5], [1, 2, 1], False),
        ([5, 6, 5], [1, 1, 1], False),
        ([5, 6, np.iinfo(np.int64).min], [1, 2, 1], False),
        ([5, 1 << 40, 5], [1, 2, 1], True),
        ([1 << 40, 1 << 40, 5], [1, 2, 1], False),
        ([5, 5 + (1 << 32), 5], [1, 2, 1], True),
        ([5, 6, 5], [1, 1000, 1], False),
    ],
)
def test_lists_are_regular_where_no_rank_and_no_item_comes_twice(
    item: list[int], rank: list[int], is_regular: bool
) -> None:
    of_list = np.array([0, 0, 1])
    grid = rows_by_rank(of_list, 2, np.array(rank))
    assert has_no_duplicates(grid, np.array(item)) is is_regular


def test_training_interactions_of_folds() -> None:
    rows = [(1, "x", 0), (1, "x", 0), (2, "x", 0), (1, "x", 1), (1, "y", 1)]
    valid = table_of(rows, user=pa.int64(), item=pa.string(), fold=pa.int64())
    bad = table_of(
        [(3, 1, "NULL_ID"), (None, 1, "NULL_ID")], user=pa.int64(), fold=pa.int64(), fault=pa.string()
    )
    summary, items = count_train({Content.TRAIN: valid, Content.BAD_TRAIN: bad}, sees_takers=True)
    assert items is not None
    counts = {(row["item"], row["fold"]): (row["n_rows"], row["n_takers"]) for row in items.to_pylist()}
    assert counts == {("x", 0): (3, 2), ("x", 1): (1, 1), ("y", 1): (1, 1)}
    assert (summary.n_users, summary.activity) == ({0: 2, 1: 1}, {2: 2, 1: 1})
    assert [entry[2:] for entry in table_entries("train", summary.counts)] == [
        ("in", None, 7, 4),
        ("used", None, 5, 3),
        ("largest", "rows=2", 0, 1),
        ("quarantined", "NULL_ID", 2, 1),
    ]
