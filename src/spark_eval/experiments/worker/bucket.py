"""Sums of a bucket of users: every exposure and event is classified, and units are summed by arm.

Sums are integers, or exact fractions of doubles: they add to the same numbers in any order.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans, bucket_of, concat_tables, hashes_of
from spark_eval.arrow.xxhash64 import SPARK_SEED, text_hashes
from spark_eval.errors import DataError
from spark_eval.experiments.moments import Moments
from spark_eval.experiments.plan import Assignment, Experiment, ExperimentPlan, Metric, MetricKind, TermValue
from spark_eval.schema import (
    EVENT_ID,
    EXPERIMENT,
    FAULT,
    KIND,
    TIMESTAMP,
    USER,
    VALUE,
    VARIANT,
    Outcome,
    Reason,
)
from spark_eval.statistics.exact import POINT_BITS, ExactSums, Floats, Groups, Ints, integers_of_sums

EXPOSURES: Final = "exposures"
EVENTS: Final = "events"
USERS: Final = "users"
# Phases of a user's events.
PRE: Final = "pre"
USED: Final = "used"
# Codes of users without an arm.
UNEXPOSED: Final = -1
CROSSOVER: Final = -2
LARGEST_SUM: Final = 2.0**62
MOST_UNKNOWN: Final = 20

# (experiment or None for the whole table, source, outcome, reason)
RowKey = tuple[str | None, str, Outcome, str | None]
# (experiment, metric, phase, arm)
CellKey = tuple[str, str, str, str]


@dataclass
class BucketSums:
    """Counts of rows and users, moments of arms, and names of unlisted variants; of one bucket, or of all.

    ``mismatched`` counts users whose logged variant differs from their hash, by experiment.
    """

    rows: Counter[RowKey] = field(default_factory=Counter)
    moments: dict[CellKey, Moments] = field(default_factory=dict)
    units: Counter[tuple[str, str]] = field(default_factory=Counter)
    mismatched: Counter[str] = field(default_factory=Counter)
    unknown: set[tuple[str, str]] = field(default_factory=set)

    def merge(self, other: "BucketSums") -> None:
        """Add the sums of another bucket."""
        self.rows.update(other.rows)
        self.units.update(other.units)
        self.mismatched.update(other.mismatched)
        self.unknown |= other.unknown
        for key, moments in other.moments.items():
            self.moments[key] = self.moments.get(key, Moments()) + moments


@dataclass(frozen=True)
class SourceRows:
    """Rows of one source on their way to a bucket of users."""

    source: str
    rows: pa.Table


def by_bucket(
    batches: Iterable[pa.RecordBatch], source: str, plan: ExperimentPlan, n_buckets: int
) -> Iterator[tuple[int, Any]]:
    """Yield the valid rows by bucket of users; then, for bucket 0, the counts of all other rows."""
    counted = BucketSums()
    for batch in batches:
        table = pa.table(batch)
        counted.rows[None, source, Outcome.IN, None] += len(table)
        codes = table[FAULT]
        for code, n_rows in Counter(codes.drop_null().to_pylist()).items():
            counted.rows[None, source, Outcome.QUARANTINED, code] += n_rows
        table = table.filter(pc.is_null(codes)).drop_columns([FAULT])
        column, listed, reason = (
            (KIND, plan.kinds, Reason.OTHER_KIND)
            if source == EVENTS
            else (EXPERIMENT, [one.name for one in plan.experiments], Reason.OTHER_EXPERIMENT)
        )
        if column in table.column_names:
            is_listed = pc.is_in(table[column], value_set=pa.array(listed, pa.string()))
            kept = table.filter(is_listed)
            counted.rows[None, source, Outcome.FILTERED, reason] += len(table) - len(kept)
            table = kept
        if len(table):
            table = table.combine_chunks()
            buckets = bucket_of(hashes_of(table[USER].combine_chunks()), n_buckets)
            for number in np.unique(buckets):
                yield int(number), SourceRows(source, table.filter(pa.array(buckets == number)))
    yield 0, counted


def measure_bucket(parts: Iterable[SourceRows | BucketSums], plan: ExperimentPlan) -> BucketSums:
    """Return the sums of all users of a bucket."""
    result = BucketSums()
    tables: dict[str, list[pa.Table]] = {EXPOSURES: [], EVENTS: []}
    for part in parts:
        if isinstance(part, BucketSums):
            result.merge(part)
        else:
            tables[part.source].append(part.rows)
    frames = {source: concat_tables(found).to_pandas() for source, found in tables.items() if found}
    users = [frames[source][USER] for source in frames]
    if not users:
        return result
    codes, ids = pd.factorize(pd.concat(users, ignore_index=True))
    starts = np.cumsum([0, *map(len, users)])
    for number, source in enumerate(frames):
        frames[source][USER] = codes[starts[number] : starts[number + 1]]
    exposures, events = frames.get(EXPOSURES), frames.get(EVENTS)
    if events is not None:
        events = without_repeats(events, result)
    bucket = Bucket(plan, pa.array(ids), exposures, events, result)
    for experiment in plan.experiments:
        bucket.measure(experiment)
    return result


def without_repeats(events: pd.DataFrame, result: BucketSums) -> pd.DataFrame:
    """Return the events without repeated ids of a user; the earliest stays, then that of the least value."""
    if EVENT_ID in events.columns:
        ordered = events.sort_values([USER, TIMESTAMP, KIND, VALUE], kind="stable")
        is_repeated = ordered.duplicated([USER, EVENT_ID]) & ordered[EVENT_ID].notna()
        result.rows[None, EVENTS, Outcome.DEDUPLICATED, None] += int(is_repeated.sum())
        events = ordered[~is_repeated]
    result.rows[None, EVENTS, Outcome.USED, None] += len(events)
    return events


@dataclass(frozen=True)
class Bucket:
    """Users of a bucket with their exposures and events; ``users`` has the id of each code."""

    plan: ExperimentPlan
    users: pa.Array
    exposures: pd.DataFrame | None
    events: pd.DataFrame | None
    result: BucketSums

    def measure(self, experiment: Experiment) -> None:
        """Add the counts and the moments of an experiment."""
        first, arms = self.exposed(experiment)
        if self.events is None:
            n_events = 0
            phases: dict[str, Booleans] = {}
        else:
            n_events = len(self.events)
            phases = self.phases(experiment, first, arms)
        self.result.rows[experiment.name, EVENTS, Outcome.IN, None] += n_events
        for metric in self.plan.metrics:
            terms = {phase: self.sums(metric, phases.get(phase)) for phase in (USED, PRE)}
            for code, arm in enumerate(experiment.arms):
                is_arm = arms == code
                for phase, sums in terms.items():
                    key = (experiment.name, metric.name, phase, arm)
                    moments = moments_of(metric, [values[is_arm] for values in sums])
                    self.result.moments[key] = self.result.moments.get(key, Moments()) + moments

    def exposed(self, experiment: Experiment) -> tuple[Ints, Ints]:
        """Return the first exposure (n_users,) and the arm (n_users,), and count all exposures."""
        name, n_users = experiment.name, len(self.users)
        first = np.full(n_users, np.iinfo(np.int64).max)
        arms = np.full(n_users, UNEXPOSED)
        rows = self.exposures
        if rows is not None and EXPERIMENT in rows.columns:
            rows = rows[rows[EXPERIMENT] == name]
        n_rows = 0 if rows is None else len(rows)
        self.note(name, EXPOSURES, Outcome.IN, None, n_rows)
        if rows is None or not n_rows:
            return first, arms
        self.note(None, EXPOSURES, Outcome.USED, None, n_rows if self.is_counted(experiment) else 0)
        when, users = rows[TIMESTAMP].to_numpy(), rows[USER].to_numpy()
        codes = self.variants(experiment, rows, users)
        is_inside = (when >= experiment.start) & (when < experiment.end)
        self.note(name, EXPOSURES, Outcome.DROPPED, Reason.OUTSIDE_PERIOD, int((~is_inside).sum()))
        is_assigned = is_inside & (codes != UNEXPOSED)
        self.note(
            name, EXPOSURES, Outcome.DROPPED, Reason.NOT_ASSIGNED, int((is_inside & ~is_assigned).sum())
        )
        when, users, codes = when[is_assigned], users[is_assigned], codes[is_assigned]
        np.minimum.at(first, users, when)
        lowest, highest = np.full(n_users, len(experiment.arms)), np.full(n_users, UNEXPOSED)
        np.minimum.at(lowest, users, codes)
        np.maximum.at(highest, users, codes)
        is_exposed = highest >= 0
        arms[is_exposed] = np.where(lowest == highest, highest, CROSSOVER)[is_exposed]
        n_crossover = int((arms == CROSSOVER).sum())
        n_used = int((arms >= 0).sum())
        n_crossed = int((arms[users] == CROSSOVER).sum())
        self.note(name, EXPOSURES, Outcome.DROPPED, Reason.CROSSOVER, n_crossed)
        self.note(name, EXPOSURES, Outcome.DEDUPLICATED, None, len(users) - n_crossed - n_used)
        self.note(name, EXPOSURES, Outcome.USED, None, n_used)
        self.note(name, USERS, Outcome.IN, None, n_crossover + n_used)
        self.note(name, USERS, Outcome.DROPPED, Reason.CROSSOVER, n_crossover)
        self.note(name, USERS, Outcome.USED, None, n_used)
        for code, arm in enumerate(experiment.arms):
            self.result.units[name, arm] += int((arms == code).sum())
        return first, arms

    def is_counted(self, experiment: Experiment) -> bool:
        """Return True if the rows of this experiment are counted as used rows of the whole table.

        Without a column ``experiment``, all experiments use the same rows.
        """
        has_names = self.exposures is not None and EXPERIMENT in self.exposures.columns
        return has_names or experiment is self.plan.experiments[0]

    def variants(self, experiment: Experiment, rows: pd.DataFrame, users: Ints) -> Ints:
        """Return the code of each exposure's variant (n,): the logged one, otherwise the hashed one."""
        hashed = None
        if experiment.assignment is not None:
            hashed = hashed_arms(self.users, experiment.assignment, experiment.arms)[users]
        if VARIANT not in rows.columns:
            return np.full(len(rows), UNEXPOSED) if hashed is None else hashed
        codes: Ints = pd.Index(experiment.arms).get_indexer(pd.Index(rows[VARIANT]))
        unknown = sorted(set(rows[VARIANT][codes < 0]))[:MOST_UNKNOWN]
        self.result.unknown |= {(experiment.name, variant) for variant in unknown}
        if hashed is not None:
            self.result.mismatched[experiment.name] += len(np.unique(users[codes != hashed]))
        return codes

    def phases(self, experiment: Experiment, first: Ints, arms: Ints) -> dict[str, Booleans]:
        """Return the masks (n_events,) of used events and of the pre-period, and count all events."""
        assert self.events is not None
        when, users = self.events[TIMESTAMP].to_numpy(), self.events[USER].to_numpy()
        pre_start = pre_starts(first, arms >= 0, self.plan.timezone, self.plan.pre_days)
        start, day_start = (times[users] for times in pre_start)
        shown, arm = first[users], arms[users]
        earliest, _ = pre_starts(
            np.array([experiment.start]), np.array([True]), self.plan.timezone, self.plan.pre_days
        )
        is_left = np.ones(len(when), dtype=bool)
        masks = {}
        window_end = np.full(len(when), experiment.end)
        if experiment.window is not None:
            is_exposed = arm >= 0
            window_end[is_exposed] = np.minimum(shown[is_exposed] + experiment.window, experiment.end)
        rules: list[tuple[Outcome, str | None, Booleans]] = [
            (Outcome.DROPPED, Reason.OUTSIDE_PERIOD, (when < earliest[0]) | (when >= experiment.end)),
            (Outcome.DROPPED, Reason.NOT_EXPOSED, arm == UNEXPOSED),
            (Outcome.DROPPED, Reason.CROSSOVER, arm == CROSSOVER),
            (Outcome.USED, Reason.PRE_PERIOD, (when >= start) & (when < day_start)),
            (Outcome.DROPPED, Reason.BEFORE_EXPOSURE, when < shown),
            (Outcome.DROPPED, Reason.AFTER_WINDOW, when >= window_end),
            (Outcome.USED, None, np.ones(len(when), dtype=bool)),
        ]
        for outcome, reason, holds in rules:
            mask = is_left & holds
            is_left &= ~holds
            self.note(experiment.name, EVENTS, outcome, reason, int(mask.sum()))
            if outcome is Outcome.USED:
                masks[USED if reason is None else PRE] = mask
        return masks

    def sums(self, metric: Metric, mask: Booleans | None) -> list[Ints]:
        """Return the sums of each user (n_users,), for each term of the metric."""
        return [self.term_sums(term.kind, term.value, metric.scale(term), mask) for term in metric.terms]

    def term_sums(self, kind: str, value: TermValue, scale: int, mask: Booleans | None) -> Ints:
        """Return the sums of one term of each user (n_users,)."""
        sums = np.zeros(len(self.users), dtype=np.int64)
        if self.events is None or mask is None:
            return sums
        mask = mask & (self.events[KIND].to_numpy() == kind)
        users = self.events[USER].to_numpy()[mask]
        if value is not TermValue.SUM:
            sums += np.bincount(users, minlength=len(sums))
            return np.minimum(sums, 1) if value is TermValue.ANY else sums
        amounts = np.rint(self.events[VALUE].to_numpy()[mask] * scale)
        if np.bincount(users, np.abs(amounts), len(sums)).max(initial=0.0) >= LARGEST_SUM:
            raise DataError("METRIC_OVERFLOW", f"events of kind {kind!r}: the sum of a user exceeds 2^62")
        np.add.at(sums, users, amounts.astype(np.int64))
        return sums

    def note(self, experiment: str | None, source: str, outcome: Outcome, reason: str | None, n: int) -> None:
        """Count rows, or users."""
        self.result.rows[experiment, source, outcome, reason] += n


def hashed_arms(users: pa.Array, assignment: Assignment, arms: Sequence[str]) -> Ints:
    """Return the code of each user's arm (n,) by hash; UNEXPOSED for buckets of no variant.

    >>> halves = Assignment("exp1", {"a": (0, 5000), "b": (5000, 10000)})
    >>> hashed_arms(pa.array(["1", "2", "user_42"]), halves, ["a", "b"]).tolist()
    [0, 0, 1]
    """
    buckets, codes = hashed_buckets(users, assignment), np.full(len(users), UNEXPOSED)
    for code, arm in enumerate(arms):
        low, high = assignment.ranges[arm]
        codes[(buckets >= low) & (buckets < high)] = code
    return codes


def hashed_buckets(users: pa.Array, assignment: Assignment) -> Ints:
    """Return pmod(xxhash64(salt, user as text), buckets) of n users, as Spark computes it; shape (n,).

    >>> hashed_buckets(pa.array([1, 2]), Assignment("exp1", {})).tolist()
    [1348, 573]
    """
    seed = text_hashes(pa.array([assignment.salt]), np.uint64(SPARK_SEED))[0]
    hashes = text_hashes(users.cast(pa.string()), seed).view(np.int64)
    return np.mod(hashes, assignment.buckets)


def pre_starts(first: Ints, is_exposed: Booleans, timezone: str, days: int) -> tuple[Ints, Ints]:
    """Return the start of the pre-period, and of the day of exposure, of each user; both shape (n,)."""
    start, day = first.copy(), first.copy()
    local = pd.to_datetime(first[is_exposed], unit="us", utc=True).tz_convert(timezone)
    midnight = local.tz_localize(None).normalize()
    for times, dates in ((day, midnight), (start, midnight - pd.Timedelta(days=days))):
        instants = dates.tz_localize(
            timezone, ambiguous=np.ones(len(dates), dtype=bool), nonexistent="shift_forward"
        )
        utc = instants.tz_convert("UTC").tz_localize(None)
        times[is_exposed] = utc.to_numpy().astype("datetime64[us]").astype(np.int64)
    return start, day


def moments_of(metric: Metric, sums: Sequence[Ints]) -> Moments:
    """Return the exact moments of the units of one arm."""
    x, n = sums[0], len(sums[0])
    if metric.kind is MetricKind.MEAN:
        return Moments.of_mean(n, total(x), dot(x, x))
    y = sums[1]
    if metric.kind is MetricKind.RATIO:
        return Moments(n, total(x), dot(x, x), total(y), dot(y, y), dot(x, y))
    is_defined = y != 0
    ratios = x[is_defined] / y[is_defined]
    value, squares = exact_moments(ratios)
    return Moments.of_mean(len(ratios), value, squares, n - len(ratios))


def total(values: Ints) -> int:
    """Return the sum of integers of any size."""
    return dot(values, np.ones_like(values))


def dot(one: Ints, other: Ints) -> int:
    """Return the sum of products, without overflow."""
    bound = int(np.abs(one).max(initial=0)) * int(np.abs(other).max(initial=0)) * len(one)
    if bound < 2**63:
        return int(one @ other)
    return sum(a * b for a, b in zip(one.tolist(), other.tolist(), strict=True))


def exact_moments(values: Floats) -> tuple[Fraction, Fraction]:
    """Return the exact sums of doubles and of their squares.

    >>> [str(one) for one in exact_moments(np.array([0.5, 0.25]))]
    ['3/4', '5/16']
    """
    sums = ExactSums.of(values, Groups())
    whole = integers_of_sums(sums.total)[0] if sums.total else Fraction(0)
    squares = integers_of_sums(sums.squares)[0] if sums.squares else Fraction(0)
    return Fraction(whole), squares / 2**POINT_BITS
