"""Recommendations meet the truth: batches of rows become fragments, one per list, with its hits.

A fragment holds what is left of rows of one model and user that lie together: how many they are, and where
the hits are. Fragments of one list are put together later (``found``), wherever its rows lay. Ranks that
follow from scores need a whole list at once; the first and the last list of a task, which may go on in
another one, are sent on as they are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.batches.ids import Booleans, Hashes, Ids, Ints, changes, in_one_piece, numbers
from spark_eval.batches.lookup import Lookup
from spark_eval.batches.order import (
    Places,
    best_of_repeated,
    places_by_rank,
    places_by_score,
    sharing_rank,
)
from spark_eval.batches.rows import SHARED, SOUND, Codes, faults
from spark_eval.batches.truth import Truth
from spark_eval.conventions import Ties
from spark_eval.schema import FAULT, ITEM, MODEL, RANK, SCORE, USER

# Columns of fragments. ``code`` is the user's in the truth, -1 for others, whose id is in ``user``.
BUCKET: Final = "bucket"
CODE: Final = "code"
N_ROWS: Final = "n_rows"
N_REPEATED: Final = "n_repeated"
N_BEYOND: Final = "n_beyond"
# Cold items up to the depth that are no hits.
N_COLD: Final = "n_cold"
TIED_CUTS: Final = "tied_cuts"
# Lists of the hits: the rows of the truth, their ranks, and between which ranks equal scores lie.
HIT_ROW: Final = "hit_row"
HIT_RANK: Final = "hit_rank"
HIT_TIE_FIRST: Final = "hit_tie_first"
HIT_TIE_LAST: Final = "hit_tie_last"
HITS: Final = (HIT_ROW, HIT_RANK, HIT_TIE_FIRST, HIT_TIE_LAST)
# So many fragments are sent on together.
FRAGMENTS_KEPT: Final = 1 << 18


@dataclass(frozen=True)
class Parcel:
    """What goes to a bucket of users: fragments, or else rows of lists that may go on elsewhere."""

    bucket: int
    is_fragments: bool
    table: pa.Table


@dataclass(frozen=True)
class Meeting:
    """How recommendations are reduced.

    Hits count as far as rank ``depth``; ``cuts`` are looked at for ties. With ``needs_whole`` lists are
    looked at as a whole: their ranks follow from scores, or all given ranks are checked. Items that are not
    in ``trained`` are cold. ``model`` is the name of the only model, None where a column holds the names.
    Users belong to one of ``n_buckets`` ranges of their hash.
    """

    truth: Truth
    trained: Lookup | None
    depth: int | None
    cuts: tuple[int, ...]
    ties: Ties
    needs_whole: bool
    model: str | None
    n_buckets: int

    def parcels(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """What becomes of all rows of a task."""
        kept: list[pa.Table] = []
        sound = self.without_faults(batches, kept)
        for batch, is_edge in whole_lists(sound) if self.needs_whole else ((batch, False) for batch in sound):
            if is_edge:
                yield from self.addressed(pa.table(batch), is_fragments=False)
            else:
                kept += self.fragments(batch)
            if sum(table.num_rows for table in kept) > FRAGMENTS_KEPT:
                yield from self.addressed(in_one_piece(kept), is_fragments=True)
                kept.clear()
        if kept:
            yield from self.addressed(in_one_piece(kept), is_fragments=True)

    def without_faults(
        self, batches: Iterable[pa.RecordBatch], kept: list[pa.Table]
    ) -> Iterator[pa.RecordBatch]:
        """The sound rows; what is left of the others is added to ``kept``."""
        for batch in batches:
            codes = faults(batch)
            if codes is not None:
                kept.append(self.faulty(batch, codes))
                batch = batch.filter(pa.array(codes == SOUND))
            if batch.num_rows:
                yield batch

    def fragments(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """The fragments of sound rows; of those that turn out to share a rank, too."""
        if self.needs_whole and RANK in batch.schema.names:
            of_list = np.cumsum(new_lists(batch)) - 1
            items = Ids.of(batch[ITEM], self.truth.seed)
            shared = sharing_rank(of_list, items, ranks_of(batch))
            if shared is not None:
                yield self.faulty(batch, np.where(shared, SHARED, SOUND).astype(np.int8))
                batch = batch.filter(pa.array(~shared))
        yield self.sound(batch)

    def sound(self, batch: pa.RecordBatch) -> pa.Table:
        """One fragment for each stretch of rows of one model and user."""
        users, items = Ids.of(batch[USER], self.truth.seed), Ids.of(batch[ITEM], self.truth.seed)
        starts = np.flatnonzero(new_lists(batch))
        n_rows = np.diff(np.append(starts, batch.num_rows))
        places = self.places(batch, items, n_rows)
        counted = np.ones(batch.num_rows, dtype=bool) if places.kept is None else places.kept
        beyond = np.zeros_like(counted) if self.depth is None else counted & (places.rank > self.depth)
        hits, hit_row = self.truth.hits(users, items)
        near = (counted & ~beyond)[hits]
        hits, hit_row = hits[near], hit_row[near]
        cold = np.zeros_like(counted)
        if self.trained is not None:
            cold = counted & ~beyond & (self.trained.codes(items) < 0)
            cold[hits] = False
        offsets = pa.array(np.searchsorted(hits, np.append(starts, batch.num_rows)), pa.int32())
        facts = (hit_row, places.rank[hits], places.tie_first[hits], places.tie_last[hits])
        of_list = users.take(starts)
        return pa.table(
            {
                **self.who(self.names(batch).take(pa.array(starts)), of_list.plain(), of_list),
                FAULT: np.full(len(starts), SOUND, dtype=np.int8),
                N_ROWS: n_rows,
                N_REPEATED: np.add.reduceat(~counted, starts, dtype=np.int64),
                N_BEYOND: np.add.reduceat(beyond, starts, dtype=np.int64),
                N_COLD: np.add.reduceat(cold, starts, dtype=np.int64),
                TIED_CUTS: places.tied_cuts,
                **{
                    name: pa.ListArray.from_arrays(offsets, pa.array(values))
                    for name, values in zip(HITS, facts, strict=True)
                },
            }
        )

    @property
    def nothing(self) -> pa.Table:
        """No fragments."""
        columns = {USER: pa.array([], self.truth.users.ids.type), ITEM: pa.array([], self.truth.items.type)}
        names = {} if self.model is not None else {MODEL: pa.array([], pa.string())}
        return self.sound(pa.record_batch({**names, **columns, RANK: pa.array([], pa.int64())}))

    def places(self, batch: pa.RecordBatch, items: Ids, n_rows: Ints) -> Places:
        """Where the rows stand in their lists."""
        of_list = np.repeat(np.arange(len(n_rows)), n_rows)
        if RANK in batch.schema.names:
            ranks = ranks_of(batch)
            kept = best_of_repeated(of_list, items, ranks) if self.needs_whole else None
            return places_by_rank(ranks, len(n_rows), kept)
        return places_by_score(of_list, items, numbers(batch[SCORE].cast(pa.float64())), self.ties, self.cuts)

    def faulty(self, batch: pa.RecordBatch, codes: Codes) -> pa.Table:
        """One fragment for each row with a fault."""
        bad = np.flatnonzero(codes != SOUND)
        batch = batch.take(pa.array(bad))
        zeros, none = np.zeros(len(bad), dtype=np.int64), pa.ListArray.from_arrays([0] * (len(bad) + 1), [])
        is_named = numbers(batch[USER].is_valid())
        named = Ids.of(batch[USER].filter(pa.array(is_named)), self.truth.seed)
        users = batch[USER].cast(self.truth.users.ids.type)
        who = self.who(self.names(batch), users, named, np.flatnonzero(is_named))
        return pa.table(
            {
                **who,
                FAULT: codes[bad],
                N_ROWS: zeros + 1,
                **dict.fromkeys((N_REPEATED, N_BEYOND, N_COLD, TIED_CUTS), zeros),
                **dict.fromkeys(HITS, none.cast(pa.list_(pa.int64()))),
            }
        )

    def names(self, batch: pa.RecordBatch) -> pa.Array:
        """The model of each row, dictionary-coded."""
        if self.model is None:
            return batch[MODEL].cast(pa.string()).dictionary_encode()
        return pa.DictionaryArray.from_arrays(np.zeros(batch.num_rows, dtype=np.int32), [self.model])

    def who(
        self, models: pa.Array, users: pa.Array, named: Ids, places: Ints | None = None
    ) -> dict[str, pa.Array]:
        """Bucket, model, code, user of lists; ``named`` are the users, at ``places``, that are no nulls."""
        places = np.arange(len(users)) if places is None else places
        bucket, code = np.zeros(len(users), dtype=np.int64), np.full(len(users), -1, dtype=np.int64)
        bucket[places] = np.searchsorted(self.bounds, named.hash, side="right")
        code[places] = self.truth.users.codes(named)
        ids = pc.if_else(pa.array(code < 0), users, pa.scalar(None, users.type))
        return {BUCKET: bucket, MODEL: models, CODE: code, USER: ids}

    @cached_property
    def bounds(self) -> Hashes:
        """The smallest hash of each bucket but the first; equally many users with truth are in each."""
        return self.truth.users.hash[np.arange(1, self.n_buckets) * self.truth.n_users // self.n_buckets]

    def addressed(self, table: pa.Table, *, is_fragments: bool) -> Iterator[Parcel]:
        """A parcel for each bucket."""
        if is_fragments:
            bucket = numbers(table[BUCKET].combine_chunks())
        else:
            users = Ids.of(table[USER].combine_chunks(), self.truth.seed)
            bucket = np.searchsorted(self.bounds, users.hash, side="right")
        order = np.argsort(bucket, kind="stable")
        table, bucket = table.take(pa.array(order)), bucket[order]
        starts = np.flatnonzero(changes(bucket))
        for start, end in zip(starts, np.append(starts[1:], len(bucket)), strict=True):
            yield Parcel(int(bucket[start]), is_fragments, table.slice(start, end - start))


def new_lists(batch: pa.RecordBatch) -> Booleans:
    """Where a list starts: at another user or model than the row before."""
    keys = [name for name in (USER, MODEL) if name in batch.schema.names]
    is_new: Booleans = np.logical_or.reduce([changes(Ids.of(batch[name], 0).key) for name in keys])
    return is_new


def ranks_of(batch: pa.RecordBatch) -> Ints:
    """The ranks that came with the rows."""
    return numbers(batch[RANK].cast(pa.int64()))


def whole_lists(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """The same rows in batches that end where lists end.

    The first and the last list of all are marked; they may go on in another task.
    """
    rest: list[pa.RecordBatch] = []
    is_first = True
    for batch in batches:
        batch = pa.concat_batches([*rest, batch])
        starts = np.append(np.flatnonzero(new_lists(batch)), batch.num_rows)
        begin = int(starts[1]) if is_first else 0
        end = int(starts[-2])
        if end:
            if is_first:
                yield batch.slice(0, begin), True
                is_first = False
            if begin < end:
                yield batch.slice(begin, end - begin), False
        rest = [batch.slice(end)]
    for batch in rest:
        yield batch, True
