"""Label batches of an interaction log: count timestamps, assign rows to subsets of folds, write them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans, to_numpy
from spark_eval.arrow.files import INSTANT, PartWriter
from spark_eval.arrow.row_faults import inexact_relevance, is_inexact_as_double
from spark_eval.arrow.xxhash64 import chained_hashes, id_hashes
from spark_eval.errors import DataError
from spark_eval.schema import (
    EPOCH_1900,
    FAULT,
    FOLD,
    ITEM,
    RELEVANCE,
    REQUEST,
    SUBSET,
    TIMESTAMP,
    USER,
    Fault,
    Outcome,
    Subset,
)
from spark_eval.splits.facts import SplitCounts
from spark_eval.splits.rules.fold_rule import FoldRule, Layout, Numbered, Numbering
from spark_eval.splits.rules.moments import UNITS, Boundary
from spark_eval.statistics.exact import Ints

SHORT_TIME: Final = "short_time"
# Column of the numbers of a log that are not found row by row.
ROW_NUMBER: Final = "spark_eval_row_number"
TIME_COUNTS: Final = pa.schema(
    {SHORT_TIME: pa.int64(), "oldest": pa.int64(), "newest": pa.int64(), "n": pa.int64()}
)
# Codes of invalid rows; their numbers follow those of the layout.
FAULTS: Final = (Fault.NULL_ID, Fault.NULL_TIMESTAMP)


@dataclass(frozen=True)
class RowLabeller:
    """Labeller of the rows of a log; ``unit`` is the unit of integer timestamps."""

    rule: FoldRule
    layout: Layout
    unit: str | None

    @property
    def outcomes(self) -> list[list[str]]:
        """Outcomes per fold of every number, including the numbers of invalid rows."""
        n_folds = self.layout.n_folds
        return [*map(list, self.layout.outcomes), *([fault.value] * n_folds for fault in FAULTS)]

    def write(self, batches: Iterable[pa.RecordBatch], folder: str) -> tuple[SplitCounts, list[str]]:
        """Write the rows of each subset; return the counts and the paths of the files.

        Columns are user, item, timestamp, relevance, fold, the log's other columns, and request if the rule
        has requests.
        """
        facts = SplitCounts(self.rule)
        with PartWriter(folder, SUBSET) as parts:
            for batch in batches:
                for subset, rows in self.subsets(batch, facts):
                    parts.add(subset, rows)
        return facts, parts.files

    def with_request(self, rows: pa.Table, subset: Subset) -> pa.Table:
        """Append the column ``request`` if the rule has requests: the moment of a row of test."""
        if not self.rule.has_requests:
            return rows
        moments = rows[TIMESTAMP].cast(pa.int64())
        is_test = subset == self.rule.final_test
        return rows.append_column(REQUEST, moments if is_test else pa.nulls(len(rows), pa.int64()))

    def count(self, batches: Iterable[pa.RecordBatch]) -> SplitCounts:
        """Return the counts of ``write``, without writing."""
        facts = SplitCounts(self.rule)
        for batch in batches:
            for _ in self.subsets(batch, facts):
                pass
        return facts

    def used(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that ``write`` writes, with the column ``subset`` last."""
        for batch in batches:
            for subset, rows in self.subsets(batch, SplitCounts(self.rule)):
                yield from rows.append_column(SUBSET, pa.repeat(subset, len(rows))).to_batches()

    def subsets(self, batch: pa.RecordBatch, facts: SplitCounts) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows of each subset in each fold, with the fold; add the counts to ``facts``."""
        times, outcomes = self.times(batch), self.outcomes
        row_numbers, rows = self.numbers(batch, times), conform_log(batch, times)
        for fold, of_fold in enumerate(zip(*outcomes, strict=True)):
            for subset in self.rule.subsets:
                is_in = np.array([outcome == subset for outcome in of_fold])[row_numbers]
                if is_in.any():
                    part = rows if is_in.all() else rows.filter(pa.array(is_in))
                    if part[TIMESTAMP].null_count < len(part):
                        facts.reach(subset.value, fold, pc.max(part[TIMESTAMP]).value)
                    yield subset.value, self.with_request(in_fold(part, fold), subset)
        counts = np.bincount(row_numbers, minlength=len(outcomes))
        for number in np.flatnonzero(counts).tolist():
            facts.add_rows(outcomes[number], int(counts[number]))
        n_early = np.count_nonzero(to_numpy(times.fill_null(0)) < EPOCH_1900)
        facts.counts[Outcome.BEFORE_1900] += int(n_early)

    def labelled(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield every row once for each fold, with ``fault``, ``fold`` and ``subset``; an invalid row once.

        If no fold uses a row, ``fault`` has the reason.
        """
        parts, n_valid = set(self.rule.subsets), len(self.layout.outcomes)
        faults = [
            None if parts.intersection(of_number) else next(filter(None, of_number), None)
            for of_number in self.outcomes
        ]
        no_fold = None if self.rule.reports_folds else 0
        for batch in batches:
            times = self.times(batch)
            row_numbers, rows = self.numbers(batch, times), conform_log(batch, times)
            rows = rows.append_column(FAULT, pa.array(faults, pa.string()).take(pa.array(row_numbers)))
            is_valid = row_numbers < n_valid
            invalid = rows.filter(pa.array(~is_valid))
            yield from self.in_fold(invalid, no_fold, pa.nulls(len(invalid), pa.string())).to_batches()
            rows, valid_numbers = rows.filter(pa.array(is_valid)), pa.array(row_numbers[is_valid])
            for fold in range(self.layout.n_folds):
                of_fold = [of_number[fold] for of_number in self.layout.outcomes]
                subsets = pa.array([name if name in parts else None for name in of_fold], pa.string())
                yield from self.in_fold(rows, fold, subsets.take(valid_numbers)).to_batches()

    def in_fold(self, rows: pa.Table, fold: int | None, subsets: pa.Array) -> pa.Table:
        """Append the columns ``fold`` and ``subset``, and ``request`` if the rule has requests."""
        folds = pa.repeat(pa.scalar(fold, pa.int32()), len(rows))
        labelled = rows.append_column(FOLD, folds).append_column(SUBSET, subsets)
        if not self.rule.has_requests:
            return labelled
        is_test = pc.equal(labelled[SUBSET], self.rule.final_test)
        moments = pc.if_else(is_test, labelled[TIMESTAMP].cast(pa.int64()), pa.scalar(None, pa.int64()))
        return labelled.append_column(REQUEST, moments)

    def columns(self, log: pa.Schema) -> pa.Table:
        """Return the rows of an empty log with our columns, and its others."""
        empty = pa.RecordBatch.from_pylist([], schema=log)
        return conform_log(empty, self.times(empty))

    def used_schema(self, log: pa.Schema) -> pa.Schema:
        """Return the columns of ``used``."""
        rows = self.with_request(in_fold(self.columns(log), 0), self.rule.subsets[0])
        return rows.schema.append(pa.field(SUBSET, pa.string()))

    def labelled_schema(self, log: pa.Schema) -> pa.Schema:
        """Return the columns of ``labelled``."""
        nothing = pa.nulls(0, pa.string())
        return self.in_fold(self.columns(log).append_column(FAULT, nothing), 0, nothing).schema

    def times(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the timestamps as integer microseconds since the epoch; nulls if the log has none."""
        if TIMESTAMP not in batch.schema.names:
            return pa.nulls(batch.num_rows, pa.int64())
        return moments(batch[TIMESTAMP], self.unit)

    def numbers(self, batch: pa.RecordBatch, times: pa.Array) -> Ints:
        """Return the number of each row (n,); see ``Numbering``."""
        how = self.layout.numbering
        if isinstance(how, Numbered):
            return to_numpy(batch[ROW_NUMBER])
        assert isinstance(how, Numbering)
        faults = self.faults(batch, times)
        side: Literal["left", "right"] = "right" if how.boundary is Boundary.EXCLUSIVE else "left"
        row_numbers = np.searchsorted(how.edges, to_numpy(times.fill_null(0)), side)
        if how.drawn is not None:
            drawn = np.flatnonzero((row_numbers == how.drawn) & (faults != FAULTS.index(Fault.NULL_ID)))
            hashes = id_hashes(batch[USER].take(pa.array(drawn)), np.int64(how.seed))
            if how.by_row:
                items, at = (column.take(pa.array(drawn)) for column in (batch[ITEM], times))
                hashes = chained_hashes(items, at, hashes)
            draws = hashes.view(np.int64) % how.n_draws
            steps = np.searchsorted(how.steps, draws, "right") if how.steps else draws
            row_numbers[drawn] = how.first_drawn + steps
        return np.where(faults < 0, row_numbers, len(self.layout.outcomes) + faults)

    def faults(self, batch: pa.RecordBatch, times: pa.Array) -> Ints:
        """Return the index into FAULTS of each row (n,); -1 for valid ones."""
        faults = np.full(batch.num_rows, -1)
        if self.rule.timed:
            faults[to_numpy(times.is_null())] = FAULTS.index(Fault.NULL_TIMESTAMP)
        faults[~rows_with_ids(batch)] = FAULTS.index(Fault.NULL_ID)
        return faults


def conform_log(batch: pa.RecordBatch, times: pa.Array) -> pa.Table:
    """Return the rows with user, item, timestamp and relevance (default 1) before the log's other columns."""
    ours = (USER, ITEM, TIMESTAMP, RELEVANCE)
    relevance = np.ones(batch.num_rows)
    if RELEVANCE in batch.schema.names:
        relevance = batch[RELEVANCE].cast(pa.float64(), safe=False)
        if pc.any(is_inexact_as_double(batch[RELEVANCE])).as_py():
            raise inexact_relevance()
    columns = dict(zip(ours, (batch[USER], batch[ITEM], times.cast(INSTANT), relevance), strict=True))
    others = [name for name in batch.schema.names if name not in (*ours, ROW_NUMBER)]
    return pa.table(columns | {name: batch[name] for name in others})


def in_fold(rows: pa.Table, fold: int) -> pa.Table:
    """Insert the column ``fold`` after ``relevance``."""
    folds = pa.repeat(pa.scalar(fold, pa.int32()), len(rows))
    return rows.add_column(rows.column_names.index(RELEVANCE) + 1, FOLD, folds)


def moments(column: pa.Array, unit: str | None) -> pa.Array:
    """Convert timestamps, or integers in this unit, to integer microseconds since the epoch.

    Raises DataError VALUE_TOO_LARGE beyond 64 bits.
    """
    try:
        if pa.types.is_timestamp(column.type):
            return column.cast(pa.int64())
        return pc.multiply_checked(column.cast(pa.int64()), pa.scalar(UNITS[unit or "us"], pa.int64()))
    except pa.ArrowInvalid as error:
        message = "interactions: a timestamp is out of range; is timestamp_unit right?"
        raise DataError("VALUE_TOO_LARGE", message) from error


def rows_with_ids(batch: pa.RecordBatch) -> Booleans:
    """Return the mask (n,) of rows with both a user and an item."""
    has_both: Booleans = to_numpy(pc.and_(batch[USER].is_valid(), batch[ITEM].is_valid()))
    return has_both


def count_times(
    batches: Iterable[pa.RecordBatch], spans: Sequence[tuple[int, int]], bits: int, unit: str | None
) -> pa.Table:
    """Count valid rows per time bucket: the timestamp in microseconds without its lowest ``bits`` bits.

    Only timestamps within one of the ``spans`` (first, last) count; without spans, all do. Batches without id
    columns have no null ids. ``unit`` is the unit of integer timestamps. Return TIME_COUNTS: the oldest and
    newest timestamp and the number of rows of each bucket.
    """
    counted = TIME_COUNTS.empty_table()
    for batch in batches:
        times = moments(batch[TIMESTAMP], unit)
        if {USER, ITEM} & set(batch.schema.names):
            times = times.filter(pa.array(rows_with_ids(batch)))
        times = times.drop_null()
        if spans:
            within = (
                pc.and_(pc.greater_equal(times, low), pc.less_equal(times, high)) for low, high in spans
            )
            times = times.filter(reduce(pc.or_, within))
        columns = (to_numpy(times) >> bits, times, times, np.ones(len(times), dtype=np.int64))
        counted = merged_times([counted, pa.table(list(columns), schema=TIME_COUNTS)])
    return counted


def merged_times(parts: Sequence[pa.Table]) -> pa.Table:
    """Merge tables of TIME_COUNTS into one row per time bucket."""
    merged = (
        pa.concat_tables(parts)
        .group_by(SHORT_TIME, use_threads=False)
        .aggregate([("oldest", "min"), ("newest", "max"), ("n", "sum")])
    )
    return merged.select([SHORT_TIME, "oldest_min", "newest_max", "n_sum"]).rename_columns(TIME_COUNTS.names)
