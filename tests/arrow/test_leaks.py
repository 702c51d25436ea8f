"""What tested rows have in common with those before them, by bucket: as loops over the rows find it."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_eval.arrow.bloom import Sieve
from spark_eval.arrow.parcels import Parcel
from spark_eval.splits.leaks import PARTS, Comparing

Row = tuple[Any, Any, int, str]
N_BUCKETS, SLICE_BITS = 3, 10


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows of a split."""
    names = ("user", "item", "timestamp", "subset")
    return pa.record_batch(
        {name: pa.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    )


def in_buckets(parcels: list[Parcel]) -> list[list[Parcel]]:
    """The parcels of each bucket."""
    return [[parcel for parcel in parcels if parcel.bucket == bucket] for bucket in range(N_BUCKETS)]


def found(rows: list[Row], ends: tuple[int | None, int | None]) -> dict[str, tuple[int, int]]:
    """What all buckets find together."""
    kind = pa.array([rows[0][0]]).type
    comparing = Comparing(kind, kind, N_BUCKETS, SLICE_BITS, ends)
    tested = [batch([row for row in rows[n::2] if row[3] in PARTS]) for n in range(2)]
    learnt = [batch([row for row in rows if row[3] == "local_train"])]
    pairs = in_buckets(list(comparing.pairs(tested)))
    sieve = Sieve.of({n: comparing.slice(parcels) for n, parcels in enumerate(pairs)}, N_BUCKETS, SLICE_BITS)
    parcels = [*comparing.tested(tested), *comparing.learnt(learnt, sieve)]
    totals: dict[str, Counter[str]] = {}
    for leaks in map(comparing.leaks, in_buckets(parcels)):
        for check, (n_rows, n_users) in leaks.items():
            totals.setdefault(check, Counter()).update(rows=n_rows, users=n_users)
    return {check: (total["rows"], total["users"]) for check, total in totals.items()}


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("seed", range(5))
def test_each_check_counts_what_it_says(kind: type, seed: int) -> None:
    draw = Random(seed)
    parts = ["local_train", *PARTS]
    rows = [
        (kind(draw.randrange(30)), kind(draw.randrange(9)), draw.randrange(20), draw.choice(parts))
        for _ in range(150)
    ]
    train = [row for row in rows if row[3] == "local_train"]
    local = [row for row in rows if row[3] in PARTS[:2]]
    test = [row for row in rows if row[3] == "global_test"]
    learnt = {row[:2] for row in train}
    both = {row[0] for row in rows if row[3] == PARTS[0]} & {row[0] for row in rows if row[3] == PARTS[1]}
    expected = {
        "ranker_at_or_before_local_train": [row for row in local if row[2] <= 7],
        "global_test_at_or_before_global_train": [row for row in test if row[2] <= 12],
        "users_in_both_ranker_parts": [row for row in local if row[0] in both],
        "pairs_in_train_and_local_test": [row for row in local if row[:2] in learnt],
        "pairs_in_train_and_global_test": [
            row for row in test if row[:2] in learnt | {row[:2] for row in local}
        ],
    }
    assert all(expected.values())
    assert found(rows, (7, 12)) == {
        check: (len(leaks), len({row[0] for row in leaks})) for check, leaks in expected.items()
    }


def test_nothing_is_early_where_nothing_came_before() -> None:
    rows = [(1, 1, -(2**62), part) for part in PARTS] + [(2, 2, 5, "local_train")]
    leaks = found([*rows, *rows], (None, None))
    assert (
        leaks["ranker_at_or_before_local_train"] == leaks["global_test_at_or_before_global_train"] == (0, 0)
    )
    assert leaks["users_in_both_ranker_parts"] == (4, 1)


def test_only_rows_that_may_be_pairs_of_tested_ones_are_sent() -> None:
    comparing = Comparing(pa.int64(), pa.int64(), 1, 16, (0, 0))
    pairs = list(comparing.pairs([batch([(1, 1, 0, PARTS[0]), (2, 7, 0, PARTS[2])])]))
    sieve = Sieve.of({0: comparing.slice(pairs)}, 1, 16)
    learnt = batch([(user, item, 0, "local_train") for user in range(4) for item in range(9)])
    [parcel] = comparing.learnt([learnt], sieve)
    assert parcel.table.num_rows < 4
    assert {(1, 1), (2, 7)} <= set(zip(*(column.to_pylist() for column in parcel.table.columns), strict=True))
