"""What of the later parts of a split is already in the earlier ones, bucket by bucket of users."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.batches.ids import Booleans, Ids, changes, numbers, pair_hash, plain
from spark_eval.batches.judging import Distinct
from spark_eval.batches.parcels import Kind, Parcel, gathered, of_kind
from spark_eval.batches.sieve import Sieve, slice_of
from spark_eval.batches.truth import Truth, distinct_truth
from spark_eval.conventions import TruthDuplicates
from spark_eval.schema import ITEM, RELEVANCE, SUBSET, TIMESTAMP, USER, Subset

RANKER_EARLY: Final = "ranker_at_or_before_local_train"
GLOBAL_TEST_EARLY: Final = "global_test_at_or_before_global_train"
BOTH_RANKER_PARTS: Final = "users_in_both_ranker_parts"
RETURNED_TO_LOCAL_TEST: Final = "pairs_in_train_and_local_test"
RETURNED_TO_GLOBAL_TEST: Final = "pairs_in_train_and_global_test"
# The parts that are tested, with a code each.
PARTS: Final = (Subset.RANKER_TRAIN.value, Subset.RANKER_TEST.value, Subset.GLOBAL_TEST.value)


# Before every timestamp.
NEVER: Final = -(2**63)


@dataclass(frozen=True)
class Comparing:
    """How rows of the tested parts are compared with the others.

    ``user`` and ``item`` are the types of the ids, int64 or text. The last rows of local_train and of
    global_train are at the ``ends``, in microseconds; None where there is none.
    """

    user: pa.DataType
    item: pa.DataType
    n_buckets: int
    slice_bits: int
    ends: tuple[int | None, int | None]

    def tested(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The parcels of tested rows: user, item, timestamp in microseconds, subset as its place in PARTS."""
        parts = pa.array(PARTS)
        tables = (
            pa.table(
                {
                    USER: plain(batch[USER]),
                    ITEM: plain(batch[ITEM]),
                    TIMESTAMP: batch[TIMESTAMP].cast(pa.int64()),
                    SUBSET: pc.index_in(batch[SUBSET], parts),
                }
            )
            for batch in batches
        )
        yield from gathered(tables, Kind.TESTED, self.n_buckets)

    def distinct(self, parcels: Sequence[Parcel]) -> Distinct:
        """The tested rows of a bucket, and its slice of a sieve of their pairs."""
        rows = self.rows(parcels)
        users, items = (Ids.of(rows[name].combine_chunks()) for name in (USER, ITEM))
        return Distinct(Kind.TESTED, rows, [], slice_of(pair_hash(users.hash, items.hash), self.slice_bits))

    def learnt(self, batches: Iterable[pa.RecordBatch], sieve: Sieve) -> Iterator[Parcel]:
        """The parcels of those rows of local_train (user, item) that may be pairs of tested rows."""
        yield from gathered((passing(batch, sieve) for batch in batches), Kind.LEARNT, self.n_buckets)

    def leaks(self, parcels: Sequence[Parcel]) -> dict[str, tuple[int, int]]:
        """How many rows of a bucket each check finds, and of how many users."""
        rows = self.rows(parcels)
        pairs = pairs_of(rows)
        user = pairs.users.codes(Ids.of(rows[USER].combine_chunks()))
        _, pair = pairs.hits(user, Ids.of(rows[ITEM].combine_chunks()))
        time, part = (numbers(rows[name].combine_chunks()) for name in (TIMESTAMP, SUBSET))
        is_local, users = part < PARTS.index(Subset.GLOBAL_TEST.value), np.arange(pairs.n_users)
        in_both = np.logical_and(*(np.isin(users, user[part == place]) for place in range(2)))
        in_train = self.met(parcels, pairs)
        in_global_train = in_train | np.isin(np.arange(len(in_train)), pair[is_local])
        local_end, global_end = (NEVER if end is None else end for end in self.ends)
        found = {
            RANKER_EARLY: is_local & (time <= local_end),
            GLOBAL_TEST_EARLY: ~is_local & (time <= global_end),
            BOTH_RANKER_PARTS: is_local & in_both[user],
            RETURNED_TO_LOCAL_TEST: is_local & in_train[pair],
            RETURNED_TO_GLOBAL_TEST: ~is_local & in_global_train[pair],
        }
        return {
            check: (int(np.count_nonzero(chosen)), len(np.unique(user[chosen])))
            for check, chosen in found.items()
        }

    def rows(self, parcels: Sequence[Parcel]) -> pa.Table:
        """The tested rows of a bucket."""
        columns = {USER: self.user, ITEM: self.item, TIMESTAMP: pa.int64(), SUBSET: pa.int32()}
        return of_kind(parcels, Kind.TESTED, pa.schema(columns))

    def met(self, parcels: Sequence[Parcel], pairs: Truth) -> Booleans:
        """Which of these pairs are in local_train."""
        rows = of_kind(parcels, Kind.LEARNT, pa.schema({USER: self.user, ITEM: self.item}))
        user = pairs.users.codes(Ids.of(rows[USER].combine_chunks()))
        user[user < 0] = pairs.n_users
        _, pair = pairs.hits(user, Ids.of(rows[ITEM].combine_chunks()))
        return np.isin(np.arange(len(pairs.items)), pair)


def pairs_of(rows: pa.Table) -> Truth:
    """The distinct pairs of tested rows."""
    relevance = pa.repeat(1.0, rows.num_rows)
    return Truth.of(distinct_truth(rows.append_column(RELEVANCE, relevance), TruthDuplicates.MAX))


def passing(batch: pa.RecordBatch, sieve: Sieve) -> pa.Table:
    """The rows whose pair may be one of those of which the sieve was made."""
    users, items = plain(batch[USER]), plain(batch[ITEM])
    ids = Ids.of(users)
    starts = np.flatnonzero(changes(ids.key))
    n_rows = np.diff(np.append(starts, len(users)))
    places = pa.array(sieve.passing(ids.take(starts).hash, Ids.of(items).hash, n_rows))
    return pa.table({USER: users.take(places), ITEM: items.take(places)})
