"""Where a rule cuts a given log: the few numbers of the log that labelling needs, found with small actions.

A share is turned into an instant by radix descent: count rows per bucket of time, keep the bucket that
holds the wanted row, divide it again. Counts are exact, so the cut depends neither on partitions nor on
the order of rows, and no more than a few thousand counts ever reach the driver.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.schema import FAULT, TIMESTAMP
from spark_eval.splits.moments import (
    Cut,
    DaysBack,
    Instant,
    Share,
    check_unit,
    plus_days,
    to_microseconds,
    zone,
)
from spark_eval.splits.rules import GlobalLocalRanker, Timeline
from spark_eval.splits.windows import Backtest, Windows

# A pass divides a bucket into at most 2 ** FANOUT_BITS + 1 smaller ones.
FANOUT_BITS: Final = 12
# ``counted`` for a given log.
Count = Callable[[Sequence[tuple[int, int]], int | None], DataFrame]


@dataclass(frozen=True)
class Bucket:
    """The rows in [oldest, newest]: of the log sorted by time, ``n_rows`` rows from place ``first`` on."""

    oldest: int
    newest: int
    first: int
    n_rows: int

    def holds(self, index: int) -> bool:
        """Whether the row at this place of the sorted log is in here."""
        return self.first <= index < self.first + self.n_rows

    @property
    def bits(self) -> int:
        """Low bits of a time to overlook when dividing this bucket; 0 once its rows are few."""
        if self.n_rows <= 2**FANOUT_BITS:
            return 0
        return max(0, (self.newest - self.oldest).bit_length() - FANOUT_BITS)


def resolve(
    interactions: DataFrame, rule: GlobalLocalRanker, count: Count | None = None, unit: str | None = None
) -> Timeline:
    """The instants at which ``rule`` cuts this log of timestamp (TIMESTAMP) and fault.

    Rows with a fault or without a timestamp do not count. One action finds the log's span; cuts given
    as shares need two to four more, all shares together. ``count`` counts the log's rows in another way;
    ``unit`` is that of its integer timestamps.

    Raises DataError EMPTY_INPUT, TIMESTAMP_UNIT_SUSPECT, or SPLIT_OUT_OF_RANGE with the log's span if a part
    must be empty.
    """
    count = count or partial(counted, interactions)
    whole = span(count, unit)
    cuts = (rule.local_cut, rule.global_cut)
    places = {cut: cut.index(whole.n_rows, rule.boundary) for cut in cuts if isinstance(cut, Share)}
    times_at = times_of_rows(count, whole, places.values())

    def at(cut: Cut) -> int:
        match cut:
            case Instant():
                return to_microseconds(cut.at)
            case DaysBack():
                return plus_days(whole.newest, -cut.days, zone(rule.timezone))
            case Share():
                return times_at[places[cut]]

    return Timeline.of(rule, at(rule.local_cut), at(rule.global_cut), whole.oldest, whole.newest)


def backtest(interactions: DataFrame, rule: Windows, unit: str | None = None) -> Backtest:
    """The windows of ``rule`` in this log, as ``resolve`` finds cuts: one action, the same errors."""
    whole = span(partial(counted, interactions), unit)
    return Backtest.of(rule, whole.oldest, whole.newest)


def span(count: Count, unit: str | None) -> Bucket:
    """All sound rows of the log; raises DataError EMPTY_INPUT or TIMESTAMP_UNIT_SUSPECT."""
    found = divide(count, [], None)
    if not found:
        message = "interactions: no sound row, with a user, an item and a timestamp, to split; "
        raise DataError("EMPTY_INPUT", f"{message}see columns and where, and how timestamps are written")
    if unit is not None:
        check_unit(found[0].newest, unit)
    return found[0]


def times_of_rows(count: Count, whole: Bucket, indexes: Collection[int]) -> dict[int, int]:
    """The times of the rows at these places, from 0, of the log sorted by time; ``whole`` is all of it.

    Raises DataError INPUT_CHANGED_DURING_RUN if the log is another at each reading.
    """
    holders = dict.fromkeys(indexes, whole)
    while pending := {bucket for bucket in holders.values() if bucket.oldest < bucket.newest}:
        smaller = refine(count, pending)
        holders = {
            index: bucket if bucket not in pending else holder(smaller, index)
            for index, bucket in holders.items()
        }
    return {index: bucket.oldest for index, bucket in holders.items()}


def holder(buckets: Iterable[Bucket], index: int) -> Bucket:
    """The bucket with the row at this place."""
    for bucket in buckets:
        if bucket.holds(index):
            return bucket
    raise DataError(
        "INPUT_CHANGED_DURING_RUN",
        f"interactions: row {index} by time was there, and is gone; fix the input first",
    )


def refine(count: Count, buckets: Collection[Bucket]) -> list[Bucket]:
    """These disjoint buckets divided further, in one action that reads the rows of their times only."""
    # One shift serves all: it is smaller than the last one, whose blocks told these buckets apart.
    bits = max(bucket.bits for bucket in buckets)
    divided = divide(count, [(bucket.oldest, bucket.newest) for bucket in buckets], bits)
    refined = []
    for parent in buckets:
        first = parent.first
        for child in divided:
            if parent.oldest <= child.oldest <= parent.newest:
                refined.append(Bucket(child.oldest, child.newest, first, child.n_rows))
                first += child.n_rows
    return refined


def divide(count: Count, spans: Sequence[tuple[int, int]], bits: int | None) -> list[Bucket]:
    """A bucket for each time less its low ``bits``, oldest first; places count from the oldest of these."""
    totals = count(spans, bits).groupBy("key")
    counts = totals.agg(
        F.min("oldest").alias("oldest"), F.max("newest").alias("newest"), F.sum("n_rows").alias("n_rows")
    )
    buckets, first = [], 0
    for row in sorted(counts.collect(), key=lambda row: row["oldest"]):
        buckets.append(Bucket(row["oldest"], row["newest"], first, row["n_rows"]))
        first += row["n_rows"]
    return buckets


def counted(interactions: DataFrame, spans: Sequence[tuple[int, int]], bits: int | None) -> DataFrame:
    """key, oldest, newest, n_rows: sound rows with a time within the spans (none: all), by that without its
    low bits (None: all together); a key may come several times.
    """
    at = F.unix_micros(TIMESTAMP)
    times = interactions.where(F.col(FAULT).isNull() & F.col(TIMESTAMP).isNotNull()).select(TIMESTAMP)
    if spans:
        times = times.where(
            reduce(or_, (F.col(TIMESTAMP).between(_instant(a), _instant(b)) for a, b in spans))
        )
    key = F.lit(0) if bits is None else F.shiftright(at, bits)
    return times.select(key.alias("key"), at.alias("oldest"), at.alias("newest"), F.lit(1).alias("n_rows"))


def _instant(at: int) -> Column:
    return F.timestamp_micros(F.lit(at))
