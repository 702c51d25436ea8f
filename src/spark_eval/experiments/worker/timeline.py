"""Events of a bucket in the order of unit and time: sums between two instants are differences of two totals.

So a unit costs the same in every experiment, however many events it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_eval.arrow.codes import Array, Booleans, index_of, to_numpy
from spark_eval.errors import DataError
from spark_eval.experiments.kinds import LARGEST_SUM
from spark_eval.experiments.plan import N_EVENTS, Condition, ExperimentPlan, Term, TermValue
from spark_eval.experiments.worker.judge import holds, own_column
from spark_eval.schema import KIND, MISSING, TIMESTAMP, VALUE
from spark_eval.statistics.exact import Ints

# Column with the unit: its id, then its index in the bucket.
KEY: Final = "key"
# Codes of units and times must fit this number of bits.
CODE_BITS: Final = 63
# Cells of the index of events: more of them take longer to make than they save.
CELLS_PER_EVENT: Final = 2

# Kind, conditions, and the scale of sums of values; None for numbers of events.
SummedTerm = tuple[str, tuple[Condition, ...], int | None]


@dataclass(frozen=True)
class TimeCodes:
    """Integers in the order of times: microseconds since the first one, or ranks among ``distinct`` times."""

    least: int
    most: int
    distinct: Ints | None = None

    @classmethod
    def of(cls, times: Ints, n_bits: int) -> "TimeCodes":
        """Return codes of these times that have at most ``n_bits``, if there are not too many times."""
        least, most = (int(times.min()), int(times.max())) if len(times) else (0, 0)
        if (most - least + 1).bit_length() <= n_bits:
            return cls(least, most)
        return cls(least, most, np.unique(times))

    @property
    def n_bits(self) -> int:
        """Number of bits of a code."""
        return (self.most - self.least + 1 if self.distinct is None else len(self.distinct)).bit_length()

    def codes(self, times: Ints) -> Ints:
        """Return the codes of any times (n,): those after the last one have a code of their own."""
        if self.distinct is not None:
            return np.searchsorted(self.distinct, times)
        return np.clip(times, self.least, self.most + 1) - self.least


@dataclass(frozen=True)
class SortedIndex:
    """Ascending integers (n,), with the position of the first one in each cell of equal upper bits.

    Cells have few values, so that one is found in a step or two.
    """

    values: Ints
    shift: int
    starts: Ints

    @classmethod
    def of(cls, values: Ints, shift: int, n_cells: int) -> "SortedIndex":
        """Index ascending values below ``n_cells`` << ``shift``."""
        return cls(values, shift, running_totals(np.bincount(values >> shift, minlength=n_cells)))

    def positions(self, sought: Ints) -> Ints:
        """Return the position (m,) of the first value that is not below each of ``sought``.

        >>> index = SortedIndex.of(np.array([1, 4, 5, 5, 9]), 2, 3)
        >>> index.positions(np.array([0, 1, 5, 6, 11])).tolist()
        [0, 0, 2, 4, 5]
        """
        cells = sought >> self.shift
        low, high = self.starts[cells], self.starts[cells + 1]
        rows = np.flatnonzero(low < high)
        while len(rows):
            least, most, wanted = low[rows], high[rows], sought[rows]
            middle = (least + most) >> 1
            is_below = self.values[middle] < wanted
            low[rows] = least = np.where(is_below, middle + 1, least)
            high[rows] = most = np.where(is_below, most, middle)
            rows = rows[least < most]
        return np.asarray(low)


@dataclass(frozen=True)
class Timeline:
    """Events of the units 0 to ``n_units`` - 1, or rows of ``user_days``; in any order in ``events``.

    All arrays of shape (n_events,) are in the order of unit and time. A position between 0 and n_events
    stands for the events before it.
    """

    plan: ExperimentPlan
    events: pa.Table
    n_units: int
    instants: dict[int, Ints] = field(default_factory=dict)

    @cached_property
    def clock(self) -> TimeCodes:
        """Codes of the times."""
        return TimeCodes.of(to_numpy(self.events[TIMESTAMP]), CODE_BITS - self.n_units.bit_length())

    def code(self, units: Ints, times: Ints) -> Ints:
        """Return a code (n,) of each unit and time, in their order."""
        return (units << self.clock.n_bits) | self.clock.codes(times)

    @cached_property
    def order(self) -> Ints:
        """Row of ``events`` of each event (n_events,)."""
        return np.argsort(self.unsorted)

    @cached_property
    def unsorted(self) -> Ints:
        """Code of each row of ``events``."""
        return self.code(to_numpy(self.events[KEY]).astype(np.int64), to_numpy(self.events[TIMESTAMP]))

    @cached_property
    def codes(self) -> Ints:
        """Code (n_events,) of each event, ascending."""
        return self.unsorted[self.order]

    def column(self, name: str) -> Array:
        """Return a column (n_events,) without nulls."""
        return to_numpy(self.events[name])[self.order]

    @cached_property
    def keys(self) -> Ints:
        """Unit (n_events,) of each event."""
        return self.codes >> self.clock.n_bits

    @cached_property
    def when(self) -> Ints:
        """Time (n_events,) of each event."""
        times: Ints = self.column(TIMESTAMP)
        return times

    @cached_property
    def index(self) -> "SortedIndex":
        """Index of the codes, whose upper bits are the unit."""
        n_bits = self.clock.n_bits
        n_cells_per_unit = max(1, CELLS_PER_EVENT * len(self.codes) // max(1, self.n_units))
        shift = max(0, n_bits - n_cells_per_unit.bit_length() + 1)
        return SortedIndex.of(self.codes, shift, self.n_units << (n_bits - shift))

    def positions(self, units: Ints, times: Ints) -> Ints:
        """Return the position (n,) of the unit's first event at or after a time."""
        return self.index.positions(self.code(units, times))

    def positions_at(self, instant: int) -> Ints:
        """Return the position (n_units,) of each unit's first event at or after an instant."""
        if instant not in self.instants:
            every = np.arange(self.n_units)
            self.instants[instant] = self.positions(every, np.full(self.n_units, instant))
        return self.instants[instant]

    @cached_property
    def weights(self) -> Ints | None:
        """Number of events (n_events,) of each row of ``user_days``; None if rows are events."""
        return self.column(N_EVENTS) if N_EVENTS in self.events.column_names else None

    @cached_property
    def n_all(self) -> int:
        """Number of events, of rows of ``user_days`` their sum."""
        return len(self.order) if self.weights is None else int(self.weights.sum())

    @cached_property
    def weights_before(self) -> Ints | None:
        """Number of events before each position (n_events + 1,); None if it is the position."""
        return None if self.weights is None else running_totals(self.weights)

    def n_before(self, positions: Ints) -> Ints:
        """Return the number of events before each position (n,)."""
        return positions if self.weights_before is None else self.weights_before[positions]

    @cached_property
    def kinds(self) -> Array:
        """Index (n_events,) of each event's kind."""
        return self.column(KIND)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Value (n_events,) of each event."""
        return self.column(VALUE)

    def is_term(self, term: Term) -> Booleans:
        """Return True for the events (n_events,) of a term."""
        is_kind: Booleans = self.kinds == self.plan.kinds.index(term.kind)
        return is_kind & holds(self.events, term.where)[self.order] if term.where else is_kind

    @cached_property
    def terms(self) -> Mapping[SummedTerm, tuple[int, Term]]:
        """Sums that metrics need, each with its column of ``totals`` and a term that it belongs to."""
        metrics = self.plan.metrics
        pairs = {summed_term(term, one.scale(term)): term for one in metrics for term in one.terms}
        return {key: (column, term) for column, (key, term) in enumerate(pairs.items())}

    @cached_property
    def totals(self) -> Ints:
        """Sum of each term before each position (n_events + 1, n_terms), in units of 1 / scale.

        Differences are exact: integers wrap around. The sums of a position are neighbours in memory.
        """
        totals = np.zeros((len(self.codes) + 1, len(self.terms)), dtype=np.int64)
        for (_, _, scale), (column, term) in self.terms.items():
            is_term = self.is_term(term)
            if scale is not None:
                values = np.where(is_term, self.amounts(term, scale), 0)
            else:
                values = is_term if self.weights is None else is_term * self.weights
            np.cumsum(values, out=totals[1:, column])
        return totals

    def column_of(self, term: Term, scale: int) -> int:
        """Return the column of a term in ``totals``."""
        return self.terms[summed_term(term, scale)][0]

    def sums_between(self, start: Ints, end: Ints) -> Ints:
        """Return the sums (n, n_terms) of all terms from ``start`` to ``end``, which are positions."""
        sums: Ints = self.totals.take(end, axis=0)
        sums -= self.totals.take(start, axis=0)
        return sums

    def amounts(self, term: Term, scale: int) -> Ints:
        """Return the values (n_events,) in units of 1 / scale; raise DataError METRIC_OVERFLOW."""
        if self.weights is None:
            amounts: Ints = np.rint(self.values * scale).astype(np.int64)
        else:
            amounts = self.column(f"sum_{len(str(scale)) - 1}")
        sizes = np.abs(amounts.astype(np.float64))
        if sizes.sum() >= LARGEST_SUM and np.bincount(self.keys, sizes).max() >= LARGEST_SUM:
            message = f"events of kind {term.kind!r}: the sum of a user exceeds 2^62"
            raise DataError("METRIC_OVERFLOW", message)
        return amounts

    def sums(self, term: Term, scale: int, start: Ints, end: Ints) -> Ints:
        """Return the sums (n,) of a term from ``start`` to ``end``, which are positions."""
        totals = self.totals[:, self.column_of(term, scale)]
        return limited(totals[end] - totals[start], term, scale)

    def sums_by_target(self, term: Term, scale: int, rows: Ints, targets: Ints, n_targets: int) -> Ints:
        """Return the sums (n_targets,) of a term over events (n,), each of which counts for its target."""
        totals, sums = self.totals[:, self.column_of(term, scale)], np.zeros(n_targets, dtype=np.int64)
        np.add.at(sums, targets, totals[rows + 1] - totals[rows])
        return limited(sums, term, scale)

    def texts(self, name: str) -> tuple[Ints, Sequence[str]]:
        """Return the code (n_events,) of each value of the user's column ``name``, and the values."""
        values = self.events[own_column(name)].cast(pa.string()).fill_null(MISSING).combine_chunks()
        distinct = values.unique()
        return index_of(values, distinct)[self.order], distinct.to_pylist()


def summed_term(term: Term, scale: int) -> SummedTerm:
    """Return the sums of a term without its limit: terms that count the same events share them."""
    return term.kind, term.where, scale if term.value is TermValue.SUM else None


def running_totals(values: Array) -> Ints:
    """Return the sum before each position.

    >>> running_totals(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    totals = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=totals[1:])
    return totals


def limited(sums: Ints, term: Term, scale: int) -> Ints:
    """Return sums (n,) of a term, at most its cap; 0 or 1 for ``any``."""
    if term.value is TermValue.ANY:
        sums = np.minimum(sums, 1)
    return sums if term.cap is None else np.minimum(sums, round(term.cap * scale))
