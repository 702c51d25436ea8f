"""Label batches of an interaction log: count timestamps, assign rows to subsets of folds, write them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans, to_numpy
from spark_eval.arrow.files import INSTANT, PartWriter
from spark_eval.arrow.row_faults import inexact_relevance, is_inexact_as_double
from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import DataError
from spark_eval.schema import (
    EPOCH_1900,
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
from spark_eval.splits.rules.fold_rule import FoldRule, Layout, Numbering
from spark_eval.splits.rules.moments import UNITS, Boundary
from spark_eval.statistics.exact import Ints

SHORT_TIME: Final = "short_time"
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
        facts, outcomes = SplitCounts(self.rule), self.outcomes
        counts = np.zeros(len(outcomes), dtype=np.int64)
        with PartWriter(folder, SUBSET) as parts:
            for batch in batches:
                times = moments(batch[TIMESTAMP], self.unit)
                row_numbers, rows = self.numbers(batch, times), conform_log(batch, times)
                counts += np.bincount(row_numbers, minlength=len(outcomes))
                n_early = np.count_nonzero(to_numpy(times.fill_null(0)) < EPOCH_1900)
                facts.counts[Outcome.BEFORE_1900] += int(n_early)
                for fold, of_fold in enumerate(zip(*outcomes, strict=True)):
                    for subset in self.rule.subsets:
                        is_in = np.array([outcome == subset for outcome in of_fold])[row_numbers]
                        if is_in.any():
                            part = rows if is_in.all() else rows.filter(pa.array(is_in))
                            parts.add(subset.value, self.with_request(in_fold(part, fold), subset))
                            facts.reach(subset.value, fold, pc.max(part[TIMESTAMP]).value)
        for number, n_rows in enumerate(counts.tolist()):
            if n_rows:
                facts.add_rows(outcomes[number], n_rows)
        return facts, parts.files

    def with_request(self, rows: pa.Table, subset: Subset) -> pa.Table:
        """Append the column ``request`` if the rule has requests: the moment of a row of test."""
        if not self.rule.has_requests:
            return rows
        moments = rows[TIMESTAMP].cast(pa.int64())
        is_test = subset == self.rule.final_test
        return rows.append_column(REQUEST, moments if is_test else pa.nulls(len(rows), pa.int64()))

    def numbers(self, batch: pa.RecordBatch, times: pa.Array) -> Ints:
        """Return the number of each row (n,); see ``Numbering``."""
        how, has_ids = self.layout.numbering, rows_with_ids(batch)
        assert isinstance(how, Numbering)
        side: Literal["left", "right"] = "right" if how.boundary is Boundary.EXCLUSIVE else "left"
        row_numbers = np.searchsorted(how.edges, to_numpy(times.fill_null(0)), side)
        if how.drawn is not None:
            drawn = np.flatnonzero((row_numbers == how.drawn) & has_ids)
            hashes = id_hashes(batch[USER].take(pa.array(drawn)), np.int64(how.seed))
            draws = hashes.view(np.int64) % how.n_draws
            steps = np.searchsorted(how.steps, draws, "right") if how.steps else draws
            row_numbers[drawn] = how.first_drawn + steps
        n_numbers = len(self.layout.outcomes)
        row_numbers[to_numpy(times.is_null())] = n_numbers + FAULTS.index(Fault.NULL_TIMESTAMP)
        row_numbers[~has_ids] = n_numbers + FAULTS.index(Fault.NULL_ID)
        return row_numbers


def conform_log(batch: pa.RecordBatch, times: pa.Array) -> pa.Table:
    """Return the rows with user, item, timestamp and relevance (default 1) before the log's other columns."""
    ours = (USER, ITEM, TIMESTAMP, RELEVANCE)
    relevance = np.ones(batch.num_rows)
    if RELEVANCE in batch.schema.names:
        relevance = batch[RELEVANCE].cast(pa.float64(), safe=False)
        if pc.any(is_inexact_as_double(batch[RELEVANCE])).as_py():
            raise inexact_relevance()
    columns = dict(zip(ours, (batch[USER], batch[ITEM], times.cast(INSTANT), relevance), strict=True))
    return pa.table(columns | {name: batch[name] for name in batch.schema.names if name not in ours})


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
        .group_by(SHORT_TIME)
        .aggregate([("oldest", "min"), ("newest", "max"), ("n", "sum")])
    )
    return merged.select([SHORT_TIME, "oldest_min", "newest_max", "n_sum"]).rename_columns(TIME_COUNTS.names)
