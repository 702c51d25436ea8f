"""Row counts of a split, and the accounting derived from them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spark_eval.accounting import Entry, check_accounting
from spark_eval.errors import DataError
from spark_eval.schema import FOLDS, Fault, Outcome, Reason, Subset
from spark_eval.splits.rules.fold_rule import POLICIES, FoldRule
from spark_eval.statistics.additive import Accumulator, added_by, the_same

INTERACTIONS: Final = "interactions"
# Accounting outcome of rows that no fold uses, by their code.
UNUSED: Final[Mapping[str, Outcome]] = {
    **dict.fromkeys(
        (Reason.BEFORE_START, Reason.GAP, Reason.AFTER_END, Reason.AFTER_TARGET, *POLICIES), Outcome.DROPPED
    ),
    **dict.fromkeys((Fault.NULL_ID, Fault.NULL_TIMESTAMP), Outcome.QUARANTINED),
}
# (rows, users) of each fold, from fold 0 on, by the name of a subset or a leakage check.
FoldCounts = Mapping[str, Sequence[tuple[int, int]]]


def latest(one: Mapping[Any, int], other: Mapping[Any, int]) -> dict[Any, int]:
    """Return the later moment of each key."""
    return {key: max(ends[key] for ends in (one, other) if key in ends) for key in (*one, *other)}


@dataclass
class SplitCounts(Accumulator):
    """Row counts of a log: all rows, rows that some fold uses, and ``counts`` of all others by code.

    ``counts`` also has the rows before 1900. ``assigned`` counts a row once per fold, by subset or by the
    policy that dropped it there. ``ends`` are the latest timestamps of each subset in each fold, in
    microseconds; empty if unknown.
    """

    rule: FoldRule = field(metadata=added_by(the_same))
    n_rows: int = 0
    n_used: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    assigned: Counter[str] = field(default_factory=Counter)
    ends: dict[tuple[str, int], int] = field(metadata=added_by(latest), default_factory=dict, compare=False)

    def reach(self, subset: str, fold: int, end: int) -> None:
        """Raise the latest timestamp of a subset in a fold to ``end``, if it is later."""
        self.ends[subset, fold] = max(end, self.ends.get((subset, fold), end))

    def add_rows(self, outcomes: Sequence[str], n_rows: int) -> None:
        """Count rows that share their outcome in every fold; ``outcomes`` has one entry per fold."""
        self.n_rows += n_rows
        for outcome in outcomes:
            if outcome in (*Subset, *self.rule.drops):
                self.assigned[outcome] += n_rows
        if set(outcomes).intersection(Subset):
            self.n_used += n_rows
        else:
            self.counts[next(filter(None, outcomes))] += n_rows

    @property
    def n_written(self) -> int:
        """Number of rows of the table ``splits``."""
        return sum(self.assigned[subset] for subset in self.rule.subsets)

    def accounting(self) -> list[Entry]:
        """Return the accounting of the log; if folds have lines of their own, used rows are one line here.

        Raises DataError EMPTY_INPUT, or SparkEvalError LEDGER_OPEN unless ``in`` is the sum of all others.
        """
        n_bad = sum(self.counts[code] for code, outcome in UNUSED.items() if outcome is Outcome.QUARANTINED)
        if self.n_rows == n_bad:
            raise DataError("EMPTY_INPUT", f"{INTERACTIONS}: no valid row to split; see columns and where")
        used: dict[str | None, int] = {None: self.n_used}
        if not self.rule.reports_folds:
            used = {subset.value: self.assigned[subset] for subset in self.rule.subsets}
        lines: list[tuple[str, str | None, int]] = [(Outcome.IN, None, self.n_rows)]
        lines += [(Outcome.USED, reason, n_rows) for reason, n_rows in used.items()]
        lines += [(outcome, str(code), self.counts[code]) for code, outcome in UNUSED.items()]
        rows = closed_rows([Entry(INTERACTIONS, None, *line, None) for line in lines])
        if n_early := self.counts[Outcome.BEFORE_1900]:
            rows.append(Entry(INTERACTIONS, None, Outcome.BEFORE_1900, f"rows={n_early}", 0, None))
        return rows

    def accounting_of_folds(self, counts: FoldCounts) -> list[Entry]:
        """Return the accounting of the folds; a row counts once for each fold that uses or drops it.

        Raises SparkEvalError LEDGER_OPEN unless the folds have as many rows as were written.
        """
        dropped = {reason.value: self.assigned[reason] for reason in POLICIES}
        n_assigned = self.n_written + sum(dropped.values())
        entries = [Entry(FOLDS, None, Outcome.IN, None, n_assigned, None)]
        for fold in range(len(counts[Subset.TRAIN])):
            for part in self.rule.subsets:
                entries.append(Entry(FOLDS, None, Outcome.USED, f"fold {fold} {part}", *counts[part][fold]))
        entries += [Entry(FOLDS, None, Outcome.DROPPED, reason, n, None) for reason, n in dropped.items()]
        return closed_rows(entries)


def closed_rows(entries: Sequence[Entry]) -> list[Entry]:
    """Check that the entries add up; drop empty ones, but keep the total."""
    check_accounting(entries)
    return [entry for entry in entries if entry.rows or entry is entries[0]]
