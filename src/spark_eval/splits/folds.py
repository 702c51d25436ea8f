"""Rules by a seeded draw: of rows, or of users with all their rows."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spark_eval.schema import USER, Subset
from spark_eval.splits.fold_rule import HASH_STEPS, LATER_PARTS, Check, FoldRule, Layout, Leak, Numbering


class By(StrEnum):
    """What is drawn: each row for itself, or a user with all of theirs."""

    ROW = "row"
    USER = "user"


@dataclass(frozen=True, kw_only=True)
class Drawn(FoldRule):
    """What rules have in common that draw rows or users."""

    by: By = By.ROW
    seed: int = 0

    @property
    def checks(self) -> Mapping[str, Check]:
        """No user is in two parts of a fold where users are drawn."""
        users = Check(LATER_PARTS, (USER,), is_leak=self.by is By.USER)
        return {**super().checks, Leak.USERS_IN_BOTH: users}


@dataclass(frozen=True, kw_only=True)
class Holdout(Drawn):
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

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Require that some rows are train."""
        yield self.test_share + self.validation_share < 1, "test_share and validation_share leave no train"

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """Validation only where it has a share."""
        middle = (Subset.VALIDATION,) if self.validation_share else ()
        return (Subset.TRAIN, *middle, Subset.TEST)

    def layout(self, _found: Any = None) -> Layout:
        """Return test for draws below its share, and validation for those below both."""
        shares = (self.test_share, self.test_share + self.validation_share)
        steps = [math.ceil(share * HASH_STEPS) for share in shares]
        numbering = Numbering(drawn=0, steps=steps, seed=self.seed, by_row=self.by is By.ROW)
        return Layout([[part] for part in (Subset.TEST, Subset.VALIDATION, Subset.TRAIN)], numbering)


@dataclass(frozen=True, kw_only=True)
class KFold(Drawn):
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
    exact: bool = False

    def layout(self, _found: Any = None) -> Layout:
        """Return the test of the fold that a row draws, or is dealt to."""
        if self.exact:
            return Layout(tested_once(self.k))
        by_row = self.by is By.ROW
        return Layout(tested_once(self.k), Numbering(drawn=0, n_draws=self.k, seed=self.seed, by_row=by_row))


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

    def claims(self) -> Iterable[tuple[bool, str]]:
        """Require columns, each of them once."""
        yield bool(self.by), "by names no column to stratify by"
        yield len(set(self.by)) == len(self.by), f"by names a column twice: {', '.join(self.by)}"

    def layout(self, _found: Any = None) -> Layout:
        """Return the layout of KFold."""
        return KFold(k=self.k, exact=self.exact, seed=self.seed).layout()


def tested_once(k: int) -> list[list[str]]:
    """Return the outcomes of rows that are tested in the fold of their number, and else learnt from."""
    parts = (Subset.TRAIN, Subset.TEST)
    return [[parts[fold == number] for fold in range(k)] for number in range(k)]
