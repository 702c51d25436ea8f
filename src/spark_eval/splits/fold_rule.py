"""What all rules of a split have in common: parts in folds, policies, checks, numbers of rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from spark_eval.errors import ConfigError
from spark_eval.schema import ITEM, SUBSETS, USER, Reason, Subset
from spark_eval.splits.moments import MAX_DAYS, Boundary, zone

# Draws of users fall into this many steps, each a whole number below any share of them.
HASH_STEPS: Final = 2**31
# Before every timestamp.
NEVER: Final = -(2**63)
# The reasons for which a policy drops a row from a part, with the columns that it compares.
POLICIES: Final[Mapping[Reason, tuple[str, ...]]] = {
    Reason.COLD_USER: (USER,),
    Reason.COLD_ITEM: (ITEM,),
    Reason.SEEN: (USER, ITEM),
}
# More folds than this are a mistake, or more than a split should write.
MOST_FOLDS: Final = 1_000
# What an option may be, by its name in any rule, and what is said of any other value.
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
    """What the leakage report counts: in each fold, and of the parts of ``global_local_ranker``."""

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
    """What becomes of the rows of the test parts that a policy is about."""

    KEEP = "keep"
    DROP = "drop"


Parts = Mapping[Subset, tuple[Subset, ...]]
LATER_PARTS: Final[Parts] = {
    Subset.VALIDATION: (Subset.TRAIN,),
    Subset.TEST: (Subset.TRAIN, Subset.VALIDATION),
}


@dataclass(frozen=True)
class Check:
    """A count of the leakage report: rows of a part that have something in common with ``others``.

    Of each part those rows count whose ``keys`` are the keys of a row of its other parts in the same fold.
    With ``early`` they also count only up to the moment of the last such row. No keys compare all rows.
    ``is_leak`` says whether the rule promises that there is no such row.
    """

    others: Parts
    keys: tuple[str, ...] = ()
    early: bool = False
    is_leak: bool = False


@dataclass(frozen=True)
class Numbering:
    """How a row gets its number: by its time, by a draw, or by a draw in one stretch of time.

    ::

        edges:        0 | 1 | 2 | ... | n          how many edges the row's time has passed
        steps:        0 | 1 | 2 | ... | m          how many steps its draw, below ``n_draws``, has reached

    Rows of the stretch ``drawn`` have numbers by their draw, from n + 1 on or, without edges, from 0 on.
    Without steps a draw is a step. A draw is a hash of ``seed`` and the user or, ``by_row``, of user, item
    and timestamp. With neither edges nor draws a number is a row's place in an order, which Spark finds.
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
        """The number of the lowest draws."""
        return len(self.edges) + 1 if self.edges else 0

    @property
    def is_order(self) -> bool:
        """Whether a number depends on other rows."""
        return self.drawn is None and not self.edges


@dataclass(frozen=True)
class Layout:
    """Where the rows of one log go: every row has a number, and a number an outcome in each fold.

    ``outcomes[number][fold]`` is a Subset, or why the row is in none, or "" where other folds use it.
    """

    outcomes: Sequence[Sequence[str]]
    numbering: Numbering = Numbering()

    @property
    def n_folds(self) -> int:
        """How many folds there are."""
        return len(self.outcomes[0])


@dataclass(frozen=True, kw_only=True)
class FoldRule(ABC):
    """What all rules have in common: every row gets a part, or none, in each fold.

    In each fold rows of test (and validation) can be dropped whose user (``cold_users``) or item
    (``cold_items``) has no row in train, or whose pair of both (``seen``) is in an earlier part: train
    comes before validation, validation before test. ``timezone`` is that of dates without an offset.

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
        """Return what must hold beside the range of each option, and what to say where it does not."""
        return ()

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """The parts of each fold, earlier ones first."""
        return (Subset.TRAIN, Subset.TEST)

    @property
    def subset_names(self) -> tuple[str, ...]:
        """The names of its parts, and those of several parts together."""
        return tuple(name for name, parts in SUBSETS.items() if set(parts) <= set(self.subsets))

    @property
    def trained_on(self) -> Mapping[str, str]:
        """The subset to train on for each subset that is tested, by their names."""
        return dict.fromkeys((part.value for part in self.subsets[1:]), Subset.TRAIN.value)

    @property
    def final_test(self) -> str:
        """The subset that decides: the truth of ``evaluate`` by default."""
        return self.subsets[-1].value

    @property
    def timed(self) -> bool:
        """Whether time decides, so that every row needs a timestamp."""
        return False

    @property
    def reports_folds(self) -> bool:
        """Whether the accounting has a source of its own for rows and users of each fold."""
        return True

    @property
    def drops(self) -> tuple[Reason, ...]:
        """The policies that drop rows for what other rows there are."""
        policies = (self.cold_users, self.cold_items, self.seen)
        return tuple(
            reason for reason, policy in zip(POLICIES, policies, strict=True) if policy is Policy.DROP
        )

    @property
    def checks(self) -> Mapping[str, Check]:
        """What the leakage report counts."""
        return {Leak.PAIRS_IN_BOTH: Check(LATER_PARTS, (USER, ITEM))}

    @abstractmethod
    def layout(self, found: Any) -> Layout:
        """Return where the rows of a log go; ``found`` is what the rule needs to know of the log."""
