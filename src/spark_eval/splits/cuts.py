"""Properties of a log that split rules need: the instants of their cuts, or the number of rows.

A share is converted to an instant by radix descent: count rows per time bucket, choose the bucket that
contains the wanted row, and divide it again. Counts are exact, so the cut depends neither on partitions nor
on the order of rows, and the driver receives only a few thousand counts.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from spark_eval.errors import DataError
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import collect_objects, map_batches
from spark_eval.schema import FAULT, ITEM, TIMESTAMP, USER
from spark_eval.splits.rules.moments import (
    Boundary,
    Cut,
    DaysBack,
    Instant,
    Share,
    check_unit,
    plus_days,
    to_microseconds,
    zone,
)
from spark_eval.splits.worker.labels import SHORT_TIME, count_times, merged_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A pass divides a bucket into at most 2 ** FANOUT_BITS + 1 smaller ones.
FANOUT_BITS: Final = 12


@dataclass(frozen=True)
class TimeBucket:
    """Rows with timestamps in [oldest, newest], in microseconds: ``n_rows`` rows of the log sorted by time.

    ``first`` is the index of the first of them, from 0.
    """

    oldest: int
    newest: int
    n_rows: int
    first: int = 0

    @property
    def bits(self) -> int:
        """Number of low bits of a timestamp to ignore when dividing this bucket; 0 if it has few rows."""
        if self.n_rows <= 2**FANOUT_BITS:
            return 0
        return max(0, (self.newest - self.oldest).bit_length() - FANOUT_BITS)


@dataclass(frozen=True)
class Times:
    """Properties of a log with columns timestamp (TIMESTAMP) and fault, as rules ask for them.

    One action finds the first and last timestamp; cuts given as shares need two to four more, for all shares
    together. Only valid rows with a timestamp count. ``unit`` is the unit of the log's integer timestamps.
    """

    log: Rows
    unit: str | None = None

    @cached_property
    def whole(self) -> TimeBucket:
        """A time bucket of all valid rows; raises DataError EMPTY_INPUT or TIMESTAMP_UNIT_SUSPECT."""
        halves = self.stretches([], 63)
        if not halves:
            message = "interactions: no valid row, with a user, an item and a timestamp, to split; "
            raise DataError("EMPTY_INPUT", f"{message}see columns and where, and how timestamps are written")
        whole = TimeBucket(halves[0].oldest, halves[-1].newest, sum(half.n_rows for half in halves))
        if self.unit is not None:
            check_unit(whole.newest, self.unit)
        return whole

    def span(self) -> tuple[int, int]:
        """Return the first and the last timestamp, in microseconds since the epoch."""
        return self.whole.oldest, self.whole.newest

    def moments(self, cuts: Sequence[Cut], boundary: Boundary, timezone: str) -> list[int]:
        """Return the instant of each cut in microseconds since the epoch.

        Raises the errors of ``whole`` and ``times_of_rows``.
        """
        whole = self.whole
        indexes = {cut: cut.index(whole.n_rows, boundary) for cut in cuts if isinstance(cut, Share)}
        times_at = times_of_rows(self, whole, indexes.values())

        def at(cut: Cut) -> int:
            match cut:
                case Instant():
                    return to_microseconds(cut.at)
                case DaysBack():
                    return plus_days(whole.newest, -cut.days, zone(timezone))
                case Share():
                    return times_at[indexes[cut]]

        return [at(cut) for cut in cuts]

    def n_rows(self) -> int:
        """Return the number of valid rows of a log whose times do not count."""
        return self.log.where_not_null(USER, [USER, ITEM]).where_not_null(ITEM, [ITEM]).count()

    def stretches(self, spans: Sequence[tuple[int, int]], bits: int) -> list[TimeBucket]:
        """Return the time buckets of these spans, oldest first; this takes one Spark action.

        Timestamps that differ only in their low ``bits`` share a bucket.
        """
        rows: Iterable[Sequence[int]]
        if self.log.read_by_workers:
            rows = times_read(self.log, spans, bits, self.unit)
        else:
            rows = times_counted(self.log.result(), spans, bits).collect()
        return sorted((TimeBucket(*row) for row in rows), key=lambda bucket: bucket.oldest)


def times_of_rows(times: Times, whole: TimeBucket, indexes: Collection[int]) -> dict[int, int]:
    """Return the timestamps of rows by their indexes, from 0, in the log sorted by time.

    ``whole`` is the time bucket of all valid rows. Raises DataError INPUT_CHANGED_DURING_RUN if scans differ.
    """
    holders = dict.fromkeys(indexes, whole)
    while pending := {bucket for bucket in holders.values() if bucket.oldest < bucket.newest}:
        # One number of bits serves all: it is smaller than the last one, which separated these buckets.
        bits = max(bucket.bits for bucket in pending)
        smaller = times.stretches([(bucket.oldest, bucket.newest) for bucket in pending], bits)
        for index, bucket in holders.items():
            if bucket in pending:
                holders[index] = bucket_containing(bucket, smaller, index)
    return {index: bucket.oldest for index, bucket in holders.items()}


def bucket_containing(parent: TimeBucket, buckets: Iterable[TimeBucket], index: int) -> TimeBucket:
    """Return the child bucket that contains row ``index``; ``buckets`` are sorted by time.

    Raises DataError INPUT_CHANGED_DURING_RUN if none does.
    """
    first = parent.first
    for bucket in buckets:
        if parent.oldest <= bucket.oldest <= parent.newest:
            if index < first + bucket.n_rows:
                return replace(bucket, first=first)
            first += bucket.n_rows
    message = f"interactions: row {index} by time disappeared during the run; rerun when the input is stable"
    raise DataError("INPUT_CHANGED_DURING_RUN", message)


def times_counted(log: "DataFrame", spans: Sequence[tuple[int, int]], bits: int) -> "DataFrame":
    """Return (oldest, newest, n_rows) of each time bucket within the spans; without spans, of all rows."""
    from pyspark.sql import functions as F

    times = log.where(F.col(FAULT).isNull() & F.col(TIMESTAMP).isNotNull()).select(TIMESTAMP)
    if spans:
        edges = [[F.timestamp_micros(F.lit(edge)) for edge in span] for span in spans]
        times = times.where(reduce(or_, (F.col(TIMESTAMP).between(*pair) for pair in edges)))
    at = F.unix_micros(TIMESTAMP)
    times = times.groupBy(F.shiftright(at, bits).alias("key")).agg(F.min(at), F.max(at), F.count(at))
    return times.drop("key")


def times_read(
    log: Rows, spans: Sequence[tuple[int, int]], bits: int, unit: str | None
) -> Iterator[tuple[int, int, int]]:
    """Return the same as ``times_counted``, by workers; ids are read only if they may be null."""
    needed = (TIMESTAMP,) if log.are_filled((USER, ITEM)) else (USER, ITEM, TIMESTAMP)
    tasks = map_batches(
        log.select(*needed), lambda batches: [(None, count_times(batches, spans, bits, unit))]
    )
    counted = merged_times(collect_objects(tasks)).drop_columns(SHORT_TIME)
    return zip(*counted.to_pydict().values(), strict=True)
