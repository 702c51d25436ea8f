"""Sums of each user's rows in a cell, and the squares of the users' influences on each value.

A value is a function of sums over all rows. By the delta method its error is the sum of the users'
influences: slopes times the user's own sums. Squares of influences are added up exactly. Without users, each
row is one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Array, bucket_of, decode_ids, hashes_of, scramble, to_numpy
from spark_eval.errors import DataError
from spark_eval.predictions.task import MOST_SUMS_OF_USERS, PLACED, PredictionPlan, Scores, Task
from spark_eval.predictions.worker.rows import SCORE_COLUMN, Rows, addends
from spark_eval.predictions.worker.totals import Addend, Cell, Grouping, Totals
from spark_eval.schema import ALL, LABEL, USER, WEIGHT
from spark_eval.statistics.additive import Accumulator
from spark_eval.statistics.draws import GOLDEN
from spark_eval.statistics.exact import Floats, Ints, counts, exact_sums, sums_by_group
from spark_eval.statistics.slopes import Slopes, SumKey

# Names of the counts of users, and of users with rows of a label, among the sums of influences.
N_USERS: Final = "n_users"
N_OF_LABEL: Final = "n_of_label"
# Sums that depend on the rows alone, not on the scores.
ROW_SUMS: Final = frozenset({"rows", "labels", "weight", "label", "label_squares"})
# Slopes of each value of a cell, in the order of the rows of ``metrics``.
CellSlopes = Mapping[Cell, Sequence[Sequence[Slopes]]]


# Sums by several indices: labels, labels and thresholds, classes.
INDEXED: Final = frozenset(
    {"labels", "flags", PLACED, "predicted", "right", "confusion", "bins", "bin_scores"}
)
# Name of a sum, as ``column_of`` writes it.
COLUMN: Final = re.compile(r"(?P<name>.+?)(?P<corrected>_corrected)?(?P<rest>_rest)?(_(?P<index>\d+))?")


def column_of(key: SumKey) -> str:
    """Return the column of a sum in ``per_user``, which is also its name in ``sums``.

    >>> column_of(("labels", 1)), column_of(("loss'", 0)), column_of(("label+", 0))
    ('labels_1', 'loss_corrected', 'label_rest')
    """
    name, index = key
    mark = name.rstrip("'+")
    words = [mark, *(["corrected"] if "'" in name else []), *(["rest"] if "+" in name else [])]
    return "_".join([*words, *([str(index)] if mark in INDEXED else [])])


def key_of(column: str) -> SumKey:
    """Return the sum of a name of ``column_of``.

    >>> key_of("labels_1"), key_of("loss_corrected"), key_of("label_squares_rest")
    (('labels', 1), ("loss'", 0), ('label_squares+', 0))
    """
    form = COLUMN.fullmatch(column)
    assert form is not None
    marks = ("'" if form["corrected"] else "", "+" if form["rest"] else "")
    return "".join([form["name"], *marks]), int(form["index"] or 0)


@dataclass(frozen=True)
class CellRows:
    """Rows of one cell: label and scores as numbers, and if there are any, user, weight and ``placed``."""

    cell: Cell
    rows: pa.Table

    @classmethod
    def of(cls, cell: Cell, users: pa.ChunkedArray | None, rows: Rows, plan: PredictionPlan) -> "CellRows":
        """Return rows with their users."""
        columns: dict[str, Any] = {} if users is None else {USER: narrow(decode_ids(users))}
        # Classes are fewer than 32,768; labels of a regression are numbers.
        columns |= {LABEL: rows.label.astype(np.int16) if plan.classes else rows.label}
        columns |= {SCORE_COLUMN.format(index): score for index, score in enumerate(rows.scores)}
        if rows.weight is not None:
            columns[WEIGHT] = rows.weight
        return cls(cell, pa.table(columns))

    @property
    def score(self) -> Floats:
        """First score (n,) of each row."""
        return to_numpy(self.rows[SCORE_COLUMN.format(0)])

    @property
    def label(self) -> Ints:
        """Class (n,) of each row."""
        return to_numpy(self.rows[LABEL]).astype(np.int64)

    @property
    def weight(self) -> Floats | None:
        """Weight (n,) of each row; None if every row counts once."""
        return to_numpy(self.rows[WEIGHT]) if WEIGHT in self.rows.column_names else None

    def with_columns(self, columns: Mapping[str, Array]) -> "CellRows":
        """Return the rows with more columns."""
        rows = self.rows
        for name, values in columns.items():
            rows = rows.append_column(name, pa.array(values))
        return CellRows(self.cell, rows)

    def take(self, indices: Ints) -> "CellRows":
        """Return the rows with these indices."""
        return CellRows(self.cell, self.rows.take(pa.array(indices)))

    def by_group(self, groups: Ints, n_groups: int) -> Iterator[tuple[int, "CellRows"]]:
        """Split the rows; ``groups`` (n,) are numbers below ``n_groups``."""
        order = np.argsort(groups.astype(np.min_scalar_type(n_groups)), kind="stable")
        ends = np.cumsum(np.bincount(groups, minlength=n_groups)).tolist()
        for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if start < end:
                yield group, self.take(order[start:end])

    def by_bucket(self, n_buckets: int) -> Iterator[tuple[int, "CellRows"]]:
        """Split the rows into buckets of users."""
        users = self.rows[USER].combine_chunks()
        yield from self.by_group(bucket_of(hashes_of(users), n_buckets), n_buckets)


def narrow(users: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return integers as 32 bits if they fit: rows are sent twice; text stays as it is."""
    if not pa.types.is_integer(users.type) or not len(users):
        return users
    ends = pc.min_max(users).as_py()
    fits = ends["min"] >= -(2**31) and ends["max"] < 2**31
    return users.cast(pa.int32()) if fits else users


def concat_rows(parts: Sequence[CellRows]) -> CellRows:
    """Concatenate rows of one cell; users of 32 bits become 64 bits among others."""
    tables = [part.rows for part in parts]
    whole = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    return CellRows(parts[0].cell, whole)


def cell_rows(
    groupings: Sequence[Grouping], users: pa.ChunkedArray | None, rows: Rows, plan: PredictionPlan
) -> Iterator[CellRows]:
    """Yield the rows of each cell."""
    for grouping in groupings:
        whole = CellRows.of(grouping.cells[0], users, rows, plan)
        if len(grouping.cells) == 1:
            yield whole
        else:
            for index, part in whole.by_group(grouping.codes, len(grouping.cells)):
                yield replace(part, cell=grouping.cells[index])


@dataclass(frozen=True)
class UserSums:
    """Sums of n users in a cell; ``users`` are their ids, None for rows; ``sums`` are arrays (n,)."""

    cell: Cell
    users: pa.Array | None
    sums: Mapping[SumKey, Floats]

    def __len__(self) -> int:
        return len(next(iter(self.sums.values())))

    def rows(self) -> pa.Table:
        """Return the rows of ``per_user``, without model and segment."""
        return pa.table({USER: self.users} | {column_of(key): values for key, values in self.sums.items()})

    def digest(self) -> int:
        """Return the sum modulo 2^64 of hashes of users with their numbers of rows and weights of labels.

        Equal digests mean the same rows: those of other users, or with other labels, change it.
        """
        hashes = hashes_of(self.users)
        for key in sorted(self.sums):
            if key[0] in ROW_SUMS:
                bits = (self.sums[key] + 0.0).view(np.uint64)
                hashes = scramble(hashes * np.uint64(GOLDEN) + bits)
        return int(hashes.sum(dtype=np.uint64))

    def add_influences(self, totals: Totals, values: Sequence[Sequence[Slopes]]) -> None:
        """Add the sums of the users' influences on each value, and of their products, to the totals."""
        totals.add_sums(self.cell, N_USERS, counts(np.zeros(len(self), dtype=np.int64), 1))
        for label in (0, 1):
            if ("labels", label) in self.sums:
                is_there = np.flatnonzero(self.sums["labels", label] > 0)
                totals.add_sums(self.cell, f"{N_OF_LABEL} {label}", counts(np.zeros_like(is_there), 1))
        for index, slopes in enumerate(values):
            influences = [self.influence(part) for part in slopes]
            for part, influence in enumerate(influences):
                totals.add_sums(self.cell, influence_name(index, part), exact_sums(influence))
            for one, other in combinations_with_replacement(range(len(influences)), 2):
                with np.errstate(over="ignore"):
                    products = influences[one] * influences[other]
                if not np.isfinite(products).all():
                    message = "a standard error overflows; scale labels and scores to below 2^500"
                    raise DataError("METRIC_OVERFLOW", message)
                totals.add_sums(self.cell, influence_name(index, one, other), exact_sums(products))

    def influence(self, slopes: Slopes) -> Floats:
        """Return each user's influence (n,) on a value: the sum of slope times sum."""
        influence = np.zeros(len(self))
        for key in sorted(slopes):
            if slopes[key]:
                influence += slopes[key] * self.sums[key]
        return influence


def influence_name(*indices: int) -> str:
    """Return the name of a sum of influences on a value, or of the products of two of its parts."""
    return " ".join(map(str, ("influence", *indices)))


def add_rows_of_users(parts: Iterable[CellRows], plan: PredictionPlan) -> list[UserSums]:
    """Sum the rows of each user; ``parts`` have all rows of their users."""
    by_cell: dict[Cell, list[CellRows]] = defaultdict(list)
    for part in parts:
        by_cell[part.cell].append(part)
    return [sum_rows_of_users(cell, concat_rows(own).rows, plan) for cell, own in by_cell.items()]


def sum_rows_of_users(cell: Cell, table: pa.Table, plan: PredictionPlan) -> UserSums:
    """Sum the rows of each user of a cell: exact sums, rounded once; bins would be too many."""
    plan = replace(plan, needs=plan.needs - {"bins"})
    users, codes = None, np.arange(len(table))
    if USER in table.column_names:
        encoded = pc.dictionary_encode(table[USER].combine_chunks())
        users, codes = decode_ids(encoded.dictionary), to_numpy(encoded.indices).astype(np.int64)
    n_users = len(table) if users is None else len(users)
    scores = [
        to_numpy(table[name]) for name in table.column_names if name.startswith(SCORE_COLUMN.format(""))
    ]
    weight = to_numpy(table[WEIGHT]) if WEIGHT in table.column_names else None
    rows = Rows(to_numpy(table[LABEL]).astype(np.float64), scores, weight)
    sums: dict[SumKey, Floats] = {}
    for addend in addends_and_placements(table, rows, plan):
        if addend.size <= MOST_SUMS_OF_USERS:
            groups = codes if addend.indices is None else codes * addend.size + addend.indices
            of_users = sums_by_group(addend.values, groups, n_users * addend.size)
            for index, column in enumerate(of_users.reshape(n_users, addend.size).T):
                sums[addend.name, index] = column
    return UserSums(cell, users, sums)


def addends_and_placements(table: pa.Table, rows: Rows, plan: PredictionPlan) -> Iterator[Addend]:
    """Yield the contributions of the rows, and their placements by label."""
    yield from addends(rows, plan)
    if PLACED in table.column_names:
        yield Addend(PLACED, rows.weighted(to_numpy(table[PLACED])), rows.label.astype(np.int64), 2)


@dataclass
class InfluenceSums(Accumulator):
    """Sums of the influences of users, and digests of their rows by cell."""

    totals: Totals = field(default_factory=Totals)
    digests: Counter[Cell] = field(default_factory=Counter)

    def digests_of(self, cells: Iterable[Cell]) -> dict[Cell, str]:
        """Return the digests of the rows of cells in this order; none without users."""
        return {cell: str(self.digests[cell] % 2**64) for cell in cells if cell in self.digests}


def influence_sums(users: UserSums, slopes: CellSlopes) -> InfluenceSums:
    """Return the sums of the influences of users on each value of their cell, and the digest of its rows."""
    sums = InfluenceSums()
    users.add_influences(sums.totals, slopes[users.cell])
    if users.users is not None:
        sums.digests[users.cell] += users.digest()
    return sums


def empty_sums(users: pa.DataType, plan: PredictionPlan) -> UserSums:
    """Return sums without users, in the columns of a plan."""
    n_scores = len(plan.classes) if plan.task is Task.MULTICLASS and plan.scores is not Scores.CLASS else 1
    numbers = [LABEL, *map(SCORE_COLUMN.format, range(n_scores)), *([PLACED] if plan.by_score else [])]
    columns = dict.fromkeys(numbers, np.zeros(0))
    return sum_rows_of_users((None, ALL, ALL), pa.table({USER: pa.array([], users)} | columns), plan)
