"""What of the later parts of a split is already in the earlier ones, bucket by bucket of users."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.bloom import Sieve, slice_of
from spark_eval.arrow.hashes import Booleans, Ids, Ints, bucket_of, changes, numbers, pair_hash, plain
from spark_eval.arrow.parcels import Kind, Parcel, divided, gathered, of_kind
from spark_eval.schema import ITEM, SUBSET, TIMESTAMP, USER, Subset

RANKER_EARLY: Final = "ranker_at_or_before_local_train"
GLOBAL_TEST_EARLY: Final = "global_test_at_or_before_global_train"
BOTH_RANKER_PARTS: Final = "users_in_both_ranker_parts"
RETURNED_TO_LOCAL_TEST: Final = "pairs_in_train_and_local_test"
RETURNED_TO_GLOBAL_TEST: Final = "pairs_in_train_and_global_test"
# The parts that are tested, with a code each.
PARTS: Final = (Subset.RANKER_TRAIN.value, Subset.RANKER_TEST.value, Subset.GLOBAL_TEST.value)
PAIR: Final = "pair"
# Whether a row is not after the last one of the parts from which its own is predicted.
EARLY: Final = "early"

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

    def pairs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The parcels of the hashes of tested pairs."""
        for batch in batches:
            users, items = Ids.of(batch[USER]).hash, Ids.of(batch[ITEM]).hash
            hashes = pa.table({PAIR: pair_hash(users, items)})
            yield from divided(hashes, bucket_of(users, self.n_buckets), Kind.PAIRS)

    def slice(self, parcels: Sequence[Parcel]) -> bytes:
        """A bucket's slice of the sieve through which only the pairs of these parcels pass."""
        hashes = of_kind(parcels, Kind.PAIRS, pa.schema({PAIR: pa.uint64()}))
        return slice_of(numbers(hashes[PAIR].combine_chunks()), self.slice_bits)

    def tested(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The parcels of tested rows: user, item, subset as its place in PARTS, and whether too early."""
        yield from gathered(map(self.marked, batches), Kind.TESTED, self.n_buckets)

    def marked(self, batch: pa.RecordBatch) -> pa.Table:
        """Tested rows as they are sent."""
        part = numbers(pc.index_in(batch[SUBSET], pa.array(PARTS)).cast(pa.int8()))
        local_end, global_end = (NEVER if end is None else end for end in self.ends)
        early = numbers(batch[TIMESTAMP].cast(pa.int64())) <= np.where(is_local(part), local_end, global_end)
        return pa.table({USER: plain(batch[USER]), ITEM: plain(batch[ITEM]), SUBSET: part, EARLY: early})

    def learnt(self, batches: Iterable[pa.RecordBatch], sieve: Sieve) -> Iterator[Parcel]:
        """The parcels of those rows of local_train (user, item) that may be pairs of tested rows."""
        yield from gathered((passing(batch, sieve) for batch in batches), Kind.LEARNT, self.n_buckets)

    def leaks(self, parcels: Sequence[Parcel]) -> dict[str, tuple[int, int]]:
        """How many rows of a bucket each check finds, and of how many users."""
        rows, learnt = self.rows(parcels), of_kind(parcels, Kind.LEARNT, self.pair)
        both = pa.concat_tables([rows.select(self.pair.names), learnt])
        users, items = (codes_of(both[name]) for name in self.pair.names)
        pairs = codes_of(pa.chunked_array([users * (items.max(initial=0) + 1) + items]))
        user, pair = users[: rows.num_rows], pairs[: rows.num_rows]
        part, early = (numbers(rows[name].combine_chunks()) for name in (SUBSET, EARLY))
        local = is_local(part)
        in_both = np.logical_and(*(among(user, user[part == place]) for place in range(2)))
        in_train = among(pair, pairs[rows.num_rows :])
        found = {
            RANKER_EARLY: local & early,
            GLOBAL_TEST_EARLY: ~local & early,
            BOTH_RANKER_PARTS: local & in_both,
            RETURNED_TO_LOCAL_TEST: local & in_train,
            RETURNED_TO_GLOBAL_TEST: ~local & (in_train | among(pair, pair[local])),
        }
        return {
            check: (int(np.count_nonzero(chosen)), int(np.count_nonzero(np.bincount(user[chosen]))))
            for check, chosen in found.items()
        }

    @property
    def pair(self) -> pa.Schema:
        """Of the columns that make a pair."""
        return pa.schema({USER: self.user, ITEM: self.item})

    def rows(self, parcels: Sequence[Parcel]) -> pa.Table:
        """The tested rows of a bucket."""
        columns = {USER: self.user, ITEM: self.item, SUBSET: pa.int8(), EARLY: pa.bool_()}
        return of_kind(parcels, Kind.TESTED, pa.schema(columns))


def is_local(parts: NDArray[np.int8]) -> Booleans:
    """Which of these places in PARTS are of local_test."""
    return parts < PARTS.index(Subset.GLOBAL_TEST.value)


def codes_of(column: pa.ChunkedArray) -> Ints:
    """0, 1, ... for each distinct value of a column without nulls."""
    return numbers(column.combine_chunks().dictionary_encode().indices).astype(np.int64)


def among(codes: Ints, others: Ints) -> Booleans:
    """Which of these codes are in others."""
    there = np.zeros(max(codes.max(initial=-1), others.max(initial=-1)) + 1, dtype=bool)
    there[others] = True
    return there[codes]


def passing(batch: pa.RecordBatch, sieve: Sieve) -> pa.Table:
    """The rows whose pair may be one of those of which the sieve was made."""
    users, items = plain(batch[USER]), plain(batch[ITEM])
    ids = Ids.of(users)
    starts = np.flatnonzero(changes(ids.key))
    n_rows = np.diff(np.append(starts, len(users)))
    places = pa.array(sieve.passing(ids.take(starts).hash, Ids.of(items).hash, n_rows))
    return pa.table({USER: users.take(places), ITEM: items.take(places)})
