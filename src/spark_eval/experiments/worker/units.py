"""Units of an experiment in a bucket, and the moments of their sums in each cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.arrow.codes import Booleans, run_starts, stable_argsort, unique_sorted
from spark_eval.experiments.moments import Moments
from spark_eval.experiments.plan import (
    DAY,
    DAY_SLICE,
    HOUR,
    Experiment,
    ExperimentPlan,
    Metric,
    Term,
)
from spark_eval.experiments.worker.clock import day_name, day_starts, local_days, local_hours
from spark_eval.experiments.worker.halves import Halves, sums_of_halves
from spark_eval.experiments.worker.sums import moments_by_group
from spark_eval.experiments.worker.timeline import Timeline, limited
from spark_eval.schema import ALL
from spark_eval.statistics.exact import Ints

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

# Arm, stratum, name and value of a cell, and its moments.
CellMoments = tuple[int, int, str, str, Moments]


@dataclass
class Units:
    """Exposed units of an experiment: index in the bucket, first exposure, arm and stratum; of shape (n,).

    Indices ascend; ``numbers`` has the position of each unit of the bucket among them. ``timezone`` is that
    of days. ``n_users`` are the numbers of users of units, None if units are users. ``labels`` are the codes
    of each unit's value of a segment, and the values.
    """

    experiment: Experiment
    timezone: str
    index: Ints
    first: Ints
    arms: Ints
    strata: Ints
    numbers: Ints
    n_users: Ints | None = None
    labels: dict[str, tuple[Ints, Sequence[str]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, experiment: Experiment, timezone: str, n_units: int, when: Ints, keys: Ints, codes: Ints
    ) -> "Units":
        """Return the first exposure and the arm of each unit of a bucket, from exposures (n,)."""
        first = np.full(n_units, np.iinfo(np.int64).max)
        lowest, highest = np.full(n_units, len(experiment.arms)), np.full(n_units, UNEXPOSED)
        np.minimum.at(first, keys, when)
        np.minimum.at(lowest, keys, codes)
        np.maximum.at(highest, keys, codes)
        is_exposed = highest >= 0
        index = np.flatnonzero(is_exposed)
        first, lowest, highest = first[index], lowest[index], highest[index]
        starts = np.array([stratum.start for stratum in experiment.strata])
        strata = np.searchsorted(starts, first, "right") - 1
        arms = np.where(lowest == highest, highest, CROSSOVER)
        return cls(experiment, timezone, index, first, arms, strata, np.cumsum(is_exposed) - 1)

    @cached_property
    def days(self) -> Ints:
        """Day (n,) of the first exposure."""
        return local_days(self.first, self.timezone)

    @property
    def arms_and_strata(self) -> Ints:
        """Code (n,) of arm and stratum; negative without an arm."""
        return self.arms * len(self.experiment.strata) + self.strata

    def count_users(self, units: Ints, users: Ints) -> None:
        """Count the distinct users of each unit, from exposures (n,) of a unit and a user."""
        order = np.lexsort((users, units))
        units, users = units[order], users[order]
        is_first = run_starts(units) | run_starts(users)
        self.n_users = np.bincount(units[is_first], minlength=len(self.index))

    def label(self, segment: str, units: Ints, when: Ints, codes: Ints, values: pa.Array) -> None:
        """Give each unit the value of its first exposure, the least if there are several at once."""
        names = values.to_pylist()
        ranks = np.argsort(np.argsort(np.array(names, dtype=object))) if names else codes
        order = np.lexsort((ranks[codes], when, units))
        _, rows = np.unique(units[order], return_index=True)
        self.labels[segment] = codes[order][rows], names

    def counts_by(
        self, codes: Ints, names: Sequence[str], members: Ints | None = None
    ) -> Iterator[tuple[int, int, str, int]]:
        """Yield arm, stratum, name of the code (n,), and the number of members (all with an arm)."""
        chosen = np.flatnonzero(self.arms >= 0) if members is None else members
        n_strata = len(self.experiment.strata)
        numbers = np.bincount(self.arms_and_strata[chosen] * len(names) + codes[chosen])
        for group in np.flatnonzero(numbers).tolist():
            pair, code = divmod(group, len(names))
            yield *divmod(pair, n_strata), names[code], int(numbers[group])

    def counts(self) -> dict[tuple[int, int], int]:
        """Return the number of units by arm and stratum."""
        chosen = np.flatnonzero(self.arms >= 0)
        n_strata = len(self.experiment.strata)
        numbers = np.bincount(self.arms_and_strata[chosen]).tolist()
        pairs = ((divmod(code, n_strata), n) for code, n in enumerate(numbers) if n)
        return {(arm, stratum): n for (arm, stratum), n in pairs}

    def last_moments(self) -> Ints:
        """Return the end of each unit's window, at most the end of the period."""
        end, window = self.experiment.end, self.experiment.window
        return np.full(len(self.first), end) if window is None else np.minimum(self.first + window, end)


@dataclass(frozen=True)
class Phases:
    """Positions of each unit's events in the pre-period and of those used: start and end (n,) by phase.

    Experiments that expose the same units at the same times share them, and the sums.
    """

    timeline: Timeline
    bounds: Mapping[str, tuple[Ints, Ints]]
    known: dict[str, Ints] = field(default_factory=dict)
    numbers: dict[str, Ints] = field(default_factory=dict)

    def counts(self, phase: str) -> Ints:
        """Return the number of events (n,)."""
        if phase not in self.numbers:
            before_start, before_end = map(self.timeline.n_before, self.bounds[phase])
            self.numbers[phase] = before_end - before_start
        return self.numbers[phase]

    def sums(self, term: Term, scale: int, phase: str) -> Ints:
        """Return the sums (n,) of a term."""
        if phase not in self.known:
            self.known[phase] = self.timeline.sums_between(*self.bounds[phase])
        return limited(self.known[phase][:, self.timeline.column_of(term, scale)], term, scale)


@dataclass(frozen=True)
class UnitSums:
    """Sums of units over their events."""

    plan: ExperimentPlan
    units: Units
    phases: Phases

    @property
    def timeline(self) -> Timeline:
        """The events."""
        return self.phases.timeline

    @cached_property
    def members(self) -> Ints:
        """Units with an arm, by arm and stratum."""
        units = np.flatnonzero(self.units.arms >= 0)
        n_pairs = len(self.units.experiment.arms) * len(self.units.experiment.strata)
        return units[stable_argsort(self.units.arms_and_strata[units], n_pairs)]

    @cached_property
    def arms_and_strata(self) -> Ints:
        """Code of the arm and stratum of each member, ascending."""
        return self.units.arms_and_strata[self.members]

    @cached_property
    def zeros(self) -> Ints:
        """0 for each member."""
        return np.zeros(len(self.members), dtype=np.int64)

    @cached_property
    def ones(self) -> Ints:
        """1 for each member."""
        return np.ones(len(self.members), dtype=np.int64)

    @cached_property
    def n_users(self) -> Ints:
        """Number of users of each member."""
        return self.ones if self.units.n_users is None else self.units.n_users[self.members]

    @cached_property
    def has_past(self) -> Ints:
        """1 for members with an event in the pre-period."""
        return (self.phases.counts(PRE)[self.members] > 0).astype(np.int64)

    @cached_property
    def used(self) -> tuple[Ints, Ints]:
        """Used events of members, and the member of each."""
        start, end = (bound[self.members] for bound in self.phases.bounds[USED])
        lengths = end - start
        owners = np.repeat(np.arange(len(lengths)), lengths)
        return np.arange(len(owners)) + np.repeat(start - (np.cumsum(lengths) - lengths), lengths), owners

    def cells(self, metric: Metric) -> Iterator[CellMoments]:
        """Yield the moments of each cell with units; slices have only sums over units with events."""
        variables, is_defined = metric.kind.variables(MetricSums(self, metric))
        yield from self.labelled(variables, ALL, np.zeros_like(self.units.arms), [ALL], is_defined)
        for segment, (codes, names) in self.units.labels.items():
            yield from self.labelled(variables, segment, codes, names, is_defined)
        if not metric.kind.has_slices:
            return
        times = self.units.experiment.times
        if DAY_SLICE in times:
            # The driver needs 1 and y for days.
            only = [variables[0], None, variables[2], None, None, None]
            yield from self.labelled(only, EXPOSED_ON, *day_codes(self.units.days), is_defined)
        for name in (*times, *self.plan.slices):
            yield from self.sliced(metric, name)
        if self.plan.novelty_days is not None and metric.kind.has_novelty:
            yield from self.novelty(metric, self.plan.novelty_days)

    def labelled(
        self,
        variables: Sequence[Ints | None],
        by: str,
        codes: Ints,
        names: Sequence[str],
        is_defined: Booleans | None,
    ) -> Iterator[CellMoments]:
        """Yield the moments by the label of each unit, then the numbers of members without a value.

        ``codes`` are by unit, ``variables`` and ``is_defined`` by member.
        """
        subset = None if is_defined is None else np.flatnonzero(is_defined)
        yield from self.grouped(variables, by, codes[self.members], names, subset)
        if is_defined is not None:
            for arm, stratum, value, n in self.units.counts_by(codes, names, self.members[~is_defined]):
                yield arm, stratum, by, value, Moments(n_undefined=n)

    def grouped(
        self,
        variables: Sequence[Ints | None],
        by: str,
        codes: Ints,
        names: Sequence[str],
        subset: Ints | None = None,
        owners: Ints | None = None,
    ) -> Iterator[CellMoments]:
        """Yield the moments by arm, stratum and code, of this subset of the arrays; by default of all.

        ``variables`` and ``codes`` are by member; by row of sums if ``owners`` has the member of each row.
        """
        pairs = self.arms_and_strata if owners is None else self.arms_and_strata[owners]
        if subset is not None:
            chosen = {id(one): one[subset] for one in variables if one is not None}
            variables = [None if one is None else chosen[id(one)] for one in variables]
            pairs, codes = pairs[subset], codes[subset]
        n_strata, n_names = len(self.units.experiment.strata), len(names)
        groups = pairs if n_names == 1 else pairs * n_names + codes
        is_present = np.bincount(groups) > 0
        present, numbers = np.flatnonzero(is_present), (np.cumsum(is_present) - 1)[groups]
        for group, moments in zip(
            present.tolist(), moments_by_group(variables, numbers, len(present)), strict=True
        ):
            pair, name = divmod(group, n_names)
            yield *divmod(pair, n_strata), by, names[name], moments

    def halves(self, metric: Metric, ids: pa.Array, n_salts: int) -> Halves:
        """Return the sums of the units with a value over random halves of them; ``ids`` are the bucket's."""
        variables, is_defined = metric.kind.variables(MetricSums(self, metric))
        chosen = slice(None) if is_defined is None else np.flatnonzero(is_defined)
        of_units = ids.take(pa.array(self.units.index[self.members][chosen]))
        return sums_of_halves(of_units, [one[chosen] for one in variables[:3] if one is not None], n_salts)

    def of_members(self, term: Term, scale: int, phase: str) -> Ints:
        """Return the sum of each member (n,) of a term."""
        return self.winsorised(term, scale, self.phases.sums(term, scale, phase)[self.members])

    def winsorised(self, term: Term, scale: int, sums: Ints) -> Ints:
        """Return sums (n,), at most the experiment's cap of a winsorised term, once it is known."""
        cap = self.plan.caps.get((self.units.experiment.name, term, scale))
        return sums if cap is None else np.minimum(sums, cap)

    def terms_with_events(self) -> Iterator[Term]:
        """Yield the terms of metrics that a used event belongs to; its value may be 0."""
        for metric in self.plan.metrics:
            for term in metric.terms:
                sums = self.phases.sums(term, metric.scale(term), USED)[self.members]
                if sums.any() or self.timeline.is_term(term)[self.used[0]].any():
                    yield term

    def between(self, term: Term, scale: int, start: Ints, end: Ints) -> Ints:
        """Return the sums of used events (n,) from ``start`` to ``end``, instants of each member."""
        units = self.units.index[self.members]
        last = self.phases.bounds[USED][1][self.members]
        bounds = (np.minimum(self.timeline.positions(units, times), last) for times in (start, end))
        return self.winsorised(term, scale, self.timeline.sums(term, scale, *bounds))

    def sliced(self, metric: Metric, name: str) -> Iterator[CellMoments]:
        """Yield the moments of units with events in each value of a slice; all others add 0 to x."""
        rows, owners = self.used
        codes, names = self.slice_codes(name, rows)
        if name == HOUR:
            is_whole = self.is_in_whole_days(rows, owners)
            rows, owners, codes = rows[is_whole], owners[is_whole], codes[is_whole]
        yield from self.sparse(metric, name, rows, owners, codes, names)

    def sparse(
        self, metric: Metric, by: str, rows: Ints, owners: Ints, codes: Ints, names: Sequence[str]
    ) -> Iterator[CellMoments]:
        """Yield the moments of sums by member and code, of members with events."""
        if not len(rows):
            return
        cells, targets = np.unique(owners * len(names) + codes, return_inverse=True)
        owners, of_cells = np.divmod(cells, len(names))
        sums = [
            self.winsorised(term, scale, self.timeline.sums_by_target(term, scale, rows, targets, len(cells)))
            for term, scale in ((term, metric.scale(term)) for term in metric.terms)
        ]
        ones, divisors = np.ones(len(cells), dtype=np.int64), MetricSums(self, metric).divisors
        x, y, is_defined = metric.kind.values(sums, ones, divisors[owners])
        variables = [ones, x, y, None, None, None]
        subset = None if is_defined is None else np.flatnonzero(is_defined)
        yield from self.grouped(variables, by, of_cells, names, subset, owners)

    def slice_codes(self, name: str, rows: Ints) -> tuple[Ints, Sequence[str]]:
        """Return the code (n,) of each event's value of a slice, and the values."""
        if name == HOUR:
            hours = local_hours(self.timeline.when[rows], self.plan.timezone)
            return hours, [f"{hour:02}" for hour in range(24)]
        if name == DAY_SLICE:
            return day_codes(local_days(self.timeline.when[rows], self.plan.timezone))
        codes, names = self.timeline.texts(name)
        return codes[rows], names

    def is_in_whole_days(self, rows: Ints, owners: Ints) -> Booleans:
        """Return True for events (n,) on whole days: after the day of the exposure, before the last day."""
        timezone = self.plan.timezone
        exposed_on = self.units.days[self.members]
        _, last_day = day_starts(local_days(self.units.last_moments()[self.members], timezone), timezone, 1)
        when = self.timeline.when[rows]
        return (local_days(when, timezone) > exposed_on[owners]) & (when < last_day[owners])

    def novelty(self, metric: Metric, n_days: int) -> Iterator[CellMoments]:
        """Yield moments of second half - first half over units observed on all days, then per day."""
        first = self.units.first[self.members]
        has_all = first + n_days * DAY <= self.units.last_moments()[self.members]
        half, [term] = n_days // 2 * DAY, metric.terms
        end, scale = first + n_days * DAY, metric.scale(term)
        early, late = (
            self.between(term, scale, *bounds) for bounds in ((first, first + half), (end - half, end))
        )
        variables = [self.ones, late - early, MetricSums(self, metric).divisors, None, None, None]
        yield from self.grouped(variables, NOVELTY, self.zeros, [ALL], np.flatnonzero(has_all))
        rows, owners = self.used
        days = (self.timeline.when[rows] - first[owners]) // DAY
        is_chosen = has_all[owners] & (days < n_days)
        names = [f"{day:03}" for day in range(n_days)]
        yield from self.sparse(metric, DAY_SINCE, rows[is_chosen], owners[is_chosen], days[is_chosen], names)


@dataclass(frozen=True)
class MetricSums:
    """Sums of a metric over the events of members; arrays have shape (n,). See ``SumsOfMetric``."""

    sums: UnitSums
    metric: Metric

    @property
    def ones(self) -> Ints:
        """1 for each member."""
        return self.sums.ones

    @property
    def divisors(self) -> Ints:
        """Addend of each member to the divisor of a mean: 1 for a share, or its users."""
        return self.sums.ones if self.metric.is_share else self.sums.n_users

    @property
    def has_past(self) -> Ints:
        """1 for members with an event in the pre-period."""
        return self.sums.has_past

    @property
    def used(self) -> list[Ints]:
        """Sums of the used events, for each term."""
        return self.of_phase(USED)

    @property
    def past(self) -> list[Ints]:
        """Sums of the pre-period, for each term."""
        return self.of_phase(PRE)

    def of_phase(self, phase: str) -> list[Ints]:
        """Return the sums of a phase, for each term."""
        return [self.sums.of_members(term, self.metric.scale(term), phase) for term in self.metric.terms]

    def on_day(self) -> tuple[Ints, Booleans]:
        """Return the sums of the first term on the metric's day, and True for members whose day is over."""
        assert self.metric.day is not None
        units, term = self.sums.units, self.metric.numerator
        since = units.first[self.sums.members] + self.metric.day * DAY
        events = self.sums.between(term, self.metric.scale(term), since, since + DAY)
        return events, since + DAY <= units.experiment.end


def day_codes(days: Ints) -> tuple[Ints, Sequence[str]]:
    """Return the code (n,) of each day since 1970 among those that occur, and their names."""
    distinct, codes = unique_sorted(days)
    return codes, [day_name(day) for day in distinct.tolist()]
