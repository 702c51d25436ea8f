"""Times of a log counted in batches, in buckets of equal width: what the search for a cut asks."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.hashes import numbers
from spark_eval.schema import ITEM, TIMESTAMP, USER
from spark_eval.splits.labels import are_known, moments

SHORT_TIME: Final = "short_time"
TIME_COUNTS: Final = pa.schema(
    {SHORT_TIME: pa.int64(), "oldest": pa.int64(), "newest": pa.int64(), "n": pa.int64()}
)


def count_times(
    batches: Iterable[pa.RecordBatch], spans: Sequence[tuple[int, int]], bits: int, unit: str | None
) -> pa.Table:
    """Count the times of valid rows within the spans (none: all), in microseconds, by times less ``bits``.

    Batches without ids have none that is null; ``unit`` is that of integer timestamps. Return TIME_COUNTS: of
    each bucket the oldest and the newest time, and the number of rows.
    """
    counted = TIME_COUNTS.empty_table()
    for batch in batches:
        times = moments(batch[TIMESTAMP], unit)
        if {USER, ITEM} & set(batch.schema.names):
            times = times.filter(pa.array(are_known(batch)))
        times = times.drop_null()
        if spans:
            within = (
                pc.and_(pc.greater_equal(times, low), pc.less_equal(times, high)) for low, high in spans
            )
            times = times.filter(reduce(pc.or_, within))
        columns = (numbers(times) >> bits, times, times, np.ones(len(times), dtype=np.int64))
        counted = merged_times([counted, pa.table(list(columns), schema=TIME_COUNTS)])
    return counted


def merged_times(parts: Sequence[pa.Table]) -> pa.Table:
    """Return one table of TIME_COUNTS for several of them, or for rows of one time each."""
    merged = (
        pa.concat_tables(parts)
        .group_by(SHORT_TIME)
        .aggregate([("oldest", "min"), ("newest", "max"), ("n", "sum")])
    )
    return merged.select([SHORT_TIME, "oldest_min", "newest_max", "n_sum"]).rename_columns(TIME_COUNTS.names)
