"""Ids found by their hash, exactly: what is known of users and items, beside any batch of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_eval.batches.ids import Booleans, Hashes, Ids, Ints


@dataclass(frozen=True)
class Lookup:
    """n distinct ids in the order of their hash, with a code each; shape (n,)."""

    ids: pa.Array
    hash: Hashes
    code: Ints

    @classmethod
    def of(cls, column: pa.Array, code: Ints) -> "Lookup":
        """Distinct ids with codes of 0 or more."""
        ids = Ids.of(column)
        order = np.argsort(ids.hash, kind="stable")
        return cls(ids.take(order).plain(), ids.hash[order], code[order])

    def codes(self, asked: Ids) -> Ints:
        """The code of each id that is asked for, -1 where it is not known."""
        place = search(
            self.hash,
            asked.hash,
            lambda which, places: asked.take(which).equal(self.ids.take(pa.array(places))),
        )
        return np.append(self.code, -1)[place]


def search(known: Hashes, asked: Hashes, are_same: Callable[[Ints, Ints], Booleans]) -> Ints:
    """The place of each that is asked for among sorted hashes, -1 where it is not there.

    ``are_same`` tells which of those asked for, and those at these places, are the same: their hashes are.
    """
    found = np.full(len(asked), -1, dtype=np.int64)
    place = np.searchsorted(known, asked)
    pending = np.flatnonzero(place < len(known))
    # Once, but for different ids of the same hash.
    while len(pending := pending[known[place[pending]] == asked[pending]]):
        is_it = are_same(pending, place[pending])
        found[pending[is_it]] = place[pending[is_it]]
        pending = pending[~is_it]
        place[pending] += 1
        pending = pending[place[pending] < len(known)]
    return found
