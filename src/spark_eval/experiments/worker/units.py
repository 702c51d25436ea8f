"""Units of an experiment in a bucket, and the moments of their sums in each cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Booleans, index_of, to_numpy
from spark_eval.errors import DataError
from spark_eval.experiments.moments import Moments
from spark_eval.experiments.plan import (
    DAY,
    DAY_SLICE,
    HOUR,
    N_EVENTS,
    RATIO_BITS,
    Experiment,
    ExperimentPlan,
    Metric,
    MetricKind,
    Term,
    TermValue,
)
from spark_eval.experiments.worker.clock import day_name, day_starts, local_days, local_hours
from spark_eval.experiments.worker.halves import Halves, sums_of_halves
from spark_eval.experiments.worker.judge import holds, own_column
from spark_eval.experiments.worker.sums import moments_by_group
from spark_eval.schema import ALL, KIND, MISSING, TIMESTAMP, VALUE
from spark_eval.statistics.exact import Ints

# Column with the unit: its id, then its index in the bucket.
KEY: Final = "key"
# Codes of units without an arm.
UNEXPOSED: Final = -1
CROSSOVER: Final = -2
BOT: Final = -3
# Phases of a unit's events.
PRE: Final = "pre"
USED: Final = "used"
# Cells in addition to segments and slices: units by the day of exposure, late - early of each unit, and its
# events by day since exposure.
EXPOSED_ON: Final = "exposed_on"
NOVELTY: Final = "novelty"
DAY_SINCE: Final = "day_since_exposure"
LARGEST_SUM: Final = 2.0**62

# Arm, stratum, name and value of a cell, and its moments.
CellMoments = tuple[int, int, str, str, Moments]


@dataclass
class Units:
    """First exposure, arm and stratum of each unit, and the number of its users; all of shape (n_units,).

    ``labels`` are the codes of each unit's value of a segment, and the values.
    """

    experiment: Experiment
    first: Ints
    arms: Ints
    strata: Ints
    n_users: Ints
    labels: dict[str, tuple[Ints, Sequence[str]]] = field(default_factory=dict)

    @classmethod
    def none(cls, experiment: Experiment, n_units: int) -> "Units":
        """Return units without an exposure."""
        never = np.full(n_units, np.iinfo(np.int64).max)
        zeros = np.zeros(n_units, dtype=np.int64)
        return cls(experiment, never, np.full(n_units, UNEXPOSED), zeros, np.ones(n_units, dtype=np.int64))

    def expose(self, when: Ints, keys: Ints, codes: Ints) -> None:
        """Take the first exposure and the arm of each unit from exposures (n,)."""
        n_units = len(self.first)
        np.minimum.at(self.first, keys, when)
        lowest, highest = np.full(n_units, len(self.experiment.arms)), np.full(n_units, UNEXPOSED)
        np.minimum.at(lowest, keys, codes)
        np.maximum.at(highest, keys, codes)
        is_exposed = highest >= 0
        self.arms[is_exposed] = np.where(lowest == highest, highest, CROSSOVER)[is_exposed]
        starts = np.array([stratum.start for stratum in self.experiment.strata])
        self.strata[is_exposed] = np.searchsorted(starts, self.first[is_exposed], "right") - 1

    def count_users(self, keys: Ints, users: Ints) -> None:
        """Count the distinct exposed users of each unit."""
        distinct = np.unique(np.stack([keys, users]), axis=1)
        counts = np.bincount(distinct[0], minlength=len(self.first))
        self.n_users[counts > 0] = counts[counts > 0]

    def label(self, segment: str, keys: Ints, when: Ints, codes: Ints, values: pa.Array) -> None:
        """Give each unit the value of its first exposure; of several at once the least."""
        names = values.to_pylist()
        ranks = np.argsort(np.argsort(np.array(names, dtype=object))) if names else codes
        order = np.lexsort((ranks[codes], when, keys))
        units, rows = np.unique(keys[order], return_index=True)
        of_units = np.zeros(len(self.first), dtype=np.int64)
        of_units[units] = codes[order][rows]
        self.labels[segment] = of_units, names

    def counts_by(self, codes: Ints, names: Sequence[str]) -> Iterator[tuple[int, int, str, int]]:
        """Yield arm, stratum, name of the code (n_units,), and the number of units with an arm."""
        chosen = np.flatnonzero(self.arms >= 0)
        triples = np.stack([self.arms[chosen], self.strata[chosen], codes[chosen]])
        groups, numbers = np.unique(triples, axis=1, return_counts=True)
        for (arm, stratum, code), n in zip(groups.T.tolist(), numbers.tolist(), strict=True):
            yield arm, stratum, names[code], n

    def counts(self, members: Ints | None = None) -> dict[tuple[int, int], int]:
        """Return the number of units by arm and stratum; of these members, by default of all with an arm."""
        chosen = np.flatnonzero(self.arms >= 0) if members is None else members
        n_strata = len(self.experiment.strata)
        numbers = np.bincount(self.arms[chosen] * n_strata + self.strata[chosen]).tolist()
        pairs = ((divmod(code, n_strata), n) for code, n in enumerate(numbers) if n)
        return {(arm, stratum): n for (arm, stratum), n in pairs}

    def last_moments(self) -> Ints:
        """Return the end of each unit's window, at most that of the period."""
        end = np.full(len(self.first), self.experiment.end)
        if self.experiment.window is not None:
            is_exposed = self.arms != UNEXPOSED
            end[is_exposed] = np.minimum(self.first[is_exposed] + self.experiment.window, end[is_exposed])
        return end


@dataclass(frozen=True)
class UnitSums:
    """Sums of units over their events; ``masks`` (n_events,) by phase."""

    plan: ExperimentPlan
    units: Units
    events: pa.Table | None
    masks: Mapping[str, Booleans]

    @cached_property
    def members(self) -> Ints:
        """Indices of the units with an arm."""
        return np.flatnonzero(self.units.arms >= 0)

    @cached_property
    def rows(self) -> Mapping[str, Ints]:
        """Indices of the events of each phase."""
        none = np.empty(0, np.int64)
        return {phase: np.flatnonzero(self.masks[phase]) if self.masks else none for phase in (USED, PRE)}

    @cached_property
    def keys(self) -> Ints:
        """Unit (n_events,) of each event."""
        return np.empty(0, np.int64) if self.events is None else to_numpy(self.events[KEY])

    @cached_property
    def when(self) -> Ints:
        """Time (n_events,) of each event."""
        return np.empty(0, np.int64) if self.events is None else to_numpy(self.events[TIMESTAMP])

    @cached_property
    def has_past(self) -> Ints:
        """1 for units with an event in the pre-period; shape (n_units,)."""
        past = np.zeros(len(self.units.arms), dtype=np.int64)
        past[self.keys[self.rows[PRE]]] = 1
        return past

    def cells(self, metric: Metric) -> Iterator[CellMoments]:
        """Yield the moments of each cell with units; of slices only sums over units with events."""
        variables, is_defined = self.variables(metric)
        members = self.members[is_defined[self.members]]
        yield from self.grouped(variables, members, ALL, np.zeros(len(is_defined), dtype=np.int64), [ALL])
        undefined = self.members[~is_defined[self.members]]
        for (arm, stratum), n in self.units.counts(undefined).items():
            yield arm, stratum, ALL, ALL, Moments(n_undefined=n)
        for segment, (codes, names) in self.units.labels.items():
            yield from self.grouped(variables, members, segment, codes, names)
        if metric.kind is MetricKind.RETENTION:
            return
        times = self.units.experiment.times
        if DAY_SLICE in times:
            yield from self.by_day_of_exposure(variables, members)
        for name in (*times, *self.plan.slices):
            yield from self.sliced(metric, name)
        if self.plan.novelty_days is not None and metric.is_mean:
            yield from self.novelty(metric, self.plan.novelty_days)

    def grouped(
        self,
        variables: Sequence[Ints | None],
        members: Ints,
        by: str,
        codes: Ints,
        names: Sequence[str],
        owners: Ints | None = None,
    ) -> Iterator[CellMoments]:
        """Yield the moments by arm, stratum and code of the given members.

        ``variables`` and ``codes`` are by unit; by row of sums if ``owners`` has the unit of each row.
        """
        units = members if owners is None else owners[members]
        n_strata, n_names = len(self.units.experiment.strata), len(names)
        groups = (self.units.arms[units] * n_strata + self.units.strata[units]) * n_names + codes[members]
        chosen = [None if one is None else one[members] for one in variables]
        n_groups = len(self.units.experiment.arms) * n_strata * n_names
        present = np.unique(groups)
        for group, moments in zip(
            present.tolist(),
            moments_by_group(chosen, np.searchsorted(present, groups), len(present)) if n_groups else [],
            strict=True,
        ):
            pair, name = divmod(group, n_names)
            yield *divmod(pair, n_strata), by, names[name], moments

    def variables(self, metric: Metric) -> tuple[list[Ints | None], Booleans]:
        """Return the variables of all units (n_units,), None for 0, and True for units with a value."""
        n_units = len(self.units.arms)
        ones, is_defined = np.ones(n_units, dtype=np.int64), np.ones(n_units, dtype=bool)
        if metric.kind is MetricKind.RETENTION:
            x, is_defined = self.retention(metric)
            return [ones, x, self.units.n_users, None, self.units.n_users, self.has_past], is_defined
        x, *y = self.sums(metric, USED)
        pre_x, *pre_y = self.sums(metric, PRE)
        if metric.kind is MetricKind.MEAN:
            users = self.units.n_users
            return [ones, x, users, pre_x, users, self.has_past], is_defined
        if metric.kind is MetricKind.RATIO:
            return [ones, x, y[0], pre_x, pre_y[0], self.has_past], is_defined
        is_defined, has_pre = y[0] != 0, pre_y[0] != 0
        past = has_pre.astype(np.int64)
        return [ones, rounded_ratios(x, y[0]), ones, rounded_ratios(pre_x, pre_y[0]), ones, past], is_defined

    def halves(self, metric: Metric, ids: pa.Array, n_salts: int) -> Halves:
        """Return the sums of the units with a value over random halves of them."""
        variables, is_defined = self.variables(metric)
        members = self.members[is_defined[self.members]]
        chosen = [one[members] for one in variables[:3] if one is not None]
        return sums_of_halves(ids.take(pa.array(members)), chosen, n_salts)

    def sums(self, metric: Metric, phase: str) -> list[Ints]:
        """Return the sums of each unit (n_units,), for each term of the metric."""
        rows = self.rows[phase]
        return [
            self.term_sums(term, metric.scale(term), rows, self.keys[rows], len(self.units.arms))
            for term in metric.terms
        ]

    def term_sums(self, term: Term, scale: int, rows: Ints, targets: Ints, n_targets: int) -> Ints:
        """Return the sum over rows of a term for each target (n_targets,), at most its cap."""
        sums = np.zeros(n_targets, dtype=np.int64)
        if self.events is None:
            return sums
        is_term = self.is_term(term)[rows]
        rows, targets = rows[is_term], targets[is_term]
        if term.value is not TermValue.SUM:
            counts = None if self.counts is None else self.counts[rows]
            sums += np.bincount(targets, counts, n_targets).astype(np.int64)
            sums = np.minimum(sums, 1) if term.value is TermValue.ANY else sums
        else:
            amounts = (
                np.rint(self.values[rows] * scale) if self.counts is None else self.day_sums(scale)[rows]
            )
            if np.bincount(targets, np.abs(amounts), n_targets).max(initial=0.0) >= LARGEST_SUM:
                message = f"events of kind {term.kind!r}: the sum of a user exceeds 2^62"
                raise DataError("METRIC_OVERFLOW", message)
            np.add.at(sums, targets, amounts.astype(np.int64))
        cap = None if term.cap is None else round(term.cap * scale)
        cap = self.plan.caps.get((self.units.experiment.name, term, scale), cap)
        return sums if cap is None else np.minimum(sums, cap)

    @cached_property
    def counts(self) -> Ints | None:
        """Number of events (n,) of each row of ``user_days``; None if rows are events."""
        if self.events is None or N_EVENTS not in self.events.column_names:
            return None
        return to_numpy(self.events[N_EVENTS])

    def day_sums(self, scale: int) -> Ints:
        """Return the sum (n,) of the values of each row of ``user_days``, in units of 1 / scale."""
        assert self.events is not None
        return to_numpy(self.events[f"sum_{len(str(scale)) - 1}"])

    @cached_property
    def values(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Value (n_events,) of each event."""
        assert self.events is not None
        return to_numpy(self.events[VALUE])

    def is_term(self, term: Term) -> Booleans:
        """Return True for the events (n_events,) of a term."""
        assert self.events is not None
        is_kind: Booleans = to_numpy(self.events[KIND]) == self.plan.kinds.index(term.kind)
        return is_kind & holds(self.events, term.where) if term.where else is_kind

    def retention(self, metric: Metric) -> tuple[Ints, Booleans]:
        """Return 1 for units with an event on the day of retention, and True if their day is over."""
        assert metric.day is not None
        first = np.where(self.units.arms >= 0, self.units.first, 0)
        since = first + metric.day * DAY
        is_over = since + DAY <= self.units.experiment.end
        rows = self.rows[USED]
        when, keys = self.when[rows], self.keys[rows]
        rows = rows[(when >= since[keys]) & (when < since[keys] + DAY)]
        events = self.term_sums(metric.numerator, 1, rows, self.keys[rows], len(first))
        return np.minimum(events, 1), is_over

    def by_day_of_exposure(self, variables: Sequence[Ints | None], members: Ints) -> Iterator[CellMoments]:
        """Yield the moments of 1 and y by the day of exposure; the driver needs them for days."""
        days = np.zeros(len(self.units.arms), dtype=np.int64)
        days[members] = local_days(self.units.first[members], self.plan.timezone)
        distinct = np.unique(days[members])
        names = [day_name(day) for day in distinct.tolist()]
        codes = np.searchsorted(distinct, days)
        only = [variables[0], None, variables[2], None, None, None]
        yield from self.grouped(only, members, EXPOSED_ON, codes, names)

    def sliced(self, metric: Metric, name: str) -> Iterator[CellMoments]:
        """Yield the moments of units with events in each value of a slice; all others add 0 to x."""
        if self.events is None:
            return
        rows = self.rows[USED]
        codes, names = self.slice_codes(name, rows)
        if name == HOUR:
            is_whole = self.is_in_whole_days(rows)
            rows, codes = rows[is_whole], codes[is_whole]
        yield from self.sparse(metric, name, rows, codes, names)

    def sparse(
        self, metric: Metric, by: str, rows: Ints, codes: Ints, names: Sequence[str]
    ) -> Iterator[CellMoments]:
        """Yield the moments of sums by unit and code, of units with events."""
        if not len(rows):
            return
        cells, targets = np.unique(self.keys[rows] * len(names) + codes, return_inverse=True)
        owners, of_cells = np.divmod(cells, len(names))
        x, *y = [self.term_sums(term, metric.scale(term), rows, targets, len(cells)) for term in metric.terms]
        ones, members = np.ones(len(cells), dtype=np.int64), np.arange(len(cells))
        if metric.is_mean:
            variables = [ones, x, self.units.n_users[owners], None, None, None]
        elif metric.kind is MetricKind.RATIO:
            variables = [ones, x, y[0], None, None, None]
        else:
            members = np.flatnonzero(y[0])
            variables = [ones, rounded_ratios(x, y[0]), ones, None, None, None]
        yield from self.grouped(variables, members, by, of_cells, names, owners)

    def slice_codes(self, name: str, rows: Ints) -> tuple[Ints, Sequence[str]]:
        """Return the code (n,) of each event's value of a slice, and the values."""
        assert self.events is not None
        if name == HOUR:
            return local_hours(self.when[rows], self.plan.timezone), [f"{hour:02}" for hour in range(24)]
        if name == DAY_SLICE:
            days = local_days(self.when[rows], self.plan.timezone)
            distinct = np.unique(days)
            return np.searchsorted(distinct, days), [day_name(day) for day in distinct.tolist()]
        values = self.events[own_column(name)].cast(pa.string()).fill_null(MISSING).combine_chunks()
        distinct = values.unique()
        return index_of(values, distinct)[rows], distinct.to_pylist()

    def is_in_whole_days(self, rows: Ints) -> Booleans:
        """Return True for events (n,) on days that are whole: after that of the exposure, before the last."""
        is_member = self.units.arms >= 0
        _, first_day = day_starts(self.units.first, is_member, self.plan.timezone, 1)
        _, last_day = day_starts(self.units.last_moments(), is_member, self.plan.timezone, 1)
        when, keys = self.when[rows], self.keys[rows]
        return (local_days(when, self.plan.timezone) > days_of(first_day, keys, self.plan.timezone)) & (
            when < last_day[keys]
        )

    def novelty(self, metric: Metric, n_days: int) -> Iterator[CellMoments]:
        """Yield the moments of late - early of each unit with all days, and those of each day."""
        first = np.where(self.units.arms >= 0, self.units.first, 0)
        has_all = first + n_days * DAY <= np.where(self.units.arms >= 0, self.units.last_moments(), 0)
        members = self.members[has_all[self.members]]
        rows = self.rows[USED]
        keys = self.keys[rows]
        days = (self.when[rows] - first[keys]) // DAY
        is_chosen = has_all[keys] & (days < n_days)
        rows, keys, days = rows[is_chosen], keys[is_chosen], days[is_chosen]
        half, [term] = n_days // 2, metric.terms
        early, late = (
            self.term_sums(term, metric.scale(term), rows[chosen], keys[chosen], len(first))
            for chosen in (days < half, days >= n_days - half)
        )
        ones = np.ones(len(first), dtype=np.int64)
        variables = [ones, late - early, self.units.n_users, None, None, None]
        zeros = np.zeros(len(first), dtype=np.int64)
        yield from self.grouped(variables, members, NOVELTY, zeros, [ALL])
        names = [f"{day:03}" for day in range(n_days)]
        yield from self.sparse(metric, DAY_SINCE, rows, days, names)


def days_of(starts: Ints, keys: Ints, timezone: str) -> Ints:
    """Return the day (n,) of the start of each event's unit."""
    distinct, groups = np.unique(starts[keys], return_inverse=True)
    return local_days(distinct, timezone)[groups]


def rounded_ratios(x: Ints, y: Ints) -> Ints:
    """Return x / y (n,), rounded to 2^-32, as integers; 0 where y is 0.

    >>> rounded_ratios(np.array([1, 3]), np.array([4, 0])).tolist()
    [1073741824, 0]
    """
    ratios = np.rint(np.ldexp(np.divide(x, y, out=np.zeros(len(x)), where=y != 0), RATIO_BITS))
    if np.abs(ratios).max(initial=0.0) >= LARGEST_SUM:
        raise DataError("METRIC_OVERFLOW", "a ratio of a user exceeds 2^30 in units of its last decimal")
    return ratios.astype(np.int64)
