"""Counts of items: dense or sparse, in parts or at once, of known items and others, full lists or gaps."""

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
from spark_eval.evaluation.worker.ranks import has_no_duplicates
from spark_eval.metrics.beyond import catalog
from spark_eval.metrics.beyond.catalog import Entries

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
    return drive(make_plan(metrics=METRICS, k=[2, 4, "all"]), tables, layout).metrics


@pytest.mark.parametrize(("name", "value"), [("MOST_AMOUNTS", 0), ("SPARSEST_COUNTS", 0)])
def test_counts_are_the_same_however_they_are_held(name: str, value: int) -> None:
    expected = found(Layout(n_buckets=1, n_tasks=1))
    assert len(expected) == len(METRICS) * 3 * 2
    # Personalization of lists without a cutoff has no value.
    assert [row[1:3] for row in expected if row[5] is None] == [("personalization", None)] * 2
    assert found(Layout(n_buckets=5)) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, name, value)
        assert found(Layout(n_buckets=5)) == expected


@pytest.mark.parametrize("is_full", [True, False])
def test_totals_have_the_bits_of_sums_in_rank_order(is_full: bool) -> None:
    random = np.random.default_rng(3)
    lists = [np.arange(1, 8) if is_full else np.flatnonzero(random.random(9) < 0.5) + 1 for _ in range(50)]
    row, rank = np.repeat(np.arange(50), [len(one) for one in lists]), np.concatenate(lists)
    weight = random.random(len(row)) ** 5
    entries = Entries(50, row, rank, rank, rank)
    assert (len(row) == 50 * entries.width) is is_full
    totals = entries.totals(weight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "SPARSEST_LISTS", 0)
        sparse = Entries(50, row, rank, rank, rank).totals(weight)
        for k in (None, 1, 3, 7, 20):
            assert (totals(k) == entries.total(weight, k)).all()
            assert (sparse(k) == totals(k)).all()
            expected = [int((one <= (k or 99)).sum()) for one in lists]
            assert entries.count(k).tolist() == expected


@pytest.mark.parametrize(
    ("item", "rank", "is_regular"),
    [
        ([5, 6, 5], [1, 2, 1], True),
        ([5, 5, 5], [1, 2, 1], False),
        ([5, 6, 5], [1, 1, 1], False),
        ([5, 6, np.iinfo(np.int64).min], [1, 2, 1], False),
        ([5, 6, 5], [1, 1000, 1], False),
    ],
)
def test_lists_are_regular_where_no_rank_and_no_item_comes_twice(
    item: list[int], rank: list[int], is_regular: bool
) -> None:
    of_list = np.array([0, 0, 1])
    assert has_no_duplicates(of_list, 2, np.array(item), np.array(rank)) is is_regular


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
