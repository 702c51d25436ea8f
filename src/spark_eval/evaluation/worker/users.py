"""Users of a bucket, each once per fold, and their segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Codes, unique_sorted
from spark_eval.arrow.hashes import to_numpy
from spark_eval.arrow.messages import Content, sum_equal_keys
from spark_eval.schema import FOLD, MISSING, MODEL, N_INTERACTIONS, NO_TRAIN, USER, BuiltIn
from spark_eval.statistics.exact import Ints


@dataclass(frozen=True)
class Users:
    """n users, once per fold.

    ``ids`` are int64 or text; ``folds`` (n,) is None if there are no folds.
    """

    ids: pa.Array
    folds: Ints | None

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
        known, fold = unique_sorted(of_row)
        pairs, number = unique_sorted(fold * len(ids) + number)
        folds, ids = known[pairs // max(len(ids), 1)], ids.take(pa.array(pairs % max(len(ids), 1)))
    return Users(ids, folds), np.split(number, np.cumsum([len(table) for table in tables])[:-1])


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

    ``users`` has a column per segment that is not built in; ``trained`` has numbers of training interactions,
    to be summed. ``bounds`` maps each activity decile to its largest number of interactions.
    """
    segments: dict[str, Segment] = {}
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


def indices_of_users(asked: Users, known: Users) -> Ints:
    """Return the index of each of ``asked`` in ``known``, in the same fold if both have folds; else -1."""
    if asked.folds is None or known.folds is None:
        return index_of(asked.ids, known.ids)
    places = np.full(len(asked), -1, dtype=np.int64)
    for fold in np.unique(asked.folds):
        mine, theirs = np.flatnonzero(asked.folds == fold), np.flatnonzero(known.folds == fold)
        place = index_of(asked.ids.take(pa.array(mine)), known.ids.take(pa.array(theirs)))
        places[mine] = np.append(theirs, -1)[place]
    return places


def index_of(asked: pa.Array, known: pa.Array) -> Ints:
    """Return the index of each of ``asked`` among distinct ``known`` values, -1 if missing."""
    return to_numpy(pc.index_in(asked, value_set=known).fill_null(-1)).astype(np.int64)


def models_in(rows: Mapping[Content, pa.Table], only: str | None) -> list[str | None]:
    """Return the sorted model names of all buckets, with None for rows without a name.

    ``only`` is the name of the only model, if no column has the names.
    """
    if only is not None:
        return [only]
    names = (
        set(pc.unique(rows[Content.MODELS][MODEL].unify_dictionaries()).to_pylist())
        if Content.MODELS in rows
        else set()
    )
    return sorted(names, key=lambda name: name or "")


def has_user(rows: pa.Table) -> pa.ChunkedArray:
    """Return True for rows with a user, and with a fold if there are folds."""
    named = pc.is_valid(rows[USER])
    return pc.and_(named, pc.is_valid(rows[FOLD])) if FOLD in rows.column_names else named


def model_codes(names: pa.ChunkedArray, models: Sequence[str | None]) -> Ints:
    """Return the index of each row's model among all models."""
    known = pa.array(models, pa.string())
    parts = [np.empty(0, dtype=np.int64)]
    for chunk in names.chunks:
        if not pa.types.is_dictionary(chunk.type):
            chunk = chunk.cast(pa.string()).dictionary_encode("encode")
        index = index_of(chunk.dictionary.cast(pa.string()), known)
        null = int(known.null_count and models.index(None))
        codes = to_numpy(chunk.indices.fill_null(len(index)))
        parts.append(np.append(index, null)[codes])
    return np.concatenate(parts)
