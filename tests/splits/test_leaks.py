"""What tested rows have in common with those before them, by bucket: as loops over the rows find it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.arrow.messages import from_bytes
from spark_eval.schema import Subset
from spark_eval.splits.rules.fold_rule import LATER_PARTS, NEVER, Check, FoldRule
from spark_eval.splits.rules.global_local_ranker import GlobalLocalRanker
from spark_eval.splits.rules.leave_out import LastFraction
from spark_eval.splits.worker.bloom import BloomFilter, slice_of
from spark_eval.splits.worker.leaks import LeakCounter

# user, item, moment, subset, fold
Row = tuple[Any, Any, int, str, int]
PARTS = ["ranker_train", "ranker_test", "global_test"]
RANKER = GlobalLocalRanker()
N_BUCKETS, SLICE_BITS = 3, 10


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows of a split."""
    names = ("user", "item", "timestamp", "subset", "fold")
    return pa.record_batch(
        {name: pa.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    )


def in_buckets(sent: Iterable[tuple[int, Any]]) -> dict[int, list[Any]]:
    """What is sent to each bucket."""
    buckets = defaultdict(list)
    for bucket, one in sent:
        buckets[bucket].append(one)
    return buckets


def filter_of(comparing: LeakCounter, rows: Sequence[pa.RecordBatch], slice_bits: int) -> BloomFilter:
    """The filter of the pairs of these rows."""
    pairs = in_buckets(comparing.pairs(rows))
    slices = {bucket: slice_of(np.concatenate(hashes), slice_bits) for bucket, hashes in pairs.items()}
    return BloomFilter.of(slices, comparing.n_buckets, slice_bits)


def found(
    rule: FoldRule, rows: list[Row], ends: dict[str, list[int]], n_folds: int = 1
) -> dict[str, list[tuple[int, int]]]:
    """The rows and users that all buckets count together, by name and fold."""
    comparing = LeakCounter(rule, n_folds, N_BUCKETS, ends)
    tested = [batch([row for row in rows[n::2] if row[3] != "local_train"]) for n in range(2)]
    sent = list(comparing.messages(tested))
    if learnt := [row for row in rows if row[3] == "local_train"]:
        sent += comparing.messages([batch(learnt)], filter_of(comparing, tested, SLICE_BITS))
    totals = np.sum([comparing.counts(messages) for messages in in_buckets(sent).values()], axis=0)
    return {
        name: list(zip(*total.tolist(), strict=True))
        for name, total in zip(comparing.names, totals, strict=True)
    }


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("seed", range(5))
def test_each_check_counts_what_it_says(kind: type, seed: int) -> None:
    draw = Random(seed)
    parts = ["local_train", *PARTS]
    rows: list[Row] = [
        (kind(draw.randrange(30)), kind(draw.randrange(9)), draw.randrange(20), draw.choice(parts), 0)
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
    ends = {"local_train": [7], "ranker_train": [12], "ranker_test": [11]}
    counts = found(RANKER, rows, ends)
    for check, leaks in expected.items():
        assert counts[check] == [(len(leaks), len({row[0] for row in leaks}))]


@pytest.mark.parametrize("seed", range(3))
def test_folds_are_compared_each_for_itself(seed: int) -> None:
    draw = Random(seed)
    parts = ["train", "validation", "test"]
    rows: list[Row] = [
        (draw.randrange(20), draw.randrange(5), draw.randrange(9), draw.choice(parts), draw.randrange(3))
        for _ in range(200)
    ]

    class Rule(LastFraction):
        subsets = (Subset.TRAIN, Subset.VALIDATION, Subset.TEST)
        checks: ClassVar = {
            "users": Check(LATER_PARTS, ("user",)),
            "pairs": Check(LATER_PARTS, ("user", "item")),
            "early": Check({Subset.TEST: (Subset.TRAIN,)}, early=True),
            "users_early": Check({Subset.TEST: (Subset.TRAIN,)}, ("user",), early=True),
        }

    ends = {"train": [3, NEVER, 5]}
    counts = found(Rule(), rows, ends, 3)
    for fold in range(3):
        here = [row for row in rows if row[4] == fold]
        for part in parts:
            of_part = [row for row in here if row[3] == part]
            assert counts[part][fold] == (len(of_part), len({row[0] for row in of_part}))
        later = [(row, parts[: parts.index(row[3])]) for row in here]
        tested = [row for row in here if row[3] == "test"]
        expected = {
            "users": [a for a, earlier in later if any(a[0] == b[0] and b[3] in earlier for b in here)],
            "pairs": [a for a, earlier in later if any(a[:2] == b[:2] and b[3] in earlier for b in here)],
            "early": [row for row in tested if row[2] <= ends["train"][fold]],
            "users_early": [
                a for a in tested if any(a[0] == b[0] and a[2] <= b[2] and b[3] == "train" for b in here)
            ],
        }
        assert all(expected.values()) or fold == 1
        for check, met in expected.items():
            assert counts[check][fold] == (len(met), len({row[0] for row in met}))


def test_nothing_is_early_where_nothing_came_before() -> None:
    rows: list[Row] = [(1, 1, -(2**62), part, 0) for part in PARTS] + [(2, 2, 5, "local_train", 0)]
    ends = {part: [NEVER] for part in ("local_train", *PARTS[:2])}
    counts = found(RANKER, [*rows, *rows], ends)
    assert counts["ranker_at_or_before_local_train"] == [(0, 0)]
    assert counts["global_test_at_or_before_global_train"] == [(0, 0)]
    assert counts["users_in_both_ranker_parts"] == [(4, 1)]


def test_only_rows_that_may_be_pairs_of_tested_ones_are_sent() -> None:
    comparing = LeakCounter(RANKER, 1, 1, {})
    tested = batch([(1, 1, 0, PARTS[0], 0), (2, 7, 0, PARTS[2], 0)])
    learnt = batch([(user, item, 0, "local_train", 0) for user in range(4) for item in range(9)])
    [(_, message)] = comparing.messages([learnt], filter_of(comparing, [tested], 16))
    rows = from_bytes(pa.py_buffer(message))
    assert rows.num_rows < 4
    assert {(1, 1), (2, 7)} <= set(zip(rows["user"].to_pylist(), rows["item"].to_pylist(), strict=True))
