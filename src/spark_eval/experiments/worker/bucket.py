"""Sums of a bucket of units: every exposure and event is classified, and units are summed by arm.

Sums are integers: they add to the same numbers in any order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import (
    Booleans,
    Hashes,
    concat_tables,
    count_by_code,
    hashes_of,
    index_of,
    pair_hash,
    stable_argsort,
    to_numpy,
)
from spark_eval.arrow.messages import from_bytes
from spark_eval.experiments.moments import Moments
from spark_eval.experiments.plan import DAY_SLICE, N_EVENTS, Experiment, ExperimentPlan, Term
from spark_eval.experiments.worker.assignment import hashed_arms
from spark_eval.experiments.worker.clock import day_start_before, day_starts
from spark_eval.experiments.worker.halves import Halves
from spark_eval.experiments.worker.judge import own_column
from spark_eval.experiments.worker.timeline import KEY, Timeline
from spark_eval.experiments.worker.units import (
    BOT,
    CROSSOVER,
    PRE,
    UNEXPOSED,
    USED,
    Phases,
    Units,
    UnitSums,
    day_codes,
)
from spark_eval.schema import (
    EVENT_ID,
    EXPERIMENT,
    KIND,
    MISSING,
    TIMESTAMP,
    USER,
    VALUE,
    VARIANT,
    Outcome,
    Reason,
)
from spark_eval.statistics.additive import Accumulator
from spark_eval.statistics.exact import Ints

EXPOSURES: Final = "exposures"
EVENTS: Final = "events"
UNITS: Final = "users"
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
class BucketSums(Accumulator):
    """Counts of rows and units, moments of cells, and unlisted variants, of one bucket or of all.

    ``units`` are counted by experiment, arm and stratum, ``with_bots`` before bots are left out.
    ``mismatched`` counts units whose logged variant differs from their hash, by experiment. ``day_faults``
    counts rows of ``user_days`` that cannot be merged, ``of_several_units`` users with several units, if
    events have the unit of their user. ``units_by`` are units by experiment, name and value
    of a segment or day of exposure, arm and stratum; ``halves`` the sums of A/A experiments, by metric.
    ``with_events`` has the terms of each experiment that some used event belongs to.
    """

    rows: Counter[RowKey] = field(default_factory=Counter)
    moments: dict[Cell, Moments] = field(default_factory=dict)
    units: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    with_bots: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    mismatched: Counter[str] = field(default_factory=Counter)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    day_faults: Counter[str] = field(default_factory=Counter)
    of_several_units: int = 0
    units_by: Counter[tuple[str, str, str, str, int]] = field(default_factory=Counter)
    halves: dict[tuple[str, str], Halves] = field(default_factory=dict)
    with_events: set[tuple[str, Term]] = field(default_factory=set)

    def add(self, cell: Cell, moments: Moments) -> None:
        """Add moments to a cell."""
        known = self.moments.get(cell)
        self.moments[cell] = moments if known is None else known + moments


@dataclass(frozen=True)
class SourceRows:
    """Rows of one source on their way to a bucket of units, as an Arrow stream."""

    source: str
    rows: bytes

    def table(self) -> pa.Table:
        """Return the rows."""
        return from_bytes(pa.py_buffer(self.rows))


def n_events(table: pa.Table) -> int:
    """Return the number of rows, or of events in the rows of ``user_days``."""
    return len(table) if N_EVENTS not in table.column_names else pc.sum(table[N_EVENTS]).as_py() or 0


def measure_bucket(parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan) -> BucketSums:
    """Return the sums of all units of a bucket."""
    result = BucketSums()
    bucket = bucket_from(parts, plan, result)
    for number, experiment in enumerate(plan.experiments):
        bucket.measure(number, experiment)
    return result


def bucket_from(
    parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan, result: BucketSums
) -> "Bucket":
    """Return the exposed units of a bucket with their rows; add the counts of all others to ``result``."""
    tables = tables_of(parts, plan, result)
    exposures, events = tables.get(EXPOSURES), tables.get(EVENTS)
    ids = unique_ids([] if exposures is None else [exposures])
    if events is not None:
        events = with_index(events, ids)
        is_exposed = pc.greater_equal(events[KEY], 0)
        note_unexposed(events.filter(pc.invert(is_exposed)), plan, result)
        events = events.filter(is_exposed).combine_chunks()
    return Bucket(plan, ids, None if exposures is None else with_index(exposures, ids), events, result)


def tables_of(
    parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan, result: BucketSums
) -> dict[str, pa.Table]:
    """Return the rows of a bucket by source, events without repeats; add the counts to ``result``."""
    whole = rows_by_source(parts, result)
    events = whole.get(EVENTS)
    if events is not None:
        if N_EVENTS in events.column_names:
            result.day_faults[REPEATED_DAY] += int(repeated_days(events, plan).sum())
        whole[EVENTS] = without_repeats(events, result)
    return whole


def rows_by_source(parts: Iterable[SourceRows | BucketSums], result: BucketSums) -> dict[str, pa.Table]:
    """Return the rows of a bucket by source; add the counts to ``result``."""
    tables: dict[str, list[pa.Table]] = {}
    for part in parts:
        if isinstance(part, BucketSums):
            result += part
        else:
            tables.setdefault(part.source, []).append(part.table())
    return {source: concat_tables(several) for source, several in tables.items()}


def unique_ids(tables: Iterable[pa.Table]) -> pa.Array:
    """Return the distinct units of the tables."""
    chunks = [chunk for table in tables for chunk in table[KEY].chunks]
    return pa.chunked_array(chunks).unique() if chunks else pa.array([], pa.int64())


def with_index(table: pa.Table, ids: pa.Array) -> pa.Table:
    """Return the rows with the index of the unit among ``ids``, -1 if it is missing."""
    index = index_of(table[KEY].combine_chunks(), ids.cast(table[KEY].type))
    return table.set_column(table.column_names.index(KEY), KEY, pa.array(index))


def note_unexposed(events: pa.Table, plan: ExperimentPlan, result: BucketSums) -> None:
    """Count events of units without any exposure, in each experiment."""
    when, n_all = to_numpy(events[TIMESTAMP]), n_events(events)
    weights = to_numpy(events[N_EVENTS]) if N_EVENTS in events.column_names else None
    n_before = counts_before(when, weights)
    for one in plan.experiments:
        n_inside = n_before(one.end) - n_before(earliest_of(one, plan))
        for outcome, reason, n in (
            (Outcome.IN, None, n_all),
            (Outcome.DROPPED, Reason.OUTSIDE_PERIOD, n_all - n_inside),
            (Outcome.DROPPED, Reason.NOT_EXPOSED, n_inside),
        ):
            result.rows[one.name, EVENTS, outcome, reason] += n


def counts_before(when: Ints, weights: Ints | None) -> Callable[[int], int]:
    """Return a function that counts the events before an instant, once for each instant."""

    @cache
    def n_before(instant: int) -> int:
        is_before = when < instant
        return int(np.count_nonzero(is_before) if weights is None else weights[is_before].sum())

    return n_before


def earliest_of(experiment: Experiment, plan: ExperimentPlan) -> int:
    """Return the start of the earliest pre-period."""
    return day_start_before(experiment.start, plan.timezone, plan.pre_days)


def repeated_days(events: pa.Table, plan: ExperimentPlan) -> Booleans:
    """Return True for rows (n,) of ``user_days`` that are there twice: a day was merged twice."""
    names = [KEY, TIMESTAMP, KIND, *(own_column(name) for name in plan.event_columns)]
    repeats: Booleans = events.select(names).to_pandas(use_threads=False).duplicated().to_numpy()
    return repeats


def without_repeats(events: pa.Table, result: BucketSums) -> pa.Table:
    """Return the events without repeated ids of a unit; the earliest stays, then that of the least value."""
    if EVENT_ID in events.column_names:
        ids = events[EVENT_ID].fill_null("").combine_chunks()
        hashes = pair_hash(hashes_of(events[KEY].combine_chunks()), hashes_of(ids))
        names = [name for name in events.column_names if name not in (KEY, EVENT_ID, TIMESTAMP, KIND, VALUE)]
        keys = [KEY, EVENT_ID, TIMESTAMP, KIND, VALUE, *names]
        # Ids hardly ever repeat: only events whose hashes do are compared.
        is_candidate = pa.array(is_repeated(hashes) & to_numpy(events[EVENT_ID].is_valid()))
        named = events.filter(is_candidate)
        ordered = named.take(pc.sort_indices(named, [(key, "ascending") for key in keys]))
        frame = ordered.select([KEY, EVENT_ID]).to_pandas(use_threads=False)
        earliest = ordered.filter(pa.array(~frame.duplicated().to_numpy()))
        result.rows[None, EVENTS, Outcome.DEDUPLICATED, None] += len(ordered) - len(earliest)
        events = pa.concat_tables([earliest, events.filter(pc.invert(is_candidate))]).combine_chunks()
    result.rows[None, EVENTS, Outcome.USED, None] += n_events(events)
    return events


def is_repeated(hashes: Hashes) -> Booleans:
    """Return True for hashes (n,) that are there more than once.

    >>> is_repeated(np.array([7, 8, 7], dtype=np.uint64)).tolist()
    [True, False, True]
    """
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.isin(hashes, repeated) if len(repeated) else np.zeros(len(hashes), dtype=bool)


@dataclass(frozen=True)
class Bucket:
    """Units of a bucket with their exposures and events, which have the index of the unit in ``key``.

    Events are those of exposed units. ``shared`` has the units of the latest experiment of each period and
    window, and the phases of their events.
    """

    plan: ExperimentPlan
    ids: pa.Array
    exposures: pa.Table | None
    events: pa.Table | None
    result: BucketSums
    shared: dict[tuple[int, int, int | None], tuple[Units, Phases]] = field(default_factory=dict)

    def measure(self, number: int, experiment: Experiment) -> None:
        """Add the counts and the moments of an experiment."""
        units, exposed_rows = self.exposed(number, experiment)
        phases = self.count_events(units)
        self.note_units(units, exposed_rows)
        sums = UnitSums(self.plan, units, phases)
        self.result.with_events |= {(experiment.name, term) for term in sums.terms_with_events()}
        for metric in self.plan.metrics:
            for arm, stratum, by, value, moments in sums.cells(metric):
                cell = Cell(experiment.name, metric.name, experiment.arms[arm], stratum, by, value)
                self.result.add(cell, moments)
            if self.plan.aa_salts is not None:
                halves = sums.halves(metric, self.ids, self.plan.aa_salts)
                self.result.halves[experiment.name, metric.name] = halves

    @cached_property
    def by_experiment(self) -> Sequence[pa.Table]:
        """Exposures of each experiment; all of them for each without a column ``experiment``."""
        rows = self.exposures
        if rows is None:
            return [None] * len(self.plan.experiments)
        if EXPERIMENT not in rows.column_names:
            return [rows] * len(self.plan.experiments)
        n, codes = len(self.plan.experiments), to_numpy(rows[EXPERIMENT])
        rows = rows.take(pa.array(stable_argsort(codes, n)))
        ends = np.cumsum(count_by_code(codes, n))
        return [rows.slice(start, end - start) for start, end in pairwise([0, *ends.tolist()])]

    def exposed(self, number: int, experiment: Experiment) -> tuple[Units, Ints]:
        """Return the exposed units, and the unit (n,) of each row in the period; count the other rows."""
        name, rows = experiment.name, self.by_experiment[number]
        n_rows = 0 if rows is None else len(rows)
        self.note(name, EXPOSURES, Outcome.IN, None, n_rows)
        if rows is None or not n_rows:
            none = np.empty(0, np.int64)
            return Units.of(experiment, self.plan.timezone, len(self.ids), none, none, none), none
        self.note(None, EXPOSURES, Outcome.USED, None, n_rows if self.is_counted(experiment) else 0)
        when, keys = to_numpy(rows[TIMESTAMP]), to_numpy(rows[KEY])
        codes = self.variants(experiment, rows, keys)
        is_inside = (when >= experiment.start) & (when < experiment.end)
        is_assigned = is_inside & (codes != UNEXPOSED)
        outside, unassigned = int((~is_inside).sum()), int((is_inside & ~is_assigned).sum())
        self.note(name, EXPOSURES, Outcome.DROPPED, Reason.OUTSIDE_PERIOD, outside)
        self.note(name, EXPOSURES, Outcome.DROPPED, Reason.NOT_ASSIGNED, unassigned)
        if outside or unassigned:
            rows = rows.filter(pa.array(is_assigned))
            when, keys, codes = when[is_assigned], keys[is_assigned], codes[is_assigned]
        units = Units.of(experiment, self.plan.timezone, len(self.ids), when, keys, codes)
        of_rows = units.numbers[keys]
        if self.plan.by_unit and USER in rows.column_names:
            units.count_users(of_rows, to_numpy(rows[USER]))
        for segment in experiment.segments:
            values = rows[own_column(segment)].fill_null(MISSING).combine_chunks().dictionary_encode()
            units.label(segment, of_rows, when, to_numpy(values.indices), values.dictionary)
        return units, of_rows

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
            hashed = hashed_arms(self.texts, experiment.assignment, experiment.arms)[keys]
        if VARIANT not in rows.column_names:
            return np.full(len(rows), UNEXPOSED) if hashed is None else hashed
        arms = {arm: code for code, arm in enumerate(experiment.arms)}
        # The last one counts unlisted variants.
        codes = np.array([*(arms.get(name, UNEXPOSED) for name in self.plan.arms), UNEXPOSED])
        logged: Ints = codes[to_numpy(rows[VARIANT])]
        if hashed is not None:
            self.result.mismatched[experiment.name] += len(np.unique(keys[logged != hashed]))
        return logged

    @cached_property
    def texts(self) -> pa.Array:
        """Unit ids as text."""
        return self.ids.cast(pa.string())

    @cached_property
    def timeline(self) -> Timeline:
        """Events of the exposed units."""
        events = self.events
        if events is None:
            columns = {KEY: pa.int64(), TIMESTAMP: pa.int64(), KIND: pa.int8(), VALUE: pa.float64()}
            own = dict.fromkeys(map(own_column, self.plan.event_columns), pa.string())
            events = pa.schema(columns | own).empty_table()
        return Timeline(self.plan, events, len(self.ids))

    @cached_property
    def n_before(self) -> Callable[[int], int]:
        """Function that counts the events of exposed units before an instant."""
        return counts_before(self.timeline.when, self.timeline.weights)

    def phases(self, units: Units) -> Phases:
        """Return the phases of the units' events, the experiment's before if it exposes the same."""
        experiment = units.experiment
        key = (experiment.start, experiment.end, experiment.window)
        if key in self.shared:
            known, phases = self.shared[key]
            if all(map(np.array_equal, (known.index, known.first), (units.index, units.first))):
                return phases
        at, index = self.timeline.positions, units.index
        end = self.timeline.positions_at(experiment.end)[index]
        if experiment.window is not None:
            end = np.minimum(at(index, units.first + experiment.window), end)
        pre = day_starts(units.days, self.plan.timezone, self.plan.pre_days)
        bounds = {PRE: (at(index, pre[0]), at(index, pre[1])), USED: (at(index, units.first), end)}
        phases = Phases(self.timeline, bounds)
        self.shared[key] = units, phases
        return phases

    def count_events(self, units: Units) -> Phases:
        """Mark bots, count all events of the bucket, and return the phases of the units' events."""
        experiment, index = units.experiment, units.index
        earliest = earliest_of(experiment, self.plan)
        phases, n_before = self.phases(units), self.timeline.n_before
        n_pre, n_used = phases.counts(PRE), phases.counts(USED)
        self.leave_out_bots(units, n_pre)
        low, high = (n_before(self.timeline.positions_at(one)[index]) for one in (earliest, experiment.end))
        shown, last = map(n_before, phases.bounds[USED])
        n_own, is_member = high - low, units.arms >= 0
        n_all = self.timeline.n_all
        n_outside = n_all - (self.n_before(experiment.end) - self.n_before(earliest))
        counts: list[tuple[Outcome, str | None, int]] = [
            (Outcome.IN, None, n_all),
            (Outcome.DROPPED, Reason.OUTSIDE_PERIOD, n_outside),
            (Outcome.DROPPED, Reason.NOT_EXPOSED, n_all - n_outside - int(n_own.sum())),
            (Outcome.DROPPED, Reason.CROSSOVER, int(n_own[units.arms == CROSSOVER].sum())),
            (Outcome.DROPPED, Reason.BOT, int(n_own[units.arms == BOT].sum())),
            (Outcome.USED, Reason.PRE_PERIOD, int(n_pre[is_member].sum())),
            (Outcome.DROPPED, Reason.BEFORE_EXPOSURE, int((shown - low - n_pre)[is_member].sum())),
            (Outcome.DROPPED, Reason.AFTER_WINDOW, int((high - last)[is_member].sum())),
            (Outcome.USED, None, int(n_used[is_member].sum())),
        ]
        for outcome, reason, n in counts:
            self.note(experiment.name, EVENTS, outcome, reason, n)
        return phases

    def leave_out_bots(self, units: Units, n_pre: Ints) -> None:
        """Mark units on the list of bots, or with too many events in the pre-period."""
        bots, name = self.plan.bots, units.experiment.name
        for (arm, stratum), n in units.counts().items():
            self.result.with_bots[name, units.experiment.arms[arm], stratum] += n
        is_bot = np.zeros(len(units.index), dtype=bool)
        if bots.ids:
            is_listed = to_numpy(pc.is_in(self.texts, pa.array(bots.ids, pa.string())))
            is_bot |= is_listed[units.index]
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
        of_days = day_codes(units.days)
        for by, (labels, names) in (*units.labels.items(), (DAY_SLICE, of_days)):
            for arm, stratum, value, n in units.counts_by(labels, names):
                self.result.units_by[name, by, value, units.experiment.arms[arm], stratum] += n

    def note(self, experiment: str | None, source: str, outcome: Outcome, reason: str | None, n: int) -> None:
        """Count rows, or units."""
        self.result.rows[experiment, source, outcome, reason] += n
