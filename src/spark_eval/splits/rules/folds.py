"""Random splits: holdout, k-fold and stratified k-fold, by row or by user."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from spark_eval.schema import MOST_FOLDS, USER, Subset
from spark_eval.splits.rules.fold_rule import (
    HASH_STEPS,
    INNER_SHARE,
    LATER_PARTS,
    Check,
    Dealt,
    FoldRule,
    Layout,
    Leak,
    Numbering,
    Range,
    Seed,
)


class Unit(StrEnum):
    """Unit of the random draw: a row, or a user with all rows."""

    ROW = "row"
    USER = "user"


FoldNumber = Annotated[
    int,
    "number of folds.",
    Range(f"2 to {MOST_FOLDS}", lambda k: 2 <= k <= MOST_FOLDS, f"is not from 2 to {MOST_FOLDS}"),
]
Exact = Annotated[
    bool,
    "true: rows are dealt out, so that their numbers differ by one at most, for one shuffle more; false: by "
    "draws, within sampling error.",
]


@dataclass(frozen=True, kw_only=True)
class RandomRule(FoldRule):
    """Base class of rules that draw rows or users at random."""

    by: Annotated[Unit, "user: all rows of a user go together, and shares are of users."] = Unit.ROW
    seed: Seed = 0

    @property
    def checks(self) -> Mapping[str, Check]:
        """If users are drawn, no user is in two subsets of a fold."""
        users = Check(LATER_PARTS, (USER,), is_leak=self.by is Unit.USER)
        return {**super().checks, Leak.USERS_IN_BOTH: users}


@dataclass(frozen=True, kw_only=True)
class Holdout(RandomRule):
    """One random draw divides the rows, or the users, into train, validation and test.

    ::

        draw:  0           test_share           + validation_share                          1
               |---- test -----|---- validation ----|--------------- train -----------------|

    The draw is a hash of ``seed`` and the user's id. With ``by: row``, the hash includes item and timestamp:
    rows that agree in all three are one event and stay together. Shares are exact up to sampling error.
    Without ``validation_share`` there is no validation.
    """

    test_share: Annotated[float, "share of test, within sampling error.", INNER_SHARE] = 0.2
    validation_share: Annotated[
        float,
        "share of validation; train is the rest; 0: no validation.",
        Range("0 or more, below 1", lambda share: 0 <= share < 1, "is not in [0, 1)"),
    ] = 0

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Require a share above 0 for train."""
        yield self.test_share + self.validation_share < 1, "test_share and validation_share leave no train"

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """Train and test, with validation between them if it has a share."""
        middle = (Subset.VALIDATION,) if self.validation_share else ()
        return (Subset.TRAIN, *middle, Subset.TEST)

    def layout(self, _found: Any = None) -> Layout:
        """Assign the lowest draws to test, the next ones to validation, and the others to train."""
        shares = (self.test_share, self.test_share + self.validation_share)
        steps = [math.ceil(share * HASH_STEPS) for share in shares]
        numbering = Numbering(drawn=0, steps=steps, seed=self.seed, by_row=self.by is Unit.ROW)
        return Layout([[part] for part in (Subset.TEST, Subset.VALIDATION, Subset.TRAIN)], numbering)


@dataclass(frozen=True, kw_only=True)
class KFold(RandomRule):
    """Each row, or each user, is in test in one of k folds, and in train in all others.

    ::

        the log by its draws:   |--- 0 ---|--- 1 ---|--- 2 ---|--- 3 ---|--- 4 ---|
        fold 0                  |  test   |  train ...                            |
        fold 1                  |  train  |  test   |  train ...                  |
        fold 4                  |  train ...                            |  test   |

    The draw is that of Holdout, so the sizes of test are equal up to sampling error (one percent from about
    100,000 rows per fold). With ``exact``, rows or users are dealt out in the order of their draws: their
    numbers differ by one at most, but rows of one event may be in two folds.
    """

    k: FoldNumber = 5
    exact: Exact = False

    @property
    def needs_other_rows(self) -> bool:
        """True if rows are dealt out in order."""
        return self.exact or super().needs_other_rows

    def layout(self, _found: Any = None) -> Layout:
        """Return fold f as the test fold of rows numbered f."""
        if self.exact:
            return Layout(k_fold_subsets(self.k), Dealt(self.k, self.seed, by_user=self.by is Unit.USER))
        return drawn_folds(self.k, self.seed, by_row=self.by is Unit.ROW)


@dataclass(frozen=True, kw_only=True)
class StratifiedKFold(FoldRule):
    """k folds of rows, each with the same distribution of values in the columns ``by``.

    ::

        rows where the columns are a:   | 0 | 1 | 2 | 3 | 4 | 0 | 1 | 2 | ...      the test fold of each row,
        rows where the columns are b:   | 3 | 4 | 0 | 1 | ...                      in the order of the draws

    A stratum is the rows that agree in all columns of ``by``; null is a value like any other. Each stratum is
    dealt out from a start fold of its own, so that its rows per fold differ by one at most. Without
    ``exact``, folds are random as in KFold, and strata are balanced up to sampling error.
    """

    by: Annotated[tuple[str, ...], "columns: user, item, relevance, or any other of the log."] = ()
    k: FoldNumber = 5
    exact: Exact = True
    seed: Seed = 0

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Require at least one column, and no column twice."""
        yield bool(self.by), "by names no column to stratify by"
        yield len(set(self.by)) == len(self.by), f"by names a column twice: {', '.join(self.by)}"

    @property
    def strata(self) -> tuple[str, ...]:
        """Columns to stratify by."""
        return self.by

    @property
    def needs_other_rows(self) -> bool:
        """True if rows are dealt out in order."""
        return self.exact or super().needs_other_rows

    def layout(self, _found: Any = None) -> Layout:
        """Return fold f as the test fold of rows numbered f; the numbering is per stratum."""
        if self.exact:
            return Layout(k_fold_subsets(self.k), Dealt(self.k, self.seed, strata=self.by))
        return drawn_folds(self.k, self.seed, by_row=True)


def drawn_folds(k: int, seed: int, *, by_row: bool) -> Layout:
    """Return the layout of k folds by a random draw of each row, or of each user."""
    return Layout(k_fold_subsets(k), Numbering(drawn=0, n_draws=k, seed=seed, by_row=by_row))


def k_fold_subsets(k: int) -> list[list[str]]:
    """Return outcomes (k, k): fold f is test for rows numbered f, and train for all others."""
    parts = (Subset.TRAIN, Subset.TEST)
    return [[parts[fold == number] for fold in range(k)] for number in range(k)]
