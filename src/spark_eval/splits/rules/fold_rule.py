"""Base of all split rules: subsets per fold, policies, leakage checks, numbering of rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from spark_eval.errors import ConfigError
from spark_eval.schema import ITEM, MOST_FOLDS, SUBSETS, USER, Reason, Subset
from spark_eval.splits.rules.moments import MAX_DAYS, Boundary, zone

# Random draws are integers in [0, HASH_STEPS); a share of rows has the draws below share * HASH_STEPS.
HASH_STEPS: Final = 2**31
# Earlier than every timestamp.
NEVER: Final = -(2**63)
# Reasons of the policies that drop rows, with the columns that each policy compares.
POLICIES: Final[Mapping[Reason, tuple[str, ...]]] = {
    Reason.COLD_USER: (USER,),
    Reason.COLD_ITEM: (ITEM,),
    Reason.SEEN: (USER, ITEM),
}
# Validator of an option, and the error text for invalid values; RANGES has them by the option's name.
OptionRange = tuple[Callable[[Any], bool], str]
ABOVE_ZERO: Final[OptionRange] = (lambda days: 0 < days <= MAX_DAYS, "is not above 0")
INNER_SHARE: Final[OptionRange] = (lambda share: 0 < share < 1, "is not in (0, 1)")
RANGES: Final[Mapping[str, OptionRange]] = {
    "seed": (lambda seed: -(2**63) <= seed < 2**63, "does not fit 64 bits"),
    "k": (lambda k: 2 <= k <= MOST_FOLDS, f"is not from 2 to {MOST_FOLDS}"),
    "n_folds": (lambda n: 1 <= n <= MOST_FOLDS, f"is not from 1 to {MOST_FOLDS}"),
    "p": (lambda p: p >= 1, "is below 1"),
    **dict.fromkeys(("test_days", "step_days", "train_days"), ABOVE_ZERO),
    "gap_days": (lambda days: 0 <= days <= MAX_DAYS, "is below 0 or too large"),
    **dict.fromkeys(("test_share", "ranker_test_share"), INNER_SHARE),
    "validation_share": (lambda share: 0 <= share < 1, "is not in [0, 1)"),
}


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


class Policy(StrEnum):
    """Treatment of the test rows that a policy selects."""

    KEEP = "keep"
    DROP = "drop"


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
    """Assignment of a number to each row: by its timestamp, by a random draw, or by both.

    ::

        edges:        0 | 1 | 2 | ... | n          number of edges that the row's timestamp has passed
        steps:        0 | 1 | 2 | ... | m          number of steps that its draw (below ``n_draws``) reached

    Rows in the time interval ``drawn`` are numbered by their draw, from n + 1 on, or from 0 without edges.
    Without steps the draw is the number. A draw is a hash of ``seed`` and the user or, with ``by_row``, of
    user, item and timestamp. With neither edges nor draws, Spark sorts the rows and numbers them.
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

    @property
    def is_order(self) -> bool:
        """True if a row's number depends on other rows."""
        return self.drawn is None and not self.edges


@dataclass(frozen=True)
class Layout:
    """Assignment of a log's rows to subsets: ``numbering`` numbers each row.

    ``outcomes[number][fold]`` is a Subset, or the reason that the row is in none, or "" if only other folds
    use it.
    """

    outcomes: Sequence[Sequence[str]]
    numbering: Numbering = Numbering()

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.outcomes[0])


@dataclass(frozen=True, kw_only=True)
class FoldRule(ABC):
    """Base class of all rules: assigns every row to one subset, or none, in each fold.

    In each fold, rows of test (and validation) can be dropped: by ``cold_users`` if the user has no row in
    train, by ``cold_items`` if the item has none, by ``seen`` if an earlier subset has the pair of user and
    item. The order of subsets is train, validation, test. ``timezone`` applies to dates without an offset.

    Raises ConfigError INVALID_SPLIT or INVALID_TIMEZONE, as all rules do.
    """

    timezone: str = "UTC"
    cold_users: Policy = Policy.KEEP
    cold_items: Policy = Policy.KEEP
    seen: Policy = Policy.KEEP

    def __post_init__(self) -> None:
        zone(self.timezone)
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, (holds, fault) in RANGES.items():
            if options.get(name) is not None and not holds(options[name]):
                raise ConfigError("INVALID_SPLIT", f"{name} {options[name]} {fault}, in split")
        for claim, fault in self.claims():
            if not claim:
                raise ConfigError("INVALID_SPLIT", f"{fault}, in split")

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Return further conditions on the options, each with its error text."""
        return ()

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """Subsets of each fold, earlier ones first."""
        return (Subset.TRAIN, Subset.TEST)

    @property
    def subset_names(self) -> tuple[str, ...]:
        """Names of its subsets, and of their unions."""
        return tuple(name for name, parts in SUBSETS.items() if set(parts) <= set(self.subsets))

    @property
    def trained_on(self) -> Mapping[str, str]:
        """Name of the subset to train on, by name of the tested subset."""
        return dict.fromkeys((part.value for part in self.subsets[1:]), Subset.TRAIN.value)

    @property
    def final_test(self) -> str:
        """Subset that decides: the truth of ``evaluate`` by default."""
        return self.subsets[-1].value

    @property
    def timed(self) -> bool:
        """True if the rule uses time, so that every row needs a timestamp."""
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
    def checks(self) -> Mapping[str, Check]:
        """Checks of the leakage report, by name."""
        return {Leak.PAIRS_IN_BOTH: Check(LATER_PARTS, (USER, ITEM))}

    @abstractmethod
    def layout(self, found: Any) -> Layout:
        """Return the layout of a log; ``found`` has the attributes of the log that the rule needs."""
