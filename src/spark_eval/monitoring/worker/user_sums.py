"""Exact sums over users who recur: each user's rows of several days are one cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import prod
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Booleans, Codes, stable_argsort, to_numpy, unique
from spark_eval.arrow.user_files import check_same_type
from spark_eval.monitoring.worker.user_rows import UserRows, rows_of_segment
from spark_eval.schema import ALL, MISSING, USER
from spark_eval.statistics.additive import Additive
from spark_eval.statistics.differences import RatioSums
from spark_eval.statistics.exact import (
    Floats,
    GroupSums,
    Ints,
    Term,
    add_at,
    small_parts,
    sum_of_term_products,
    sum_of_terms,
    terms_of,
)
from spark_eval.statistics.intervals import Summary, normal_interval

# Segment and its value.
Cell = tuple[str, str]


class MeanColumns(NamedTuple):
    """A mean over user-days: its column of values and, for a weighted mean, its column of weights."""

    value: str
    weight: str | None = None


@dataclass(frozen=True)
class UserSums(Additive):
    """Exact sums over users, each with the total x of the values and the total w of the weights of all rows.

    ``n_users`` have rows; ``n`` of them have a value. Squares and products are of x and w rounded to doubles,
    as in one job over lists by request (``evaluation.worker.requests``).
    """

    n_users: int = 0
    n: int = 0
    total: Fraction = Fraction()
    squares: Fraction = Fraction()
    products: Fraction = Fraction()
    weight: Fraction = Fraction()
    weight_squares: Fraction = Fraction()

    @classmethod
    def of(cls, n_rows: Ints, x: "Amounts", w: "Amounts") -> Self:
        """Sum over users: their numbers of values, their x and their w."""
        return cls(
            n_users=len(n_rows),
            n=int(np.count_nonzero(n_rows)),
            total=sum_of_terms(x.exact),
            squares=sum_of_term_products(x.rounded, x.rounded),
            products=sum_of_term_products(x.rounded, w.rounded),
            weight=sum_of_terms(w.exact),
            weight_squares=sum_of_term_products(w.rounded, w.rounded),
        )

    @property
    def ratio(self) -> Summary:
        """The mean of all rows, with the standard error clustered by user.

        Values a .5, b 1 on one day, a 0, c .25 on another:

        >>> half, quarter = Fraction(1, 2), Fraction(1, 4)
        >>> users = [(half, 2), (Fraction(1), 1), (quarter, 1)]
        >>> sums = UserSums()
        >>> for x, w in users:
        ...     sums += UserSums(1, 1, x, x * x, x * w, Fraction(w), Fraction(w * w))
        >>> sums.ratio.value, round(sums.ratio.std_error, 6)
        (0.4375, 0.214808)
        """
        of_ratio = ((self.squares, self.products), (self.products, self.weight_squares))
        estimate = RatioSums(self.n, (self.total, self.weight), of_ratio).combination(Fraction(1))
        return normal_interval(estimate.value, estimate.std_error, self.n)


class Amounts(NamedTuple):
    """Terms of an amount of each user: exact, and rounded to doubles."""

    exact: Sequence[Term]
    rounded: Sequence[Term]

    @classmethod
    def of(cls, amounts: Floats) -> Self:
        """Return amounts that are doubles."""
        terms = terms_of(amounts)
        return cls(terms, terms)


@dataclass(frozen=True)
class Clusters:
    """Rows of some files of one model in groups: a user within a segment value.

    ``groups`` are those of the rows of each file; None if a file has a row of each group, in their order.
    ``cell`` (groups,) is the index of each group's cell in ``cells``.
    """

    cells: Sequence[Cell]
    cell: Ints
    groups: Sequence[Ints | None]

    @cached_property
    def n_rows(self) -> Ints:
        """Number of rows of each group."""
        n_rows = np.full(len(self.cell), sum(groups is None for groups in self.groups))
        for groups in self.groups:
            if groups is not None:
                np.add.at(n_rows, groups, 1)
        return n_rows

    def parts_of_cells(self) -> Iterator[tuple[Cell, Ints | slice]]:
        """Yield each cell with parts of its groups."""
        if len(self.cells) == 1:
            for _, part in small_parts(len(self.cell)):
                yield self.cells[0], part
            return
        order = stable_argsort(self.cell, len(self.cells))
        ends = np.cumsum(np.bincount(self.cell, minlength=len(self.cells)))
        for cell, groups in zip(self.cells, np.split(order, ends[:-1]), strict=False):
            for _, part in small_parts(len(groups), groups):
                yield cell, part


class Column(NamedTuple):
    """Values of the rows of a file, 0 where they are undefined; ``is_undefined`` is None if none is."""

    values: Floats
    is_undefined: Booleans | None

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Return the column of values; NaN is undefined."""
        is_defined = np.isfinite(values)
        if is_defined.all():
            return cls(values, None)
        return cls(np.where(is_defined, values, 0.0), ~is_defined)


class MeanSums:
    """Sums of a mean in each group, of files that are added one by one; NaN is undefined."""

    def __init__(self, clusters: Clusters, mean: MeanColumns) -> None:
        self.clusters, self.mean = clusters, mean
        n_groups, most_rows = len(clusters.cell), int(clusters.n_rows.max(initial=0))
        self.values = GroupSums(n_groups, most_rows)
        self.weights = None if mean.weight is None else GroupSums(n_groups, most_rows)
        self.n_undefined = np.zeros(n_groups, dtype=np.int64)

    def add(self, file: int, columns: Mapping[str, Column]) -> None:
        """Add the rows of the file of this number."""
        of_mean = [columns[name] for name in self.mean if name is not None]
        undefined = [column.is_undefined for column in of_mean if column.is_undefined is not None]
        for rows, groups in small_parts(len(of_mean[0].values), self.clusters.groups[file]):
            values, *weights = (column.values[rows] for column in of_mean)
            self.values.add_part(prod(weights, start=values), groups)
            if self.weights is not None:
                self.weights.add_part(weights[0], groups)
            if undefined:
                is_undefined = np.logical_or.reduce([one[rows] for one in undefined])
                add_at(self.n_undefined, groups, is_undefined.astype(np.int64))

    def sums(self, *, of_users: bool) -> Iterator[tuple[Cell, UserSums]]:
        """Yield the sums of parts of each cell; with ``of_users`` each user counts once, with their mean."""
        n_rows, totals = self.clusters.n_rows - self.n_undefined, self.values.rounded
        means = totals / np.maximum(n_rows, 1)
        weights = None if self.weights is None else self.weights.rounded
        for cell, groups in self.clusters.parts_of_cells():
            n_of_users = n_rows[groups]
            w = Amounts.of((n_of_users > 0 if of_users else n_of_users).astype(np.float64))
            if self.weights is not None and weights is not None:
                w = Amounts(self.weights.terms(groups), terms_of(weights[groups]))
            x = Amounts(self.values.terms(groups), terms_of(totals[groups]))
            yield cell, UserSums.of(n_of_users, Amounts.of(means[groups]) if of_users else x, w)


def user_sums(
    given: UserRows, segments: Sequence[str], means: Sequence[MeanColumns], *, of_users: bool
) -> dict[MeanColumns, dict[Cell, UserSums]]:
    """Return the sums of each mean in each cell, over all rows of some users of one model.

    With ``of_users`` each user counts once; weighted means are then left out. One file is read at a time.
    """
    grouped = clusters_of(given, segments)
    chosen = [mean for mean in means if not of_users or mean.weight is None]
    sums = {mean: [MeanSums(clusters, mean) for clusters in grouped] for mean in chosen}
    names = list(dict.fromkeys(name for mean in chosen for name in mean if name is not None))
    for number, rows in enumerate(given.read(names)):
        columns = {name: Column.of(as_floats(rows, name)) for name in names}
        for one in chain.from_iterable(sums.values()):
            one.add(number, columns)
    added: dict[MeanColumns, dict[Cell, UserSums]] = {mean: {} for mean in chosen}
    for mean, of_mean in sums.items():
        for cell, more in chain.from_iterable(one.sums(of_users=of_users) for one in of_mean):
            added[mean][cell] = added[mean].get(cell, UserSums()) + more
    return added


def item_sums(
    given: UserRows, segments: Sequence[str], means: Sequence[MeanColumns], *, of_users: bool
) -> dict[MeanColumns, dict[Cell, UserSums]]:
    """Return the sums of each mean by value of segments of items, over rows of ``item_segments``."""
    columns = [USER, *dict.fromkeys(name for mean in means for name in mean if name is not None)]
    sums: dict[MeanColumns, dict[Cell, UserSums]] = {}
    for segment in segments:
        rows = rows_of_segment(given, segment, columns)
        for mean, cells in user_sums(rows, [segment], means, of_users=of_users).items():
            own = {cell: one for cell, one in cells.items() if cell[0] == segment}
            sums.setdefault(mean, {}).update(own)
    return sums


def clusters_of(given: UserRows, segments: Sequence[str]) -> list[Clusters]:
    """Group rows by user: among all rows, and within the values of each segment."""
    distinct, of_files = groups_of(codes_of_users(given))
    clusters = [Clusters([(ALL, ALL)], np.zeros(len(distinct), dtype=np.int64), of_files)]
    tables = list(given.read(segments)) if segments else []
    n_users, everybody = max(len(distinct), 1), np.arange(len(distinct))
    users = [everybody if groups is None else groups for groups in of_files]
    for segment in segments:
        values, names = segment_codes([column_or_nulls(table, segment) for table in tables])
        keys = [value * n_users + user for value, user in zip(values, users, strict=True)]
        distinct, of_files = groups_of(keys)
        clusters.append(Clusters([(segment, name) for name in names], distinct // n_users, of_files))
    return clusters


def column_or_nulls(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column; nulls if the table lacks it, as a day without folds does."""
    if name in table.column_names:
        return table[name]
    return pa.chunked_array([pa.nulls(len(table), pa.string())])


def codes_of_users(given: UserRows) -> list[Ints]:
    """Return the code of each row's user in each file; files may share an array."""
    ids = given.ids()
    check_same_type(USER, [one.type for one in ids])
    shared = {id(one): one for one in ids}
    codes = dict(zip(shared, Codes.of(list(shared.values())).columns, strict=True))
    return [codes[id(one)] for one in ids]


def groups_of(keys: Sequence[Ints]) -> tuple[Ints, list[Ints | None]]:
    """Return the distinct keys, and for each array the index of its keys among them.

    The indices are None if all arrays are the same distinct keys in the same order, as on days with the same
    users: nothing needs to be looked up then.

    >>> groups_of([np.array([7, 3]), np.array([7, 3])])
    (array([7, 3]), [None, None])
    >>> groups_of([np.array([7, 3]), np.array([5, 7])])
    (array([3, 5, 7]), [array([2, 0]), array([1, 2])])
    """
    first = keys[0]
    is_same = all(one is first or np.array_equal(one, first) for one in keys)
    shared = {id(first): first} if is_same else {id(one): one for one in keys}
    distinct, index = unique(np.concatenate(list(shared.values())))
    if is_same and len(distinct) == len(first):
        return first, [None] * len(keys)
    ends = np.cumsum([len(one) for one in shared.values()])[:-1]
    groups = dict(zip(shared, np.split(index, ends), strict=True))
    return distinct, [groups[id(first if is_same else one)] for one in keys]


def segment_codes(columns: Sequence[pa.ChunkedArray]) -> tuple[list[Ints], list[str]]:
    """Return the code of each row's value of a segment in several tables, and the names of the values."""
    codes = Codes.of([column.cast(pa.string()).fill_null(MISSING) for column in columns])
    assert codes.texts is not None  # the columns are text
    return list(codes.columns), codes.texts.to_pylist()


def as_floats(rows: pa.Table, column: str) -> Floats:
    """Return a column of doubles, NaN where it is null."""
    whole = rows[column].cast(pa.float64())
    values: Floats = to_numpy(whole.fill_null(np.nan) if whole.null_count else whole)
    return values
