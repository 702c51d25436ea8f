"""The truth of an evaluation as sorted arrays: which items are relevant to whom, found by hash, exactly."""

from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.batches.ids import Booleans, Hashes, Ids, Ints, changes, pair_hash
from spark_eval.batches.lookup import Lookup
from spark_eval.conventions import TruthDuplicates
from spark_eval.metrics.lists import Floats
from spark_eval.schema import FAULT, ITEM, RELEVANCE, TIMESTAMP, USER

FIRST_SEED: Final = 20231
# Bits of the filter per relevant item, at least: at most one other pair in sixteen passes it.
FILTER_BITS: Final = 16


@dataclass(frozen=True)
class Truth:
    """Distinct relevant items, grouped by user.

    ``users`` have the codes 0, 1, ... in the order of their hash; rows ``offsets[code]`` to
    ``offsets[code + 1]`` are their relevant items. ``relevance`` (n,) is None where all are 1. ``pair``
    (n,) holds the hashes of the pairs, sorted, ``pair_row`` the row of each; ``filter`` has the bits that
    their highest ``filter_bits`` bits name. No two users, and no two pairs, have the same hash: ``seed`` is
    chosen so.
    """

    seed: int
    users: Lookup
    offsets: Ints
    row_user: NDArray[np.int32]
    items: pa.Array
    relevance: Floats | None
    pair: Hashes
    pair_row: NDArray[np.int32]
    filter: NDArray[np.uint8]
    filter_bits: int

    @property
    def n_users(self) -> int:
        """Users with anything relevant."""
        return len(self.users.ids)

    def hits(self, users: Ids, items: Ids) -> tuple[Ints, Ints]:
        """Which of these pairs are relevant, ascending, and the row of each; both of shape (hits,)."""
        pairs = pair_hash(users.hash, items.hash)
        bit = pairs >> np.uint64(64 - self.filter_bits)
        passed = self.filter[bit >> np.uint64(3)] >> (bit & np.uint64(7)).astype(np.uint8) & np.uint8(1)
        maybe = np.flatnonzero(passed)
        place = np.minimum(np.searchsorted(self.pair, pairs[maybe]), len(self.pair) - 1)
        is_same = self.pair[place] == pairs[maybe]
        maybe, row = maybe[is_same], self.pair_row[place[is_same]].astype(np.int64)
        is_hit = items.take(maybe).equal(self.items.take(pa.array(row)))
        is_hit &= users.take(maybe).equal(self.users.ids.take(pa.array(self.row_user[row])))
        return maybe[is_hit], row[is_hit]

    def relevances(self, rows: Ints) -> Floats:
        """The relevance of each row."""
        return np.ones(len(rows)) if self.relevance is None else self.relevance[rows]


def index_truth(rows: pa.Table, duplicates: TruthDuplicates) -> Truth:
    """The truth from sound, relevant rows: user, item, relevance, and timestamp where the last one counts."""
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    for seed in count(FIRST_SEED):
        users, items = Ids.of(columns[USER], seed), Ids.of(columns[ITEM], seed)
        order = np.argsort(users.hash)
        if not changes(np.sort(pair_hash(users.hash, items.hash))).all():
            # Items are repeated: their rows must lie together, too.
            order = np.lexsort((items.hash, users.hash))
        user_hash, item_hash = users.hash[order], items.hash[order]
        user_key, item_key = users.key[order], items.key[order]
        new_user, new_item = changes(user_hash), changes(item_hash)
        is_first = new_user | new_item
        starts = np.flatnonzero(is_first)
        pairs = pair_hash(user_hash[starts], item_hash[starts])
        by_pair = np.argsort(pairs)
        pairs = pairs[by_pair]
        if (
            (changes(user_key) == new_user).all()
            and (changes(item_key) | new_user == is_first).all()
            and changes(pairs).all()
        ):
            break
    of_user = order[new_user]
    relevance = combined(columns, order, starts, duplicates)
    bits = max(10, int(FILTER_BITS * len(pairs) - 1).bit_length())
    marks = np.zeros(1 << bits, dtype=bool)
    marks[pairs >> np.uint64(64 - bits)] = True
    row_user = (np.cumsum(new_user) - 1)[starts]
    return Truth(
        seed=seed,
        users=Lookup(users.take(of_user).plain(), user_hash[new_user], np.arange(len(of_user))),
        offsets=np.append(np.flatnonzero(new_user[starts]), len(starts)),
        row_user=row_user.astype(np.int32),
        items=items.take(order[starts]).plain(),
        relevance=None if (relevance == 1).all() else relevance,
        pair=pairs,
        pair_row=by_pair.astype(np.int32),
        filter=np.packbits(marks, bitorder="little"),
        filter_bits=bits,
    )


def count_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """One count for everything and one per fault: rows, users; as ``transforms.account.count_truth``."""
    of_fault = rows.group_by(FAULT).aggregate([([], "count_all"), (USER, "count_distinct")])
    users = pc.count_distinct(rows[USER]).as_py()
    counts = [{FAULT: None, "everything": True, "rows": rows.num_rows, "distinct": None, "users": users}]
    for row in sorted(of_fault.to_pylist(), key=lambda row: str(row[FAULT])):
        if row[FAULT] is not None:
            facts = {"rows": row["count_all"], "distinct": None, "users": row[f"{USER}_count_distinct"]}
            counts.append({FAULT: row[FAULT], "everything": False, **facts})
    return counts


def count_used(truth: Truth, n_rows: int, cold: Booleans | None) -> dict[str, Any]:
    """The count of the relevant rows; ``cold`` says of which items nobody has any training interaction."""
    facts: dict[str, int] = {}
    if cold is not None:
        facts = {
            "cold": int(np.count_nonzero(cold)),
            "cold_users": len(np.unique(truth.row_user[cold])),
            "warm_users": len(np.unique(truth.row_user[~cold])),
        }
    return facts | {
        FAULT: None,
        "everything": False,
        "rows": n_rows,
        "distinct": len(truth.items),
        "users": truth.n_users,
        "max_relevance": 1.0 if truth.relevance is None else float(truth.relevance.max()),
    }


def combined(columns: dict[str, pa.Array], order: Ints, starts: Ints, duplicates: TruthDuplicates) -> Floats:
    """The relevance of each distinct item, from the rows ``order[starts[i]:starts[i + 1]]`` that name it."""
    relevance = columns[RELEVANCE].to_numpy(zero_copy_only=False)[order]
    size = np.diff(np.append(starts, len(order)))
    match duplicates:
        case TruthDuplicates.COUNT:
            return size.astype(np.float64)
        case TruthDuplicates.MAX:
            largest: Floats = np.maximum.reduceat(relevance, starts)
            return largest
    group = np.repeat(np.arange(len(starts)), size)
    if duplicates is TruthDuplicates.LAST:
        when = columns[TIMESTAMP].cast(pa.int64())
        # Rows without a time count as the earliest; of equally late ones the larger relevance counts.
        known = when.is_valid().to_numpy(zero_copy_only=False)[order]
        time = when.fill_null(0).to_numpy()[order]
        last = np.append(starts[1:], len(order)) - 1
        latest: Floats = relevance[np.lexsort((relevance, time, known, group))[last]]
        return latest
    # Added one by one in ascending order, so that the order of rows never decides.
    ascending, total = relevance[np.lexsort((relevance, group))], np.zeros(len(starts))
    for place in range(size.max()):
        has = size > place
        total[has] += ascending[starts[has] + place]
    return total
