"""The users of a bucket, each once per fold, and which segments they are in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Codes, distinct_in_order
from spark_eval.arrow.hashes import in_one_piece, numbers
from spark_eval.engine.messages import Content
from spark_eval.schema import FOLD, MISSING, MODEL, N_INTERACTIONS, NO_TRAIN, USER, BuiltIn
from spark_eval.stats.exact import Ints


@dataclass(frozen=True)
class People:
    """n users, by fold and id; of those in several folds one for each.

    ``ids`` are int64 or text; ``folds`` (n,) is None where there are none.
    """

    ids: pa.Array
    folds: Ints | None

    def __len__(self) -> int:
        return len(self.ids)


def numbered(tables: Sequence[pa.Table]) -> tuple[People, list[Ints]]:
    """Return all users that the tables name, and the number of each row's user, table by table."""
    codes = Codes.of([table[USER] for table in tables])
    users, number = distinct_in_order(codes.in_order(np.concatenate(codes.columns)))
    ids, folds = codes.ids_in_order(users), None
    if all(FOLD in table.column_names for table in tables):
        of_row = np.concatenate([numbers(table[FOLD]) for table in tables]).astype(np.int64)
        known, fold = distinct_in_order(of_row)
        pairs, number = distinct_in_order(fold * len(ids) + number)
        folds, ids = known[pairs // max(len(ids), 1)], ids.take(pa.array(pairs % max(len(ids), 1)))
    return People(ids, folds), np.split(number, np.cumsum([len(table) for table in tables])[:-1])


@dataclass(frozen=True)
class Segment:
    """The place of each user's value in ``values``; None is the value of users of whom none is known."""

    code: Ints
    values: Sequence[str | None]

    @property
    def names(self) -> list[str]:
        """The values as the means name them."""
        return [MISSING if value is None else value for value in self.values]

    def column(self, chosen: Ints) -> pa.Array:
        """Return the values of these users."""
        return pa.array(self.values, pa.string()).take(pa.array(self.code[chosen]))


def segments_of(
    names: Sequence[str], people: People, users: pa.Table, trained: pa.Table, bounds: Mapping[int, int] | None
) -> dict[str, Segment]:
    """Return the segments of these names, of all people.

    ``users`` have a column for each that is not built in; ``trained`` have numbers of training interactions,
    which add up.
    ``bounds`` are the most interactions of each activity decile.
    """
    segments: dict[str, Segment] = {}
    row = row_of(people, users)
    if not set(BuiltIn).isdisjoint(names):
        trained = added_interactions(trained)
    for name in names:
        if name == FOLD and people.folds is not None:
            folds, code = np.unique(people.folds, return_inverse=True)
            segments[name] = Segment(code, [str(fold) for fold in folds])
        elif name == BuiltIn.KNOWN:
            segments[name] = Segment((row_of(people, trained) < 0).astype(np.int64), [name, NO_TRAIN])
        elif name == BuiltIn.ACTIVITY:
            of_user = row_of(people, trained)
            n = numbers(trained[N_INTERACTIONS])
            decile = np.append(np.searchsorted(list((bounds or {}).values()), n), len(bounds or {}))
            segments[name] = Segment(decile[of_user].astype(np.int64), [*map(str, bounds or {}), NO_TRAIN])
        else:
            coded = users[name].cast(pa.string()).combine_chunks().dictionary_encode()
            values = (*coded.dictionary.to_pylist(), None)
            code = np.append(numbers(coded.indices.fill_null(len(values) - 1)), len(values) - 1)
            segments[name] = Segment(code[row].astype(np.int64), values)
    return segments


def added_interactions(trained: pa.Table) -> pa.Table:
    """Return a row per user, in each fold if there are folds: what several tasks have counted, added up."""
    keys = [name for name in (USER, FOLD) if name in trained.column_names]
    added = in_one_piece([trained]).group_by(keys).aggregate([(N_INTERACTIONS, "sum")])
    return added.rename_columns([*keys, N_INTERACTIONS])


def row_of(people: People, table: pa.Table) -> Ints:
    """Return the row of each user in a table that names all once (in each fold, if it has folds), else -1."""
    rows = np.full(len(people), -1, dtype=np.int64)
    users = table[USER].cast(people.ids.type).combine_chunks()
    if people.folds is None or FOLD not in table.column_names:
        return place_in(people.ids, users)
    fold = numbers(table[FOLD])
    for one in np.unique(people.folds):
        mine, theirs = np.flatnonzero(people.folds == one), np.flatnonzero(fold == one)
        place = place_in(people.ids.take(pa.array(mine)), users.take(pa.array(theirs)))
        rows[mine] = np.append(theirs, -1)[place]
    return rows


def place_in(asked: pa.Array, known: pa.Array) -> Ints:
    """Return the place of each that is asked for among distinct known ones, -1 where it is not there."""
    return numbers(pc.index_in(asked, value_set=known).fill_null(-1)).astype(np.int64)


def person_of(rows: pa.Table, people: People) -> Ints:
    """Return who the user of each row is, in the fold of the row if there are folds; -1 for all others."""
    users = rows[USER].cast(people.ids.type).combine_chunks()
    if people.folds is None:
        return place_in(users, people.ids)
    person, fold = np.full(len(rows), -1, dtype=np.int64), numbers(rows[FOLD])
    for one in np.unique(people.folds):
        mine, theirs = np.flatnonzero(people.folds == one), np.flatnonzero(fold == one)
        place = place_in(users.take(pa.array(theirs)), people.ids.take(pa.array(mine)))
        person[theirs] = np.append(mine, -1)[place]
    return person


def models_in(rows: Mapping[Content, pa.Table], only: str | None) -> list[str | None]:
    """Return the models that any bucket has, by name; None is that of rows that name none.

    ``only`` is the name of the only model, if no column holds names.
    """
    if only is not None:
        return [only]
    names = (
        set(pc.unique(rows[Content.MODELS][MODEL].unify_dictionaries()).to_pylist())
        if Content.MODELS in rows
        else set()
    )
    return sorted(names, key=lambda name: name or "")


def is_named(rows: pa.Table) -> pa.ChunkedArray:
    """Return which rows have a user, and a fold if there are folds."""
    named = pc.is_valid(rows[USER])
    return pc.and_(named, pc.is_valid(rows[FOLD])) if FOLD in rows.column_names else named


def model_codes(names: pa.ChunkedArray, models: Sequence[str | None]) -> Ints:
    """Return the place of each row's model among all models."""
    known = pa.array(models, pa.string())
    parts = [np.empty(0, dtype=np.int64)]
    for chunk in names.chunks:
        if not pa.types.is_dictionary(chunk.type):
            chunk = chunk.cast(pa.string()).dictionary_encode("encode")
        place = place_in(chunk.dictionary.cast(pa.string()), known)
        null = int(known.null_count and models.index(None))
        codes = numbers(chunk.indices.fill_null(len(place)))
        parts.append(np.append(place, null)[codes])
    return np.concatenate(parts)
