"""Ids found by their hash, exactly: what is known of users and items, beside any batch of them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_eval.batches.ids import Hashes, Ids, Ints


@dataclass(frozen=True)
class Lookup:
    """n distinct ids in the order of their hash, with a code each; shape (n,)."""

    ids: pa.Array
    hash: Hashes
    code: Ints

    @classmethod
    def of(cls, column: pa.Array, code: Ints, seed: int) -> "Lookup":
        """Distinct ids with codes of 0 or more."""
        ids = Ids.of(column, seed)
        order = np.argsort(ids.hash, kind="stable")
        return cls(ids.take(order).plain(), ids.hash[order], code[order])

    def codes(self, asked: Ids) -> Ints:
        """The code of each id that is asked for, -1 where it is not known; ``asked`` has the same seed."""
        codes = np.full(len(asked.key), -1, dtype=np.int64)
        place = np.searchsorted(self.hash, asked.hash)
        pending = np.arange(len(codes))
        # Once, but for different ids of the same hash.
        while len(pending):
            pending = pending[place[pending] < len(self.hash)]
            pending = pending[self.hash[place[pending]] == asked.hash[pending]]
            is_it = asked.take(pending).equal(self.ids.take(pa.array(place[pending])))
            codes[pending[is_it]] = self.code[place[pending[is_it]]]
            pending = pending[~is_it]
            place[pending] += 1
        return codes
