"""Sums of a bucket of units: every exposure and event is classified, and units are summed by arm.

Sums are integers: they add to the same numbers in any order.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import (
    Booleans,
    bucket_of,
    concat_tables,
    decode_ids,
    hashes_of,
    index_of,
    to_numpy,
)
from spark_eval.arrow.row_faults import FaultRule, fill_null_with_false
from spark_eval.experiments.moments import Moments
from spark_eval.experiments.plan import DAY_SLICE, N_EVENTS, USER_DAYS, Experiment, ExperimentPlan
from spark_eval.experiments.worker.assignment import hashed_arms
from spark_eval.experiments.worker.clock import day_name, day_starts, local_days
from spark_eval.experiments.worker.halves import Halves
from spark_eval.experiments.worker.judge import own_column
from spark_eval.experiments.worker.units import BOT, CROSSOVER, KEY, PRE, UNEXPOSED, USED, Units, UnitSums
from spark_eval.schema import (
    EVENT_ID,
    EXPERIMENT,
    KIND,
    MISSING,
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

EXPOSURES: Final = "exposures"
EVENTS: Final = "events"
UNITS: Final = "users"
MOST_UNKNOWN: Final = 20
# Faults of rows of ``user_days``.
OTHER_PLAN: Final = "of another config"
REPEATED_DAY: Final = "of a day that is there twice"

# (experiment or None for the whole table, source, outcome, reason)
RowKey = tuple[str | None, str, Outcome, str | None]


class Cell(NamedTuple):
    """Units of an arm: those first exposed in a stratum, all or by a segment, a slice or a day."""

    experiment: str
    metric: str
    arm: str
    stratum: int
    by: str
    value: str


@dataclass
class BucketSums:
    """Counts of rows and units, moments of cells, and names of unlisted variants; of one bucket, or of all.

    ``units`` are counted by experiment, arm and stratum, ``with_bots`` before bots are left out.
    ``mismatched`` counts units whose logged variant differs from their hash, by experiment. ``day_faults``
    counts rows of ``user_days`` that cannot be merged. ``units_by`` are units by experiment, name and value
    of a segment or day of exposure, arm and stratum; ``halves`` the sums of A/A experiments, by metric.
    """

    rows: Counter[RowKey] = field(default_factory=Counter)
    moments: dict[Cell, Moments] = field(default_factory=dict)
    units: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    with_bots: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    mismatched: Counter[str] = field(default_factory=Counter)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    day_faults: Counter[str] = field(default_factory=Counter)
    units_by: Counter[tuple[str, str, str, str, int]] = field(default_factory=Counter)
    halves: dict[tuple[str, str], Halves] = field(default_factory=dict)

    def merge(self, other: "BucketSums") -> None:
        """Add the sums of another bucket."""
        self.rows.update(other.rows)
        self.units.update(other.units)
        self.with_bots.update(other.with_bots)
        self.mismatched.update(other.mismatched)
        self.unknown |= other.unknown
        self.day_faults.update(other.day_faults)
        self.units_by.update(other.units_by)
        for key, sums in other.halves.items():
            self.halves[key] = self.halves[key] + sums if key in self.halves else sums
        for cell, moments in other.moments.items():
            self.add(cell, moments)

    def add(self, cell: Cell, moments: Moments) -> None:
        """Add moments to a cell."""
        known = self.moments.get(cell)
        self.moments[cell] = moments if known is None else known + moments


@dataclass(frozen=True)
class SourceRows:
    """Rows of one source on their way to a bucket of units."""

    source: str
    rows: pa.Table


def by_bucket(
    batches: Iterable[pa.RecordBatch], source: str, judge: FaultRule, plan: ExperimentPlan, n_buckets: int
) -> Iterator[tuple[int, Any]]:
    """Yield the valid rows by bucket of units; then, for bucket 0, the counts of all other rows."""
    counted = BucketSums()
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
        if len(table):
            table = with_key(table, plan)
            buckets = bucket_of(hashes_of(table[KEY].combine_chunks()), n_buckets)
            for number in np.unique(buckets):
                yield int(number), SourceRows(source, table.filter(pa.array(buckets == number)))
    yield 0, counted


def only_listed(table: pa.Table, source: str, plan: ExperimentPlan, counted: BucketSums) -> pa.Table:
    """Return the rows of known kinds or experiments, with the index of the kind; count all others."""
    column, listed, reason = (
        (KIND, plan.kinds, Reason.OTHER_KIND)
        if source == EVENTS
        else (EXPERIMENT, [one.name for one in plan.experiments], Reason.OTHER_EXPERIMENT)
    )
    if column not in table.column_names:
        return table
    codes = pc.index_in(table[column], value_set=pa.array(listed, pa.string()))
    is_listed, n_rows = codes.is_valid(), n_events(table)
    table = table.set_column(table.column_names.index(column), column, codes).filter(is_listed)
    counted.rows[None, source, Outcome.FILTERED, reason] += n_rows - n_events(table)
    return table


def n_events(table: pa.Table) -> int:
    """Return the number of rows; of ``user_days`` the number of their events."""
    return len(table) if N_EVENTS not in table.column_names else pc.sum(table[N_EVENTS]).as_py() or 0


def with_key(table: pa.Table, plan: ExperimentPlan) -> pa.Table:
    """Return the rows with the id of the unit, and the user as a hash if it is not the unit."""
    name = UNIT if plan.by_unit else USER
    key = pa.chunked_array([decode_ids(chunk) for chunk in table[name].chunks])
    rest = table.drop_columns([name]).append_column(KEY, key)
    if not plan.by_unit or USER not in rest.column_names:
        return rest
    users = pa.array(hashes_of(rest[USER].combine_chunks()).view(np.int64))
    return rest.set_column(rest.column_names.index(USER), USER, users)


def measure_bucket(parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan) -> BucketSums:
    """Return the sums of all units of a bucket."""
    result = BucketSums()
    bucket = bucket_from(parts, plan, result)
    if bucket is not None:
        for number, experiment in enumerate(plan.experiments):
            bucket.measure(number, experiment)
    return result


def bucket_from(
    parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan, result: BucketSums
) -> "Bucket | None":
    """Return the units of a bucket with their rows, None without; add the counts to ``result``."""
    tables: dict[str, list[pa.Table]] = {EXPOSURES: [], EVENTS: []}
    for part in parts:
        if isinstance(part, BucketSums):
            result.merge(part)
        else:
            tables[part.source].append(part.rows)
    whole = {source: concat_tables(found) for source, found in tables.items() if found}
    if not whole:
        return None
    ids = pa.chunked_array([chunk for table in whole.values() for chunk in table[KEY].chunks]).unique()
    coded = {
        source: table.set_column(
            table.column_names.index(KEY), KEY, pa.array(index_of(table[KEY].combine_chunks(), ids))
        )
        for source, table in whole.items()
    }
    events = coded.get(EVENTS)
    if events is not None:
        if N_EVENTS in events.column_names:
            result.day_faults[REPEATED_DAY] += int(repeated_days(events, plan).sum())
        events = without_repeats(events, result)
    return Bucket(plan, ids, coded.get(EXPOSURES), events, result)


def repeated_days(events: pa.Table, plan: ExperimentPlan) -> Booleans:
    """Return True for rows (n,) of ``user_days`` that are there twice: a day was merged twice."""
    names = [KEY, TIMESTAMP, KIND, *(own_column(name) for name in plan.event_columns)]
    found: Booleans = events.select(names).to_pandas().duplicated().to_numpy()
    return found


def without_repeats(events: pa.Table, result: BucketSums) -> pa.Table:
    """Return the events without repeated ids of a unit; the earliest stays, then that of the least value."""
    if EVENT_ID in events.column_names:
        names = [name for name in events.column_names if name not in (KEY, EVENT_ID, TIMESTAMP, KIND, VALUE)]
        keys = [KEY, EVENT_ID, TIMESTAMP, KIND, VALUE, *names]
        has_id = events[EVENT_ID].is_valid()
        named = events.filter(has_id)
        ordered = named.take(pc.sort_indices(named, [(key, "ascending") for key in keys]))
        frame = ordered.select([KEY, EVENT_ID]).to_pandas()
        kept = ordered.filter(pa.array(~frame.duplicated().to_numpy()))
        result.rows[None, EVENTS, Outcome.DEDUPLICATED, None] += len(ordered) - len(kept)
        events = pa.concat_tables([kept, events.filter(pc.invert(has_id))]).combine_chunks()
    result.rows[None, EVENTS, Outcome.USED, None] += n_events(events)
    return events


@dataclass(frozen=True)
class Bucket:
    """Units of a bucket with their exposures and events, which have the index of the unit in ``key``."""

    plan: ExperimentPlan
    ids: pa.Array
    exposures: pa.Table | None
    events: pa.Table | None
    result: BucketSums

    def measure(self, number: int, experiment: Experiment) -> None:
        """Add the counts and the moments of an experiment."""
        units, exposed_rows = self.exposed(number, experiment)
        masks = self.phases(units, exposed_rows)
        sums = UnitSums(self.plan, units, self.events, masks)
        for metric in self.plan.metrics:
            for arm, stratum, by, value, moments in sums.cells(metric):
                cell = Cell(experiment.name, metric.name, experiment.arms[arm], stratum, by, value)
                self.result.add(cell, moments)
            if self.plan.aa_salts is not None:
                halves = sums.halves(metric, self.ids, self.plan.aa_salts)
                self.result.halves[experiment.name, metric.name] = halves

    def exposed(self, number: int, experiment: Experiment) -> tuple[Units, Ints]:
        """Return the exposed units, and the unit (n,) of each row in the period; count the other rows."""
        name, n_units = experiment.name, len(self.ids)
        units = Units.none(experiment, n_units)
        rows = self.exposures
        if rows is not None and EXPERIMENT in rows.column_names:
            rows = rows.filter(pc.equal(rows[EXPERIMENT], number))
        n_rows = 0 if rows is None else len(rows)
        self.note(name, EXPOSURES, Outcome.IN, None, n_rows)
        if rows is None or not n_rows:
            return units, np.empty(0, np.int64)
        self.note(None, EXPOSURES, Outcome.USED, None, n_rows if self.is_counted(experiment) else 0)
        when, keys = to_numpy(rows[TIMESTAMP]), to_numpy(rows[KEY])
        codes = self.variants(experiment, rows, keys)
        is_inside = (when >= experiment.start) & (when < experiment.end)
        is_assigned = is_inside & (codes != UNEXPOSED)
        outside, unassigned = int((~is_inside).sum()), int((is_inside & ~is_assigned).sum())
        self.note(name, EXPOSURES, Outcome.DROPPED, Reason.OUTSIDE_PERIOD, outside)
        self.note(name, EXPOSURES, Outcome.DROPPED, Reason.NOT_ASSIGNED, unassigned)
        rows = rows.filter(pa.array(is_assigned))
        when, keys, codes = when[is_assigned], keys[is_assigned], codes[is_assigned]
        units.expose(when, keys, codes)
        if self.plan.by_unit and USER in rows.column_names:
            units.count_users(keys, to_numpy(rows[USER]))
        for segment in experiment.segments:
            values = rows[own_column(segment)].fill_null(MISSING).combine_chunks().dictionary_encode()
            units.label(segment, keys, when, to_numpy(values.indices), values.dictionary)
        return units, keys

    def is_counted(self, experiment: Experiment) -> bool:
        """Return True if the rows of this experiment are counted as used rows of the whole table.

        Without a column ``experiment``, all experiments use the same rows.
        """
        has_names = self.exposures is not None and EXPERIMENT in self.exposures.column_names
        return has_names or experiment is self.plan.experiments[0]

    def variants(self, experiment: Experiment, rows: pa.Table, keys: Ints) -> Ints:
        """Return the code of each exposure's variant (n,): the logged one, otherwise the hashed one."""
        hashed = None
        if experiment.assignment is not None:
            hashed = hashed_arms(self.ids, experiment.assignment, experiment.arms)[keys]
        if VARIANT not in rows.column_names:
            return np.full(len(rows), UNEXPOSED) if hashed is None else hashed
        codes = index_of(rows[VARIANT].combine_chunks(), pa.array(experiment.arms, pa.string()))
        unknown = rows[VARIANT].filter(pa.array(codes < 0)).unique().sort()[:MOST_UNKNOWN].to_pylist()
        self.result.unknown |= {(experiment.name, variant) for variant in unknown}
        if hashed is not None:
            self.result.mismatched[experiment.name] += len(np.unique(keys[codes != hashed]))
        return codes

    def phases(self, units: Units, exposed_rows: Ints) -> Mapping[str, Booleans]:
        """Return the masks (n_events,) of the pre-period and of used events; count all rows and units."""
        experiment, name = units.experiment, units.experiment.name
        if self.events is None:
            self.leave_out_bots(units, np.zeros(len(self.ids), dtype=np.int64))
            self.note_units(units, exposed_rows)
            self.note(name, EVENTS, Outcome.IN, None, 0)
            return {}
        keys, when = self.event_keys, self.event_times
        days = day_starts(units.first, units.arms != UNEXPOSED, self.plan.timezone, self.plan.pre_days)
        earliest = day_starts(
            np.array([experiment.start]), np.array([True]), self.plan.timezone, self.plan.pre_days
        )[0][0]
        is_outside = (when < earliest) | (when >= experiment.end)
        # Few units are in an experiment if there are many: the other events are not looked at again.
        rows = np.flatnonzero(~is_outside & (units.arms[keys] != UNEXPOSED))
        own_keys, own_when = keys[rows], when[rows]
        is_pre = (own_when >= days[0][own_keys]) & (own_when < days[1][own_keys])
        weights = np.ones(len(when), dtype=np.int64) if self.weights is None else self.weights
        own_weights = weights[rows]
        n_pre = np.bincount(own_keys[is_pre], own_weights[is_pre], len(self.ids)).astype(np.int64)
        self.leave_out_bots(units, n_pre)
        self.note_units(units, exposed_rows)
        arms, shown = units.arms[own_keys], units.first[own_keys]
        n_all, n_outside, n_own = (int(one.sum()) for one in (weights, weights[is_outside], own_weights))
        self.note(name, EVENTS, Outcome.IN, None, n_all)
        self.note(name, EVENTS, Outcome.DROPPED, Reason.OUTSIDE_PERIOD, n_outside)
        self.note(name, EVENTS, Outcome.DROPPED, Reason.NOT_EXPOSED, n_all - n_outside - n_own)
        is_left, masks = np.ones(len(rows), dtype=bool), {}
        rules: list[tuple[Outcome, str | None, Booleans]] = [
            (Outcome.DROPPED, Reason.CROSSOVER, arms == CROSSOVER),
            (Outcome.DROPPED, Reason.BOT, arms == BOT),
            (Outcome.USED, Reason.PRE_PERIOD, is_pre),
            (Outcome.DROPPED, Reason.BEFORE_EXPOSURE, own_when < shown),
            (Outcome.DROPPED, Reason.AFTER_WINDOW, own_when >= units.last_moments()[own_keys]),
            (Outcome.USED, None, np.ones(len(rows), dtype=bool)),
        ]
        for outcome, reason, holds in rules:
            mask = is_left & holds
            is_left &= ~holds
            self.note(name, EVENTS, outcome, reason, int(own_weights[mask].sum()))
            if outcome is Outcome.USED:
                whole = np.zeros(len(when), dtype=bool)
                whole[rows[mask]] = True
                masks[USED if reason is None else PRE] = whole
        return masks

    def leave_out_bots(self, units: Units, n_pre: Ints) -> None:
        """Mark units on the list of bots, or with too many events in the pre-period."""
        bots, name = self.plan.bots, units.experiment.name
        for (arm, stratum), n in units.counts().items():
            self.result.with_bots[name, units.experiment.arms[arm], stratum] += n
        is_bot = np.zeros(len(self.ids), dtype=bool)
        if bots.ids:
            is_bot |= to_numpy(pc.is_in(self.ids.cast(pa.string()), pa.array(bots.ids, pa.string())))
        if bots.pre_events is not None:
            is_bot |= n_pre > bots.pre_events
        units.arms[is_bot & (units.arms >= 0)] = BOT

    def note_units(self, units: Units, exposed_rows: Ints) -> None:
        """Count the units of an experiment and their exposures."""
        name, of_rows = units.experiment.name, units.arms[exposed_rows]
        n_used = int((units.arms >= 0).sum())
        self.note(name, EXPOSURES, Outcome.DEDUPLICATED, None, int((of_rows >= 0).sum()) - n_used)
        self.note(name, EXPOSURES, Outcome.USED, None, n_used)
        self.note(name, UNITS, Outcome.USED, None, n_used)
        n_units = n_used
        for reason, code in ((Reason.CROSSOVER, CROSSOVER), (Reason.BOT, BOT)):
            n_left_out = int((units.arms == code).sum())
            n_units += n_left_out
            self.note(name, EXPOSURES, Outcome.DROPPED, reason, int((of_rows == code).sum()))
            self.note(name, UNITS, Outcome.DROPPED, reason, n_left_out)
        self.note(name, UNITS, Outcome.IN, None, n_units)
        for (arm, stratum), n in units.counts().items():
            self.result.units[name, units.experiment.arms[arm], stratum] += n
        is_member = units.arms >= 0
        days, codes = np.unique(
            local_days(np.where(is_member, units.first, 0), self.plan.timezone), return_inverse=True
        )
        of_days = (codes, [day_name(day) for day in days.tolist()])
        for by, (labels, names) in (*units.labels.items(), (DAY_SLICE, of_days)):
            for arm, stratum, value, n in units.counts_by(labels, names):
                self.result.units_by[name, by, value, units.experiment.arms[arm], stratum] += n

    @cached_property
    def event_keys(self) -> Ints:
        """Unit (n_events,) of each event."""
        assert self.events is not None
        return to_numpy(self.events[KEY])

    @cached_property
    def event_times(self) -> Ints:
        """Time (n_events,) of each event."""
        assert self.events is not None
        return to_numpy(self.events[TIMESTAMP])

    @cached_property
    def weights(self) -> Ints | None:
        """Number of events (n,) of each row of ``user_days``; None if rows are events."""
        assert self.events is not None
        return to_numpy(self.events[N_EVENTS]) if N_EVENTS in self.events.column_names else None

    def note(self, experiment: str | None, source: str, outcome: Outcome, reason: str | None, n: int) -> None:
        """Count rows, or units."""
        self.result.rows[experiment, source, outcome, reason] += n
