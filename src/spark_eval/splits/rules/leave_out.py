"""Leave-out splits: the last or random rows of every user, or every combination of p rows of the log."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from itertools import combinations
from typing import Annotated, Any

from spark_eval.errors import DataError
from spark_eval.schema import MOST_FOLDS, USER, Subset
from spark_eval.splits.rules.fold_rule import (
    INNER_SHARE,
    Check,
    FoldRule,
    Found,
    HeldOut,
    Indexed,
    Layout,
    Leak,
    Log,
    Range,
    Seed,
)


class Choose(StrEnum):
    """Choice of the rows to hold out: a user's last rows, or those with the lowest random draws."""

    LAST = "last"
    HASH = "hash"


class TiesAtCut(StrEnum):
    """Treatment of a user's rows with the timestamp of the first test row."""

    BREAK = "break"
    TOGETHER = "together"


@dataclass(frozen=True, kw_only=True)
class HoldOutRule(FoldRule):
    """Base class of rules that hold out the last (or random) rows of each user.

    If several rows share the timestamp at the cut, ``ties: break`` chooses among them at random; train may
    then have rows with the timestamp of a test row. ``ties: together`` puts all of them into test, so that
    each user's train is before test; test may then have more rows. If no row of a user would remain for
    train, all rows of the user are in train.
    """

    choose: Annotated[Choose, "hash: rows by a seeded draw, whatever their time."] = Choose.LAST
    ties: Annotated[
        TiesAtCut,
        "several rows at the moment of the cut; break: a draw decides which are test; together: all of them "
        "are, so that train is before test for every user.",
    ] = TiesAtCut.BREAK
    seed: Seed = 0

    @property
    @abstractmethod
    def held(self) -> int | Fraction:
        """Number of held-out rows of each user, or their share of the user's rows."""

    @property
    def timed(self) -> bool:
        """True unless rows are drawn at random."""
        return self.choose is Choose.LAST

    @property
    def needs_other_rows(self) -> bool:
        """True: rows of a user are put in order."""
        return True

    @property
    def checks(self) -> Mapping[str, Check]:
        """Train rows of other users can be later than a user's test rows; the user's own must not be."""
        if not self.timed:
            return super().checks
        train = {Subset.TEST: (Subset.TRAIN,)}
        own = Check(train, (USER,), early=True, is_leak=self.ties is TiesAtCut.TOGETHER)
        return {Leak.USERS_EARLY: own, Leak.TEST_EARLY: Check(train, early=True), **super().checks}

    def layout(self, _found: Any = None) -> Layout:
        """Assign rows numbered 0 to train, and held-out rows, numbered 1, to test."""
        together = self.timed and self.ties is TiesAtCut.TOGETHER
        held_out = HeldOut(self.held, self.seed, self.choose is Choose.LAST, together)
        return Layout([[Subset.TRAIN], [Subset.TEST]], held_out)


@dataclass(frozen=True, kw_only=True)
class LeavePOut(HoldOutRule):
    """p rows of each user are held out: the last ones, or random ones (``choose: hash``).

    ::

        user 1   --o---o------o-----o---[o]     p = 1: the last row is test, the others are train
        user 2   ------o-[o]
        user 3   ---o                           p rows or fewer: all of them are train

    With ``exhaustive`` there is a fold for each combination of p rows of the whole log, in the order of their
    draws: n! / (p! (n - p)!) folds of n rows, at most MOST_FOLDS. ``choose`` and ``ties`` are then ignored.
    """

    p: Annotated[
        int, "number of rows of each user in test.", Range("1 or more", lambda p: p >= 1, "is below 1")
    ] = 1
    exhaustive: Annotated[
        bool,
        "true: a fold for each choice of p rows of the whole log, n! / (p! (n - p)!); refused above "
        f"{MOST_FOLDS} folds, with their number (TOO_MANY_FOLDS).",
    ] = False

    @property
    def held(self) -> int:
        """Number of held-out rows of each user."""
        return self.p

    @property
    def timed(self) -> bool:
        """True unless rows are drawn at random or ``exhaustive``."""
        return super().timed and not self.exhaustive

    def find(self, log: Log) -> "Choices | None":
        """Return all combinations if ``exhaustive``."""
        return Choices.of(self, log.n_rows()) if self.exhaustive else None

    def layout(self, choices: "Choices | None" = None) -> Layout:
        """Return a fold per combination if ``exhaustive``; every row then has a number of its own."""
        if choices is None:
            return super().layout()
        chosen = list(combinations(range(choices.n_rows), choices.p))
        parts = (Subset.TRAIN, Subset.TEST)
        outcomes = [[parts[number in rows] for rows in chosen] for number in range(choices.n_rows)]
        return Layout(outcomes, Indexed(self.seed))


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut(LeavePOut):
    """Leave p out, with p = 1: the usual test of next-item recommenders."""

    p: int = field(default=1, init=False)


@dataclass(frozen=True, kw_only=True)
class LastFraction(HoldOutRule):
    """A share of each user's rows, rounded down, is held out: the last ones.

    ::

        user 1   --o---o------o--o--o---o----o--o-[-o---o]     test_share 0.2 of 10 rows: the last 2
        user 2   ------o-o------o--[o]                         of 5: the last one
        user 3   ---o-----o                                    of fewer than 5: none, all are train

    ``choose: hash`` holds out the same number of random rows instead.
    """

    test_share: Annotated[
        float, "share of each user's rows in test, rounded down: of 10 rows 2, of 4 none.", INNER_SHARE
    ] = 0.2

    @property
    def held(self) -> Fraction:
        """Exact decimal value of ``test_share``."""
        return Fraction(str(self.test_share))


@dataclass(frozen=True)
class Choices(Found):
    """All combinations of p of n rows, one fold each."""

    n_rows: int
    p: int

    @classmethod
    def of(cls, rule: LeavePOut, n_rows: int) -> "Choices":
        """Return the combinations of a log with ``n_rows`` valid rows.

        Raises DataError TOO_MANY_FOLDS, with their number, or SPLIT_OUT_OF_RANGE if no row remains for train.
        """
        if n_rows <= rule.p:
            message = f"p {rule.p} of {n_rows} rows leaves no train, in split; give a smaller p"
            raise DataError("SPLIT_OUT_OF_RANGE", message)
        # For large p, the exact number would have a million digits.
        many = math.lgamma(n_rows + 1) - math.lgamma(rule.p + 1) - math.lgamma(n_rows - rule.p + 1)
        n_folds = math.comb(n_rows, rule.p) if many < 100 else math.inf
        if n_folds > MOST_FOLDS:
            count = f"{n_folds:,}" if many < 100 else f"about 10^{many / math.log(10):.0f}"
            message = (
                f"all choices of p {rule.p} of {n_rows:,} rows are {count} folds, more than {MOST_FOLDS:,}"
            )
            raise DataError("TOO_MANY_FOLDS", f"{message}; leave out p rows per user, without exhaustive")
        return cls(n_rows, rule.p)
