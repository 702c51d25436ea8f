"""Which pairs are relevant: sorted hashes against dictionaries."""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.batches import truth as truth_module
from spark_eval.batches.ids import Ids, mixed
from spark_eval.batches.truth import Truth, count_rows, index_truth
from spark_eval.conventions import TruthDuplicates

RANDOM = np.random.default_rng(20231)
TEXT = pa.string()
LARGEST = 2**63 - 1


def column(ids: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([f"é{number}" for number in ids] if kind == TEXT else ids, kind)


def table(rows: list[tuple[int, int, float, int]], kind: pa.DataType = TEXT) -> pa.Table:
    users, items, relevance, time = zip(*rows, strict=True)
    return pa.table(
        {
            "user": column(list(users), kind),
            "item": column(list(items), kind),
            "relevance": pa.array(relevance, pa.float64()),
            "timestamp": pa.array(time, pa.timestamp("us")),
        }
    )


def pairs(truth: Truth) -> dict[tuple[Any, Any], float]:
    """What the arrays say, pair by pair."""
    users, items = truth.users.ids.to_pylist(), truth.items.to_pylist()
    rows = range(len(items))
    relevance = truth.relevances(np.arange(len(items)))
    return {(users[truth.row_user[row]], items[row]): relevance[row] for row in rows}


def drawn(n: int) -> list[tuple[int, int, float, int]]:
    draws = RANDOM.integers(0, [40, 60, 5, 3], (n, 4))
    return [(int(u), int(i), float(r + 1), int(t)) for u, i, r, t in draws]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), TEXT], ids=str)
def test_hits_are_those_of_a_dictionary(kind: pa.DataType) -> None:
    rows = drawn(500)
    truth = index_truth(table(rows, kind), TruthDuplicates.MAX)
    asked = RANDOM.integers(0, [50, 80], (3000, 2))
    users, items = (column(asked[:, place].tolist(), kind) for place in (0, 1))
    hits, found = truth.hits(Ids.of(users, truth.seed), Ids.of(items, truth.seed))
    known = {(user, item) for user, item, _, _ in rows}
    expected = [place for place, pair in enumerate(asked.tolist()) if tuple(pair) in known]
    assert hits.tolist() == expected
    assert (
        truth.items.take(pa.array(found)).to_pylist() == items.cast(truth.items.type).take(hits).to_pylist()
    )
    codes = truth.users.codes(Ids.of(users, truth.seed))
    assert (codes >= 0).tolist() == [user in {user for user, _ in known} for user in asked[:, 0].tolist()]
    of_known = truth.users.ids.take(pa.array(codes[codes >= 0]))
    assert of_known.equals(users.cast(truth.users.ids.type).filter(pa.array(codes >= 0)))


@pytest.mark.parametrize("duplicates", list(TruthDuplicates))
def test_repeated_rows_are_combined(duplicates: TruthDuplicates) -> None:
    rows = drawn(2000)
    groups: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for user, item, relevance, time in rows:
        groups.setdefault((f"é{user}", f"é{item}"), []).append((time, relevance / 10))
    combine: dict[TruthDuplicates, Callable[[list[tuple[int, float]]], float]] = {
        TruthDuplicates.MAX: lambda group: max(relevance for _, relevance in group),
        TruthDuplicates.COUNT: len,
        TruthDuplicates.LAST: lambda group: max(group)[1],
        TruthDuplicates.SUM: lambda group: reduce(add, sorted(relevance for _, relevance in group)),
    }
    tenths = [(user, item, relevance / 10, time) for user, item, relevance, time in rows]
    truth = index_truth(table(tenths), duplicates)
    assert pairs(truth) == {pair: combine[duplicates](group) for pair, group in groups.items()}
    assert (np.diff(truth.offsets) > 0).all()
    assert truth.n_users == len({user for user, _ in groups})


def test_rows_without_a_time_are_the_earliest() -> None:
    rows = table([(1, 1, 3.0, 0), (1, 1, 2.0, 0)], pa.int64())
    rows = rows.set_column(3, "timestamp", pa.array([None, -5], pa.timestamp("us")))
    assert pairs(index_truth(rows, TruthDuplicates.LAST)) == {(1, 1): 2.0}


def test_the_smallest_and_the_largest_ids() -> None:
    rows = [(LARGEST, -LARGEST - 1, 1.0, 0), (-LARGEST - 1, LARGEST, 1.0, 0)]
    truth = index_truth(table(rows, pa.int64()), TruthDuplicates.MAX)
    users, items = (pa.array([row[place] for row in rows]) for place in (0, 1))
    assert truth.hits(Ids.of(users, truth.seed), Ids.of(items, truth.seed))[0].tolist() == [0, 1]
    assert truth.hits(Ids.of(users, truth.seed), Ids.of(users, truth.seed))[0].tolist() == []


def test_a_seed_under_which_ids_collide_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first = truth_module.FIRST_SEED
    monkeypatch.setattr(
        "spark_eval.batches.ids.mixed",
        lambda numbers, seed: numbers // 2 if seed == first else mixed(numbers, seed),
    )
    truth = index_truth(table([(2, 1, 1.0, 0), (3, 1, 1.0, 0)], pa.int64()), TruthDuplicates.MAX)
    assert (truth.seed, truth.n_users) == (first + 1, 2)


def test_a_pair_of_the_same_hash_is_no_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = index_truth(table([(2, 1, 1.0, 0)], pa.int64()), TruthDuplicates.MAX)
    wrong = Ids.of(pa.array([2, 7]), truth.seed)
    monkeypatch.setitem(wrong.__dict__, "hash", np.repeat(Ids.of(pa.array([2]), truth.seed).hash, 2))
    items = Ids.of(pa.array([1, 1]), truth.seed)
    assert truth.hits(wrong, items)[0].tolist() == [0]
    assert truth.users.codes(wrong).tolist() == [0, -1]


def test_relevances_of_one_take_no_memory() -> None:
    truth = index_truth(table([(1, 1, 1.0, 0), (1, 2, 1.0, 0)]), TruthDuplicates.MAX)
    assert truth.relevance is None
    assert truth.relevances(np.array([1, 0])).tolist() == [1.0, 1.0]


def test_rows_are_counted_by_fault() -> None:
    rows = pa.table(
        {"user": [1, 1, 2, None], "item": [1, 2, 3, 4], "fault": ["NULL_ID", None, "NULL_ID", "NULL_ID"]}
    )
    everything, fault = count_rows(rows)
    assert (everything["everything"], everything["rows"], everything["users"]) == (True, 4, 2)
    assert (fault["fault"], fault["rows"], fault["users"]) == ("NULL_ID", 3, 2)
