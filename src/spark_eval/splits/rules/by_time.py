"""Train and test by time, with one or two cuts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final

from spark_eval.schema import Reason, Subset
from spark_eval.splits.rules.fold_rule import (
    LATER_PARTS,
    NEVER,
    Check,
    Edges,
    Found,
    GapDays,
    Layout,
    Leak,
    Log,
    Numbering,
    OpenTestDays,
)
from spark_eval.splits.rules.global_local_ranker import are_in_order
from spark_eval.splits.rules.moments import Boundary, Cut, Share, plus_days, readable, refuse_span, zone
from spark_eval.splits.rules.targets import TargetRule

TEST_CUT: Final[Cut] = Share(Fraction(8, 10))


@dataclass(frozen=True, kw_only=True)
class TimeSplit(TargetRule):
    """Train on the older rows, test on the newer ones.

    ::

        oldest             validation_cut             test_cut            + test_days
          |                       |                       |                    |
          |------ train ----|-gap-|-- validation ---|-gap-|------- test -------|  after_end

    Without ``validation_cut`` there is no validation. With ``boundary: exclusive`` every subset is
    [start, end), with ``inclusive_train`` (start, end]. So rows with equal timestamps are in the same subset.
    Rows in a gap (``gap_days`` before either cut) and rows after the end are dropped; without ``test_days``
    there is no end.
    """

    timed = True

    test_cut: Annotated[
        Cut,
        "where test begins: a share of the log's rows before it, an instant ('2024-02-01'), or days before "
        "the newest row ({days: 28}).",
    ] = TEST_CUT
    validation_cut: Annotated[
        Cut | None, "where validation begins, in the same forms, before test_cut; null: no validation."
    ] = None
    test_days: OpenTestDays = None
    gap_days: GapDays = 0
    boundary: Edges = Boundary.EXCLUSIVE

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Require that validation begins before test."""
        if self.validation_cut is not None:
            fault = f"{self.validation_cut} is not before {self.test_cut}"
            yield are_in_order(self.validation_cut, self.test_cut), fault

    @property
    def cuts(self) -> Mapping[str, Cut]:
        """Cuts by the name of their option, earlier ones first."""
        first = {} if self.validation_cut is None else {"validation_cut": self.validation_cut}
        return {**first, "test_cut": self.test_cut}

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """Subsets; validation only if it has a cut."""
        middle = (Subset.VALIDATION,) if self.validation_cut is not None else ()
        return (Subset.TRAIN, *middle, *self.input_subsets, Subset.TEST)

    @property
    def checks(self) -> Mapping[str, Check]:
        """Each subset is later than the previous ones; a pair of user and item may occur in several."""
        early = Check(LATER_PARTS, early=True, is_leak=True)
        return {Leak.TEST_EARLY: early, **self.target_checks, **super().checks}

    def find(self, log: Log) -> "Periods":
        """Return the time intervals of the subsets."""
        moments = log.moments(tuple(self.cuts.values()), self.boundary, self.timezone)
        return Periods.of(self, moments, *log.span())

    def layout(self, found: "Periods") -> Layout:
        """Assign a subset to each time interval between two edges of periods."""
        edges = sorted({edge for period in found.periods for edge in period.edges})
        outcomes = [[found.outcome(start)] for start in (NEVER, *edges)]
        return self.with_targets(Layout(outcomes, Numbering(edges, self.boundary)))


@dataclass(frozen=True)
class Period:
    """Time interval of a subset, in microseconds since the epoch; None for the start or end of the log."""

    subset: Subset
    start: int | None
    end: int | None

    @property
    def edges(self) -> list[int]:
        """Start and end, if they are given."""
        return [edge for edge in (self.start, self.end) if edge is not None]


@dataclass(frozen=True)
class Periods(Found):
    """Time intervals of a log's subsets, earlier ones first."""

    periods: tuple[Period, ...]

    @classmethod
    def of(cls, rule: TimeSplit, moments: Sequence[int], oldest: int, newest: int) -> "Periods":
        """Return the periods of a log with events in [oldest, newest], cut at these moments.

        Raises DataError SPLIT_OUT_OF_RANGE, with all problems, if a subset is empty.
        """
        clock = zone(rule.timezone)
        last = None if rule.test_days is None else plus_days(moments[-1], rule.test_days, clock)
        ends = [*(plus_days(at, -rule.gap_days, clock) for at in moments), last]
        parts = zip(rule.learnt_or_tested, (None, *moments), ends, strict=True)
        periods = cls(tuple(Period(*part) for part in parts))
        periods.check(rule, oldest, newest)
        return periods

    def check(self, rule: TimeSplit, oldest: int, newest: int) -> None:
        """Raise DataError SPLIT_OUT_OF_RANGE, with all problems, if a subset is empty."""
        before, clock = rule.boundary.before, zone(rule.timezone)
        (train, *middle, test), faults = self.periods, []
        starts = [period.start for period in self.periods if period.start is not None]
        bounds = [
            f"{name} ({cut}) at {readable(at, clock)}"
            for (name, cut), at in zip(rule.cuts.items(), starts, strict=True)
        ]
        if starts != sorted(set(starts)):
            faults.append(f"{bounds[0]} is not before {bounds[1]}")
        elif any(part.start == part.end or [*part.edges] != sorted(part.edges) for part in middle):
            faults.append(
                f"gap_days {rule.gap_days} leave no time for validation between {' and '.join(bounds)}"
            )
        if train.end is not None and not before(oldest, train.end):
            faults.append(f"no event is left for train before {bounds[0]}, less gap_days {rule.gap_days}")
        if test.start is not None and before(newest, test.start):
            faults.append(f"no event is left for test from {bounds[-1]} on")
        refuse_span(faults, oldest, newest, clock)

    def outcome(self, start: int) -> str:
        """Return the subset of rows from this edge to the next one, or the reason why they are in none."""
        for period in self.periods:
            if (period.start is None or period.start <= start) and (period.end is None or start < period.end):
                return period.subset
        last = self.periods[-1].end
        return Reason.AFTER_END if last is not None and start >= last else Reason.GAP
