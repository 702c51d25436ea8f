"""Tables on their way between tasks: in parcels, each for a bucket of users, as bytes that Spark carries."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.hashes import Ids, Ints, bucket_of, changes, in_one_piece, numbers
from spark_eval.schema import USER

# So many rows are sent on together.
ROWS_KEPT: Final = 1 << 18


class Kind(StrEnum):
    """What a parcel holds; tables have a column ``user`` unless it says otherwise."""

    TESTED = "tested"  # rows of the tested parts of a split
    PAIRS = "pairs"  # hashes of the pairs of these, without users
    LEARNT = "learnt"  # rows of local_train that may be pairs of these


@dataclass(frozen=True)
class Parcel:
    """What goes to a bucket of users."""

    bucket: int
    kind: Kind
    table: pa.Table


def addressed(table: pa.Table, kind: Kind, n_buckets: int) -> Iterator[Parcel]:
    """A parcel for each bucket that has rows."""
    yield from divided(table, user_buckets(table[USER].combine_chunks(), n_buckets), kind)


def divided(table: pa.Table, buckets: Ints, kind: Kind) -> Iterator[Parcel]:
    """A parcel for each of the buckets of its rows; shape (n,)."""
    order = np.argsort(buckets.astype(np.uint16), kind="stable")
    table, buckets = table.take(pa.array(order)), buckets[order]
    for start, end in pairwise(np.append(np.flatnonzero(changes(buckets)), len(buckets))):
        yield Parcel(int(buckets[start]), kind, table.slice(start, end - start))


def user_buckets(users: pa.Array, n_buckets: int) -> Ints:
    """The bucket of each user, 0 for null; shape (n,)."""
    if not users.null_count:
        return bucket_of(Ids.of(users).hash, n_buckets)
    buckets = np.zeros(len(users), dtype=np.int64)
    buckets[numbers(users.is_valid())] = user_buckets(users.drop_null(), n_buckets)
    return buckets


def gathered(tables: Iterable[pa.Table], kind: Kind, n_buckets: int) -> Iterator[Parcel]:
    """Parcels of many small tables, as few as memory allows."""
    kept: list[pa.Table] = []
    for table in tables:
        kept.append(table)
        if sum(table.num_rows for table in kept) > ROWS_KEPT:
            yield from addressed(in_one_piece(kept), kind, n_buckets)
            kept.clear()
    if kept:
        yield from addressed(in_one_piece(kept), kind, n_buckets)


def of_kind(parcels: Sequence[Parcel], kind: Kind, schema: pa.Schema) -> pa.Table:
    """All tables of one kind, which have this schema, end to end."""
    tables = [parcel.table for parcel in parcels if parcel.kind is kind]
    return in_one_piece([schema.empty_table(), *tables])
