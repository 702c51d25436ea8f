"""Base of all split rules: subsets per fold, policies, leakage checks, numbering of rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, Protocol, get_type_hints

from spark_eval.errors import ConfigError
from spark_eval.schema import ITEM, SUBSETS, USER, Reason, Subset
from spark_eval.splits.rules.moments import MAX_DAYS, Boundary, Cut, zone

# Random draws are integers in [0, HASH_STEPS); a share of rows has the draws below share * HASH_STEPS.
HASH_STEPS: Final = 2**31
# Earlier than every timestamp.
NEVER: Final = -(2**63)
# Rows are dealt out in buckets of their draws, so that no single task sorts them all.
BUCKETS: Final = 1_024
# Order of the subsets within a fold; subsets that are not listed come last.
STAGES: Final[Mapping[str, int]] = {
    **dict.fromkeys((Subset.LOCAL_TRAIN, Subset.TRAIN), 0),
    **dict.fromkeys((Subset.RANKER_TRAIN, Subset.RANKER_TEST, Subset.VALIDATION, Subset.INPUT), 1),
}
LAST_STAGE: Final = 2
# Reasons of the policies that drop rows, with the columns that each policy compares.
POLICIES: Final[Mapping[Reason, tuple[str, ...]]] = {
    Reason.COLD_USER: (USER,),
    Reason.COLD_ITEM: (ITEM,),
    Reason.SEEN: (USER, ITEM),
}


class Range(NamedTuple):
    """Values that an option may have: ``allowed`` in words; ``fault`` is the error text for others."""

    allowed: str
    holds: Callable[[Any], bool]
    fault: str


DAYS: Final = Range("above 0", lambda days: 0 < days <= MAX_DAYS, "is not above 0")
INNER_SHARE: Final = Range("between 0 and 1", lambda share: 0 < share < 1, "is not in (0, 1)")
# Options of several rules.
Seed = Annotated[
    int,
    "seed of the random draws.",
    Range("64 bits", lambda seed: -(2**63) <= seed < 2**63, "does not fit 64 bits"),
]
GapDays = Annotated[
    float,
    "days left out before each cut; their rows are dropped (gap).",
    Range("0 or more", lambda days: 0 <= days <= MAX_DAYS, "is below 0 or too large"),
]
Edges = Annotated[Boundary, "exclusive: subsets are [start, end); inclusive_train: (start, end]."]
OpenTestDays = Annotated[
    float | None, "length of test in days; later rows are dropped (after_end); null: to the end.", DAYS
]


@dataclass(frozen=True)
class RuleOption:
    """Option of a rule, as its field declares it: ``name: Annotated[kind, meaning, range] = default``."""

    kind: Any
    default: Any
    meaning: str
    range: Range | None = None


class Leak(StrEnum):
    """Counts of the leakage report: those of each fold, and those of ``global_local_ranker``."""

    TEST_EARLY = "test_at_or_before_train"
    USERS_EARLY = "test_at_or_before_users_train"
    USERS_IN_BOTH = "users_in_train_and_test"
    PAIRS_IN_BOTH = "pairs_in_train_and_test"
    RANKER_EARLY = "ranker_at_or_before_local_train"
    GLOBAL_TEST_EARLY = "global_test_at_or_before_global_train"
    BOTH_RANKER_PARTS = "users_in_both_ranker_parts"
    RETURNED_TO_LOCAL_TEST = "pairs_in_train_and_local_test"
    RETURNED_TO_GLOBAL_TEST = "pairs_in_train_and_global_test"
    TARGETS_EARLY = "targets_at_or_before_input"


class Policy(StrEnum):
    """Treatment of the test rows that a policy selects."""

    KEEP = "keep"
    DROP = "drop"


class Targets(StrEnum):
    """Choice of the rows of test that a user's lists are to predict."""

    ALL = "all"
    LAST = "last"
    FIRST = "first"
    RANDOM = "random"
    SUCCESSIVE = "successive"


Parts = Mapping[Subset, tuple[Subset, ...]]
LATER_PARTS: Final[Parts] = {
    Subset.VALIDATION: (Subset.TRAIN,),
    Subset.TEST: (Subset.TRAIN, Subset.VALIDATION),
}


@dataclass(frozen=True)
class Check:
    """Leakage check: counts the rows of a subset that share keys with the subsets it is compared with.

    ``others`` maps each checked subset to the subsets it is compared with. A row counts if a row of these, in
    the same fold, has the same ``keys``; without keys, all rows match. With ``early``, it counts only if it
    is not later than the last matching row. ``is_leak`` is true if the rule guarantees a count of 0.
    """

    others: Parts
    keys: tuple[str, ...] = ()
    early: bool = False
    is_leak: bool = False


@dataclass(frozen=True)
class Numbering:
    """Number of each row by its timestamp, by a random draw, or by both.

    ::

        edges:        0 | 1 | 2 | ... | n          number of edges that the row's timestamp has passed
        steps:        0 | 1 | 2 | ... | m          number of steps that its draw (below ``n_draws``) reached

    Rows in the time interval ``drawn`` are numbered by their draw, from n + 1 on, or from 0 without edges.
    Without steps the draw is the number. A draw is a hash of ``seed`` and the user or, with ``by_row``, of
    user, item and timestamp.
    """

    edges: Sequence[int] = ()
    boundary: Boundary = Boundary.EXCLUSIVE
    drawn: int | None = None
    steps: Sequence[int] = ()
    n_draws: int = HASH_STEPS
    seed: int = 0
    by_row: bool = False

    @property
    def first_drawn(self) -> int:
        """Number of the rows with the lowest draws."""
        return len(self.edges) + 1 if self.edges else 0


@dataclass(frozen=True)
class Dealt:
    """Numbers 0 to ``n`` - 1, dealt out to the rows, or to the users, in the order of their draws.

    Rows that agree in the columns ``strata`` are dealt out on their own, from a start of their own.
    """

    n: int
    seed: int = 0
    by_user: bool = False
    strata: tuple[str, ...] = ()


@dataclass(frozen=True)
class Indexed:
    """Index of each row in the order of their draws; a single task sorts the log."""

    seed: int = 0


@dataclass(frozen=True)
class HeldOut:
    """1 for the rows of each user that are held out, 0 for others.

    ``held`` is their number, 0 for users with no more rows, or their share of a user's rows, rounded down.
    They are the last rows, or those with the lowest draws. With ``together`` all rows with the timestamp of
    a held-out row are held out, and none if no other row is left.
    """

    held: int | Fraction
    seed: int = 0
    by_time: bool = True
    together: bool = False


@dataclass(frozen=True)
class TargetNumbering:
    """Number of each row by time, raised within test by the role that the row has for its user's target.

    ``tests[number]`` is the fold that tests rows of this number by time; None if none does. The target of a
    user and a fold is one moment: rows at it keep their number n, rows before it have n + len(tests), and
    rows after it n + 2 len(tests).
    """

    by_time: Numbering
    tests: Sequence[int | None]
    targets: Targets
    seed: int = 0


@dataclass(frozen=True)
class Numbered:
    """Number of each row in a column of the log, which this process has put in order."""


@dataclass(frozen=True)
class Layout:
    """Assignment of a log's rows to subsets: ``numbering`` numbers each row.

    ``outcomes[number][fold]`` is a Subset, or the reason that the row is in none, or "" if only other folds
    use it. Numbers by time or draw follow from the row alone; all others depend on other rows, which are put
    in order.
    """

    outcomes: Sequence[Sequence[str]]
    numbering: Numbering | Dealt | Indexed | HeldOut | TargetNumbering | Numbered

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.outcomes[0])


@dataclass(frozen=True)
class Found:
    """Base class of the properties of a log that a rule needs, as in the record of a run."""


class Log(Protocol):
    """A log, as rules ask for its properties; each takes one or a few Spark actions."""

    def span(self) -> tuple[int, int]:
        """Return the first and the last timestamp of the valid rows, in microseconds since the epoch."""

    def moments(self, cuts: Sequence[Cut], boundary: Boundary, timezone: str) -> list[int]:
        """Return the instant of each cut in microseconds since the epoch."""

    def n_rows(self) -> int:
        """Return the number of valid rows."""


@dataclass(frozen=True, kw_only=True)
class FoldRule(ABC):
    """Base class of all rules: assigns every row to one subset, or none, in each fold.

    In each fold, rows of test (and validation) can be dropped: by ``cold_users`` if the user has no row in
    train, by ``cold_items`` if the item has none, by ``seen`` if an earlier subset has the pair of user and
    item. The order of subsets is train, validation, test. ``timezone`` applies to dates without an offset.

    Raises ConfigError INVALID_SPLIT or INVALID_TIMEZONE, as all rules do.
    """

    timezone: Annotated[str, "IANA name, of dates without an offset, and of calendar days."] = "UTC"
    cold_users: Annotated[
        Policy, "drop: without rows of test (and validation) whose user has no row in the fold's train."
    ] = Policy.KEEP
    cold_items: Annotated[Policy, "drop: the same for items."] = Policy.KEEP
    seen: Annotated[
        Policy, "drop: without rows whose pair of user and item is in an earlier subset of the fold."
    ] = Policy.KEEP

    def __post_init__(self) -> None:
        zone(self.timezone)
        for name, option in rule_options(type(self)).items():
            value = getattr(self, name)
            if option.range is not None and value is not None and not option.range.holds(value):
                raise ConfigError("INVALID_SPLIT", f"{name} {value} {option.range.fault}, in split")
        for claim, fault in self.claims():
            if not claim:
                raise ConfigError("INVALID_SPLIT", f"{fault}, in split")

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Return further conditions on the options, each with its error text."""
        return ()

    @property
    def strata(self) -> tuple[str, ...]:
        """Columns of the log to stratify by; most rules need none."""
        return ()

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """Subsets of each fold, earlier ones first."""
        return (Subset.TRAIN, Subset.TEST)

    @property
    def learnt_or_tested(self) -> tuple[Subset, ...]:
        """Subsets without the input of targets, which may be empty and is not tested."""
        return tuple(part for part in self.subsets if part is not Subset.INPUT)

    @property
    def subset_names(self) -> tuple[str, ...]:
        """Names of its subsets, and of their unions."""
        return tuple(name for name, parts in SUBSETS.items() if set(parts) <= set(self.subsets))

    @property
    def trained_on(self) -> Mapping[str, str]:
        """Name of the subset to train on, by name of the tested subset."""
        return dict.fromkeys((part.value for part in self.learnt_or_tested[1:]), Subset.TRAIN.value)

    @property
    def final_test(self) -> str:
        """Subset that decides: the truth of ``evaluate`` by default."""
        return self.subsets[-1].value

    @property
    def timed(self) -> bool:
        """True if the rule uses time, so that every row needs a timestamp."""
        return False

    @property
    def has_requests(self) -> bool:
        """True if rows of test have a ``request``: their moment, in microseconds since the epoch."""
        return False

    @property
    def reports_folds(self) -> bool:
        """True if the accounting has lines for rows and users of each fold."""
        return True

    @property
    def drops(self) -> tuple[Reason, ...]:
        """Reasons of the policies that drop rows."""
        policies = (self.cold_users, self.cold_items, self.seen)
        return tuple(
            reason for reason, policy in zip(POLICIES, policies, strict=True) if policy is Policy.DROP
        )

    @property
    def needs_other_rows(self) -> bool:
        """True if a row cannot be assigned to a subset without looking at other rows."""
        return bool(self.drops)

    @property
    def checks(self) -> Mapping[str, Check]:
        """Checks of the leakage report, by name."""
        return {Leak.PAIRS_IN_BOTH: Check(LATER_PARTS, (USER, ITEM))}

    def find(self, _log: Log) -> Found | None:
        """Return the properties of a log that its layout needs; None if it needs none.

        Raises DataError SPLIT_OUT_OF_RANGE if a subset must be empty, and the errors of the log.
        """
        return None

    @abstractmethod
    def layout(self, found: Any) -> Layout:
        """Return the layout of a log with the properties that ``find`` returned."""


@cache
def rule_options(rule: type[FoldRule]) -> dict[str, RuleOption]:
    """Return the options of a rule by name, as its fields declare them.

    Config, help, docs and checks are derived from it.
    """
    hints = get_type_hints(rule, include_extras=True)
    declared = {field.name: (hints[field.name], field.default) for field in fields(rule) if field.init}
    return {
        name: RuleOption(hint.__origin__, default, *hint.__metadata__)
        for name, (hint, default) in declared.items()
    }
