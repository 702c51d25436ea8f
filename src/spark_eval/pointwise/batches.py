"""Predictions in batches of rows: their sums, and what has to be sorted by score, alone or by user."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.hashes import Ids, bucket_of, numbers
from spark_eval.errors import DataError
from spark_eval.pointwise.amounts import amounts_of, at_distinct
from spark_eval.pointwise.cuts import Sample
from spark_eval.pointwise.ordered import Run
from spark_eval.pointwise.rows import Rows, addends
from spark_eval.pointwise.task import Plan
from spark_eval.pointwise.totals import Cell, Grouping, Totals, segment_faults
from spark_eval.pointwise.users import add_users
from spark_eval.schema import ALL, FAULT, LABEL, MODEL, SEGMENT_COLUMN, USER, WEIGHT
from spark_eval.stats.exact import Floats, Ints

SCORE_COLUMN: Final = "score_{}"
# So many rows are measured together.
ROWS_TOGETHER: Final = 1 << 19


@dataclass
class Counted:
    """What a task has counted: its sums, and rows by model and fault (None: used).

    Not ``is_sound`` where it found a row that only Spark can tell the fault of.
    """

    totals: Totals = field(default_factory=Totals)
    rows: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)
    is_sound: bool = True


@dataclass(frozen=True)
class UserRows:
    """Rows of users, and the cells they are in; ``amounts`` (n, limbs) of None are 1 each."""

    groupings: Sequence[Grouping]
    users: pa.Array
    scores: Floats
    labels: Ints
    amounts: Ints | None

    def in_buckets(self, n_buckets: int) -> Iterator[tuple[int, "UserRows"]]:
        """The rows of each bucket of users."""
        buckets = bucket_of(Ids.of(self.users).hash, n_buckets)
        for bucket in np.unique(buckets).tolist():
            yield bucket, self.take(np.flatnonzero(buckets == bucket))

    def take(self, places: Ints) -> "UserRows":
        """The rows at these places."""
        return UserRows(
            [replace(one, codes=one.codes[places]) for one in self.groupings],
            self.users.take(pa.array(places)),
            self.scores[places],
            self.labels[places],
            None if self.amounts is None else self.amounts[places],
        )


Part = Counted | Run | UserRows


@dataclass(frozen=True)
class Reading:
    """How rows become parts; ``model`` names the only one, if no column does."""

    plan: Plan
    model: str | None
    n_scores: int
    has_weight: bool

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        """Runs and users' rows of every few batches; what was counted, last."""
        counted = Counted()
        for table in together(batches):
            yield from self.measured(table, counted)
        yield counted

    def measured(self, table: pa.Table, counted: Counted) -> Iterator[Part]:
        """Count the rows of a table, add up the sound ones."""
        sound = self.count(table, counted)
        if not sound.num_rows:
            return
        rows = Rows(
            numbers(sound[LABEL]),
            # Zero has two signs, which are one score.
            [numbers(sound[SCORE_COLUMN.format(place)]) + 0.0 for place in range(self.n_scores)],
            numbers(sound[WEIGHT]) if self.has_weight else None,
        )
        groupings = self.groupings(sound)
        counted.totals.add(groupings, addends(rows, self.plan))
        if self.plan.by_score or self.plan.by_user:
            yield from self.in_order(rows, groupings, sound)

    def in_order(self, rows: Rows, groupings: Sequence[Grouping], sound: pa.Table) -> Iterator[Part]:
        """What has to be sorted by score."""
        amounts = None if rows.weight is None else amounts_of(rows.weight)
        labels = rows.label.astype(np.int64)
        if self.plan.by_score:
            for grouping in groupings:
                yield from runs(grouping, labels, rows.score, amounts)
        if self.plan.by_user:
            users = sound[USER].combine_chunks()
            small = [replace(one, codes=smallest(one.codes, len(one.cells))) for one in groupings]
            yield UserRows(small, users, rows.score, labels.astype(np.int8), amounts)

    def count(self, table: pa.Table, counted: Counted) -> pa.Table:
        """The sound rows, once all are counted."""
        if self.model is not None and table[FAULT].null_count == len(table):
            counted.rows[self.model, None] += len(table)
            return table
        named = table if self.model is None else table.append_column(MODEL, pa.repeat(self.model, len(table)))
        for row in named.group_by([MODEL, FAULT]).aggregate([([], "count_all")]).to_pylist():
            counted.rows[row[MODEL], row[FAULT]] += row["count_all"]
        faults = table[FAULT]
        return table if faults.null_count == len(faults) else table.filter(faults.is_null())

    def groupings(self, table: pa.Table) -> list[Grouping]:
        """The cell of each row: its model's, and one per segment."""
        if self.model is None:
            models, of_model = coded(table[MODEL])
        else:
            models, of_model = [self.model], np.zeros(len(table), dtype=np.int64)
        found = [Grouping(of_model, [(model, ALL, ALL) for model in models])]
        for place, segment in enumerate(self.plan.segments):
            values, of_value = coded(table[SEGMENT_COLUMN.format(place)])
            pairs, codes = np.unique(of_model * len(values) + of_value, return_inverse=True)
            cells = [(models[pair // len(values)], segment, values[pair % len(values)]) for pair in pairs]
            DataError.raise_all(segment_faults(cells))
            found.append(Grouping(codes, cells))
        return found


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches end to end, as many rows as are measured together."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        kept.append(batch)
        if sum(one.num_rows for one in kept) >= ROWS_TOGETHER:
            yield pa.Table.from_batches(kept)
            kept = []
    if kept:
        yield pa.Table.from_batches(kept)


def coded(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """The values of a column of text, and the place of each row's."""
    found = pc.dictionary_encode(column.combine_chunks())
    return found.dictionary.to_pylist(), numbers(found.indices).astype(np.int64)


def runs(grouping: Grouping, labels: Ints, scores: Floats, amounts: Ints | None) -> Iterator[Run]:
    """The distinct scores of each cell and label, with what is there."""
    kinds = labels if len(grouping.cells) == 1 else grouping.codes * 2 + labels
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        found, there = at_distinct(scores[rows], None if amounts is None else amounts[rows])
        yield Run(grouping.cells[kind // 2], kind % 2, found, smallest(there, there.max(initial=0)))


def smallest(numbers: Ints, largest: int) -> np.ndarray:
    """Whole numbers from 0 to the largest, in as few bytes as they travel well in."""
    return numbers.astype(np.min_scalar_type(largest))


def outline(part: Part) -> Counted | Sample | int:
    """What the driver sees of a part: all that was counted, a sample of a run, the number of users' rows."""
    match part:
        case Run():
            return Sample.of(part)
        case UserRows():
            return len(part.scores)
    return part


def totals_of_users(parts: Sequence[UserRows]) -> Totals:
    """The sums over the users of a bucket, of whom all rows are here."""
    totals = Totals()
    users = Ids.of(pa.concat_arrays([part.users for part in parts])).key
    scores = np.concatenate([part.scores for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    amounts = np.concatenate(
        [
            np.ones((len(part.scores), 1), dtype=np.int64) if part.amounts is None else part.amounts
            for part in parts
        ]
    )
    for groupings in zip(*(part.groupings for part in parts), strict=True):
        add_users(totals, united(groupings), users, scores, labels, amounts)
    return totals


def united(groupings: Sequence[Grouping]) -> Grouping:
    """Groupings of parts end to end."""
    places: dict[Cell, int] = {}
    codes = []
    for grouping in groupings:
        of_cell = [places.setdefault(cell, len(places)) for cell in grouping.cells]
        codes.append(np.array(of_cell, dtype=np.int64)[grouping.codes])
    return Grouping(np.concatenate(codes), list(places))
