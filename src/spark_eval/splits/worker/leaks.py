"""Leakage checks between the subsets of a split, in buckets of users."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.codes import (
    Booleans,
    bucket_of,
    decode_ids,
    hashes_of,
    pair_hash,
    to_numpy,
    unique_in_order_of_appearance,
)
from spark_eval.arrow.messages import (
    buckets_of,
    coalesce_tables,
    concat_messages,
    from_bytes,
    one_chunk,
    partition_rows,
    to_bytes,
)
from spark_eval.schema import FOLD, ITEM, SUBSET, TIMESTAMP, USER, Subset
from spark_eval.splits.rules.fold_rule import NEVER, Check, FoldRule
from spark_eval.splits.worker.bloom import BloomFilter
from spark_eval.statistics.exact import Ints

# Subsets are sent as their indices in this list.
CODES: Final = [subset.value for subset in Subset]
# Later than every timestamp.
FOREVER: Final = 2**63 - 1


@dataclass(frozen=True)
class LeakCounter:
    """Comparison of the rows of a split within each fold.

    ``ends`` are the latest timestamps of each subset in each fold, in microseconds, if a check needs them.
    """

    rule: FoldRule
    n_folds: int
    n_buckets: int
    ends: Mapping[str, Sequence[int]]

    @property
    def names(self) -> list[str]:
        """Names of the counts: the subsets, then the checks."""
        return [*(subset.value for subset in self.rule.subsets), *self.rule.checks]

    @property
    def columns(self) -> list[str]:
        """Columns to read, in addition to the subset."""
        is_timed = any(check.early for check in self.rule.checks.values())
        return [USER, ITEM, FOLD, *([TIMESTAMP] if is_timed else [])]

    def pairs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Ints]]:
        """Yield each bucket with the hashes of its pairs of user and item."""
        for batch in batches:
            users = hashes_of(decode_ids(batch[USER]))
            hashes, buckets = (
                pair_hash(users, hashes_of(decode_ids(batch[ITEM]))),
                bucket_of(users, self.n_buckets),
            )
            for bucket in np.unique(buckets).tolist():
                yield bucket, hashes[buckets == bucket]

    def messages(
        self, batches: Iterable[pa.RecordBatch], pairs: BloomFilter | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield each bucket with its serialized rows; given a filter, only rows whose pair may be in it."""
        for table in coalesce_tables(self.rows(batch, pairs) for batch in batches):
            buckets = buckets_of(one_chunk(table[USER]), self.n_buckets)
            for bucket, part in enumerate(partition_rows(table, buckets, self.n_buckets)):
                if part.num_rows:
                    yield bucket, to_bytes(part).to_pybytes()

    def rows(self, batch: pa.RecordBatch, pairs: BloomFilter | None) -> pa.Table:
        """Return the rows to send: plain ids, integer timestamps, subsets as indices."""
        columns = {name: batch[name] for name in self.columns}
        columns |= {USER: decode_ids(batch[USER]), ITEM: decode_ids(batch[ITEM])}
        if TIMESTAMP in columns:
            columns[TIMESTAMP] = columns[TIMESTAMP].cast(pa.int64())
        columns[SUBSET] = pc.index_in(batch[SUBSET], pa.array(CODES)).cast(pa.int8())
        rows = pa.table(columns)
        if pairs is None:
            return rows
        return rows.take(pa.array(pairs.passing(hashes_of(columns[USER]), hashes_of(columns[ITEM]))))

    def counts(self, messages: Iterable[bytes]) -> Ints:
        """Count rows and users of a bucket for each of ``names`` in each fold; shape (names, 2, folds)."""
        rows = KeyedRows.of(concat_messages([from_bytes(pa.py_buffer(message)) for message in messages]))
        parts = [rows.subset == CODES.index(subset) for subset in self.rule.subsets]
        checked = [self.rows_of_check(rows, check) for check in self.rule.checks.values()]
        return np.array([rows.count(chosen, self.n_folds) for chosen in (*parts, *checked)])

    def rows_of_check(self, rows: "KeyedRows", check: Check) -> Booleans:
        """Return the mask (n,) of the rows that a check counts."""
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
    """The n rows of a bucket; ``subset`` are indices into CODES, ``time`` is in microseconds.

    ``keys`` are integers from 0, by the columns that they combine; rows of two folds have different keys.
    """

    subset: NDArray[np.int8]
    time: Ints
    fold: Ints
    keys: Mapping[tuple[str, ...], Ints]

    @classmethod
    def of(cls, rows: pa.Table) -> "KeyedRows":
        """Build the keys of rows as ``LeakCounter.rows`` sends them."""
        fold = to_numpy(rows[FOLD]).astype(np.int64)
        user = pair_codes(fold, codes_of(rows[USER]))
        pair = pair_codes(user, codes_of(rows[ITEM]))
        time = to_numpy(rows[TIMESTAMP]) if TIMESTAMP in rows.column_names else fold
        return cls(to_numpy(rows[SUBSET]), time, fold, {(): fold, (USER,): user, (USER, ITEM): pair})

    def count(self, chosen: Booleans, n_folds: int) -> tuple[Ints, Ints]:
        """Return the numbers of chosen rows and of their users in each fold; each of shape (n_folds,)."""
        user = self.keys[USER,]
        fold_of = np.zeros(user.max(initial=0) + 1, dtype=np.int64)
        fold_of[user] = self.fold
        folds = (self.fold[chosen], fold_of[np.unique(user[chosen])])
        n_rows, n_users = (np.bincount(of, minlength=n_folds) for of in folds)
        return n_rows, n_users


def codes_of(column: pa.ChunkedArray) -> Ints:
    """Encode the distinct values of a column without nulls as 0, 1, ...; shape (n,)."""
    return to_numpy(one_chunk(column).dictionary_encode().indices).astype(np.int64)


def pair_codes(first: Ints, second: Ints) -> Ints:
    """Encode the distinct pairs of integers as 0, 1, ...; shape (n,)."""
    return unique_in_order_of_appearance(first * (second.max(initial=0) + 1) + second)[1]
