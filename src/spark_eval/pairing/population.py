"""Who is compared in a bucket: the users of all models side by side, in one order, and their segments."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Codes, n_distinct
from spark_eval.arrow.hashes import Booleans, numbers
from spark_eval.errors import DataError
from spark_eval.pairing.products import Match, models_of
from spark_eval.schema import FOLD, MISSING, N_RELEVANT, USER
from spark_eval.stats.exact import Floats, Ints

BASELINE: Final = "baseline"
CANDIDATE: Final = "candidate"


@dataclass(frozen=True)
class PairQuestion:
    """What workers are asked of pairs of models.

    ``models`` are sides with names, and ``matches`` say which of them are compared; without any, each is by
    itself. ``columns`` are those of the metrics, ``weighted`` a column with what weighs in its weighted mean.
    The candidate has a column for each of ``segments``, the baseline's side for each of
    ``moved``. ``has_truth`` says that both count each user's relevant items, which must be the same.
    ``needs_largest`` asks for the largest differences. ``has_text_ids`` says that ids are text, not integers.
    """

    models: Sequence[tuple[str, str]]
    matches: Sequence[Match]
    columns: Sequence[str]
    segments: Sequence[str] = ()
    by_fold: bool = False
    moved: Sequence[str] = ()
    has_truth: bool = False
    weighted: Sequence[tuple[str, str]] = ()
    needs_largest: bool = False
    has_text_ids: bool = False

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """The place of the baseline and of the candidate of each pair among the models."""
        return models_of(self.matches)

    @property
    def values(self) -> list[str]:
        """All columns that are read as numbers."""
        return list(dict.fromkeys([*self.columns, *(name for pair in self.weighted for name in pair)]))

    @property
    def keys(self) -> list[str]:
        """The columns that tell users apart."""
        return [USER, FOLD] if self.by_fold else [USER]

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the types in which columns are compared, whatever wrote them."""
        kinds = {
            USER: pa.string() if self.has_text_ids else pa.int64(),
            FOLD: pa.int64(),
            N_RELEVANT: pa.int64(),
        }
        kinds |= dict.fromkeys(self.segments, pa.string()) | dict.fromkeys(self.values, pa.float64())
        return pa.schema({name: kinds[name] for name in columns})

    def rows(self, tables: Iterable[pa.Table], columns: Sequence[str]) -> pa.Table:
        """Return these columns of some tables as one, in the types in which they are compared."""
        schema = self.schema(columns)
        typed = [table.cast(schema) for table in tables]
        return pa.concat_tables(typed) if typed else schema.empty_table()

    def side(self, side: str) -> list[int]:
        """Return the places of the models of a side."""
        return [place for place, (of_side, _) in enumerate(self.models) if of_side == side]


class PairCounts(NamedTuple):
    """Counts of who is compared.

    ``rows`` and ``people`` (pairs, 3) are rows and users of the baseline, of the candidate, and common ones.
    ``moved`` (segments, pairs) are common rows whose segment is another on the baseline's side,
    ``other_truth`` (pairs,) those with another number of relevant items there.
    """

    rows: Ints
    people: Ints
    moved: Ints
    other_truth: Ints

    def __add__(self, other: Any) -> "PairCounts":
        """Return the counts of both."""
        return PairCounts(*map(np.add, self, other))


# Columns of the rows of a model, by its place.
ReadRows = Callable[[int, Sequence[str]], pa.Table]


class Population:
    """The n users that are compared in a bucket, those of several folds once in each.

    ``rows`` has for each model the places (n,) of these users in its table, -1 of those whom it lacks; None:
    they stand there in the same order. ``n_rows`` (models,) counts the rows that a model
    has, ``n_users`` (models,) their users.
    """

    def __init__(self, question: PairQuestion, read: ReadRows) -> None:
        self.question, self.read = question, read
        tables = [read(place, question.keys) for place in range(len(question.models))]
        for table, (side, model) in zip(tables, question.models, strict=True):
            check_rows_of_users(table, side, model)
        self.n_rows = np.array([len(table) for table in tables])
        self.rows: list[Ints | None] = [None] * len(tables)
        if all(table.equals(tables[0]) for table in tables[1:]):
            self.ids, self.person = tables[0][USER].combine_chunks(), self.people(tables[0])
            self.folds = numbers(tables[0][FOLD]) if question.by_fold else None
            n_users = len(self.ids) if self.folds is None else n_distinct(self.person)
            self.n_users = np.full(len(tables), n_users)
        else:
            self.align(tables)

    def people(self, table: pa.Table) -> Ints:
        """Return a number for each row, the same for the same user."""
        if not self.question.by_fold:
            return np.arange(len(table))
        return Codes.of([table[USER]]).columns[0]

    def align(self, tables: Sequence[pa.Table]) -> None:
        """Bring the users of all models, of which some differ, into one order."""
        codes = Codes.of([table[USER] for table in tables])
        distinct, coded = np.unique(np.concatenate(codes.columns), return_inverse=True)
        key, fold_of = coded, None
        if self.question.by_fold:
            of_row = np.concatenate([numbers(table[FOLD]) for table in tables])
            fold_of, fold = np.unique(of_row, return_inverse=True)
            key = fold * len(distinct) + coded
        parts = np.split(key, np.cumsum(self.n_rows)[:-1])
        known = np.unique(key)
        rows = np.full((len(tables), len(known)), -1, dtype=np.int64)
        for own, part in zip(rows, parts, strict=True):
            own[np.searchsorted(known, part)] = np.arange(len(part))
        self.n_users = np.array([n_distinct(part % max(len(distinct), 1)) for part in parts])
        lefts, rights = self.question.ends
        is_common = np.full(len(known), not self.question.matches)
        for left, right in zip(lefts, rights, strict=True):
            is_common |= (rows[left] >= 0) & (rows[right] >= 0)
        known, self.rows = known[is_common], list(rows[:, is_common])
        self.person = known % max(len(distinct), 1)
        self.ids = codes.ids(distinct[self.person])
        self.folds = None if fold_of is None else fold_of[known // max(len(distinct), 1)]

    def __len__(self) -> int:
        return len(self.person)

    def common(self) -> Iterator[Booleans]:
        """Yield which rows both models of each pair have; shape (n,)."""
        everybody = np.ones(len(self), dtype=bool)
        has = [everybody if rows is None else rows >= 0 for rows in self.rows]
        for left, right in zip(*self.question.ends, strict=True):
            yield has[left] & has[right]

    @cached_property
    def segments(self) -> dict[str, pa.Array]:
        """The users' values of all segments, as the candidate has them."""
        return {name: self.texts(CANDIDATE, name) for name in self.question.segments}

    def counts(self) -> PairCounts:
        """Count who is compared."""
        question, pairs = self.question, list(self.common())
        lefts, rights = question.ends
        is_moved = [
            numbers(pc.not_equal(self.segments[name], self.texts(BASELINE, name))).astype(bool)
            for name in question.moved
        ]
        moved = [[np.count_nonzero(one & both) for both in pairs] for one in is_moved]
        other_truth = np.zeros(len(pairs), dtype=np.int64)
        if question.has_truth:
            relevant = [self.relevant(model) for model in range(len(question.models))]
            for pair, (left, right, both) in enumerate(zip(lefts, rights, pairs, strict=True)):
                other_truth[pair] = np.count_nonzero((relevant[left] != relevant[right]) & both)
        rows = [np.count_nonzero(both) for both in pairs]
        people = [n_distinct(self.person[both]) for both in pairs] if question.by_fold else rows
        return PairCounts(
            np.stack([self.n_rows[lefts], self.n_rows[rights], rows], axis=1),
            np.stack([self.n_users[lefts], self.n_users[rights], people], axis=1),
            np.array(moved, dtype=np.int64).reshape(len(is_moved), len(pairs)),
            other_truth,
        )

    def values(self, columns: Sequence[str]) -> Floats:
        """Return the values of all models, NaN where there are none; shape (models, columns, n)."""
        values = np.empty((len(self.rows), len(columns), len(self)))
        for model, rows in enumerate(self.rows):
            table = self.read(model, columns)
            for place, name in enumerate(columns):
                column = numbers(table[name])
                values[model, place] = column if rows is None else np.append(column, np.nan)[rows]
        if np.isinf(values).any():
            infinite = columns[int(np.flatnonzero(np.isinf(values).any(axis=(0, 2)))[0])]
            message = f"per_user: {infinite} holds infinite values; leave them null"
            raise DataError("METRIC_OVERFLOW", message)
        return values

    def texts(self, side: str, segment: str) -> pa.Array:
        """Return the users' values of a segment on a side, from whichever of its models has them."""
        if segment == FOLD and self.folds is not None:
            return pa.array(self.folds).cast(pa.string())
        values = pa.nulls(len(self), pa.string())
        for place, (of_side, _) in enumerate(self.question.models):
            if of_side == side:
                column = self.read(place, [segment])[segment].cast(pa.string()).combine_chunks()
                rows = self.rows[place]
                if rows is None:
                    return column.fill_null(MISSING)
                mine = pa.array(rows, mask=rows < 0)
                values = pc.coalesce(values, column.fill_null(MISSING).take(mine))
                if not values.null_count:
                    break
        return values.fill_null(MISSING)

    def relevant(self, model: int) -> Ints:
        """Return how many relevant items each user has by the truth of a model, -1 where it lacks them."""
        column = numbers(self.read(model, [N_RELEVANT])[N_RELEVANT]).astype(np.int64)
        rows = self.rows[model]
        return column if rows is None else np.append(column, -1)[rows]


def check_rows_of_users(table: pa.Table, side: str, model: str) -> None:
    """Raise DataError for a row without a user, or for a user whom a model has twice."""
    who = f"per_user of the {side}, model {model!r}"
    for name in table.column_names:
        if table[name].null_count:
            raise DataError("NULL_ID", f"{who}: {table[name].null_count} rows have no {name}")
    users = table[USER]
    if (
        pa.types.is_integer(users.type)
        and FOLD not in table.column_names
        and (np.diff(numbers(users)) > 0).all()
    ):
        return
    if table.num_columns == 1:
        n_distinct_rows = n_distinct(Codes.of([users]).columns[0])
    else:
        n_distinct_rows = table.group_by(table.column_names).aggregate([]).num_rows
    if n_distinct_rows != len(table):
        message = f"{who}: {len(table) - n_distinct_rows} rows repeat a user; give each user one row"
        raise DataError("DUPLICATE_USER", message)
