"""Days of users: events of a day summed by user, if no later comparison tells them apart. For workers.

Events of a user are one row if they are of the same kind, have the same values in all columns that metrics
read, lie in the same hour or day of the clock, and on the same side of every instant that follows from the
user's exposures. The row has the earliest time, the number of events and their exact sums. So a row can be
measured like an event, and days add to the same bits.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import to_numpy
from spark_eval.arrow.row_faults import FaultRule, Judged
from spark_eval.errors import DataError
from spark_eval.experiments.kinds import LARGEST_SUM
from spark_eval.experiments.plan import DAY, N_EVENTS, USER_DAYS, ExperimentPlan
from spark_eval.experiments.worker.bucket import (
    EVENTS,
    EXPOSURES,
    Bucket,
    BucketSums,
    SourceRows,
    tables_of,
    unique_ids,
    with_index,
)
from spark_eval.experiments.worker.clock import day_name, local_days, local_hours
from spark_eval.experiments.worker.judge import own_column
from spark_eval.experiments.worker.timeline import KEY
from spark_eval.experiments.worker.units import Units
from spark_eval.schema import KIND, TIMESTAMP, UNIT, USER, VALUE, Reason
from spark_eval.statistics.exact import Ints

DAY_COLUMN: Final = "day"


def judge_day(rows: pa.Table, judge: FaultRule, plan: ExperimentPlan, day: int) -> Judged:
    """Validate events; valid ones of another day of the time zone have the reason ``outside_period``."""
    rows, faults = judge(rows)
    is_valid = np.ones(len(rows), dtype=bool) if faults is None else to_numpy(faults.is_null())
    is_other = np.zeros(len(rows), dtype=bool)
    when = to_numpy(rows[TIMESTAMP].filter(pa.array(is_valid)))
    is_other[is_valid] = local_days(when, plan.timezone) != day
    if not is_other.any():
        return rows, faults
    codes = pa.nulls(len(rows), pa.string()) if faults is None else faults.cast(pa.string())
    return rows, pc.if_else(pa.array(is_other), Reason.OUTSIDE_PERIOD.value, codes)


def summed_days(
    parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan, names: Sequence[str], schema: pa.Schema
) -> tuple[BucketSums, pa.Table]:
    """Return the counts of a bucket of units, and its rows of ``user_days``: columns of our ``names``."""
    result = BucketSums()
    tables = tables_of(parts, plan, result)
    if not len(tables.get(EVENTS, ())):
        return result, schema.empty_table()
    ids = unique_ids(tables.values())
    coded = {source: with_index(table, ids) for source, table in tables.items()}
    bucket = Bucket(plan, ids, coded.get(EXPOSURES), coded[EVENTS], result)
    rows = grouped(bucket)
    ids = bucket.ids.take(rows[KEY].combine_chunks())
    when = to_numpy(rows[TIMESTAMP])
    days, codes = np.unique(local_days(when, plan.timezone), return_inverse=True)
    of_days = pa.array([day_name(day) for day in days.tolist()], pa.string())
    columns = {name: rows[name] for name in rows.column_names} | {
        USER: ids,
        UNIT: ids,
        KIND: pa.array(plan.kinds, pa.string()).take(rows[KIND].combine_chunks()),
        TIMESTAMP: pa.array(when, pa.timestamp("us", "UTC")),
        DAY_COLUMN: of_days.take(pa.array(codes)),
        USER_DAYS: pa.repeat(plan.digest, len(rows)),
    }
    return result, pa.table([columns[name] for name in names], names=schema.names).cast(schema)


def grouped(bucket: Bucket) -> pa.Table:
    """Return a row for events that nothing tells apart, with their number and sums."""
    events, plan = bucket.events, bucket.plan
    assert events is not None
    own = [own_column(name) for name in plan.event_columns]
    columns: dict[str, Any] = {name: plain(events[name]) for name in (KEY, TIMESTAMP, KIND, *own)}
    columns["group"] = pa.array(groups_of(bucket))
    values = to_numpy(events[VALUE])
    sums = []
    for decimals in plan.summed_decimals:
        amounts = np.rint(values * 10**decimals)
        columns[f"sum_{decimals}"] = pa.array(amounts.astype(np.int64))
        columns[f"size_{decimals}"] = pa.array(np.abs(amounts))
        sums += [(f"sum_{decimals}", "sum"), (f"size_{decimals}", "sum")]
    keys = [KEY, "group", KIND, *own]
    groups = (
        pa.table(columns)
        .group_by(keys, use_threads=False)
        .aggregate([(TIMESTAMP, "min"), ([], "count_all"), *sums])
    )
    for decimals in plan.summed_decimals:
        if pc.max(groups[f"size_{decimals}_sum"]).as_py() >= LARGEST_SUM:
            raise DataError("METRIC_OVERFLOW", "the sum of a user's day exceeds 2^62")
    renamed = {f"{TIMESTAMP}_min": TIMESTAMP, "count_all": N_EVENTS}
    renamed |= {f"sum_{decimals}_sum": f"sum_{decimals}" for decimals in plan.summed_decimals}
    return groups.rename_columns([renamed.get(name, name) for name in groups.column_names])


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def groups_of(bucket: Bucket) -> Ints:
    """Return a code (n,) of each event: equal codes of a unit lie on one side of every boundary."""
    assert bucket.events is not None
    plan = bucket.plan
    keys, when = to_numpy(bucket.events[KEY]), to_numpy(bucket.events[TIMESTAMP])
    codes = local_days(when, plan.timezone)
    if plan.has_hours:
        codes = codes * 24 + local_hours(when, plan.timezone)
    scratch = Bucket(plan, bucket.ids, bucket.exposures, None, BucketSums())
    for number, experiment in enumerate(plan.experiments):
        units, _ = scratch.exposed(number, experiment)
        for side in sides(units, len(bucket.ids), keys, when):
            codes = refined(codes, side)
    return codes


def sides(units: Units, n_units: int, keys: Ints, when: Ints) -> Iterator[Ints]:
    """Yield the side (n,) of each event: days since exposure, -1 before; after the window; after the end."""
    never, end = np.iinfo(np.int64).max, units.experiment.end
    first, last = np.full(n_units, never), np.full(n_units, end)
    first[units.index], last[units.index] = units.first, units.last_moments()
    is_since = when >= first[keys]
    shown = np.where(is_since, first[keys], when)
    yield np.where(is_since, (when - shown) // DAY, -1)
    yield (when >= last[keys]).astype(np.int64)
    yield (when >= end).astype(np.int64)


def refined(codes: Ints, side: Ints) -> Ints:
    """Return codes (n,) that are equal where both are.

    >>> refined(np.array([7, 7, 9]), np.array([0, 1, 1])).tolist()
    [0, 1, 2]
    """
    _, of_codes = np.unique(codes, return_inverse=True)
    low, spread = int(side.min(initial=0)), int(np.ptp(side)) + 1 if len(side) else 1
    both: Ints = np.unique(of_codes * spread + (side - low), return_inverse=True)[1]
    return both
