"""Targets of a test after a cut in time: all later rows of a user, one moment of them, or each in turn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from spark_eval.schema import USER, Reason, Subset
from spark_eval.splits.rules.fold_rule import (
    Check,
    FoldRule,
    Layout,
    Leak,
    Numbering,
    Seed,
    TargetNumbering,
    Targets,
)


@dataclass(frozen=True, kw_only=True)
class TargetRule(FoldRule):
    """Base class of rules by time, whose test can be the next items of each user.

    ::

                          cut
        a user   --o---o---|--o-----o---o------o
        all                  [o     o   o      o]    one list, and all are relevant
        first                [o]                     later rows are dropped
        last                  i     i   i     [o]    i: input, which the list may use
        random                i    [o]               a drawn one; later rows are dropped
        successive           [o]   [o] [o]    [o]    a list each: request; input is what is earlier

    Rows of a user at one moment have no order: they are one target. Choices are made within each test, so
    each fold of a backtest has its own.
    """

    targets: Annotated[
        Targets,
        "rows of test to predict; first, last, random: one moment of each user, and earlier rows of test are "
        "input; successive: each moment is a request, and all that is earlier is its input.",
    ] = Targets.ALL
    seed: Seed = 0

    @property
    def needs_other_rows(self) -> bool:
        """True if one of the user's moments is chosen."""
        return self.targets not in (Targets.ALL, Targets.SUCCESSIVE) or super().needs_other_rows

    @property
    def input_subsets(self) -> tuple[Subset, ...]:
        """Subset of the rows between a cut and a target, if there can be any."""
        return (Subset.INPUT,) if self.targets in (Targets.LAST, Targets.RANDOM) else ()

    @property
    def has_requests(self) -> bool:
        """True if each moment of test is a request."""
        return self.targets is Targets.SUCCESSIVE

    @property
    def target_checks(self) -> Mapping[str, Check]:
        """A user's target is later than the user's input."""
        test = Subset(self.final_test)
        check = Check({test: (Subset.INPUT,)}, (USER,), early=True, is_leak=True)
        return {Leak.TARGETS_EARLY: check} if self.input_subsets else {}

    def with_targets(self, layout: Layout) -> Layout:
        """Return a layout by time whose test has the targets alone."""
        if self.targets in (Targets.ALL, Targets.SUCCESSIVE):
            return layout
        assert isinstance(layout.numbering, Numbering)
        tested = [[outcome == self.final_test for outcome in outcomes] for outcomes in layout.outcomes]
        tests = [folds.index(True) if any(folds) else None for folds in tested]
        roles = (self.final_test, Subset.INPUT, Reason.AFTER_TARGET)
        outcomes = [
            [role if outcome == self.final_test else outcome for outcome in of_folds]
            for role in roles
            for of_folds in layout.outcomes
        ]
        return Layout(outcomes, TargetNumbering(layout.numbering, tests, self.targets, self.seed))
