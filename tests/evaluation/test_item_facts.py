"""Facts of items, histories, base lists and counts per item, as workers carry them: against plain Python."""

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drive import Layout, Tables, drive, table_of
from hypothesis import given
from hypothesis import strategies as st
from item_metrics import METRICS, registered

from spark_eval.arrow.codes import Codes
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.plan import make_plan
from spark_eval.evaluation.worker.items.attributes import (
    ItemAttributes,
    item_attributes,
    sets_from_lists,
    vectors_from_lists,
)
from spark_eval.evaluation.worker.items.context import empty_and_unknown_lists
from spark_eval.kernels.beyond.catalog import UNKNOWN, Catalog, Entries, ItemContext, Sets
from spark_eval.schema import Outcome

# Users with lists and truth; items; where each stands.
N_USERS, N_ITEMS = 9, 14
Pairs = set[tuple[int, int]]


@pytest.fixture(autouse=True)
def metrics() -> Iterator[None]:
    with registered():
        yield


class Case:
    """Random lists of two models, truth, training and a table of items, with the values that follow."""

    def __init__(self, seed: int, folds: list[int], is_text: bool) -> None:
        draw = random.Random(seed)
        self.folds, self.is_text = folds, is_text
        self.lists = {
            (model, fold, user): draw.sample(range(N_ITEMS), draw.randint(0, 5))
            for model in "ab"
            for fold in folds
            for user in range(N_USERS)
        }
        cells = [(fold, user) for fold in folds for user in range(N_USERS)]
        self.truth = {cell: draw.sample(range(N_ITEMS), draw.randint(1, 3)) for cell in cells}
        self.train = {cell: draw.sample(range(N_ITEMS - 2), draw.randint(0, 4)) for cell in cells}
        self.groups = {item: draw.sample("xyz", draw.randint(0, 2)) for item in range(1, N_ITEMS + 3)}
        # The first list of all and something in the training of each fold.
        self.train |= {(fold, 0): [0, 3] for fold in folds}

    def id(self, number: int) -> Any:
        return f"i{number * 7 % 10}-{number}" if self.is_text else number * 3 - 5

    @property
    def kind(self) -> pa.DataType:
        return pa.string() if self.is_text else pa.int64()

    def takers(self, fold: int, item: int) -> int:
        return sum(item in items for (of_fold, _), items in self.train.items() if of_fold == fold)

    def user_values(self, model: str, fold: int, user: int, k: int) -> dict[str, float | None]:
        """The values of the per-user metrics at k."""
        items = self.lists[model, fold, user][:k]
        base = self.lists["a", fold, user]

        def mean(values: list[float]) -> float | None:
            return sum(values) / len(values) if values else None

        relevant = sorted(self.truth[fold, user], key=self.id)[-1]
        hits = [item for item in items if item in self.truth[fold, user]]
        return {
            "t_popularity": mean([self.takers(fold, item) for item in items]),
            "t_groups": mean([1.1 * len(self.groups.get(item, ())) for item in items]),
            "t_seen": mean([item in self.train[fold, user] for item in items]),
            "t_base": mean([item in base[:k] for item in items]) if base else None,
            "t_first": self.takers(fold, relevant) + sum(self.takers(fold, item) for item in hits),
        }

    def run_values(self, model: str, folds: list[int], k: int) -> dict[str, float]:
        """The values of a run at k, over all lists of these folds."""
        cells = [cell for cell in self.lists if cell[0] == model and cell[1] in folds]
        lists = [self.lists[cell][:k] for cell in cells]
        recommended = {item for items in lists for item in items}
        trained = {item for (fold, _), items in self.train.items() if fold in folds for item in items}
        n_slots = sum(Fraction(1, len(items)) for items in lists for _ in items)
        n_lists = sum(map(len, lists))
        return {
            "t_coverage": len(recommended & self.groups.keys()) / len(self.groups),
            "t_trained": len(recommended & trained)
            + 100 * n_lists
            + 10_000 * float(n_slots)
            + len(trained) / 1000,
            "t_filled": sum(map(bool, lists)) / len(lists),
        }

    def tables(self) -> Tables:
        by_fold = [] if self.folds == [0] else ["fold"]
        lists = [
            (model, user, self.id(item), rank, fold)
            for (model, fold, user), items in self.lists.items()
            for rank, item in enumerate(items, 1)
        ]
        truth = [
            (user, self.id(item), 1.0, fold) for (fold, user), items in self.truth.items() for item in items
        ]
        train = [(user, self.id(item), fold) for (fold, user), items in self.train.items() for item in items]
        counted = [
            (self.id(item), fold, n, n)
            for fold in self.folds
            for item in range(N_ITEMS)
            if (n := self.takers(fold, item))
        ]
        items = [(self.id(item), groups, groups) for item, groups in self.groups.items()]
        texts = pa.list_(pa.string())
        of_items = table_of(items, item=self.kind, groups=texts, features=texts)
        trained = table_of(counted, item=self.kind, fold=pa.int64(), n_rows=pa.int64(), n_takers=pa.int64())
        n_users: dict[int | None, int] = {}
        for fold in self.folds:
            n_users[fold if by_fold else None] = sum(
                bool(items) for (one, _), items in self.train.items() if one == fold
            )
        facts = item_attributes(
            self.kind, of_items, trained if by_fold else trained.drop_columns("fold"), n_users
        )

        def table(rows: Any, **columns: pa.DataType) -> pa.Table:
            whole = table_of(rows, **columns, fold=pa.int64())
            return whole if by_fold else whole.drop_columns("fold")

        id_types = {"user": pa.int64(), "item": self.kind}
        return Tables(
            table(lists, model=pa.string(), **id_types, rank=pa.int64()),
            table(truth, **id_types, relevance=pa.float64()),
            profile=table(train, **id_types),
            facts=facts,
        )


PER_USER = ["t_popularity", "t_groups", "t_seen", "t_base", "t_first"]
PER_RUN = ["t_coverage", "t_trained", "t_filled"]


@given(st.integers(0, 10**6), st.sampled_from([[0], [2, 5]]), st.booleans(), st.integers(1, 3))
def test_what_workers_see_is_what_is_there(
    seed: int, folds: list[int], is_text: bool, n_buckets: int
) -> None:
    case, by_fold = Case(seed, folds, is_text), len(folds) > 1
    segments = ("fold",) if by_fold else ()
    plan = make_plan(
        metrics=[*PER_USER, *PER_RUN],
        k=[2, 4],
        base="a",
        segments=segments,
        conventions={"entropy_weights": "slots"},
    )
    found = drive(plan, case.tables(), Layout(n_buckets=n_buckets, n_tasks=1 + seed % 2, most_rows=20))
    assert len(found.per_user) == 2 * len(folds) * N_USERS
    for (model, *fold, user), row in found.per_user.items():
        for k in (2, 4):
            expected = case.user_values(model, fold[0] if fold else 0, user, k)
            values = {name: row[f"{name}_at_{k}"] for name in expected}
            assert values == pytest.approx(expected), (model, fold, user, k)
    of_cells = {(row[0], row[1], row[2], row[3], row[4]): row[5] for row in found.metrics}
    for model in "ab":
        for k in (2, 4):
            cells = {("all", "all"): folds} | {("fold", str(one)): [one] for one in folds if by_fold}
            for cell, of_cell in cells.items():
                of_run = {name: of_cells[model, name, k, *cell] for name in PER_RUN}
                # The smallest part of t_trained is 10^-8 of it.
                assert of_run == pytest.approx(case.run_values(model, of_cell, k), rel=1e-11)


def test_the_accounting_counts_lists_with_items_of_which_something_is_not_known() -> None:
    case = Case(1, [0], False)
    case.lists = {("a", 0, user): [] for user in range(N_USERS)}
    case.lists |= {("a", 0, 1): [0, 3], ("a", 0, 2): [3, 40], ("a", 0, 3): [13], ("a", 0, 4): [3]}
    case.groups = {one: ["x"] for one in range(N_ITEMS) if one != 3}
    found = drive(make_plan(metrics=["t_popularity", "t_groups"], k=5), case.tables())
    counts = {name.rstrip("."): n for name, n in found.lists["a"].items() if name.endswith(".")}
    names = ("empty_lists", "outside_catalog", "unseen_items", "without_groups", "without_vectors")
    assert [counts.get(name) for name in names] == [N_USERS - 4, 3, 2, 3, None]


def test_nothing_is_carried_that_no_metric_needs() -> None:
    case = Case(2, [0], False)
    found = drive(make_plan(metrics="ndcg", k=3), case.tables())
    assert "outside_catalog." not in found.lists["a"]
    assert {row[1] for row in found.metrics} == {"ndcg"}


@pytest.mark.parametrize("ids", [[5, -3, 7], [2**62, -(2**62), 5], ["b", "a", "\u00e4"]])
def test_places_of_ids_near_together_far_apart_and_of_text(ids: list[Any]) -> None:
    kind = pa.string() if isinstance(ids[0], str) else pa.int64()
    facts = ItemAttributes(pa.array(sorted(ids), kind), Catalog(len(ids)))
    others = ["z", "", "aa"] if isinstance(ids[0], str) else [6, 2**63 - 1, -(2**63)]
    codes = Codes.of([pa.chunked_array([pa.array([*others, *ids], kind)])])
    indices = facts.index_finder(codes)(codes.columns[0])
    assert indices.tolist() == [UNKNOWN] * 3 + [sorted(ids).index(one) for one in ids]
    assert isinstance(ids[0], str) or (facts.table is None) == (ids[0] == 2**62)


def test_sets_are_ascending_and_hold_each_member_once() -> None:
    column = pa.chunked_array([pa.array([["b", "a", "b", "", None], None, [], ["c"]])])
    sets = sets_from_lists(column, np.array([2, 0, 1, 3]), 5)
    assert (sets.names, sets.members.tolist(), sets.starts.tolist()) == (
        ["a", "b", "c"],
        [0, 1, 2],
        [0, 0, 0, 2, 3, 3],
    )


def test_vectors_keep_their_width_and_unknown_ones_are_nan() -> None:
    parts = [pa.array(rows, pa.list_(pa.float32())) for rows in ([[1.0, 2.0], None], [[3.0, 4.0]])]
    vectors = vectors_from_lists(pa.chunked_array(parts), np.array([1, 0, 2]), 4)
    assert isinstance(vectors, np.ndarray)
    assert vectors.dtype == np.float32
    assert np.isnan(vectors).all(axis=1).tolist() == [True, False, False, True]
    assert vectors[1:3].tolist() == [[1, 2], [3, 4]]


def test_sparse_vectors_ascend() -> None:
    maps = pa.array([[(7, 1.5), (2, 0.5)], None], pa.map_(pa.int64(), pa.float64()))
    sparse = vectors_from_lists(pa.chunked_array([maps]), np.array([1, 0]), 3)
    assert isinstance(sparse, Sets)
    assert sparse.values is not None
    assert (sparse.starts.tolist(), sparse.members.tolist()) == ([0, 0, 2, 2], [2, 7])
    assert sparse.values.tolist() == [0.5, 1.5]


def test_an_item_is_known_in_its_own_fold() -> None:
    """Item 0 is in the catalogue, and in training, of the first fold only."""
    n_rows = np.array([[3, 0, 0], [0, 1, 0]])
    one = np.zeros(2, dtype=np.int64)
    listed = Entries(2, np.array([0, 1]), one + 1, one, one)
    about = ItemContext(Catalog(2, n_rows > 0, n_rows=n_rows), np.array([0, 1]), one[:0], one[:0], listed)
    lacking = {outcome: lists.tolist() for outcome, lists in empty_and_unknown_lists(about).items()}
    assert lacking == {
        Outcome.EMPTY_LISTS: [False, False],
        Outcome.OUTSIDE_CATALOG: [False, True],
        Outcome.UNSEEN_ITEMS: [False, True],
    }


@pytest.mark.parametrize(
    ("vectors", "code"),
    [
        ([[1.0], [1.0, 2.0]], "VECTOR_LENGTHS"),
        ([[1.0], [float("nan")]], "VECTOR_NOT_FINITE"),
        ([[1.0], [float("inf")]], "VECTOR_NOT_FINITE"),
        ([[1.0], [None]], "VECTOR_NOT_FINITE"),
    ],
)
def test_invalid_vectors_are_refused(vectors: Any, code: str) -> None:
    table = pa.table({"item": [1, 2], "vector": pa.array(vectors, pa.list_(pa.float64()))})
    with pytest.raises(DataError) as raised:
        item_attributes(pa.int64(), table, None, {})
    assert raised.value.code == code


def test_an_item_with_two_rows_is_refused_by_its_id() -> None:
    with pytest.raises(DataError, match="1 items have several rows, such as 7;") as raised:
        item_attributes(pa.int64(), pa.table({"item": [1, 7, 7]}), None, {})
    assert raised.value.code == "DUPLICATE_ITEM"


@pytest.mark.parametrize(
    ("metric", "code"),
    [
        ("t_popularity", "MISSING_TRAIN"),
        ("t_seen", "MISSING_TRAIN"),
        ("t_groups", "MISSING_ITEMS"),
        ("t_vectors", "MISSING_ITEMS"),
        ("t_coverage", "MISSING_CATALOG"),
        ("t_base", "MISSING_BASE"),
    ],
)
def test_a_metric_without_what_it_needs_is_refused_by_name(metric: str, code: str) -> None:
    plan = make_plan(metrics=["ndcg", metric])
    with pytest.raises(ConfigError, match=f"for {metric} we need") as raised:
        plan.check_tables(has_train=False, has_items=False)
    assert raised.value.code == code
    make_plan(metrics=list(METRICS), base="a").check_tables(has_train=True, has_items=True)
