"""Rows of exposures and events on their way to buckets of units; what no experiment needs is left behind."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_eval.arrow.codes import (
    Booleans,
    Hashes,
    bucket_of,
    count_by_code,
    decode_ids,
    hashes_of,
    index_of,
    stable_argsort,
    to_numpy,
)
from spark_eval.arrow.messages import coalesce_tables, to_bytes
from spark_eval.arrow.row_faults import FaultRule, fill_null_with_false
from spark_eval.experiments.plan import N_EVENTS, USER_DAYS, ExperimentPlan
from spark_eval.experiments.worker.bucket import (
    EVENTS,
    EXPOSURES,
    OTHER_PLAN,
    BucketSums,
    SourceRows,
    earliest_of,
    n_events,
    note_unexposed,
)
from spark_eval.experiments.worker.timeline import KEY
from spark_eval.schema import (
    EVENT_ID,
    EXPERIMENT,
    KIND,
    TIMESTAMP,
    UNIT,
    USER,
    VALUE,
    VARIANT,
    Fault,
    Outcome,
    Reason,
)
from spark_eval.statistics.exact import Ints

# Column with the hash of the unit, which stays with the sender.
HASH: Final = "hash"
MOST_UNKNOWN: Final = 20
# Bits of the filter per exposure, and at most; a segment is what one object has of it.
BITS_PER_EXPOSURE: Final = 8
MOST_BITS: Final = 1 << 28
SEGMENT_BITS: Final = 1 << 20


@dataclass(frozen=True)
class ExposedUnits:
    """Bloom filter with one hash: bits (n_bytes, 8) of the units that may be exposed."""

    bits: NDArray[np.uint8]

    def may_have(self, hashes: Hashes) -> Booleans:
        """Return True for units (n,) that may be exposed; False only for those that are not."""
        bits = bits_of(hashes, 8 * len(self.bits))
        is_set: Booleans = (self.bits[bits >> 3] >> (bits & 7).astype(np.uint8) & 1).astype(bool)
        return is_set


def bits_of(hashes: Hashes, n_bits: int) -> Ints:
    """Return the bit (n,) of each unit: buckets have the upper half of the hash, the filter the lower one."""
    return (hashes & np.uint64(n_bits - 1)).astype(np.int64)


def n_bits_for(n_exposures: int) -> int:
    """Return the number of bits of the filter, a power of two.

    >>> n_bits_for(1), n_bits_for(1_000_000), n_bits_for(10**12)
    (1048576, 8388608, 268435456)
    """
    return min(max(1 << (BITS_PER_EXPOSURE * n_exposures - 1).bit_length(), SEGMENT_BITS), MOST_BITS)


def exposed_bits(
    batches: Iterable[pa.RecordBatch], judge: FaultRule, plan: ExperimentPlan, n_bits: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the segments of the filter with a unit of these exposures, by number."""
    packed = np.zeros(n_bits // 8, dtype=np.uint8)
    for batch in batches:
        table, faults = judge(pa.table(batch))
        table = table if faults is None else table.filter(faults.is_null())
        if len(table):
            units = table[UNIT if plan.by_unit else USER].combine_chunks()
            set_bits(packed, bits_of(hashes_of(units), n_bits))
    for number, segment in enumerate(packed.reshape(-1, SEGMENT_BITS // 8)):
        if segment.any():
            yield number, segment.tobytes()


def set_bits(packed: NDArray[np.uint8], bits: Ints) -> None:
    """Set bits (n,) of packed bytes, which may repeat: those of equal position within their byte at once.

    >>> packed = np.zeros(2, dtype=np.uint8)
    >>> set_bits(packed, np.array([0, 9, 1, 9]))
    >>> packed.tolist()
    [3, 2]
    """
    of_bytes, positions = bits >> 3, bits & 7
    for position in range(8):
        packed[of_bytes[positions == position]] |= np.uint8(1 << position)


def merged_bits(number: int, segments: Iterable[bytes]) -> tuple[int, bytes]:
    """Return a segment of the filter with the bits of all."""
    bits = np.zeros(SEGMENT_BITS // 8, dtype=np.uint8)
    for segment in segments:
        bits |= np.frombuffer(segment, np.uint8)
    return number, bits.tobytes()


def filter_of(segments: Iterable[tuple[int, bytes]], n_bits: int) -> ExposedUnits:
    """Return the filter of all segments."""
    bits = np.zeros((n_bits // SEGMENT_BITS, SEGMENT_BITS // 8), dtype=np.uint8)
    for number, segment in segments:
        bits[number] = np.frombuffer(segment, np.uint8)
    return ExposedUnits(bits.ravel())


@dataclass(frozen=True)
class Reach:
    """Events that matter: from ``start`` to ``end``, of units that may be exposed; None for any unit."""

    start: int
    end: int
    exposed: ExposedUnits | None = None

    @classmethod
    def of(cls, plan: ExperimentPlan, exposed: ExposedUnits | None = None) -> "Reach":
        """Return the reach of all experiments."""
        experiments = plan.experiments
        earliest = min(earliest_of(one, plan) for one in experiments)
        return cls(earliest, max(one.end for one in experiments), exposed)

    def has(self, events: pa.Table) -> Booleans:
        """Return True for events (n,) within reach; ``events`` have the hash of the unit."""
        when = to_numpy(events[TIMESTAMP])
        is_inside = (when >= self.start) & (when < self.end)
        return (
            is_inside if self.exposed is None else is_inside & self.exposed.may_have(to_numpy(events[HASH]))
        )


def by_bucket(
    batches: Iterable[pa.RecordBatch],
    source: str,
    judge: FaultRule,
    plan: ExperimentPlan,
    n_buckets: int,
    reach: Reach | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yield the valid rows by bucket of units; then, for bucket 0, the counts of all other rows.

    Events out of ``reach`` are counted here. Those with an id are not: which one of several counts depends on
    all of them.
    """
    counted = BucketSums()
    for table in coalesce_tables(valid_rows(batches, source, judge, plan, counted)):
        if source == EVENTS and reach is not None and EVENT_ID not in table.column_names:
            is_reached = pa.array(reach.has(table))
            left_behind = table.filter(pc.invert(is_reached))
            counted.rows[None, EVENTS, Outcome.USED, None] += n_events(left_behind)
            note_unexposed(left_behind, plan, counted)
            table = table.filter(is_reached).combine_chunks()
        yield from messages(table, source, n_buckets)
    yield 0, counted


def messages(table: pa.Table, source: str, n_buckets: int) -> Iterator[tuple[int, SourceRows]]:
    """Yield rows by bucket of units."""
    buckets = bucket_of(to_numpy(table[HASH]), n_buckets)
    order = stable_argsort(buckets, n_buckets)
    ordered = pa.record_batch({name: take(table[name], order) for name in table.column_names if name != HASH})
    ends = np.cumsum(count_by_code(buckets, n_buckets))
    for number, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
        if start < end:
            yield number, SourceRows(source, to_bytes(ordered.slice(start, end - start)).to_pybytes())


def take(column: pa.ChunkedArray, order: Ints) -> pa.Array:
    """Return rows of a column."""
    whole = column.combine_chunks()
    is_number = pa.types.is_integer(whole.type) or pa.types.is_floating(whole.type)
    return (
        pa.array(to_numpy(whole)[order])
        if is_number and not whole.null_count
        else whole.take(pa.array(order))
    )


def valid_rows(
    batches: Iterable[pa.RecordBatch],
    source: str,
    judge: FaultRule,
    plan: ExperimentPlan,
    counted: BucketSums,
) -> Iterator[pa.Table]:
    """Yield the valid rows of listed kinds or experiments, with the unit and its hash; count all others."""
    for batch in batches:
        table, faults = judge(pa.table(batch))
        counted.rows[None, source, Outcome.IN, None] += n_events(table)
        if faults is not None:
            for code in faults.unique().drop_null().to_pylist():
                outcome = Outcome.QUARANTINED if code in set(Fault) else Outcome.DROPPED
                is_code = fill_null_with_false(pc.equal(faults.cast(pa.string()), code))
                counted.rows[None, source, outcome, code] += n_events(table.filter(pa.array(is_code)))
            table = table.filter(faults.is_null())
        if USER_DAYS in table.column_names:
            is_other = pc.not_equal(table[USER_DAYS].cast(pa.string()), plan.digest).fill_null(True)
            counted.day_faults[OTHER_PLAN] += pc.sum(is_other).as_py() or 0
            table = table.drop_columns([USER_DAYS])
        table = only_listed(table, source, plan, counted)
        if source == EXPOSURES and VARIANT in table.column_names:
            table = with_arms(table, plan, counted)
        if source == EVENTS and N_EVENTS not in table.column_names:
            table = with_values(table, plan)
        if len(table):
            yield with_key(table, plan)


def only_listed(table: pa.Table, source: str, plan: ExperimentPlan, counted: BucketSums) -> pa.Table:
    """Return the rows of known kinds or experiments, with the index of the kind; count all others."""
    column, listed, reason = (
        (KIND, plan.kinds, Reason.OTHER_KIND)
        if source == EVENTS
        else (EXPERIMENT, [one.name for one in plan.experiments], Reason.OTHER_EXPERIMENT)
    )
    if column not in table.column_names:
        return table
    codes = index_of_text(table[column], listed)
    table = table.set_column(table.column_names.index(column), column, pa.array(codes))
    is_listed = codes >= 0
    if is_listed.all():
        return table
    n_rows, table = n_events(table), table.filter(pa.array(is_listed))
    counted.rows[None, source, Outcome.FILTERED, reason] += n_rows - n_events(table)
    return table


def with_values(events: pa.Table, plan: ExperimentPlan) -> pa.Table:
    """Return events with the value 1 where none is read: if they are only counted, or have no column."""
    values = np.ones(len(events))
    if VALUE in events.column_names:
        is_read = np.array([kind in plan.summed_kinds for kind in plan.kinds])[to_numpy(events[KIND])]
        values[is_read] = to_numpy(events[VALUE].filter(pa.array(is_read)))
        events = events.drop_columns([VALUE])
    return events.append_column(VALUE, pa.array(values))


def index_of_text(column: pa.ChunkedArray, names: Sequence[str]) -> NDArray[np.int16]:
    """Return the index (n,) of each text among the names, -1 if it is missing."""
    coded = column.combine_chunks().dictionary_encode()
    of_texts = index_of(coded.dictionary.cast(pa.string()), pa.array(names, pa.string())).astype(np.int16)
    indices: NDArray[np.int16] = of_texts[to_numpy(coded.indices)]
    return indices


def with_arms(table: pa.Table, plan: ExperimentPlan, counted: BucketSums) -> pa.Table:
    """Return exposures with the index of the variant among all arms, -1 if unlisted; note unlisted ones."""
    coded = table[VARIANT].combine_chunks().dictionary_encode()
    names, indices = coded.dictionary.to_pylist(), to_numpy(coded.indices)
    if EXPERIMENT in table.column_names:
        codes = to_numpy(table[EXPERIMENT]).astype(np.int64) * len(names) + indices
        pairs = [divmod(code, len(names)) for code in np.flatnonzero(np.bincount(codes)).tolist()]
    else:
        pairs = [(number, index) for number in range(len(plan.experiments)) for index in range(len(names))]
    unlisted = {
        (plan.experiments[number].name, names[index])
        for number, index in pairs
        if names[index] not in plan.experiments[number].arms
    }
    counted.unknown |= set(sorted(unlisted)[:MOST_UNKNOWN])
    arms = {arm: code for code, arm in enumerate(plan.arms)}
    of_names = np.array([arms.get(name, -1) for name in names], dtype=np.int16)
    return table.set_column(table.column_names.index(VARIANT), VARIANT, pa.array(of_names[indices]))


def with_key(table: pa.Table, plan: ExperimentPlan) -> pa.Table:
    """Return the rows with the id of the unit and its hash; exposures with the user's hash, to count users.

    Without ``by_unit`` the user is the unit.
    """
    name = UNIT if plan.by_unit else USER
    given = table[name].combine_chunks()
    rest = table.drop_columns([name]).append_column(KEY, decode_ids(given))
    rest = rest.append_column(HASH, pa.array(hashes_of(given)))
    if not plan.by_unit:
        return rest
    if KIND in rest.column_names:
        return rest.select([name for name in rest.column_names if name != USER])
    users = pa.array(hashes_of(rest[USER].combine_chunks()).view(np.int64))
    return rest.set_column(rest.column_names.index(USER), USER, users)
