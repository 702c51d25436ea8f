"""What rows of a split have in common with those of other parts, bucket by bucket of users."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.bloom import BloomFilter
from spark_eval.arrow.codes import distinct_of
from spark_eval.arrow.hashes import Booleans, bucket_of, hashes_of, numbers, pair_hash, plain
from spark_eval.engine.messages import buckets_of, divided, gathered, one_chunk, packed, united, unpacked
from spark_eval.schema import FOLD, ITEM, SUBSET, TIMESTAMP, USER, Subset
from spark_eval.splits.fold_rule import NEVER, Check, FoldRule
from spark_eval.stats.exact import Ints

# Subsets travel as their places in this order.
CODES: Final = [subset.value for subset in Subset]
# After every timestamp.
FOREVER: Final = 2**63 - 1


@dataclass(frozen=True)
class Comparing:
    """How the rows of a split are compared, fold by fold.

    ``ends`` are the last moments of the subsets in each fold, in microseconds, where a check asks for them.
    """

    rule: FoldRule
    n_folds: int
    n_buckets: int
    ends: Mapping[str, Sequence[int]]

    @property
    def names(self) -> list[str]:
        """What is counted: rows and users of each part, and of each check."""
        return [*(subset.value for subset in self.rule.subsets), *self.rule.checks]

    @property
    def columns(self) -> list[str]:
        """What is read of the rows, beside their subset."""
        is_timed = any(check.early for check in self.rule.checks.values())
        return [USER, ITEM, FOLD, *([TIMESTAMP] if is_timed else [])]

    def pairs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Ints]]:
        """Return the hashes of the pairs of rows, for each bucket."""
        for batch in batches:
            users = hashes_of(plain(batch[USER]))
            hashes, buckets = (
                pair_hash(users, hashes_of(plain(batch[ITEM]))),
                bucket_of(users, self.n_buckets),
            )
            for bucket in np.unique(buckets).tolist():
                yield bucket, hashes[buckets == bucket]

    def messages(
        self, batches: Iterable[pa.RecordBatch], pairs: BloomFilter | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Return rows for each bucket; given a filter of pairs, only rows that may be one of these."""
        for table in gathered(self.rows(batch, pairs) for batch in batches):
            buckets = buckets_of(one_chunk(table[USER]), self.n_buckets)
            for bucket, part in enumerate(divided(table, buckets, self.n_buckets)):
                if part.num_rows:
                    yield bucket, packed(part).to_pybytes()

    def rows(self, batch: pa.RecordBatch, pairs: BloomFilter | None) -> pa.Table:
        """Return rows as they are sent."""
        columns = {name: batch[name] for name in self.columns}
        columns |= {USER: plain(batch[USER]), ITEM: plain(batch[ITEM])}
        if TIMESTAMP in columns:
            columns[TIMESTAMP] = columns[TIMESTAMP].cast(pa.int64())
        columns[SUBSET] = pc.index_in(batch[SUBSET], pa.array(CODES)).cast(pa.int8())
        rows = pa.table(columns)
        if pairs is None:
            return rows
        return rows.take(pa.array(pairs.passing(hashes_of(columns[USER]), hashes_of(columns[ITEM]))))

    def counts(self, messages: Iterable[bytes]) -> Ints:
        """Return of a bucket the rows and the users of each name in each fold; shape (names, 2, folds)."""
        rows = KeyedRows.of(united([unpacked(pa.py_buffer(message)) for message in messages]))
        parts = [rows.subset == CODES.index(subset) for subset in self.rule.subsets]
        met = [self.met(rows, check) for check in self.rule.checks.values()]
        return np.array([rows.count(chosen, self.n_folds) for chosen in (*parts, *met)])

    def met(self, rows: "KeyedRows", check: Check) -> Booleans:
        """Return the rows that a check counts; shape (n,)."""
        counted, key = np.zeros(len(rows.subset), dtype=bool), rows.keys[check.keys]
        for subset, others in check.others.items():
            last = np.full(key.max(initial=0) + 1, NEVER)
            if check.keys:
                other = np.isin(rows.subset, [CODES.index(name) for name in others])
                np.maximum.at(last, key[other], rows.time[other] if check.early else FOREVER)
            else:
                last = np.max([self.ends[name] for name in others], axis=0)
            counted |= (rows.subset == CODES.index(subset)) & (rows.time <= last[key])
        return counted


@dataclass(frozen=True)
class KeyedRows:
    """The n rows of a bucket: places of their subsets, their times, and their keys by what makes these.

    A key counts from 0, and is of one fold.
    """

    subset: NDArray[np.int8]
    time: Ints
    fold: Ints
    keys: Mapping[tuple[str, ...], Ints]

    @classmethod
    def of(cls, rows: pa.Table) -> "KeyedRows":
        """Return rows as they were sent."""
        fold = numbers(rows[FOLD]).astype(np.int64)
        user = paired(fold, codes_of(rows[USER]))
        pair = paired(user, codes_of(rows[ITEM]))
        time = numbers(rows[TIMESTAMP]) if TIMESTAMP in rows.column_names else fold
        return cls(numbers(rows[SUBSET]), time, fold, {(): fold, (USER,): user, (USER, ITEM): pair})

    def count(self, chosen: Booleans, n_folds: int) -> tuple[Ints, Ints]:
        """Return how many of these rows each fold has, and how many users they have."""
        user = self.keys[USER,]
        fold_of = np.zeros(user.max(initial=0) + 1, dtype=np.int64)
        fold_of[user] = self.fold
        folds = (self.fold[chosen], fold_of[np.unique(user[chosen])])
        n_rows, n_users = (np.bincount(of, minlength=n_folds) for of in folds)
        return n_rows, n_users


def codes_of(column: pa.ChunkedArray) -> Ints:
    """Return 0, 1, ... for each distinct value of a column without nulls."""
    return numbers(one_chunk(column).dictionary_encode().indices).astype(np.int64)


def paired(first: Ints, second: Ints) -> Ints:
    """Return 0, 1, ... for each distinct pair of numbers."""
    return distinct_of(first * (second.max(initial=0) + 1) + second)[1]
