"""Units of events that have only a user, found by the user's exposures. For workers."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import decode_ids, hashes_of, index_of, to_numpy
from spark_eval.experiments.plan import ExperimentPlan
from spark_eval.experiments.worker.bucket import (
    EVENTS,
    EXPOSURES,
    BucketSums,
    SourceRows,
    note_unexposed,
    rows_by_source,
    unique_ids,
    without_repeats,
)
from spark_eval.experiments.worker.send import HASH, messages, with_key
from spark_eval.experiments.worker.timeline import KEY
from spark_eval.schema import UNIT, USER


def attach_units(
    parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan, n_buckets: int
) -> Iterator[tuple[int, SourceRows | BucketSums]]:
    """Yield the rows of a bucket of users by bucket of their units; then the counts of all other rows.

    Events have the unit of the user's exposures; events of users without one are counted here.
    """
    counted = BucketSums()
    tables = rows_by_source(parts, counted)
    exposures, events = tables.get(EXPOSURES), tables.get(EVENTS)
    users = unique_ids([] if exposures is None else [exposures])
    units = units_of(users, exposures, counted) if exposures is not None else users
    if events is not None:
        index = index_of(events[KEY].combine_chunks(), users.cast(events[KEY].type))
        is_exposed = pa.array(index >= 0)
        note_unexposed(without_repeats(events.filter(pc.invert(is_exposed)), counted), plan, counted)
        of_events = units.take(pa.array(index[index >= 0]))
        events = events.filter(is_exposed).drop_columns([KEY]).append_column(KEY, of_events)
        events = events.append_column(HASH, pa.array(hashes_of(of_events)))
        yield from messages(events.combine_chunks(), EVENTS, n_buckets)
    if exposures is not None:
        names = [USER if name == KEY else name for name in exposures.column_names]
        yield from messages(with_key(exposures.rename_columns(names), plan), EXPOSURES, n_buckets)
    yield 0, counted


def units_of(users: pa.Array, exposures: pa.Table, counted: BucketSums) -> pa.Array:
    """Return the unit (n,) of each user, from exposures of all of them; count users with several units."""
    index = index_of(exposures[KEY].combine_chunks(), users)
    units = decode_ids(exposures[UNIT].combine_chunks()).dictionary_encode()
    codes = to_numpy(units.indices).astype(np.int64)
    lowest, highest = np.full(len(users), len(units.dictionary)), np.full(len(users), -1)
    np.minimum.at(lowest, index, codes)
    np.maximum.at(highest, index, codes)
    counted.of_several_units += int((lowest != highest).sum())
    return units.dictionary.take(pa.array(highest))
