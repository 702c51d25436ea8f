"""Recommendations meet the sieve: batches of rows become fragments, one per list, with its candidates.

A fragment holds what is left of rows of one model and user that lie together: how many they are, and the
candidates among them, which hold all hits and hardly anything else. Fragments of one list are put together
later (``found``), wherever its rows lay. Ranks that follow from scores need a whole list at once; the first
and the last list of a task, which may go on in another one, are sent on as they are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.batches.ids import Booleans, Ids, Ints, changes, numbers, plain
from spark_eval.batches.lookup import Lookup
from spark_eval.batches.order import (
    Places,
    best_of_repeated,
    held_places,
    places_by_rank,
    places_by_score,
    sharing_rank,
    unrounded,
)
from spark_eval.batches.parcels import Kind, Parcel, gathered
from spark_eval.batches.rows import SHARED, SOUND, Codes, faults
from spark_eval.batches.sieve import Sieve
from spark_eval.conventions import Ties
from spark_eval.schema import FAULT, ITEM, MODEL, N_ROWS, RANK, SCORE, USER

# What is ranked at once, at some 240 bytes a row.
MOST_LIST_ROWS: Final = 500_000
# Columns of fragments, beside model, user and fault.
N_REPEATED: Final = "n_repeated"
N_BEYOND: Final = "n_beyond"
# Cold items up to the depth that are no candidates.
N_COLD: Final = "n_cold"
TIED_CUTS: Final = "tied_cuts"
# The largest rank.
LAST_RANK: Final = "last_rank"
# Lists of the candidates: their items and ranks, and between which ranks equal scores lie.
ITEMS: Final = "items"
RANKS: Final = "ranks"
# The place of each candidate among the items of its list, and how many of these lie up to a cutoff.
HELD_PLACES: Final = "held_places"
HELD_WITHIN: Final = "held_within_{}"
TIE_FIRST: Final = "tie_first"
TIE_LAST: Final = "tie_last"


@dataclass(frozen=True)
class Meeting:
    """How recommendations are reduced.

    Candidates are what passes the ``sieve``, as far as rank ``depth``; ``cuts`` are looked at for ties. With
    ``needs_whole`` lists are looked at as a whole: their ranks follow from scores, or all given ranks are
    checked. Items that are not in ``trained`` are cold. ``model`` is the name of the only model, None where
    a column holds the names. The items of whole lists of given ranks are counted up to each candidate and
    each of ``held_cuts``; None: nobody asks.
    """

    sieve: Sieve
    trained: Lookup | None
    depth: int | None
    cuts: tuple[int, ...]
    ties: Ties
    needs_whole: bool
    model: str | None
    held_cuts: tuple[int, ...] | None = None

    def parcels(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """What becomes of all rows of a task."""
        edges: list[pa.Table] = []
        yield from gathered(self.reduced(batches, edges), Kind.FRAGMENTS, self.sieve.n_buckets)
        yield from gathered(edges, Kind.ROWS, self.sieve.n_buckets)

    def reduced(self, batches: Iterable[pa.RecordBatch], edges: list[pa.Table]) -> Iterator[pa.Table]:
        """The fragments of all rows, but for lists that may go on elsewhere, which are added to ``edges``."""
        faulty: list[pa.Table] = []
        sound = self.without_faults(batches, faulty)
        for batch, is_edge in whole_lists(sound) if self.needs_whole else ((batch, False) for batch in sound):
            if is_edge:
                edges.append(pa.table(batch))
            else:
                yield from self.fragments(batch)
            yield from faulty
            faulty.clear()
        yield from faulty

    def without_faults(
        self, batches: Iterable[pa.RecordBatch], faulty: list[pa.Table]
    ) -> Iterator[pa.RecordBatch]:
        """The sound rows; what is left of the others is added to ``faulty``."""
        for batch in batches:
            codes = faults(batch)
            if codes is not None:
                faulty.append(self.faulty(batch, codes))
                batch = batch.filter(pa.array(codes == SOUND))
            if batch.num_rows:
                yield batch

    def fragments(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """The fragments of sound rows; of those that turn out to share a rank, too."""
        if self.needs_whole and RANK in batch.schema.names:
            of_list = np.cumsum(new_lists(batch)) - 1
            items = Ids.of(batch[ITEM])
            shared = sharing_rank(of_list, items, ranks_of(batch))
            if shared is not None:
                yield self.faulty(batch, np.where(shared, SHARED, SOUND).astype(np.int8))
                batch = batch.filter(pa.array(~shared))
        yield self.sound(batch)

    def sound(self, batch: pa.RecordBatch) -> pa.Table:
        """One fragment for each stretch of rows of one model and user."""
        starts = np.flatnonzero(new_lists(batch))
        n_rows = np.diff(np.append(starts, batch.num_rows))
        users, items = Ids.of(batch[USER].take(pa.array(starts))), Ids.of(batch[ITEM])
        places = self.places(batch, items, n_rows)
        counted = np.ones(batch.num_rows, dtype=bool) if places.kept is None else places.kept
        beyond = np.zeros_like(counted) if self.depth is None else counted & (places.rank > self.depth)
        near = counted & ~beyond
        candidates = self.sieve.passing(users.hash, items.hash, n_rows)
        candidates = candidates[near[candidates]]
        cold = np.zeros_like(counted)
        if self.trained is not None:
            cold = near & (self.trained.codes(items) < 0)
            cold[candidates] = False
        offsets = pa.array(np.searchsorted(candidates, np.append(starts, batch.num_rows)), pa.int32())
        facts = {
            ITEMS: items.take(candidates).plain(),
            RANKS: pa.array(places.rank[candidates]),
            TIE_FIRST: pa.array(places.tie_first[candidates]),
            TIE_LAST: pa.array(places.tie_last[candidates]),
        }
        if places.held is not None:
            facts[HELD_PLACES] = pa.array(places.held[candidates])
        within = {HELD_WITHIN.format(k): counted & (places.rank <= k) for k in self.held_cuts or ()}
        return pa.table(
            {
                MODEL: self.names(batch).take(pa.array(starts)),
                USER: users.plain(),
                FAULT: np.full(len(starts), SOUND, dtype=np.int8),
                N_ROWS: n_rows,
                N_REPEATED: np.add.reduceat(~counted, starts, dtype=np.int64),
                N_BEYOND: np.add.reduceat(beyond, starts, dtype=np.int64),
                N_COLD: np.add.reduceat(cold, starts, dtype=np.int64),
                TIED_CUTS: places.tied_cuts,
                LAST_RANK: np.maximum.reduceat(np.where(counted, places.rank, 0), starts, dtype=np.int64),
                **{name: np.add.reduceat(rows, starts, dtype=np.int64) for name, rows in within.items()},
                **{name: pa.ListArray.from_arrays(offsets, values) for name, values in facts.items()},
            }
        )

    def nothing(self, user: pa.DataType, item: pa.DataType) -> pa.Table:
        """No fragments, of ids of these types."""
        columns = {MODEL: pa.string(), USER: user, ITEM: item, RANK: pa.int64()}
        return self.sound(pa.RecordBatch.from_pylist([], pa.schema(columns)))

    def places(self, batch: pa.RecordBatch, items: Ids, n_rows: Ints) -> Places:
        """Where the rows stand in their lists."""
        of_list = np.repeat(np.arange(len(n_rows)), n_rows)
        if RANK in batch.schema.names:
            ranks = ranks_of(batch)
            kept = best_of_repeated(of_list, items, ranks) if self.needs_whole else None
            held = None if self.held_cuts is None else held_places(of_list, ranks, kept)
            return places_by_rank(ranks, len(n_rows), kept, held)
        return places_by_score(of_list, items, unrounded(batch[SCORE]), self.ties, self.cuts)

    def faulty(self, batch: pa.RecordBatch, codes: Codes) -> pa.Table:
        """One fragment for each row with a fault."""
        bad = np.flatnonzero(codes != SOUND)
        batch = batch.take(pa.array(bad))
        sums = (N_REPEATED, N_BEYOND, N_COLD, TIED_CUTS, LAST_RANK)
        within = map(HELD_WITHIN.format, self.held_cuts or ())
        places = (RANKS, TIE_FIRST, TIE_LAST) + (() if self.held_cuts is None else (HELD_PLACES,))
        zeros, none = np.zeros(len(bad), dtype=np.int64), pa.array([[]] * len(bad), pa.list_(pa.int64()))
        return pa.table(
            {
                MODEL: self.names(batch),
                USER: plain(batch[USER]),
                FAULT: codes[bad],
                N_ROWS: zeros + 1,
                **dict.fromkeys((*sums, *within), zeros),
                ITEMS: none.cast(pa.list_(plain(batch[ITEM]).type)),
                **dict.fromkeys(places, none),
            }
        )

    def names(self, batch: pa.RecordBatch) -> pa.Array:
        """The model of each row, dictionary-coded."""
        if self.model is None:
            return batch[MODEL].cast(pa.string()).dictionary_encode()
        return pa.DictionaryArray.from_arrays(np.zeros(batch.num_rows, dtype=np.int32), [self.model])


def new_lists(batch: pa.RecordBatch) -> Booleans:
    """Where a list starts: at another user or model than the row before."""
    keys = [name for name in (USER, MODEL) if name in batch.schema.names]
    is_new: Booleans = np.logical_or.reduce([changes(Ids.of(batch[name]).key) for name in keys])
    return is_new


def ranks_of(batch: pa.RecordBatch) -> Ints:
    """The ranks that came with the rows."""
    return numbers(batch[RANK].cast(pa.int64()))


def whole_lists(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """The same rows in batches that end where lists end.

    The first and the last list of all are marked; they may go on in another task. A list of more than
    MOST_LIST_ROWS comes in pieces, so that it is found not to be whole.
    """
    rest: list[pa.RecordBatch] = []
    is_first = True
    for batch in batches:
        if rest:
            [batch] = pa.Table.from_batches([*rest, batch]).combine_chunks().to_batches()
        starts = np.append(np.flatnonzero(new_lists(batch)), batch.num_rows)
        begin = int(starts[1]) if is_first else 0
        end = int(starts[-2])
        if end:
            if is_first:
                yield batch.slice(0, begin), True
                is_first = False
            if begin < end:
                yield batch.slice(begin, end - begin), False
        elif batch.num_rows > MOST_LIST_ROWS:
            yield batch, False
            end = batch.num_rows
        rest = [batch.slice(end)] if end < batch.num_rows else []
    for batch in rest:
        yield batch, True
