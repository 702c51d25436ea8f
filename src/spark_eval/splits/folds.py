"""Rules that fill folds with train, validation and test, without Spark; those by a seeded draw."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_eval.schema import Subset
from spark_eval.splits.moments import zone
from spark_eval.splits.options import check, seed_fits
from spark_eval.splits.rules import HASH_STEPS, Policy

# More folds than this are a mistake, or more than a split should write.
MOST_FOLDS: Final = 1_000


class By(StrEnum):
    """What is drawn: each row for itself, or a user with all his rows."""

    ROW = "row"
    USER = "user"


# What the leakage report counts in each fold.
TEST_EARLY: Final = "test_at_or_before_train"
USERS_EARLY: Final = "test_at_or_before_users_train"
USERS_IN_BOTH: Final = "users_in_train_and_test"
PAIRS_IN_BOTH: Final = "pairs_in_train_and_test"


@dataclass(frozen=True, kw_only=True)
class FoldRule:
    """What all rules have in common that give every fold a train and a test part.

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

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """The parts of each fold, earlier ones first."""
        return (Subset.TRAIN, Subset.TEST)

    @property
    def n_folds(self) -> int:
        """How many folds there are; of all choices of rows the log tells."""
        return 1

    @property
    def timed(self) -> bool:
        """Whether time decides, so that every row needs a timestamp."""
        return False

    @property
    def drops(self) -> bool:
        """Whether any policy drops rows for what other rows there are."""
        return Policy.DROP in (self.cold_users, self.cold_items, self.seen)

    @property
    def checks(self) -> Mapping[str, bool]:
        """What the leakage report counts, and whether the rule's word is that there is none."""
        return {PAIRS_IN_BOTH: False}


@dataclass(frozen=True, kw_only=True)
class Holdout(FoldRule):
    """One draw divides the rows, or the users, into three parts.

    ::

        draw:  0           test_share           + validation_share                          1
               |---- test -----|---- validation ----|--------------- train -----------------|

    The draw is a hash of ``seed`` and the user's id or, ``by: row``, of user, item and timestamp too: rows
    that agree in these three are one event, and go together. Shares come out within sampling error.
    Without ``validation_share`` there is no validation.
    """

    test_share: float = 0.2
    validation_share: float = 0
    by: By = By.ROW
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            (0 < self.test_share < 1, f"test_share {self.test_share} is not in (0, 1)"),
            (0 <= self.validation_share < 1, f"validation_share {self.validation_share} is not in [0, 1)"),
            (self.test_share + self.validation_share < 1, "test_share and validation_share leave no train"),
            seed_fits(self.seed),
        )

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """Validation only where it has a share."""
        middle = (Subset.VALIDATION,) if self.validation_share else ()
        return (Subset.TRAIN, *middle, Subset.TEST)

    @property
    def checks(self) -> Mapping[str, bool]:
        """No user is in two parts where users are drawn."""
        return {PAIRS_IN_BOTH: False, USERS_IN_BOTH: self.by is By.USER}

    @property
    def steps(self) -> tuple[int, int]:
        """Of draws from 0 to HASH_STEPS - 1: those below the first are test, else below the second
        validation.
        """
        shares = (self.test_share, self.test_share + self.validation_share)
        test, validation = (math.ceil(share * HASH_STEPS) for share in shares)
        return test, validation


@dataclass(frozen=True, kw_only=True)
class KFold(FoldRule):
    """Each row, or each user, is tested in one of k folds, and learnt from in all others.

    ::

        the log by its draws:   |--- 0 ---|--- 1 ---|--- 2 ---|--- 3 ---|--- 4 ---|
        fold 0                  |  test   |  train ...                            |
        fold 1                  |  train  |  test   |  train ...                  |
        fold 4                  |  train ...                            |  test   |

    The draw is that of Holdout, so test parts are equal within sampling error (one percent from some 100,000
    rows per fold on). With ``exact`` rows or users are dealt out in the order of their draws instead, and
    their numbers differ by one at most; rows of one event may then lie in two folds.
    """

    k: int = 5
    by: By = By.ROW
    exact: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check((2 <= self.k <= MOST_FOLDS, f"k {self.k} is not from 2 to {MOST_FOLDS}"), seed_fits(self.seed))

    @property
    def n_folds(self) -> int:
        """k."""
        return self.k

    @property
    def checks(self) -> Mapping[str, bool]:
        """No user is in two parts of a fold where users are drawn."""
        return {PAIRS_IN_BOTH: False, USERS_IN_BOTH: self.by is By.USER}


@dataclass(frozen=True, kw_only=True)
class StratifiedKFold(FoldRule):
    """k folds of rows, with the same mix of values in the columns ``by`` in each of them.

    ::

        rows where the columns are a:   | 0 | 1 | 2 | 3 | 4 | 0 | 1 | 2 | ...      the fold that tests a row,
        rows where the columns are b:   | 3 | 4 | 0 | 1 | ...                      in the order of the draws

    A stratum is the rows that agree in all columns of ``by``, null being a value like others. It is dealt
    out from a fold of its own on, so its rows per fold differ by one at most. Without ``exact`` the fold is
    a draw, as of KFold: every stratum is spread within sampling error.
    """

    by: tuple[str, ...] = ()
    k: int = 5
    exact: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            (bool(self.by), "by names no column to stratify by"),
            (len(set(self.by)) == len(self.by), f"by names a column twice: {', '.join(self.by)}"),
            (2 <= self.k <= MOST_FOLDS, f"k {self.k} is not from 2 to {MOST_FOLDS}"),
            seed_fits(self.seed),
        )

    @property
    def n_folds(self) -> int:
        """k."""
        return self.k
