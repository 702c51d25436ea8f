"""Align the users of all compared models within a bucket, with their segments."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans, Codes, count_unique, row_codes, rows_at, run_starts, to_numpy
from spark_eval.errors import DataError
from spark_eval.schema import FOLD, MISSING, N_RELEVANT, REQUEST, USER
from spark_eval.statistics.exact import Floats, Ints
from spark_eval.users.cells import EVERYBODY, SegmentValue
from spark_eval.users.means import leave_out_undefined, means_by_group, means_of_repeats
from spark_eval.users.products import Match, model_indices

BASELINE: Final = "baseline"
CANDIDATE: Final = "candidate"


@dataclass(frozen=True)
class SliceTask:
    """Attributes whose values, and up to ``cross`` of them together, make slices of ``min_users`` and more.

    With ``by_means``, lists are by request, and each user counts once in a slice, with a mean.
    """

    attributes: Sequence[str]
    cross: int
    min_users: int
    by_means: bool = False


@dataclass(frozen=True)
class ComparisonTask:
    """Task of the executors: compare pairs of models.

    ``models`` are (role, name); the role is baseline or candidate. ``matches`` select the compared pairs;
    without any, each model is summarised alone. ``columns`` are the metric columns; ``weighted`` has the
    columns of value and weight of each weighted mean. The candidate has a column for each of ``segments``,
    the baseline for each of ``moved``. With ``has_truth``, both count each user's relevant items, and the
    counts must agree. ``needs_largest`` requests the largest differences, ``needs_differing`` the numbers of
    users whose rows differ in sum. With ``has_text_ids``, user ids are text, otherwise integers. ``request``
    is the type of ids of requests, None if users have one list; with ``of_means``, each user then has one
    row, with the means over the user's requests; one for each value of the segment ``apart``, if it is given.
    Means of a pair are over the requests where both models have a value. ``slices`` are summed as well.
    With ``of_items``, a segment of items, a user has a row for each of its values, over the truth of these.

    If models have repeats, each is a model of its own, and ``repeats`` has the indices of those of each
    model. A row has a value only if it has one under every repeat of the model. With ``of_repeat_means``, the
    compared values are the means over the repeats, and ``matches`` select the first repeat of each model.
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
    needs_differing: bool = False
    has_text_ids: bool = False
    request: pa.DataType | None = None
    of_means: bool = False
    apart: str | None = None
    row_segments: Sequence[str] | None = None
    slices: SliceTask | None = None
    of_items: str | None = None
    repeats: Sequence[Sequence[int]] = ()
    of_repeat_means: bool = False

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """Indices of the baseline and of the candidate of each pair in ``models``; each of shape (pairs,)."""
        return model_indices(self.matches)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Indices of baseline and candidate in ``models``, by pair."""
        baselines, candidates = self.ends
        return list(zip(baselines.tolist(), candidates.tolist(), strict=True))

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.ends[0])

    @property
    def has_pairs_apart(self) -> bool:
        """True if each pair has values of its own of both models: means over requests of both."""
        return self.of_means and bool(self.matches)

    @cached_property
    def value_models(self) -> list[int]:
        """Index in ``models`` of each row of ``AlignedUsers.values``."""
        rows = self.repeats if self.of_repeat_means else self.models
        return np.concatenate(self.ends).tolist() if self.has_pairs_apart else [*range(len(rows))]

    @property
    def value_matches(self) -> Sequence[Match]:
        """The pairs as slices of the rows of ``AlignedUsers.values``."""
        n = self.n_pairs
        if self.of_repeat_means:
            index = {own[0]: number for number, own in enumerate(self.repeats)}
            pairs = [(index[baseline], index[candidate]) for baseline, candidate in self.pairs]
            return [(slice(a, a + 1), slice(b, b + 1)) for a, b in pairs]
        return [(slice(0, n), slice(n, 2 * n))] if self.has_pairs_apart else self.matches

    @property
    def value_pairs(self) -> list[tuple[int, int]]:
        """Indices of baseline and candidate among the rows of ``AlignedUsers.values``, by pair."""
        return list(zip(*(ends.tolist() for ends in model_indices(self.value_matches)), strict=True))

    @property
    def values(self) -> list[str]:
        """All numeric columns, each once."""
        return list(dict.fromkeys([*self.columns, *(name for pair in self.weighted for name in pair)]))

    @property
    def keys(self) -> list[str]:
        """Key columns of a ``per_user`` row."""
        named = {FOLD: self.by_fold, REQUEST: self.request is not None}
        of_items = [] if self.of_items is None else [self.of_items]
        return [USER, *(name for name, is_there in named.items() if is_there), *of_items]

    @property
    def texts(self) -> list[str]:
        """Columns of segments and of attributes of slices, each once."""
        return list(dict.fromkeys([*self.segments, *(self.slices.attributes if self.slices else ())]))

    @property
    def has_clusters(self) -> bool:
        """True if users may have several rows in a segment's value, of folds or of requests."""
        return self.by_fold or (self.request is not None and not self.of_means)

    @property
    def has_several_rows(self) -> bool:
        """True if users may have several rows in all: of folds, of requests or of values of items."""
        return self.has_clusters or self.of_items is not None

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the types of columns in comparisons; columns are cast to them."""
        kinds = {
            USER: pa.string() if self.has_text_ids else pa.int64(),
            FOLD: pa.int64(),
            N_RELEVANT: pa.int64(),
            REQUEST: self.request,
        }
        texts = [*self.texts, *([] if self.of_items is None else [self.of_items])]
        kinds |= dict.fromkeys(texts, pa.string()) | dict.fromkeys(self.values, pa.float64())
        return pa.schema({name: kinds[name] for name in columns})

    def rows(self, tables: Iterable[pa.Table], columns: Sequence[str]) -> pa.Table:
        """Concatenate these columns of some tables, cast to ``schema``."""
        schema = self.schema(columns)
        try:
            typed = [table.cast(schema) for table in tables]
        except pa.ArrowInvalid as error:
            raise DataError("METRIC_OVERFLOW", f"a value is not exact as a double: {error}") from error
        return pa.concat_tables(typed) if typed else schema.empty_table()

    def rows_of_model(
        self,
        tables: Mapping[int, pa.Table],
        model: int,
        columns: Sequence[str],
        rows: slice | Ints | None = None,
    ) -> pa.Table:
        """Return columns of a model's rows, from the tables of all models: all rows, or these."""
        if model not in tables:
            return self.rows([], columns)
        table = tables[model].select(list(columns))
        return self.rows([table if rows is None else rows_at(table, rows)], columns)

    def models_of(self, role: str) -> dict[str, int]:
        """Return the indices of the models of a role, baseline or candidate, by name."""
        return {name: index for index, (of_role, name) in enumerate(self.models) if of_role == role}


class PairCounts(NamedTuple):
    """Numbers of compared rows and users.

    ``rows`` and ``people`` (pairs, 3) count rows and users: the baseline's, the candidate's, and common ones.
    ``moved`` (segments, pairs) counts common rows with a different segment in the baseline, ``other_truth``
    (pairs,) those with a different number of relevant items.
    """

    rows: Ints
    people: Ints
    moved: Ints
    other_truth: Ints

    def __add__(self, other: Any) -> "PairCounts":
        """Add the counts of other users."""
        return PairCounts(*map(np.add, self, other))


# Reads columns of the model with this index, for some of its rows, in this order.
ReadRows = Callable[[int, Sequence[str]], pa.Table]
ReadSomeRows = Callable[[int, Sequence[str], slice | Ints], pa.Table]


class AlignedUsers:
    """The n compared rows of a bucket: one per user, or one per user and fold or request.

    ``rows`` has for each model the indices (n,) of these rows in its table, -1 if missing; None if the table
    has exactly these rows, in this order. ``n_rows`` (models,) and ``n_users`` (models,) count all rows and
    users of each model. ``cell`` is the segment value that the rows are of, if they are sums of rows.
    """

    def __init__(self, task: ComparisonTask, read: ReadRows, cell: SegmentValue = EVERYBODY) -> None:
        self.task, self.read, self.cell = task, read, cell
        tables = [read(model, task.keys) for model in range(len(task.models))]
        for table, (role, model) in zip(tables, task.models, strict=True):
            check_rows_of_users(table, role, model)
        self.n_rows = np.array([len(table) for table in tables])
        self.rows: list[Ints | None] = [None] * len(tables)
        if all(table.equals(tables[0]) for table in tables[1:]):
            self.ids, self.person = tables[0][USER].combine_chunks(), self.people(tables[0])
            self.folds = to_numpy(tables[0][FOLD]) if task.by_fold else None
            n_users = count_unique(self.person) if len(task.keys) > 1 else len(self.ids)
            self.n_users = np.full(len(tables), n_users)
        else:
            self.align(tables)
        # With ``of_means``, the user of each row that was read, the indices of these rows, and for each pair
        # the mask of users with a request of both models.
        self.averaged: tuple[Ints, list[Ints | None], list[Booleans]] | None = None
        if task.of_means:
            self.merge_requests()

    def people(self, table: pa.Table) -> Ints:
        """Return an integer per row (n,), equal for rows of the same user."""
        if self.task.keys == [USER]:
            return np.arange(len(table))
        return Codes.of([table[USER]]).columns[0]

    def align(self, tables: Sequence[pa.Table]) -> None:
        """Sort the users of all models into one order, if the models have different users."""
        codes = Codes.of([table[USER] for table in tables])
        distinct, person = np.unique(np.concatenate(codes.columns), return_inverse=True)
        key, folds = person, None
        for name in (one for one in self.task.keys if one not in (USER, FOLD)):
            chunks = [chunk for table in tables for chunk in table[name].chunks]
            values = pa.chunked_array(chunks, self.task.schema([name]).field(name).type)
            key = row_codes(to_numpy(values.combine_chunks().dictionary_encode("encode").indices), key)
        if self.task.by_fold:
            folds = np.concatenate([to_numpy(table[FOLD]) for table in tables])
            key = row_codes(np.unique(folds, return_inverse=True)[1], key)
        ends = np.cumsum(self.n_rows)[:-1]
        known, first, index = np.unique(key, return_index=True, return_inverse=True)
        rows = np.full((len(tables), len(known)), -1, dtype=np.int64)
        for of_model, part in zip(rows, np.split(index, ends), strict=True):
            of_model[part] = np.arange(len(part))
        self.n_users = np.array([count_unique(part) for part in np.split(person, ends)])
        is_common = np.full(len(known), not self.task.matches)
        for baseline, candidate in self.task.pairs:
            is_common |= (rows[baseline] >= 0) & (rows[candidate] >= 0)
        first, self.rows = first[is_common], list(rows[:, is_common])
        self.person = person[first]
        self.ids = codes.ids(distinct[self.person])
        self.folds = None if folds is None else folds[first]

    def merge_requests(self) -> None:
        """Give each user one row, whose values are the means over the user's requests.

        There is one per fold, and one per value of the segment ``apart``.
        """
        keys = [self.person] if self.folds is None else [self.folds, self.person]
        if self.task.apart is not None:
            values = self.texts(CANDIDATE, self.task.apart).dictionary_encode()
            keys.append(to_numpy(values.indices).astype(np.int64))
        order = np.lexsort(keys[::-1])
        is_first = np.zeros(len(order), dtype=bool)
        for key in keys:
            is_first |= run_starts(key[order])
        starts = np.flatnonzero(is_first)
        user = np.empty_like(order)
        user[order] = np.cumsum(is_first) - 1
        common = [
            np.logical_or.reduceat(both[order], starts) if len(starts) else both for both in self.common()
        ]
        self.averaged = (user, self.rows, common)
        first = order[starts]
        self.rows = [
            first if rows is None else np.maximum.reduceat(rows[order], starts) if len(starts) else rows
            for rows in self.rows
        ]
        self.ids, self.person = self.ids.take(pa.array(first)), self.person[first]
        self.folds = None if self.folds is None else self.folds[first]

    def part(self, users: slice, read: ReadSomeRows) -> "AlignedUsers":
        """Return a slice of the users, whose rows are read by ``read``: each has one row per model.

        The first part has the counts of all rows and users.
        """
        own = [users if rows is None else rows[users] for rows in self.rows]
        chosen = [rows if isinstance(rows, slice) else rows[rows >= 0] for rows in own]
        part = AlignedUsers.__new__(AlignedUsers)
        part.task, part.read = self.task, lambda model, columns: read(model, columns, chosen[model])
        part.rows = [None if isinstance(rows, slice) else renumbered(rows) for rows in own]
        part.ids, part.person = self.ids[users], self.person[users]
        part.folds = part.averaged = None
        counts = (self.n_rows, self.n_users)
        part.n_rows, part.n_users = counts if users.start == 0 else map(np.zeros_like, counts)
        return part

    def __len__(self) -> int:
        return len(self.person)

    def common(self) -> Iterator[Booleans]:
        """Yield for each pair the mask (n,) of the rows that both models have."""
        if self.averaged is not None:
            yield from self.averaged[2]
            return
        everybody = np.ones(len(self), dtype=bool)
        has = [everybody if rows is None else rows >= 0 for rows in self.rows]
        for baseline, candidate in self.task.pairs:
            yield has[baseline] & has[candidate]

    @cached_property
    def attributes(self) -> dict[str, pa.Array]:
        """Values (n,) of the candidate's rows, by segment or attribute of slices."""
        return {name: self.texts(CANDIDATE, name) for name in self.task.texts}

    @property
    def segments(self) -> dict[str, pa.Array]:
        """Segment values (n,) of the candidate's rows, by segment."""
        return {name: self.attributes[name] for name in self.task.segments}

    def counts(self) -> PairCounts:
        """Count the compared rows and users."""
        task, common = self.task, list(self.common())
        baselines, candidates = task.ends
        is_moved = [
            to_numpy(pc.not_equal(self.attributes[name], self.texts(BASELINE, name))).astype(bool)
            for name in task.moved
        ]
        moved = [[np.count_nonzero(of_segment & both) for both in common] for of_segment in is_moved]
        other_truth = np.zeros(len(common), dtype=np.int64)
        if task.has_truth:
            relevant = [self.relevant(model) for model in range(len(task.models))]
            for pair, ((baseline, candidate), both) in enumerate(zip(task.pairs, common, strict=True)):
                other_truth[pair] = np.count_nonzero((relevant[baseline] != relevant[candidate]) & both)
        rows = [np.count_nonzero(both) for both in common]
        people = [count_unique(self.person[both]) for both in common] if task.has_several_rows else rows
        return PairCounts(
            np.stack([self.n_rows[baselines], self.n_rows[candidates], rows], axis=1),
            np.stack([self.n_users[baselines], self.n_users[candidates], people], axis=1),
            np.array(moved, dtype=np.int64).reshape(len(is_moved), len(common)),
            other_truth,
        )

    @property
    def n_read(self) -> int:
        """Number of rows per model that ``values`` reads; without means over requests, it is n."""
        return len(self) if self.averaged is None else len(self.averaged[0])

    def values(self, columns: Sequence[str], memory: Floats | None = None) -> Floats:
        """Return the values of the task's ``value_models``, NaN if missing; shape (value models, columns, n).

        They are in ``memory`` if it is given, because fresh memory costs as much as the values.
        """
        return self.over_repeats(self.values_of_each(columns, memory))

    def weighted(self, column: str, weight: str) -> Floats:
        """Return weighted values and weights, NaN unless both are there; shape (value models, 2, n)."""
        values = self.values_of_each((column, weight))
        values[:, 0] *= values[:, 1]
        is_missing = np.isnan(values).any(axis=1, keepdims=True)
        return self.over_repeats(np.where(is_missing, np.nan, values))

    def over_repeats(self, values: Floats) -> Floats:
        """Return the means of values over the repeats of each model, if the task asks for them."""
        return means_of_repeats(values, self.task.repeats) if self.task.of_repeat_means else values

    def values_of_each(self, columns: Sequence[str], memory: Floats | None = None) -> Floats:
        """Return the values of ``values`` under each repeat."""
        models, of_models = self.task.value_models, self.rows if self.averaged is None else self.averaged[1]
        if self.task.of_repeat_means:
            models, memory = [*range(len(self.task.models))], None
        shape = len(models), len(columns), self.n_read
        values = np.empty(shape) if memory is None else memory[: prod(shape)].reshape(shape)
        is_finite = True
        for row, model in enumerate(models):
            if (first := models.index(model)) < row:
                values[row] = values[first]
                continue
            table, rows = self.read(model, columns), of_models[model]
            for index, name in enumerate(columns):
                if rows is None:
                    fill(values[row, index], table[name])
                else:
                    values[row, index] = np.append(to_numpy(table[name]), np.nan)[rows]
                with np.errstate(invalid="ignore", over="ignore"):
                    # Most often no value is looked at on its own.
                    is_finite &= bool(np.isfinite(values[row, index].sum()))
        if not is_finite and np.isinf(values).any():
            infinite = columns[int(np.flatnonzero(np.isinf(values).any(axis=(0, 2)))[0])]
            message = f"per_user: {infinite} holds infinite values; leave them null"
            raise DataError("METRIC_OVERFLOW", message)
        if self.task.repeats:
            leave_out_undefined(values, self.task.repeats)
            return values
        if self.averaged is None:
            return values
        if not is_finite:
            leave_out_undefined(values, self.task.value_pairs)
        return means_by_group(values, self.averaged[0], len(self))

    def texts(self, role: str, segment: str) -> pa.Array:
        """Return the segment value (n,) of each row, from the first model of a role with the row."""
        if segment == FOLD and self.folds is not None:
            return pa.array(self.folds).cast(pa.string())
        values = pa.nulls(len(self), pa.string())
        for model in self.task.models_of(role).values():
            column = self.read(model, [segment])[segment].cast(pa.string()).combine_chunks()
            rows = self.rows[model]
            if rows is None:
                return column.fill_null(MISSING)
            indices = pa.array(rows, mask=rows < 0)
            values = pc.coalesce(values, column.fill_null(MISSING).take(indices))
            if not values.null_count:
                break
        return values.fill_null(MISSING)

    def relevant(self, model: int) -> Ints:
        """Return the number of relevant items (n,) in the truth of a model, -1 for rows that it lacks."""
        column = to_numpy(self.read(model, [N_RELEVANT])[N_RELEVANT]).astype(np.int64)
        rows = self.rows[model]
        return column if rows is None else np.append(column, -1)[rows]


def fill(memory: Floats, column: pa.ChunkedArray) -> None:
    """Write a column into memory, NaN for nulls; its chunks are copied once."""
    start = 0
    for chunk in column.chunks:
        memory[start : start + len(chunk)] = to_numpy(chunk)
        start += len(chunk)


def renumbered(rows: Ints) -> Ints | None:
    """Renumber present rows 0 ... n - 1, -1 stays missing; return None if nothing is missing.

    >>> renumbered(np.array([7, -1, 9])).tolist()
    [0, -1, 1]
    """
    is_there = rows >= 0
    return None if is_there.all() else np.where(is_there, np.cumsum(is_there) - 1, -1)


def check_rows_of_users(table: pa.Table, role: str, model: str) -> None:
    """Raise DataError for a row without a user or fold, or for a duplicate user of a model."""
    who = f"per_user of the {role}, model {model!r}"
    for name in table.column_names:
        if name != REQUEST and table[name].null_count:
            raise DataError("NULL_ID", f"{who}: {table[name].null_count} rows have no {name}")
    users = table[USER]
    if pa.types.is_integer(users.type) and table.num_columns == 1 and (np.diff(to_numpy(users)) > 0).all():
        return
    if table.num_columns == 1:
        n_distinct_rows = count_unique(Codes.of([users]).columns[0])
    else:
        n_distinct_rows = table.group_by(table.column_names, use_threads=False).aggregate([]).num_rows
    if n_distinct_rows != len(table):
        what = "request" if REQUEST in table.column_names else "user"
        message = f"{who}: {len(table) - n_distinct_rows} rows repeat a {what}; give each {what} one row"
        raise DataError("DUPLICATE_USER", message)
