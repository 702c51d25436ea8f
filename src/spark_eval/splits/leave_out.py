"""Rules that hold out a few rows of every user, or every choice of a few rows of the log."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from itertools import combinations
from typing import Any

from spark_eval.errors import DataError
from spark_eval.schema import USER, Subset
from spark_eval.splits.fold_rule import MOST_FOLDS, Check, FoldRule, Layout, Leak


class Choose(StrEnum):
    """Which rows of a user are held out: the last ones, or those of the lowest draws."""

    LAST = "last"
    HASH = "hash"


class TiesAtCut(StrEnum):
    """What becomes of a user's rows at the moment of the first one of test."""

    BREAK = "break"
    TOGETHER = "together"


@dataclass(frozen=True, kw_only=True)
class LeaveOut(FoldRule):
    """What rules have in common that hold out a number of each user's rows, ``choose: last`` by time.

    Where several rows share the moment of the cut, ``ties: break`` takes as many as are to be held out, by
    a seeded draw; train then holds rows of the very moment of a row of test. ``ties: together`` tests
    all of them, so that train is before test for each user; the rows of test may then be more. A user of
    whom no row would be left to learn from is in train with all rows.
    """

    choose: Choose = Choose.LAST
    ties: TiesAtCut = TiesAtCut.BREAK
    seed: int = 0

    @property
    def timed(self) -> bool:
        """Unless rows are drawn."""
        return self.choose is Choose.LAST

    @property
    def checks(self) -> Mapping[str, Check]:
        """Other users' rows of train come after a user's test, whatever the rule; one's own must not."""
        if not self.timed:
            return super().checks
        train = {Subset.TEST: (Subset.TRAIN,)}
        own = Check(train, (USER,), early=True, is_leak=self.ties is TiesAtCut.TOGETHER)
        return {Leak.USERS_EARLY: own, Leak.TEST_EARLY: Check(train, early=True), **super().checks}

    def layout(self, _found: Any = None) -> Layout:
        """Return train for rows of number 0, and test for those held out, of number 1."""
        return Layout([[Subset.TRAIN], [Subset.TEST]])


@dataclass(frozen=True, kw_only=True)
class LeavePOut(LeaveOut):
    """p rows of each user are held out: the last ones, or (``choose: hash``) any by a seeded draw.

    ::

        user 1   --o---o------o-----o---[o]     p = 1: the last row is test, the others are train
        user 2   ------o-[o]
        user 3   ---o                           p rows or fewer: all of them are train

    With ``exhaustive`` there is a fold for every choice of p rows of the whole log, in the order of their
    draws: n! / (p! (n - p)!) folds of n rows, at most MOST_FOLDS. ``choose`` and ``ties`` then say nothing.
    """

    p: int = 1
    exhaustive: bool = False

    @property
    def timed(self) -> bool:
        """Unless rows are drawn, or all choices of them taken."""
        return super().timed and not self.exhaustive

    def layout(self, choices: "Choices | None" = None) -> Layout:
        """Return the parts of each row of the log, if all choices are made: a row's number is its own."""
        if choices is None:
            return super().layout()
        chosen = list(combinations(range(choices.n_rows), choices.p))
        parts = (Subset.TRAIN, Subset.TEST)
        return Layout([[parts[number in rows] for rows in chosen] for number in range(choices.n_rows)])


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut(LeavePOut):
    """Leave p out, with p = 1: the usual test of next-item recommenders."""

    p: int = field(default=1, init=False)


@dataclass(frozen=True, kw_only=True)
class LastFraction(LeaveOut):
    """The last rows of each user are held out, a share of them, rounded down.

    ::

        user 1   --o---o------o--o--o---o----o--o-[-o---o]     test_share 0.2 of 10 rows: the last 2
        user 2   ------o-o------o--[o]                         of 5: the last one
        user 3   ---o-----o                                    of fewer than 5: none, all are train

    ``choose: hash`` holds out as many rows of the lowest draws instead.
    """

    test_share: float = 0.2

    @property
    def share(self) -> Fraction:
        """The share as it is written."""
        return Fraction(str(self.test_share))


@dataclass(frozen=True)
class Choices:
    """All choices of p of n rows, a fold each."""

    n_rows: int
    p: int

    @classmethod
    def of(cls, rule: LeavePOut, n_rows: int) -> "Choices":
        """Return the choices of a log of so many valid rows.

        Raises DataError TOO_MANY_FOLDS, with their number, or SPLIT_OUT_OF_RANGE where no row is left to
        learn from.
        """
        if n_rows <= rule.p:
            message = f"p {rule.p} of {n_rows} rows leaves no train, in split; give a smaller p"
            raise DataError("SPLIT_OUT_OF_RANGE", message)
        # The whole number would have a million digits where p is large.
        many = math.lgamma(n_rows + 1) - math.lgamma(rule.p + 1) - math.lgamma(n_rows - rule.p + 1)
        n_folds = math.comb(n_rows, rule.p) if many < 100 else math.inf
        if n_folds > MOST_FOLDS:
            count = f"{n_folds:,}" if many < 100 else f"about 10^{many / math.log(10):.0f}"
            message = (
                f"all choices of p {rule.p} of {n_rows:,} rows are {count} folds, more than {MOST_FOLDS:,}"
            )
            raise DataError("TOO_MANY_FOLDS", f"{message}; leave out p rows per user, without exhaustive")
        return cls(n_rows, rule.p)
