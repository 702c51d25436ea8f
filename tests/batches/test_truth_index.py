"""Which pairs are relevant: sorted hashes against dictionaries."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.batches.ids import Ids, bucket_of, pair_hash
from spark_eval.batches.sieve import MOST_BYTES, Sieve, slice_bits_for, slice_of
from spark_eval.batches.truth import (
    Truth,
    added_counts,
    count_everything,
    count_rejected,
    count_relevant,
    distinct_truth,
    rejected,
)
from spark_eval.conventions import TruthDuplicates
from spark_eval.describe import WORKED

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
            "timestamp": pa.array(time, pa.int64()),
        }
    )


def index_truth(rows: pa.Table, duplicates: TruthDuplicates = TruthDuplicates.MAX) -> Truth:
    return Truth.of(distinct_truth(rows, duplicates))


def pairs(truth: Truth) -> dict[tuple[Any, Any], float]:
    """What the arrays say, pair by pair."""
    users, items = truth.users.ids.to_pylist(), truth.items.to_pylist()
    rows = range(len(items))
    relevance = truth.relevances(np.arange(len(items)))
    return {(users[truth.user[row]], items[row]): relevance[row] for row in rows}


def drawn(n: int) -> list[tuple[int, int, float, int]]:
    draws = RANDOM.integers(0, [40, 60, 5, 3], (n, 4))
    return [(int(u), int(i), float(r + 1), int(t)) for u, i, r, t in draws]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), TEXT], ids=str)
def test_hits_are_those_of_a_dictionary(kind: pa.DataType) -> None:
    rows = drawn(500)
    truth = index_truth(table(rows, kind))
    asked = RANDOM.integers(0, [50, 80], (3000, 2))
    users, items = (column(asked[:, place].tolist(), kind) for place in (0, 1))
    codes = truth.users.codes(Ids.of(users))
    hits, found = truth.hits(np.where(codes < 0, truth.n_users, codes), Ids.of(items))
    known = {(user, item) for user, item, _, _ in rows}
    expected = [place for place, pair in enumerate(asked.tolist()) if tuple(pair) in known]
    assert hits.tolist() == expected
    assert (
        truth.items.take(pa.array(found)).to_pylist() == items.cast(truth.items.type).take(hits).to_pylist()
    )
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
        TruthDuplicates.SUM: lambda group: math.fsum(relevance for _, relevance in group),
    }
    tenths = [(user, item, relevance / 10, time) for user, item, relevance, time in rows]
    truth = index_truth(table(tenths), duplicates)
    assert pairs(truth) == {pair: combine[duplicates](group) for pair, group in groups.items()}
    assert (np.diff(truth.offsets) > 0).all()
    assert truth.n_users == len({user for user, _ in groups})


@pytest.mark.parametrize("worked", WORKED, ids=lambda row: row[0])
def test_worked_rows_are_combined_as_the_document_says(worked: list[str]) -> None:
    rows = [(1, 1, float(relevance), time) for time, relevance in enumerate(worked[0].split(","))]
    for duplicates, relevance in zip(TruthDuplicates, worked[1:], strict=True):
        assert pairs(index_truth(table(rows), duplicates)) == {("é1", "é1"): float(relevance)}


def test_rows_without_a_time_are_the_earliest() -> None:
    rows = table([(1, 1, 3.0, 0), (1, 1, 2.0, 0)], pa.int64())
    rows = rows.set_column(3, "timestamp", pa.array([None, -5], pa.int64()))
    assert pairs(index_truth(rows, TruthDuplicates.LAST)) == {(1, 1): 2.0}


def test_the_smallest_and_the_largest_ids() -> None:
    rows = [(LARGEST, -LARGEST - 1, 1.0, 0), (-LARGEST - 1, LARGEST, 1.0, 0)]
    truth = index_truth(table(rows, pa.int64()))
    users, items = (Ids.of(pa.array([row[place] for row in rows])) for place in (0, 1))
    assert truth.hits(truth.users.codes(users), items)[0].tolist() == [0, 1]
    assert truth.hits(truth.users.codes(users), users)[0].tolist() == []


def test_ids_of_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_eval.batches.ids.mixed", lambda numbers: numbers // 4 << np.uint64(60))
    rows = [(user, item, 1.0, 0) for user in (5, 7, 2, 5, 6) for item in (8, 2, 9, 8, 11)]
    truth = index_truth(table(rows, pa.int64()))
    assert set(pairs(truth)) == {(user, item) for user, item, _, _ in rows}
    asked = [(user, item) for user in range(9) for item in range(13)]
    codes = truth.users.codes(Ids.of(pa.array([user for user, _ in asked])))
    codes[codes < 0] = truth.n_users
    hits, _ = truth.hits(codes, Ids.of(pa.array([item for _, item in asked])))
    assert {asked[hit] for hit in hits} == set(pairs(truth))


def test_nothing_is_relevant() -> None:
    for duplicates in TruthDuplicates:
        truth = index_truth(table([(1, 1, 1.0, 0)]).slice(1), duplicates)
        assert (truth.n_users, truth.offsets.tolist()) == (0, [0])
        assert truth.hits(np.array([0]), Ids.of(pa.array(["x"])))[0].tolist() == []


def test_relevances_of_one_take_no_memory() -> None:
    truth = index_truth(table([(1, 1, 1.0, 0), (1, 2, 1.0, 0)]))
    assert truth.relevance is None
    assert truth.relevances(np.array([1, 0])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("n_buckets", [1, 7])
def test_every_relevant_pair_passes_the_sieve_and_hardly_any_other(n_buckets: int) -> None:
    users, items = (Ids.of(pa.array(RANDOM.integers(0, LARGEST, 4000))) for _ in range(2))
    slice_bits = slice_bits_for(4000, n_buckets)
    of_user = bucket_of(users.hash, n_buckets)
    pairs_ = pair_hash(users.hash, items.hash)
    slices = {bucket: slice_of(pairs_[of_user == bucket], slice_bits) for bucket in range(n_buckets)}
    sieve = Sieve.of(slices, n_buckets, slice_bits)
    once = np.ones(4000, dtype=np.int64)
    assert sieve.passing(users.hash, items.hash, once).tolist() == list(range(4000))
    assert len(sieve.passing(users.hash, np.roll(items.hash, 1), once)) < 4000 / 64 * 1.5
    # A user of three rows.
    assert len(sieve.passing(users.hash[:1], items.hash[:3], np.array([3]))) < 3


def test_a_sieve_has_room_for_its_pairs_within_bounds() -> None:
    assert 2 ** slice_bits_for(10**6, 8) >= 16 * 10**6 / 8
    assert 2 ** slice_bits_for(10**12, 2000) * 2000 <= 8 * MOST_BYTES
    assert 2 ** slice_bits_for(1, 1) == 1024


def test_counts_of_buckets_add_up() -> None:
    faulty = pa.table(
        {"user": [1, 1, 2, None], "item": [1, 2, 3, 4], "fault": ["NULL_ID", "NULL_ID", "NOT", "NULL_ID"]}
    )
    others = rejected(faulty)
    truth = index_truth(table([(1, 1, 2.0, 0), (1, 1, 3.0, 0), (4, 2, 1.0, 0)], pa.int64()))
    counts = [count_everything(truth, 3, others), count_relevant(truth, 3, None), *count_rejected(others)]
    everything, relevant, other, null_id = added_counts(counts)
    assert (everything["everything"], everything["rows"], everything["users"]) == (True, 7, 3)
    assert (relevant["fault"], relevant["rows"], relevant["distinct"], relevant["users"]) == (None, 3, 2, 2)
    assert relevant["max_relevance"] == 3.0
    assert (other["fault"], other["rows"], other["users"]) == ("NOT", 1, 1)
    assert (null_id["fault"], null_id["rows"], null_id["users"]) == ("NULL_ID", 3, 1)
    twice = added_counts([*counts, *counts])
    assert [count["rows"] for count in twice] == [14, 6, 2, 6]
    assert twice[1]["max_relevance"] == 3.0


def test_no_row_is_no_count_but_of_everything() -> None:
    nothing = index_truth(table([(1, 1, 1.0, 0)]).slice(1))
    others = rejected(pa.table({"user": ["a"], "fault": ["NULL_ID"]}))
    counts = added_counts([count_everything(nothing, 0, others), count_relevant(nothing, 0, None)])
    assert [(count["everything"], count["rows"]) for count in counts] == [(True, 1)]
