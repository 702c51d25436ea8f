"""Predictions in batches of rows: their sums, and what has to be sorted by score, alone or by user."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.hashes import numbers
from spark_eval.errors import DataError
from spark_eval.pointwise.amounts import N_LIMBS, amounts_of, at_distinct
from spark_eval.pointwise.cuts import Extent, Sample, standings
from spark_eval.pointwise.ordered import Range, Run, ordered
from spark_eval.pointwise.rows import Rows, addends, fault_codes
from spark_eval.pointwise.task import PredictionPlan
from spark_eval.pointwise.totals import Grouping, Totals, segment_faults
from spark_eval.pointwise.users import UserRows, totals_of_users
from spark_eval.schema import ALL, FAULT, MISSING, MODEL, SEGMENT_COLUMN, USER, WEIGHT
from spark_eval.stats.exact import Floats, Ints

# So many rows are measured together.
ROWS_TOGETHER: Final = 1 << 19


@dataclass
class Counted:
    """What a task has counted: sums, rows by model and fault (None: used), and what is to be sorted."""

    totals: Totals = field(default_factory=Totals)
    rows: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    n_user_rows: int = 0

    def merge(self, other: "Counted") -> None:
        """Add what another task has counted."""
        self.totals.merge(other.totals)
        self.rows.update(other.rows)
        self.samples += other.samples
        self.n_user_rows += other.n_user_rows


Part = Counted | Run | UserRows


@dataclass(frozen=True)
class Reading:
    """How rows become parts; ``model`` names the only one, if no column does.

    Rows have label and score, or a score column per class, and as far as there are any, model, user, weight
    and segments.
    """

    plan: PredictionPlan
    model: str | None

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        """Yield runs and users' rows of every few batches; what was counted, last."""
        counted = Counted()
        for table in together(batches):
            for part in self.measured(table, counted):
                if isinstance(part, Run):
                    counted.samples.append(Sample.of(part))
                else:
                    counted.n_user_rows += len(part.scores)
                yield part
        yield counted

    def with_codes(self, table: pa.Table) -> pa.Array:
        """Return the code of each row's fault, null where it can be used."""
        codes = fault_codes(table, Rows.of(table, self.plan), self.plan)
        return pa.nulls(len(table), pa.string()) if codes is None else codes

    def measured(self, table: pa.Table, counted: Counted) -> Iterator[Run | UserRows]:
        """Count the rows of a table and add up the valid ones; yield what has to be sorted by score."""
        rows = Rows.of(table, self.plan)
        codes = fault_codes(table, rows, self.plan)
        self.count(table, codes, counted)
        if codes is not None:
            valid = np.flatnonzero(numbers(codes.is_null()))
            rows, table = rows.take(valid), table.take(pa.array(valid))
        if not len(table):
            return
        groupings = self.groupings(table)
        counted.totals.add(groupings, addends(rows, self.plan))
        if not (self.plan.by_score or self.plan.by_user):
            return
        amounts = None if rows.weight is None else amounts_of(rows.weight)
        labels = rows.label.astype(np.int64)
        if self.plan.by_score:
            for grouping in groupings:
                yield from runs(grouping, labels, rows.score, amounts)
        if self.plan.by_user:
            users = table[USER].combine_chunks()
            small = [replace(one, codes=smallest(one.codes, len(one.cells))) for one in groupings]
            yield UserRows(small, users, rows.score, labels.astype(np.int8), amounts)

    def count(self, table: pa.Table, codes: pa.Array | None, counted: Counted) -> None:
        """Count the rows by model and fault."""
        if self.model is not None and codes is None:
            counted.rows[self.model, None] += len(table)
            return
        models = pa.repeat(self.model, len(table)) if self.model is not None else texts(table[MODEL])
        faults = pa.nulls(len(table), pa.string()) if codes is None else codes
        named = pa.table({MODEL: models, FAULT: faults})
        for row in named.group_by([MODEL, FAULT]).aggregate([([], "count_all")]).to_pylist():
            counted.rows[row[MODEL], row[FAULT]] += row["count_all"]

    def groupings(self, table: pa.Table) -> list[Grouping]:
        """Return the cell of each row: its model's, and one per segment."""
        models, of_model = [self.model], np.zeros(len(table), dtype=np.int64)
        if self.model is None:
            models, of_model = coded(texts(table[MODEL]))
        by_segment = [Grouping(of_model, [(model, ALL, ALL) for model in models])]
        for place, segment in enumerate(self.plan.segments):
            values, of_value = coded(texts(table[SEGMENT_COLUMN.format(place)]).fill_null(MISSING))
            pairs, codes = np.unique(of_model * len(values) + of_value, return_inverse=True)
            cells = [(models[pair // len(values)], segment, values[pair % len(values)]) for pair in pairs]
            DataError.raise_all(segment_faults(cells))
            by_segment.append(Grouping(codes, cells))
        return by_segment


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches end to end, as many rows as are measured together."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROWS_TOGETHER:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text or whole numbers as text."""
    return column.cast(pa.string())


def coded(column: pa.ChunkedArray) -> tuple[list[Any], Ints]:
    """Return the values of a column of text, and the place of each row's."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    return encoded.dictionary.to_pylist(), numbers(encoded.indices).astype(np.int64)


def runs(grouping: Grouping, labels: Ints, scores: Floats, amounts: Ints | None) -> Iterator[Run]:
    """Yield the distinct scores of each cell and label, with what is there."""
    kinds = labels if len(grouping.cells) == 1 else grouping.codes * 2 + labels
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        distinct, there = at_distinct(scores[rows], None if amounts is None else amounts[rows])
        yield Run(grouping.cells[kind // 2], kind % 2, distinct, smallest(there, there.max(initial=0)))


def smallest(whole: Ints, largest: int) -> np.ndarray:
    """Return whole numbers from 0 to the largest in as few bytes as they travel well in."""
    return whole.astype(np.min_scalar_type(largest))


def totals_of_rows(columns: Mapping[str, Sequence[Any]], plan: PredictionPlan) -> Totals:
    """Return the sums of a few rows of one model, measured in memory."""
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    parts = list(Reading(plan, "").parts(table.to_batches()))
    totals = Totals()
    for counted in (part for part in parts if isinstance(part, Counted)):
        totals.merge(counted.totals)
    if plan.by_user:
        totals.merge(totals_of_users([part for part in parts if isinstance(part, UserRows)]))
    if plan.by_score:
        n_limbs = N_LIMBS if WEIGHT in columns else 1
        whole = Range.of(0, [part for part in parts if isinstance(part, Run)], n_limbs)
        standing = standings([Extent.of(whole)], plan.curve_points)[0]
        totals.add_all(whole.cell, ordered(whole, standing, (), False).sums)
    return totals
