"""Which segments the users of a batch are in."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_eval.batches.ids import Ids, Ints
from spark_eval.batches.lookup import Lookup
from spark_eval.schema import MISSING, N_INTERACTIONS, NO_TRAIN, USER, BuiltIn


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


def segments_of_columns(users: pa.Table, seed: int) -> dict[str, Segment]:
    """The columns of ``users`` beside the id, all text."""
    ids = users[USER].combine_chunks()
    segments = {}
    for name in users.column_names:
        if name != USER:
            coded = users[name].combine_chunks().dictionary_encode()
            values = (*coded.dictionary.to_pylist(), None)
            code = coded.indices.fill_null(len(values) - 1).to_numpy().astype(np.int64)
            segments[name] = Segment(Lookup.of(ids, code, seed), values)
    return segments


def segments_of_train(trained: pa.Table, bounds: Mapping[int, int] | None, seed: int) -> dict[str, Segment]:
    """``known``, and ``activity`` if there are ``bounds``, of users with their numbers of interactions."""
    ids, n = trained[USER].combine_chunks(), trained[N_INTERACTIONS].combine_chunks().to_numpy()
    everyone = np.zeros(len(n), dtype=np.int64)
    segments = {BuiltIn.KNOWN.value: Segment(Lookup.of(ids, everyone, seed), (BuiltIn.KNOWN.value, NO_TRAIN))}
    if bounds is not None:
        decile = np.searchsorted(list(bounds.values()), n).astype(np.int64)
        values = (*map(str, bounds), NO_TRAIN)
        segments[BuiltIn.ACTIVITY.value] = Segment(Lookup.of(ids, decile, seed), values)
    return segments
