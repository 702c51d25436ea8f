"""Batches of predictions on the executors: sums, runs of sorted scores, and rows to group by user."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Codes, bucket_of, decode_ids, hashes_of, run_starts, to_numpy
from spark_eval.arrow.messages import coalesce_tables
from spark_eval.errors import DataError
from spark_eval.predictions.task import Clusters, PredictionPlan
from spark_eval.predictions.worker.clusters import CellRows, cell_rows
from spark_eval.predictions.worker.ordered import Range, ScoreRun, measure_range
from spark_eval.predictions.worker.rows import Rows, addends, fault_codes, with_elements
from spark_eval.predictions.worker.score_ranges import RangeSize, Sample, range_offsets
from spark_eval.predictions.worker.totals import (
    Addend,
    Grouping,
    Totals,
    amounts_of,
    segment_faults,
    sum_by_score,
    to_doubles,
)
from spark_eval.schema import ALL, FAULT, MISSING, MODEL, SEGMENT_COLUMN, USER
from spark_eval.statistics.additive import Accumulator
from spark_eval.statistics.exact import Floats, Ints, two_product

# Number of rows that are processed together.
ROWS_TOGETHER: Final = 1 << 19


@dataclass
class TaskCounts(Accumulator):
    """Counts of a task: sums, row counts by (model, code; None if valid), and samples of its scores."""

    totals: Totals = field(default_factory=Totals)
    rows: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    n_user_rows: int = 0
    n_cell_rows: int = 0


TaskOutput: TypeAlias = "TaskCounts | ScoreRun | CellRows | pa.Table"


@dataclass(frozen=True)
class RowReader:
    """Reader of prediction rows; ``model`` names the only model if the column ``model`` is missing.

    Rows have a label and a score, or a score column per class; model, user, weight and segments are optional.
    """

    plan: PredictionPlan
    model: str | None

    def outputs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[TaskOutput]:
        """Yield score runs, valid rows if users or errors are needed, and finally the counts."""
        counts = TaskCounts()
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        for table in coalesce_tables(tables, ROWS_TOGETHER):
            for part in self.measured(table, counts):
                match part:
                    case ScoreRun():
                        counts.samples.append(Sample.of(part.cell, part.scores))
                    case CellRows():
                        counts.n_cell_rows += len(part.rows)
                        if self.plan.by_score:
                            counts.samples.append(Sample.of(part.cell, part.score))
                    case _:
                        counts.n_user_rows += len(part)
                yield part
        yield counts

    def error_codes(self, table: pa.Table) -> pa.Array:
        """Return the code of each invalid row (n,), null for valid rows."""
        table = with_elements(table, len(self.plan.classes))
        codes = fault_codes(table, Rows.of(table, self.plan), self.plan)
        return pa.nulls(len(table), pa.string()) if codes is None else codes

    def measured(self, table: pa.Table, counts: TaskCounts) -> Iterator[ScoreRun | CellRows | pa.Table]:
        """Count the rows of a table and sum the valid ones; yield score runs, and valid rows."""
        table = with_elements(table, len(self.plan.classes))
        rows = Rows.of(table, self.plan)
        codes = fault_codes(table, rows, self.plan)
        self.count(table, codes, counts)
        if codes is not None:
            valid = np.flatnonzero(to_numpy(codes.is_null()))
            rows, table = rows.take(valid), table.take(pa.array(valid))
        if not len(table):
            return
        table = with_coded_texts(table)
        groupings = self.groupings(table)
        counts.totals.add(groupings, addends(rows, self.plan))
        if self.plan.has_errors:
            users = table[USER] if self.plan.intervals is Clusters.USER else None
            yield from cell_rows(groupings, users, rows, self.plan)
        elif self.plan.by_score:
            for grouping in groupings:
                yield from runs(grouping, rows)
        if self.plan.by_user:
            yield table

    def totals_over_users(self, parts: Sequence[pa.Table]) -> Totals:
        """Return the sums over the users of a bucket; ``parts`` have all their rows."""
        totals, table = Totals(), pa.concat_tables(parts)
        [users] = Codes.of([table[USER]]).columns
        rows = Rows.of(table, self.plan)
        ones = np.ones((len(table), 1), dtype=np.int64)
        amounts = ones if rows.weight is None else amounts_of(rows.weight)
        for grouping in self.groupings(table):
            add_users(totals, grouping, users, rows.score, rows.label, amounts)
        return totals

    def count(self, table: pa.Table, codes: pa.Array | None, counts: TaskCounts) -> None:
        """Count the rows by model and code."""
        if self.model is not None and codes is None:
            counts.rows[self.model, None] += len(table)
            return
        models = (
            pa.repeat(self.model, len(table)) if self.model is not None else table[MODEL].cast(pa.string())
        )
        faults = pa.nulls(len(table), pa.string()) if codes is None else codes
        named = pa.table({MODEL: models, FAULT: faults})
        for row in (
            named.group_by([MODEL, FAULT], use_threads=False).aggregate([([], "count_all")]).to_pylist()
        ):
            counts.rows[row[MODEL], row[FAULT]] += row["count_all"]

    def groupings(self, table: pa.Table) -> list[Grouping]:
        """Group the rows into cells: by model, then by model and value for each segment."""
        models, of_model = [self.model], np.zeros(len(table), dtype=np.int64)
        if self.model is None:
            models, of_model = unique_codes(table[MODEL])
        by_segment = [Grouping(of_model, [(model, ALL, ALL) for model in models])]
        for number, segment in enumerate(self.plan.segments):
            values, of_value = unique_codes(table[SEGMENT_COLUMN.format(number)])
            pairs, codes = np.unique(of_model * len(values) + of_value, return_inverse=True)
            cells = [(models[pair // len(values)], segment, values[pair % len(values)]) for pair in pairs]
            DataError.raise_all(segment_faults(cells))
            by_segment.append(Grouping(codes, cells))
        return by_segment


def with_coded_texts(table: pa.Table) -> pa.Table:
    """Cast model and segments to dictionary-encoded text."""
    for index, name in enumerate(table.column_names):
        if name == MODEL or name.startswith(SEGMENT_COLUMN.format("")):
            values = table[name].cast(pa.string()).fill_null(MISSING)
            table = table.set_column(index, name, pc.dictionary_encode(values))
    return table.combine_chunks()


def unique_codes(column: pa.ChunkedArray) -> tuple[list[Any], Ints]:
    """Return the distinct values of a dictionary-encoded column, and the index (n,) of each row's value."""
    encoded = column.unify_dictionaries().combine_chunks()
    return encoded.dictionary.to_pylist(), to_numpy(encoded.indices).astype(np.int64)


def runs(grouping: Grouping, rows: Rows) -> Iterator[ScoreRun]:
    """Yield the run of distinct scores of each cell and label, with the amount at each score."""
    amounts = None if rows.weight is None else amounts_of(rows.weight)
    labels = rows.label.astype(np.int64)
    kinds = labels if len(grouping.cells) == 1 else grouping.codes * 2 + labels
    for kind in np.unique(kinds).tolist():
        mine = np.flatnonzero(kinds == kind)
        scores, there = sum_by_score(rows.score[mine], None if amounts is None else amounts[mine])
        # The smallest integer type shuffles the fewest bytes.
        there = there.astype(np.min_scalar_type(there.max()))
        yield ScoreRun(grouping.cells[kind // 2], kind % 2, scores, there)


def totals_in_memory(columns: Mapping[str, Sequence[Any]], plan: PredictionPlan) -> Totals:
    """Return the sums of a few rows of one model, computed in memory."""
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    reader = RowReader(plan, "")
    outputs = list(reader.outputs(table.to_batches()))
    totals = Totals()
    for counts in (part for part in outputs if isinstance(part, TaskCounts)):
        totals += counts.totals
    if plan.by_user:
        totals += reader.totals_over_users([part for part in outputs if isinstance(part, pa.Table)])
    if plan.by_score:
        whole = Range.of(0, [part for part in outputs if isinstance(part, ScoreRun)])
        offset = range_offsets([RangeSize.of(whole)], plan.curve_points)[0]
        totals.add_all(whole.cell, measure_range(whole, offset, (), False).sums)
    return totals


def in_buckets(rows: pa.Table, n_buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """Split rows into buckets of users; yield number and rows of each."""
    buckets = bucket_of(hashes_of(decode_ids(rows[USER].combine_chunks())), n_buckets)
    for bucket in np.unique(buckets).tolist():
        yield bucket, rows.take(pa.array(np.flatnonzero(buckets == bucket)))


def add_users(
    totals: Totals, grouping: Grouping, users: Ints, scores: Floats, labels: Floats, amounts: Ints
) -> None:
    """Add the AUC of each user to the sums of every cell; arrays (n,) of rows, ``amounts`` (n, limbs)."""
    order = np.lexsort((scores, users, grouping.codes))
    codes, users, scores = grouping.codes[order], users[order], scores[order]
    of_label = amounts[order] * (labels[order] == np.array([[0], [1]]))[..., np.newaxis]
    new_user = run_starts(users) | run_starts(codes)
    firsts = np.flatnonzero(new_user | run_starts(scores))
    negatives, positives = (np.add.reduceat(part, firsts, axis=0) for part in of_label)
    starts = np.flatnonzero(new_user[firsts])
    user = np.cumsum(new_user[firsts]) - 1
    running = np.vstack([np.zeros_like(negatives[:1]), np.cumsum(negatives, axis=0)])
    below = to_doubles(running[:-1] - running[:-1][starts][user])
    pairs = to_doubles(positives) * (below + to_doubles(negatives) / 2)
    n, p = (to_doubles(np.add.reduceat(part, starts, axis=0)) for part in (negatives, positives))
    # A user's terms are added in the order of scores, so the sum does not depend on the order of rows.
    won = np.bincount(user, pairs, minlength=len(starts))
    is_defined = (n > 0) & (p > 0)
    auc = np.divide(won, n * p, out=np.zeros(len(n)), where=is_defined)
    addends = [
        Addend("users"),
        Addend("users_defined", is_defined.astype(np.float64)),
        Addend("users_auc", auc),
        *exact_products("users_squares", auc, auc),
    ]
    for name, amount in (("impressions", n + p), ("positives", p)):
        weight, part = np.where(is_defined, amount, 0.0), auc * amount
        addends += [Addend(f"users_{name}", weight), Addend(f"users_auc_by_{name}", part)]
        addends += exact_products(f"users_squares_by_{name}", part, part)
        addends += exact_products(f"users_products_by_{name}", part, weight)
        addends += exact_products(f"users_weight_squares_by_{name}", weight, weight)
    totals.add([Grouping(codes[firsts][starts], grouping.cells)], addends)


def exact_products(name: str, one: Floats, other: Floats) -> Iterator[Addend]:
    """Yield the products and their rounding errors, which are added to the same sum, so that it is exact."""
    return (Addend(name, part) for part in two_product(one, other))
