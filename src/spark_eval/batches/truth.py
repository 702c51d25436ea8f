"""The truth of an evaluation as sorted arrays: which items are relevant to whom, found by hash, exactly."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.batches.ids import Booleans, Hashes, Ids, Ints, changes, is_odd, numbers, pair_hash
from spark_eval.batches.lookup import Lookup, search
from spark_eval.batches.sieve import slice_of
from spark_eval.conventions import TruthDuplicates
from spark_eval.metrics.lists import Floats
from spark_eval.schema import FAULT, ITEM, N_ROWS, RELEVANCE, TIMESTAMP, USER, Outcome


@dataclass(frozen=True)
class Truth:
    """Distinct relevant items of n users, who have the codes 0, 1, ... in the order of their hash.

    Rows ``offsets[code]`` to ``offsets[code + 1]`` are a user's items. ``relevance`` (rows,) is None where
    all are 1. ``key`` (rows,) ascends: it is the code, and as much of the item's hash as fits below it.
    """

    users: Lookup
    offsets: Ints
    items: pa.Array
    relevance: Floats | None
    key: Hashes

    @classmethod
    def of(cls, rows: pa.Table) -> "Truth":
        """The truth of rows as ``distinct_truth`` gives them."""
        columns = {name: rows[name].combine_chunks() for name in (USER, ITEM, RELEVANCE)}
        user, items = Ids.of(columns[USER]), Ids.of(columns[ITEM])
        is_first, relevance = changes(user.key), numbers(columns[RELEVANCE])
        starts = np.flatnonzero(is_first)
        users = user.take(starts)
        return cls(
            Lookup(users.plain(), users.hash, np.arange(len(starts))),
            np.append(starts, len(is_first)),
            items.plain(),
            None if (relevance == 1).all() else relevance,
            row_keys(np.cumsum(is_first) - 1, items.hash, len(starts)),
        )

    @property
    def n_users(self) -> int:
        """Users with anything relevant."""
        return len(self.users.ids)

    @cached_property
    def user(self) -> Ints:
        """The code of each row's user."""
        return np.repeat(np.arange(self.n_users), np.diff(self.offsets))

    def hits(self, users: Ints, items: Ids) -> tuple[Ints, Ints]:
        """Which of these pairs are relevant, ascending, and the row of each; both of shape (hits,).

        ``users`` are codes; those of ``n_users`` or more have no truth.
        """
        known = np.flatnonzero(users < self.n_users)
        items = items.take(known)
        row = search(
            self.key,
            row_keys(users[known], items.hash, self.n_users),
            lambda which, rows: items.take(which).equal(self.items.take(pa.array(rows))),
        )
        return known[row >= 0], row[row >= 0]

    def relevances(self, rows: Ints) -> Floats:
        """The relevance of each row."""
        return np.ones(len(rows)) if self.relevance is None else self.relevance[rows]

    def slice(self, slice_bits: int) -> bytes:
        """The slice of the sieve that lets these pairs pass."""
        pairs = pair_hash(self.users.hash[self.user], Ids.of(self.items).hash)
        return slice_of(pairs, slice_bits)


def codes_by_hash(users: Ids) -> Ints:
    """The place of each row's user among the distinct ones, in the order of their hash."""
    is_first = changes(users.key)
    # Rows of one user mostly lie together.
    runs = users.take(np.flatnonzero(is_first))
    _, first, of_run = np.unique(runs.key, return_index=True, return_inverse=True)
    order = np.argsort(runs.hash[first], kind="stable")
    code = np.empty(len(order), dtype=np.int64)
    code[order] = np.arange(len(order))
    codes: Ints = code[of_run][np.cumsum(is_first) - 1]
    return codes


def row_keys(code: Ints, items: Hashes, n_users: int) -> Hashes:
    """A number for each user and item, equal for different ones hardly ever, that ascends with the code."""
    bits = max(1, n_users.bit_length())
    return code.astype(np.uint64) << np.uint64(64 - bits) | items >> np.uint64(bits)


def distinct_truth(rows: pa.Table, duplicates: TruthDuplicates) -> pa.Table:
    """user, item, relevance, n_rows, each pair once, in the order of Truth; from rows without a fault."""
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    users, items = Ids.of(columns[USER]), Ids.of(columns[ITEM])
    code = codes_by_hash(users)
    key = row_keys(code, items.hash, int(code.max(initial=-1)) + 1)
    order = np.argsort(key)
    is_first = changes(key[order])
    if not is_first.all():
        # Items are repeated, or their hashes: equal items must lie together.
        order = np.lexsort((items.key, key))
        is_first = changes(key[order]) | changes(items.key[order])
    starts = np.flatnonzero(is_first)
    places = pa.array(order[starts])
    relevance = combined(columns, order, starts, duplicates)
    return pa.table(
        {
            USER: columns[USER].take(places),
            ITEM: columns[ITEM].take(places),
            RELEVANCE: relevance,
            N_ROWS: np.diff(np.append(starts, rows.num_rows)),
        }
    )


def rejected(rows: pa.Table) -> pa.Table:
    """user, fault, n_rows: how many rows of each user have each fault."""
    counted = rows.group_by([USER, FAULT]).aggregate([([], "count_all")])
    return counted.select([USER, FAULT, "count_all"]).rename_columns([USER, FAULT, N_ROWS])


def count_rejected(others: pa.Table) -> list[dict[str, Any]]:
    """A count per fault of rows that were ``rejected``; as ``transforms.account.count_truth``."""
    of_fault = others.group_by(FAULT).aggregate([(N_ROWS, "sum"), (USER, "count_distinct")])
    return [
        {
            FAULT: row[FAULT],
            "everything": False,
            "rows": row[f"{N_ROWS}_sum"],
            "distinct": None,
            "users": row[f"{USER}_count_distinct"],
        }
        for row in of_fault.to_pylist()
    ]


def count_relevant(truth: Truth, n_rows: int, is_cold: Booleans | None) -> dict[str, Any]:
    """The count of the relevant rows; ``is_cold`` says of which items nobody has any training interaction."""
    facts: dict[str, int] = {}
    if is_cold is not None:
        facts = {
            "cold": int(np.count_nonzero(is_cold)),
            "cold_users": len(np.unique(truth.user[is_cold])),
            "warm_users": len(np.unique(truth.user[~is_cold])),
        }
    relevance = truth.relevances(np.arange(len(truth.items)))
    return facts | {
        FAULT: None,
        "everything": False,
        "rows": n_rows,
        "distinct": len(truth.items),
        "users": truth.n_users,
        "max_relevance": float(relevance.max(initial=0)),
        Outcome.LARGEST: int(np.diff(truth.offsets).max(initial=0)),
        f"{Outcome.ODD_IDS}.{USER}": int(np.count_nonzero(is_odd(truth.users.ids))),
        f"{Outcome.ODD_IDS}.{ITEM}": len(np.unique(truth.user[is_odd(truth.items)])),
    }


def count_everything(truth: Truth, n_rows: int, others: pa.Table) -> dict[str, Any]:
    """The count of all rows: ``n_rows`` relevant ones, and others that were ``rejected``."""
    users = pa.chunked_array([truth.users.ids, *others[USER].chunks])
    return {
        FAULT: None,
        "everything": True,
        "rows": n_rows + (pc.sum(others[N_ROWS]).as_py() or 0),
        "distinct": None,
        "users": pc.count_distinct(users).as_py(),
    }


def added_counts(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The counts of all buckets: everything first, then by fault; none of no rows."""
    totals: dict[tuple[bool, str], dict[str, Any]] = {}
    for part in parts:
        key = (not part["everything"], part[FAULT] or "")
        total = totals.setdefault(key, dict.fromkeys(part))
        for name, number in part.items():
            total[name] = merged(name, total[name], number)
    return [total for key, total in sorted(totals.items()) if total["rows"] or total["everything"]]


def merged(name: str, one: Any, other: Any) -> Any:
    """A fact of two counts together; None is a fact of none."""
    if one is None or other is None or name in (FAULT, "everything"):
        return other if one is None else one
    return max(one, other) if name in ("max_relevance", Outcome.LARGEST) else one + other


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
        when = columns[TIMESTAMP]
        # Rows without a time count as the earliest; of equally late ones the larger relevance counts.
        known = when.is_valid().to_numpy(zero_copy_only=False)[order]
        time = when.fill_null(0).to_numpy()[order]
        last = starts + size - 1
        latest: Floats = relevance[np.lexsort((relevance, time, known, group))[last]]
        return latest
    # Added one by one in ascending order, so that the order of rows never decides; what each addition rounds
    # away (Knuth, TAOCP 2, 4.2.2) is added in the end, so that ten rows of 0.1 make 1.
    ascending = relevance[np.lexsort((relevance, group))]
    total, lost = np.zeros(len(starts)), np.zeros(len(starts))
    with np.errstate(over="ignore", invalid="ignore"):
        for place in range(size.max(initial=0)):
            has = size > place
            before, term = total[has], ascending[starts[has] + place]
            total[has] = after = before + term
            added = after - before
            lost[has] += (before - (after - added)) + (term - added)
        return np.where(np.isfinite(total), total + lost, total)
