"""Backtests: consecutive test windows, each predicted from the rows before it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from spark_eval.schema import MOST_FOLDS, Reason, Subset
from spark_eval.splits.rules.fold_rule import (
    DAYS,
    NEVER,
    Check,
    Edges,
    Found,
    GapDays,
    Layout,
    Leak,
    Log,
    Numbering,
    Range,
)
from spark_eval.splits.rules.moments import (
    MICROSECONDS_PER_DAY,
    Boundary,
    Cut,
    Instant,
    plus_days,
    readable,
    refuse_span,
    to_microseconds,
    zone,
)
from spark_eval.splits.rules.targets import TargetRule


@dataclass(frozen=True, kw_only=True)
class Windows(TargetRule):
    """Base class of both kinds of backtest: ``n_folds`` windows of ``test_days``, the last ending at ``end``.

    Each test window begins ``step_days`` (by default test_days, never fewer) after the previous one, so that
    windows do not overlap. ``end`` is an instant; without it the last window ends with the newest row. Days
    are counted back from the end; whole days are calendar days of ``timezone``. With ``boundary: exclusive``
    every window is [start, end), with ``inclusive_train`` (start, end], so that equal timestamps stay
    together. ``gap_days`` before each test window are excluded from its train.
    """

    timed = True

    n_folds: Annotated[
        int,
        "number of test windows; the last one is the newest.",
        Range(f"1 to {MOST_FOLDS}", lambda n: 1 <= n <= MOST_FOLDS, f"is not from 1 to {MOST_FOLDS}"),
    ] = 3
    test_days: Annotated[float, "length of each test window in days.", DAYS] = 7
    step_days: Annotated[
        float | None,
        "days from one test window to the next, at least test_days, so that windows do not overlap; "
        "null: test_days.",
        DAYS,
    ] = None
    gap_days: GapDays = 0
    end: Annotated[
        Cut | None, "an instant or a date: where the last window ends; null: with the newest row."
    ] = None
    boundary: Edges = Boundary.EXCLUSIVE

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Require that test windows do not overlap, and that ``end`` is an instant."""
        yield self.test_days <= self.step, f"step_days {self.step} below test_days: test windows overlap"
        yield self.end is None or isinstance(self.end, Instant), f"end {self.end} is not an instant"

    @property
    def step(self) -> float:
        """Days between the starts of two test windows."""
        return self.test_days if self.step_days is None else self.step_days

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """Train and test, and the input of targets."""
        return (Subset.TRAIN, *self.input_subsets, Subset.TEST)

    @property
    def checks(self) -> Mapping[str, Check]:
        """Test is later than train."""
        early = Check({Subset.TEST: (Subset.TRAIN,)}, early=True, is_leak=True)
        return {Leak.TEST_EARLY: early, **self.target_checks, **super().checks}

    @property
    def train_days(self) -> float | None:
        """Length of train in days; None if it begins with the log."""
        return None

    def find(self, log: Log) -> "Backtest":
        """Return the windows."""
        return Backtest.of(self, *log.span())

    def layout(self, backtest: "Backtest") -> Layout:
        """Assign subsets to each time interval between two edges of windows."""
        edges = sorted({edge for window in backtest.windows for edge in window.edges})
        outcomes: list[list[str]] = []
        for start in (NEVER, *edges):
            parts = [window.part(start) for window in backtest.windows]
            outcomes.append(parts if any(parts) else [backtest.reason(start)] * len(parts))
        return self.with_targets(Layout(outcomes, Numbering(edges, self.boundary)))


@dataclass(frozen=True, kw_only=True)
class Expanding(Windows):
    """Each test window is predicted from all rows before it.

    ::

        oldest                                                        end
          |------------ train ------------|-gap-|- test -|              |     fold 0
          |------------------ train ---------------|-gap-|- test -|     |     fold 1
          |------------------------ train ---------------|-gap-|- test -|     fold 2
                                                |- step -|
    """


@dataclass(frozen=True, kw_only=True)
class Rolling(Windows):
    """Each test window is predicted from the ``train_days`` before it.

    ::

        oldest                                                        end
          |   |-------- train --------|-gap-|- test -|                  |     fold 0
          |            |-------- train --------|-gap-|- test -|         |     fold 1
          |                     |-------- train --------|-gap-|- test --|     fold 2
    """

    train_days: Annotated[float, "length of train in days.", DAYS] = 28


@dataclass(frozen=True)
class Window:
    """Edges of one fold in microseconds since the epoch; ``train_start`` is None for the log's beginning."""

    train_start: int | None
    train_end: int
    test_start: int
    test_end: int

    @property
    def edges(self) -> list[int]:
        """Starts and ends of the subsets, as instants."""
        start = [] if self.train_start is None else [self.train_start]
        return [*start, self.train_end, self.test_start, self.test_end]

    def part(self, start: int) -> str:
        """Return the subset of rows between this edge and the next one; "" if there is none."""
        if (self.train_start is None or self.train_start <= start) and start < self.train_end:
            return Subset.TRAIN
        return Subset.TEST if self.test_start <= start < self.test_end else ""


@dataclass(frozen=True)
class Backtest(Found):
    """Windows of one log, oldest first, and the first and the last timestamp of the log."""

    windows: tuple[Window, ...]
    oldest: int | None = None
    newest: int | None = None

    @classmethod
    def of(cls, rule: Windows, oldest: int, newest: int) -> "Backtest":
        """Return the windows of a log with events in [oldest, newest].

        Raises DataError SPLIT_OUT_OF_RANGE, with all problems, if windows are outside the log.
        """
        clock = zone(rule.timezone)
        anchor = to_microseconds(rule.end.at) if isinstance(rule.end, Instant) else newest
        # The newest row must be in the last window; with an exclusive end, the end is one microsecond later.
        last = anchor + (rule.end is None and rule.boundary is Boundary.EXCLUSIVE)
        windows = []
        for before in reversed(range(rule.n_folds)):
            end, start = (
                plus_days(anchor, -float(days), clock)
                for days in (
                    before * exact_days(rule.step),
                    before * exact_days(rule.step) + exact_days(rule.test_days),
                )
            )
            train_end = plus_days(start, -rule.gap_days, clock)
            train_start = None if rule.train_days is None else plus_days(train_end, -rule.train_days, clock)
            windows.append(Window(train_start, train_end, start, end if before else last))
        backtest = cls(tuple(windows), oldest, newest)
        backtest.check(rule, oldest, newest)
        return backtest

    def reason(self, start: int) -> Reason:
        """Return the reason that rows between this edge and the next one are in no window."""
        train_start = self.windows[0].train_start
        if start >= self.windows[-1].test_end:
            return Reason.AFTER_END
        return Reason.GAP if train_start is None or start >= train_start else Reason.BEFORE_START

    def check(self, rule: Windows, oldest: int, newest: int) -> None:
        """Raise DataError SPLIT_OUT_OF_RANGE unless all windows are within the log.

        The first rolling train window may begin less than a day before the oldest row.
        """
        before, clock = rule.boundary.before, zone(rule.timezone)
        first, last = self.windows[0], self.windows[-1]
        faults = []
        if not before(oldest, first.train_end):
            faults.append(f"no event is left for train of fold 0 before {readable(first.train_end, clock)}")
        if first.train_start is not None and oldest - first.train_start >= MICROSECONDS_PER_DAY:
            faults.append(f"train of fold 0 should begin at {readable(first.train_start, clock)}")
        if before(newest, last.test_start):
            start = readable(last.test_start, clock)
            faults.append(f"no event is left for test of fold {rule.n_folds - 1} from {start} on")
        refuse_span(faults, oldest, newest, clock, "take fewer or shorter windows")


def exact_days(days: float) -> Fraction:
    """Return the exact decimal value of days, so that the order of additions does not matter."""
    return Fraction(str(days))
