"""Moment that is the target of each user in a test by time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import to_numpy
from spark_eval.arrow.xxhash64 import id_hashes, word_hashes
from spark_eval.schema import FOLD, USER
from spark_eval.splits.rules.fold_rule import Targets
from spark_eval.splits.worker.leaks import codes_of, pair_codes
from spark_eval.statistics.exact import Ints

# Column of moments in microseconds since the epoch.
MOMENT: Final = "moment"
# The rows of a task are reduced when they are this many.
ROWS_AT_ONCE: Final = 1_000_000


@dataclass(frozen=True)
class TargetChooser:
    """Chooser of one moment of each user in each fold: the first, the last, or that with the lowest draw.

    Rows have user, fold (int32) and moment. Choosing again among chosen moments of parts gives the choice of
    the whole, so that tasks choose before a shuffle and after it.
    """

    targets: Targets
    seed: int = 0

    def choose(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the chosen moments of all batches, a row for each user and fold."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(one.num_rows for one in held) > ROWS_AT_ONCE:
                held = self.chosen(held)
        yield from self.chosen(held)

    def chosen(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return the chosen moments of these batches."""
        if not batches:
            return []
        rows = pa.Table.from_batches(batches).combine_chunks()
        moments = to_numpy(rows[MOMENT])
        owners = pair_codes(to_numpy(rows[FOLD]).astype(np.int64), codes_of(rows[USER]))
        order = np.lexsort((moments, self.order_of(rows[USER], moments), owners))
        _, first = np.unique(owners[order], return_index=True)
        batches = rows.take(pa.array(order[first])).to_batches()
        return list(batches)

    def order_of(self, users: pa.ChunkedArray, moments: Ints) -> Ints:
        """Return the sort key of each row (n,); a user's lowest is chosen."""
        match self.targets:
            case Targets.FIRST:
                return moments
            case Targets.LAST:
                return -moments
        of_users = id_hashes(users.combine_chunks(), np.int64(self.seed))
        return word_hashes(moments, of_users).view(np.int64)
