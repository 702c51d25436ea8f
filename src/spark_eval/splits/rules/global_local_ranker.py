"""The rule ``global_local_ranker``: two cuts in time, and a division of users between them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final

from spark_eval.schema import ITEM, USER, Reason, Subset
from spark_eval.splits.rules.fold_rule import (
    HASH_STEPS,
    INNER_SHARE,
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
from spark_eval.splits.rules.moments import (
    Boundary,
    Cut,
    DaysBack,
    Instant,
    Share,
    plus_days,
    readable,
    refuse_span,
    zone,
)
from spark_eval.splits.rules.targets import TargetRule

LOCAL_CUT: Final[Cut] = Share(Fraction(8, 10))
GLOBAL_CUT: Final[Cut] = Share(Fraction(9, 10))
LOCAL_TEST: Final = (Subset.RANKER_TRAIN, Subset.RANKER_TEST)


@dataclass(frozen=True, kw_only=True)
class GlobalLocalRanker(TargetRule):
    """Two cuts in time; users divide the rows between them.

    ::

        oldest                     local_cut                global_cut             + test_days
          |                            |                        |                       |
          |---- local_train ----|-gap--|---- local_test --|-gap-|----- global_test -----|  after_end
          |                            |   ranker_train,  |     |
          |                            |   ranker_test    |     |
          |                            |   (by users)     |     |
          |------------- global_train --------------------|

    With ``boundary: exclusive`` every subset is [start, end), with ``inclusive_train`` (start, end].
    Rows in a gap (``gap_days`` before either cut) and rows after the end are dropped; without
    ``test_days`` there is no end. A hash of ``seed`` and the user's id assigns all of a user's rows in
    local_test to ranker_test, with probability ``ranker_test_share``, or to ranker_train.

    There is one fold. The policies use local_train as train, and local_test as earlier than global_test.
    """

    timed = True
    reports_folds = False

    local_cut: Annotated[
        Cut,
        "where local_test begins: a share of the log's rows before it, an instant ('2024-02-01'), or days "
        "before the newest row ({days: 28}).",
    ] = LOCAL_CUT
    global_cut: Annotated[Cut, "where global_test begins, in the same forms, after local_cut."] = GLOBAL_CUT
    test_days: OpenTestDays = None
    gap_days: GapDays = 0
    boundary: Edges = Boundary.EXCLUSIVE
    ranker_test_share: Annotated[
        float, "share of the users of local_test whose rows are in ranker_test.", INNER_SHARE
    ] = 0.5

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """All four, and the input of targets."""
        return (Subset.LOCAL_TRAIN, *LOCAL_TEST, *self.input_subsets, Subset.GLOBAL_TEST)

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Require that the local cut comes first."""
        is_first = are_in_order(self.local_cut, self.global_cut)
        yield is_first, f"{self.local_cut} is not before {self.global_cut}"

    @property
    def trained_on(self) -> Mapping[str, str]:
        """Train on local_train for the tests before the global cut, and on global_train for global_test."""
        local = dict.fromkeys((*(part.value for part in LOCAL_TEST), "local_test"), Subset.LOCAL_TRAIN.value)
        return {**local, Subset.GLOBAL_TEST.value: "global_train"}

    @property
    def checks(self) -> Mapping[str, Check]:
        """Subsets are disjoint in time and users; a pair of user and item may occur in several."""
        learnt = dict.fromkeys(LOCAL_TEST, (Subset.LOCAL_TRAIN,))
        tested = {Subset.GLOBAL_TEST: (Subset.LOCAL_TRAIN, *LOCAL_TEST)}
        both = {Subset.RANKER_TRAIN: (Subset.RANKER_TEST,), Subset.RANKER_TEST: (Subset.RANKER_TRAIN,)}
        return {
            Leak.RANKER_EARLY: Check(learnt, early=True, is_leak=True),
            Leak.GLOBAL_TEST_EARLY: Check(tested, early=True, is_leak=True),
            Leak.BOTH_RANKER_PARTS: Check(both, (USER,), is_leak=True),
            **self.target_checks,
            Leak.RETURNED_TO_LOCAL_TEST: Check(learnt, (USER, ITEM)),
            Leak.RETURNED_TO_GLOBAL_TEST: Check(tested, (USER, ITEM)),
        }

    def find(self, log: Log) -> "Timeline":
        """Return the instants of both cuts, and of the ends of the subsets."""
        local_cut, global_cut = log.moments((self.local_cut, self.global_cut), self.boundary, self.timezone)
        return Timeline.of(self, local_cut, global_cut, *log.span())

    def layout(self, timeline: "Timeline") -> Layout:
        """Assign a subset to each time interval; random draws divide local_test."""
        end = [] if timeline.end is None else [timeline.end]
        local = (timeline.local_train_end, timeline.local_cut, timeline.local_test_end)
        edges = [*local, timeline.global_cut, *end]
        late = [Reason.AFTER_END] if end else []
        outcomes = [Subset.LOCAL_TRAIN, Reason.GAP, "", Reason.GAP, Subset.GLOBAL_TEST, *late]
        step = math.ceil(self.ranker_test_share * HASH_STEPS)
        numbering = Numbering(edges, self.boundary, drawn=2, steps=(step,), seed=self.seed)
        drawn = (Subset.RANKER_TEST, Subset.RANKER_TRAIN)
        return self.with_targets(Layout([[outcome] for outcome in (*outcomes, *drawn)], numbering))


def are_in_order(local: Cut, later: Cut) -> bool:
    """Return False if two cuts of one kind are out of order; those of two kinds are checked with the log."""
    match local, later:
        case Instant(), Instant():
            return local.at < later.at
        case DaysBack(), DaysBack():
            return local.days > later.days
        case Share(), Share():
            return local.share < later.share
    return True


@dataclass(frozen=True)
class Timeline(Found):
    """Instants of the cuts of one log, in microseconds since the epoch.

    Without a gap, ``local_train_end == local_cut`` and ``local_test_end == global_cut``. ``end`` is None
    if global_test has no end. ``oldest`` and ``newest`` are the first and the last timestamp of the log.
    """

    local_train_end: int
    local_cut: int
    local_test_end: int
    global_cut: int
    end: int | None
    oldest: int | None = None
    newest: int | None = None

    @classmethod
    def of(
        cls, rule: GlobalLocalRanker, local_cut: int, global_cut: int, oldest: int, newest: int
    ) -> "Timeline":
        """Return the timeline of a log with events in [oldest, newest] and these cuts.

        Raises DataError SPLIT_OUT_OF_RANGE if a subset is empty: cuts are out of order or outside the log.
        """
        clock = zone(rule.timezone)
        timeline = cls(
            local_train_end=plus_days(local_cut, -rule.gap_days, clock),
            local_cut=local_cut,
            local_test_end=plus_days(global_cut, -rule.gap_days, clock),
            global_cut=global_cut,
            end=None if rule.test_days is None else plus_days(global_cut, rule.test_days, clock),
            oldest=oldest,
            newest=newest,
        )
        timeline.check(rule, oldest, newest)
        return timeline

    def check(self, rule: GlobalLocalRanker, oldest: int, newest: int) -> None:
        """Raise DataError SPLIT_OUT_OF_RANGE, with all problems, if a subset is empty."""
        before, clock = rule.boundary.before, zone(rule.timezone)
        local_cut = f"local_cut ({rule.local_cut}) at {readable(self.local_cut, clock)}"
        global_cut = f"global_cut ({rule.global_cut}) at {readable(self.global_cut, clock)}"
        faults = []
        if self.local_cut >= self.global_cut:
            faults.append(f"{local_cut} is not before {global_cut}")
        elif self.local_cut >= self.local_test_end:
            faults.append(
                f"gap_days {rule.gap_days} leave no time for local_test between {local_cut} and {global_cut}"
            )
        if not before(oldest, self.local_train_end):
            faults.append(
                f"no event is left for local_train before {local_cut}, less gap_days {rule.gap_days}"
            )
        if before(newest, self.global_cut):
            faults.append(f"no event is left for global_test after {global_cut}")
        refuse_span(faults, oldest, newest, clock)
