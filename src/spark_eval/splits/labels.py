"""Rows of an interaction log in batches: when they happened, and to which part of a split they go."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.files import PartWriter
from spark_eval.arrow.hashes import Booleans, Ints, changes, numbers
from spark_eval.arrow.row_faults import beyond_doubles, inexact_relevance
from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import DataError
from spark_eval.schema import (
    EPOCH_1900,
    FOLD,
    ITEM,
    RELEVANCE,
    SUBSET,
    TIMESTAMP,
    USER,
    Fault,
    Outcome,
    Reason,
    Subset,
)
from spark_eval.splits.moments import Boundary
from spark_eval.splits.rules import HASH_STEPS, GlobalLocalRanker, Timeline

PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000}
INSTANT: Final = pa.timestamp("us", "UTC")
# What becomes of a row, with a code each: the stretches of time between the edges come first, in their order.
OUTCOMES: Final = (
    Subset.LOCAL_TRAIN.value,
    Reason.GAP.value,
    Subset.RANKER_TRAIN.value,
    Reason.GAP.value,
    Subset.GLOBAL_TEST.value,
    Reason.AFTER_END.value,
    Subset.RANKER_TEST.value,
    Fault.NULL_TIMESTAMP.value,
    Fault.NULL_ID.value,
)
# Times that have a key in common, of rows of a log: the first and the last one, and how many there are.
STRETCHES: Final = pa.schema(dict.fromkeys(("key", "oldest", "newest", "n_rows"), pa.int64()))


@dataclass(frozen=True)
class Counting:
    """Counts rows by time, in microseconds since the epoch.

    Rows within ``spans`` (first and last moment of each; none: all rows) are counted by their time
    without its low ``bits``; None: all together. ``unit`` is that of integer timestamps.
    """

    unit: str | None
    spans: Sequence[tuple[int, int]]
    bits: int | None

    def stretches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """STRETCHES of the rows; a key comes once."""
        found = [self.of_times(times) for times in map(self.times, batches) if len(times)]
        if found:
            keys = pa.Table.from_batches(found).group_by("key", use_threads=False)
            totals = keys.aggregate([("oldest", "min"), ("newest", "max"), ("n_rows", "sum")])
            columns = totals.select(["key", "oldest_min", "newest_max", "n_rows_sum"])
            yield from columns.rename_columns(STRETCHES.names).to_batches()

    def times(self, batch: pa.RecordBatch) -> Ints:
        """The moments of sound rows within the spans."""
        times: Ints = numbers(moments(batch[TIMESTAMP], self.unit).filter(sound(batch)))
        if not self.spans:
            return times
        return times[np.logical_or.reduce([(first <= times) & (times <= last) for first, last in self.spans])]

    def of_times(self, times: Ints) -> pa.RecordBatch:
        """STRETCHES of these moments."""
        times = np.sort(times, kind="stable")
        keys = np.zeros_like(times) if self.bits is None else times >> self.bits
        starts = np.flatnonzero(changes(keys))
        ends = np.append(starts[1:], len(times))
        columns = (keys[starts], times[starts], times[ends - 1], ends - starts)
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=STRETCHES)


@dataclass
class Written:
    """Rows by what became of them, and before 1900; the last moment in each part; the files of the parts."""

    counts: Counter[str] = field(default_factory=Counter)
    ends: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Labelling:
    """Gives every row of a log its part, where no policy drops rows; as ``transforms.label`` does."""

    rule: GlobalLocalRanker
    timeline: Timeline
    unit: str | None

    def write(self, batches: Iterable[pa.RecordBatch], folder: str) -> Written:
        """Write the rows of each part: user, item, timestamp, relevance, fold, the log's other columns."""
        written = Written()
        with PartWriter(folder, SUBSET) as parts:
            for batch in batches:
                times = moments(batch[TIMESTAMP], self.unit)
                outcomes = self.outcomes(batch, times)
                rows, filled = conformed(batch, times), numbers(times.fill_null(0))
                written.counts[Outcome.BEFORE_1900] += int(np.count_nonzero(filled < EPOCH_1900))
                for code in np.unique(outcomes):
                    name, places = OUTCOMES[code], np.flatnonzero(outcomes == code)
                    written.counts[name] += len(places)
                    if name in list(Subset):
                        parts.add(name, rows if len(places) == len(outcomes) else rows.take(pa.array(places)))
                        last = int(filled[places].max())
                        written.ends[name] = max(last, written.ends.get(name, last))
        written.files = parts.files
        return written

    def outcomes(self, batch: pa.RecordBatch, times: pa.Array) -> NDArray[np.int8]:
        """What becomes of each row, as its place in OUTCOMES; shape (n,)."""
        line = self.timeline
        edges = [line.local_train_end, line.local_cut, line.local_test_end, line.global_cut]
        edges += [] if line.end is None else [line.end]
        side: Literal["left", "right"] = "right" if self.rule.boundary is Boundary.EXCLUSIVE else "left"
        outcomes = np.searchsorted(edges, numbers(times.fill_null(0)), side).astype(np.int8)
        has_id = known(batch)
        outcomes[numbers(times.is_null())] = OUTCOMES.index(Fault.NULL_TIMESTAMP)
        outcomes[~has_id] = OUTCOMES.index(Fault.NULL_ID)
        local = np.flatnonzero(outcomes == OUTCOMES.index(Subset.RANKER_TRAIN))
        if len(local):
            users = batch[USER].take(pa.array(local))
            draws = id_hashes(users, np.int64(self.rule.seed)) & np.uint64(HASH_STEPS - 1)
            tested = local[draws < np.uint64(self.rule.ranker_test_steps)]
            outcomes[tested] = OUTCOMES.index(Subset.RANKER_TEST)
        return outcomes


def conformed(batch: pa.RecordBatch, times: pa.Array) -> pa.Table:
    """The rows of a log with our columns before its others, relevance 1 where it has none."""
    ours = (USER, ITEM, TIMESTAMP, RELEVANCE)
    relevance = np.ones(batch.num_rows)
    if RELEVANCE in batch.schema.names:
        relevance = batch[RELEVANCE].cast(pa.float64(), safe=False)
        if pc.any(beyond_doubles(batch[RELEVANCE])).as_py():
            raise inexact_relevance()
    columns = {
        USER: batch[USER],
        ITEM: batch[ITEM],
        TIMESTAMP: times.cast(INSTANT),
        RELEVANCE: relevance,
        FOLD: np.zeros(batch.num_rows, dtype=np.int32),
    }
    return pa.table(columns | {name: batch[name] for name in batch.schema.names if name not in ours})


def moments(column: pa.Array, unit: str | None) -> pa.Array:
    """Timestamps in microseconds, or integers in this unit, as int64 microseconds since the epoch.

    Raises DataError VALUE_TOO_LARGE beyond 64 bits.
    """
    try:
        if pa.types.is_timestamp(column.type):
            return column.cast(pa.int64())
        factor = PER_SECOND["us"] // PER_SECOND[unit or "us"]
        return pc.multiply_checked(column.cast(pa.int64()), pa.scalar(factor, pa.int64()))
    except pa.ArrowInvalid as error:
        message = "interactions: a timestamp is out of range; is timestamp_unit right?"
        raise DataError("VALUE_TOO_LARGE", message) from error


def known(batch: pa.RecordBatch) -> Booleans:
    """Where both ids are there, as far as the batch has them; shape (n,)."""
    there = np.ones(batch.num_rows, dtype=bool)
    for name in {USER, ITEM} & set(batch.schema.names):
        there &= numbers(batch[name].is_valid())
    return there


def sound(batch: pa.RecordBatch) -> pa.Array:
    """Where both ids and the timestamp are there."""
    return pc.and_(pa.array(known(batch)), batch[TIMESTAMP].is_valid())
