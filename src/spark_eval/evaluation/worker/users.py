"""Users of a bucket, once per fold and request; the number of each row's user; segments of users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Codes, index_of, run_starts, to_numpy, unique_sorted
from spark_eval.arrow.messages import sum_equal_keys
from spark_eval.schema import FOLD, MISSING, N_INTERACTIONS, NO_TRAIN, REQUEST, USER, BuiltIn
from spark_eval.statistics.exact import Ints


@dataclass(frozen=True)
class Users:
    """n users, once per fold.

    ``ids`` are int64 or text; ``folds`` (n,) is None if there are no folds. With ``requests`` (n,), each
    request of a user is an entry of its own; null is that of a user with truth and no list at all.
    """

    ids: pa.Array
    folds: Ints | None
    requests: pa.Array | None = None

    @classmethod
    def of(cls, rows: pa.Table, kind: pa.DataType) -> Self:
        """Return the user of each row, with ids cast to this type."""
        folds = to_numpy(rows[FOLD]) if FOLD in rows.column_names else None
        return cls(rows[USER].cast(kind).combine_chunks(), folds)

    def __len__(self) -> int:
        return len(self.ids)


def number_users(tables: Sequence[pa.Table]) -> tuple[Users, list[Ints]]:
    """Return all users of the tables by fold and id, and for each table the user index of each row."""
    codes = Codes.of([table[USER] for table in tables])
    users, number = unique_sorted(codes.in_order(np.concatenate(codes.columns)))
    ids, folds = codes.ids_in_order(users), None
    if all(FOLD in table.column_names for table in tables):
        of_row = np.concatenate([to_numpy(table[FOLD]) for table in tables]).astype(np.int64)
        distinct, fold = unique_sorted(of_row)
        pairs, number = unique_sorted(fold * len(ids) + number)
        folds, ids = distinct[pairs // max(len(ids), 1)], ids.take(pa.array(pairs % max(len(ids), 1)))
    return Users(ids, folds), np.split(number, np.cumsum([len(table) for table in tables])[:-1])


def number_requests(
    users: Users, tables: Sequence[pa.Table], rows: Sequence[Ints]
) -> tuple[Users, Ints, list[Ints]]:
    """Return an entry per user and request, the user of each entry, and for each table the entry of each row.

    ``rows`` has the user index of each row. Entries are sorted by user, then by request. The rows of tables
    without requests keep their users; such a user without any request has one entry, of request null.
    """
    has_request = [REQUEST in table.column_names for table in tables]
    of_row = np.concatenate([user for user, has in zip(rows, has_request, strict=True) if has])
    codes = Codes.of([table[REQUEST] for table, has in zip(tables, has_request, strict=True) if has])
    request_of_row = codes.in_order(np.concatenate(codes.columns))
    # Rows of a list are mostly adjacent: one look-up per run of rows.
    starts = np.flatnonzero(run_starts(of_row) | run_starts(request_of_row))
    distinct, number = unique_sorted(request_of_row[starts])
    is_without = np.ones(len(users), dtype=bool)
    is_without[of_row[starts]] = False
    n_requests = len(distinct) + 1
    keys = np.append(of_row[starts] * n_requests + number + 1, np.flatnonzero(is_without) * n_requests)
    entries, entry_of_run = unique_sorted(keys)
    entry = np.repeat(entry_of_run[: len(starts)], np.diff(np.append(starts, len(of_row))))
    user, request = np.divmod(entries, n_requests)
    ids = codes.ids_in_order(distinct).take(pa.array(request - 1, mask=request == 0))
    folds = None if users.folds is None else users.folds[user]
    ends = np.cumsum([len(part) for part, has in zip(rows, has_request, strict=True) if has])
    numbers = iter(np.split(entry, ends[:-1]))
    numbered = [next(numbers) if has else part for part, has in zip(rows, has_request, strict=True)]
    return Users(users.ids.take(pa.array(user)), folds, ids), user, numbered


def indices_of_users(users: Users, among: Users) -> Ints:
    """Return the index of each of ``users`` in ``among``, in the same fold if both have folds; else -1."""
    if users.folds is None or among.folds is None:
        return index_of(users.ids, among.ids)
    indices = np.full(len(users), -1, dtype=np.int64)
    for fold in np.unique(users.folds):
        mine, theirs = np.flatnonzero(users.folds == fold), np.flatnonzero(among.folds == fold)
        index = index_of(users.ids.take(pa.array(mine)), among.ids.take(pa.array(theirs)))
        indices[mine] = np.append(theirs, -1)[index]
    return indices


def indices_of_lists(users: Users, rows: pa.Table) -> Ints:
    """Return the index of the row with each user and request; -1 if there is none."""
    assert users.requests is not None
    columns = ((users.ids, rows[USER]), (users.requests, rows[REQUEST]))
    mine, theirs = np.zeros(len(users), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for of_users, of_rows in columns:
        known = of_users.unique().drop_null()
        number, other = index_of(of_users, known), index_of(of_rows.cast(known.type).combine_chunks(), known)
        mine = np.where((number < 0) | (mine < 0), -1, mine * len(known) + number)
        theirs = np.where((other < 0) | (theirs < 0), -2, theirs * len(known) + other)
    return index_of(pa.array(mine), pa.array(theirs))


def has_user(rows: pa.Table) -> pa.ChunkedArray:
    """Return True for rows with a user, and with a fold and a request if the table has them."""
    keys = [name for name in (USER, FOLD, REQUEST) if name in rows.column_names]
    return reduce(pc.and_, (pc.is_valid(rows[name]) for name in keys))


@dataclass(frozen=True)
class Segment:
    """Values of a segment, and the index of each user's value; users without a value have None."""

    code: Ints
    values: Sequence[str | None]

    @property
    def names(self) -> list[str]:
        """Value names as shown in the means."""
        return [MISSING if value is None else value for value in self.values]

    def column(self, chosen: Ints) -> pa.Array:
        """Return the values of the chosen users."""
        return pa.array(self.values, pa.string()).take(pa.array(self.code[chosen]))


def segments_of(
    names: Sequence[str], people: Users, users: pa.Table, trained: pa.Table, bounds: Mapping[int, int] | None
) -> dict[str, Segment]:
    """Return the segments of all users by name.

    ``users`` has a row per user, or per user and request, with a column per segment that is not built in;
    ``trained`` has numbers of training interactions, to be summed. ``bounds`` maps each activity decile to
    its largest number of interactions.
    """
    segments: dict[str, Segment] = {}
    if REQUEST in users.column_names:
        row = indices_of_lists(people, users)
    else:
        row = indices_of_users(people, Users.of(users, people.ids.type))
    if not set(BuiltIn).isdisjoint(names):
        trained = sum_equal_keys([trained], (USER, FOLD))
        of_user = indices_of_users(people, Users.of(trained, people.ids.type))
    for name in names:
        if name == FOLD and people.folds is not None:
            folds, code = np.unique(people.folds, return_inverse=True)
            segments[name] = Segment(code, [str(fold) for fold in folds])
        elif name == BuiltIn.KNOWN:
            segments[name] = Segment((of_user < 0).astype(np.int64), [name, NO_TRAIN])
        elif name == BuiltIn.ACTIVITY:
            n = to_numpy(trained[N_INTERACTIONS])
            decile = np.append(np.searchsorted(list((bounds or {}).values()), n), len(bounds or {}))
            segments[name] = Segment(decile[of_user].astype(np.int64), [*map(str, bounds or {}), NO_TRAIN])
        else:
            coded = users[name].cast(pa.string()).combine_chunks().dictionary_encode()
            values = (*coded.dictionary.to_pylist(), None)
            code = np.append(to_numpy(coded.indices.fill_null(len(values) - 1)), len(values) - 1)
            segments[name] = Segment(code[row].astype(np.int64), values)
    return segments
