"""Which segments the users of a batch are in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_eval.batches.ids import Ids, Ints, plain
from spark_eval.batches.lookup import Lookup
from spark_eval.batches.parcels import Kind, Parcel, gathered, of_kind
from spark_eval.schema import MISSING, N_INTERACTIONS, NO_TRAIN, USER, BuiltIn
from spark_eval.segments import user_columns


@dataclass(frozen=True)
class Segment:
    """A value for each user who is known; ``values`` has one more, of all others, which may be None."""

    users: Lookup
    values: tuple[str | None, ...]

    def codes(self, users: Ids) -> Ints:
        """The place in ``values`` of each user's own."""
        codes = self.users.codes(users)
        codes[codes < 0] = len(self.values) - 1
        return codes

    @property
    def names(self) -> list[str]:
        """The values as the means name them."""
        return [MISSING if value is None else value for value in self.values]

    def column(self, codes: Ints) -> pa.Array:
        """The values of a batch."""
        return pa.array(self.values, pa.string()).take(pa.array(codes))


@dataclass(frozen=True)
class Segmenting:
    """Which segments are asked for; ``bounds`` are the most interactions of each activity decile."""

    names: Sequence[str]
    bounds: Mapping[int, int] | None

    def parcels(self, batches: Iterable[pa.RecordBatch], kind: Kind, n_buckets: int) -> Iterator[Parcel]:
        """Users with a column per segment, or with their number of training interactions, in parcels."""
        tables = (
            pa.table({**{name: batch[name] for name in batch.schema.names}, USER: plain(batch[USER])})
            for batch in batches
        )
        yield from gathered(tables, kind, n_buckets)

    def segments(self, parcels: Sequence[Parcel], user: pa.DataType) -> dict[str, Segment]:
        """The segments of a bucket's users, whose ids are of this type."""
        found: dict[str, Segment] = {}
        if columns := user_columns(self.names):
            schema = pa.schema({USER: user} | dict.fromkeys(columns, pa.string()))
            found |= segments_of_columns(of_kind(parcels, Kind.SEGMENTS, schema))
        if len(found) < len(self.names):
            schema = pa.schema({USER: user, N_INTERACTIONS: pa.int64()})
            found |= segments_of_train(of_kind(parcels, Kind.TRAINED, schema), self.bounds)
        return {name: found[name] for name in self.names}


def segments_of_columns(users: pa.Table) -> dict[str, Segment]:
    """The columns of ``users`` beside the id, all text."""
    ids = users[USER].combine_chunks()
    segments = {}
    for name in users.column_names:
        if name != USER:
            coded = users[name].combine_chunks().dictionary_encode()
            values = (*coded.dictionary.to_pylist(), None)
            code = coded.indices.fill_null(len(values) - 1).to_numpy().astype(np.int64)
            segments[name] = Segment(Lookup.of(ids, code), values)
    return segments


def segments_of_train(trained: pa.Table, bounds: Mapping[int, int] | None) -> dict[str, Segment]:
    """``known``, and ``activity`` if there are ``bounds``, of users with their numbers of interactions."""
    ids, n = trained[USER].combine_chunks(), trained[N_INTERACTIONS].combine_chunks().to_numpy()
    everyone = np.zeros(len(n), dtype=np.int64)
    segments = {BuiltIn.KNOWN.value: Segment(Lookup.of(ids, everyone), (BuiltIn.KNOWN.value, NO_TRAIN))}
    if bounds is not None:
        decile = np.searchsorted(list(bounds.values()), n).astype(np.int64)
        values = (*map(str, bounds), NO_TRAIN)
        segments[BuiltIn.ACTIVITY.value] = Segment(Lookup.of(ids, decile), values)
    return segments
