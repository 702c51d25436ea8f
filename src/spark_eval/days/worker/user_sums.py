"""Exact sums over users who recur: each user's rows of several days are one cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Codes, to_numpy, unique_sorted
from spark_eval.schema import ALL, MISSING, USER
from spark_eval.statistics.differences import RatioSums
from spark_eval.statistics.exact import (
    POINT_BITS,
    Floats,
    GroupSums,
    Ints,
    limbs_by_group,
    normalize_limbs,
    sum_of_limbs,
    sum_of_products,
    sums_by_group,
)
from spark_eval.statistics.intervals import Summary, normal_interval

# Number of rows of a block whose arrays stay in the processor's cache.
ROWS_AT_ONCE: Final = 1 << 15
# Segment and its value.
Cell = tuple[str, str]


class MeanColumns(NamedTuple):
    """A mean over user-days: its column of values and, for a weighted mean, its column of weights."""

    value: str
    weight: str | None = None


@dataclass(frozen=True)
class UserSums:
    """Exact sums over users, each with the total x of the values and the total w of the weights of all rows.

    ``n_users`` have rows; ``n`` of them have a value.
    """

    n_users: int = 0
    n: int = 0
    total: Fraction = Fraction()
    squares: Fraction = Fraction()
    products: Fraction = Fraction()
    weight: Fraction = Fraction()
    weight_squares: Fraction = Fraction()

    def plus(self, other: "UserSums") -> "UserSums":
        """Add the sums of other users."""
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return UserSums(*(one + more for one, more in both))

    @property
    def ratio(self) -> Summary:
        """The mean of all rows, with the standard error clustered by user.

        Values a .5, b 1 on one day, a 0, c .25 on another:

        >>> half, quarter = Fraction(1, 2), Fraction(1, 4)
        >>> users = [(half, 2), (Fraction(1), 1), (quarter, 1)]
        >>> sums = UserSums()
        >>> for x, w in users:
        ...     sums = sums.plus(UserSums(1, 1, x, x * x, x * w, Fraction(w), Fraction(w * w)))
        >>> sums.ratio.value, round(sums.ratio.std_error, 6)
        (0.4375, 0.214808)
        """
        of_ratio = ((self.squares, self.products), (self.products, self.weight_squares))
        estimate = RatioSums(self.n, (self.total, self.weight), of_ratio).combination(Fraction(1))
        return normal_interval(estimate.value, estimate.std_error, self.n)


@dataclass(frozen=True)
class Clusters:
    """Rows of several days of one model: the group of each row, a user within a segment value.

    Groups are sorted by cell; ``ends`` (cells + 1,) are the offsets of the cells among the groups.
    """

    cells: Sequence[Cell]
    groups: Ints
    ends: Ints

    @cached_property
    def n_rows(self) -> Ints:
        """Number of rows of each group."""
        return np.bincount(self.groups, minlength=int(self.ends[-1]))

    def sums(self, values: Floats, weights: Floats | None) -> dict[Cell, UserSums]:
        """Return the sums of each cell; NaN is undefined."""
        totals, n_rows = self.totals([values] if weights is None else [values, weights])
        if weights is None:
            of_weights = normalize_limbs({0: n_rows << POINT_BITS})
        else:
            of_weights, _ = self.totals([weights])
        return dict(self.by_cell(totals, of_weights, n_rows))

    def totals(self, factors: Sequence[Floats]) -> tuple[Mapping[int, Ints], Ints]:
        """Return the limbs of the sums of products of factors by group, and the numbers of defined rows."""
        n_groups, n_rows = int(self.ends[-1]), self.n_rows
        totals = GroupSums(n_groups, int(n_rows.max(initial=0)))
        size = max(ROWS_AT_ONCE, n_groups)
        for start in range(0, len(self.groups), size):
            part = slice(start, start + size)
            groups, x = self.groups[part], prod((one[part] for one in factors[1:]), start=factors[0][part])
            if not (is_defined := np.isfinite(x)).all():
                n_rows = n_rows - np.bincount(groups[~is_defined], minlength=n_groups)
                groups, x = groups[is_defined], x[is_defined]
            totals.add(x, groups)
        return totals.limbs, n_rows

    def sums_of_means(self, values: Floats) -> dict[Cell, UserSums]:
        """Return the sums of each cell where each user counts once, with the mean of the user's rows."""
        is_defined, n_groups = np.isfinite(values), int(self.ends[-1])
        n_rows = np.bincount(self.groups[is_defined], minlength=n_groups)
        totals = sums_by_group(np.where(is_defined, values, 0.0), self.groups, n_groups)
        means = totals / np.maximum(n_rows, 1)
        of_users = limbs_by_group(means, np.arange(n_groups), n_groups)
        of_weights = normalize_limbs({0: (n_rows > 0).astype(np.int64) << POINT_BITS})
        return dict(self.by_cell(of_users, of_weights, n_rows))

    def by_cell(
        self, totals: Mapping[int, Ints], weights: Mapping[int, Ints], n_rows: Ints
    ) -> Iterator[tuple[Cell, UserSums]]:
        """Yield the sums of each cell from the limbs of each group's totals."""
        for number, cell in enumerate(self.cells):
            part = slice(self.ends[number], self.ends[number + 1])
            x, w = ({limb: amounts[part] for limb, amounts in one.items()} for one in (totals, weights))
            n_groups = part.stop - part.start
            yield (
                cell,
                UserSums(
                    n_users=int(n_groups),
                    n=int(np.count_nonzero(n_rows[part])),
                    total=sum_of_limbs(x),
                    squares=sum_of_products(x, x),
                    products=sum_of_products(x, w),
                    weight=sum_of_limbs(w),
                    weight_squares=sum_of_products(w, w),
                ),
            )


def clusters_of(rows: pa.Table, segments: Sequence[str]) -> list[Clusters]:
    """Group the rows by user: among all rows, and within the values of each segment."""
    distinct, codes = unique_sorted(Codes.of([rows[USER]]).columns[0])
    n_users = len(distinct)
    found = [Clusters([(ALL, ALL)], codes, np.array([0, n_users]))]
    for segment in segments:
        of_rows, values = segment_codes(rows[segment])
        keys, groups = np.unique(of_rows * n_users + codes, return_inverse=True)
        ends = np.append(0, np.cumsum(np.bincount(keys // max(n_users, 1), minlength=len(values))))
        found.append(Clusters([(segment, value) for value in values], groups, ends))
    return found


def segment_codes(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """Return the code of each row's value of a segment, and the names of the values."""
    texts = column.combine_chunks().cast(pa.string()).fill_null(MISSING).dictionary_encode()
    return to_numpy(texts.indices).astype(np.int64), texts.dictionary.to_pylist()


def user_sums(
    rows: pa.Table, segments: Sequence[str], means: Sequence[MeanColumns], *, of_users: bool
) -> dict[MeanColumns, dict[Cell, UserSums]]:
    """Return the sums of each mean in each cell, over rows of one model.

    With ``of_users`` each user counts once; weighted means are then left out.
    """
    grouped = clusters_of(rows, segments)
    sums: dict[MeanColumns, dict[Cell, UserSums]] = {}
    for mean in means:
        values = as_floats(rows, mean.value)
        if of_users and mean.weight is not None:
            continue
        weights = None if mean.weight is None else as_floats(rows, mean.weight)
        sums[mean] = {}
        for one in grouped:
            sums[mean] |= one.sums_of_means(values) if of_users else one.sums(values, weights)
    return sums


def as_floats(rows: pa.Table, column: str) -> Floats:
    """Return a column of doubles, NaN where it is null."""
    whole = rows[column].cast(pa.float64())
    values: Floats = to_numpy(whole.fill_null(np.nan) if whole.null_count else whole)
    return values
