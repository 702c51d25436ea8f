"""What is counted of the rows of a split on their way, and the accounting that follows from it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spark_eval.accounting import Entry, check
from spark_eval.errors import DataError
from spark_eval.schema import FOLDS, Fault, Outcome, Reason, Subset
from spark_eval.splits.fold_rule import POLICIES, FoldRule

INTERACTIONS: Final = "interactions"
# What becomes of rows that no fold uses, by the code that they have.
UNUSED: Final[Mapping[str, Outcome]] = {
    **dict.fromkeys((Reason.BEFORE_START, Reason.GAP, Reason.AFTER_END, *POLICIES), Outcome.DROPPED),
    **dict.fromkeys((Fault.NULL_ID, Fault.NULL_TIMESTAMP), Outcome.QUARANTINED),
}
# Rows and users of each fold, from 0 on, by the name of a part or a check.
FoldCounts = Mapping[str, Sequence[tuple[int, int]]]


@dataclass
class Facts:
    """How many rows a log has, how many of them any fold uses, and ``counts`` of all others by code.

    ``counts`` has rows before 1900, too. ``places`` of rows in single folds are counted by subset, or by the
    policy that dropped them. ``ends`` are the last moments of each subset in each fold, in microseconds;
    none where nobody has looked.
    """

    rule: FoldRule
    n_rows: int = 0
    n_used: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    ends: dict[tuple[str, int], int] = field(default_factory=dict, compare=False)

    def add(self, other: "Facts") -> None:
        """Add what a task has counted."""
        self.n_rows += other.n_rows
        self.n_used += other.n_used
        self.counts.update(other.counts)
        self.places.update(other.places)
        for (subset, fold), end in other.ends.items():
            self.reach(subset, fold, end)

    def reach(self, subset: str, fold: int, end: int) -> None:
        """Note that a subset has a row of this moment."""
        self.ends[subset, fold] = max(end, self.ends.get((subset, fold), end))

    def add_rows(self, outcomes: Sequence[str], n_rows: int) -> None:
        """Count rows that have the same outcome in each fold."""
        subsets = [outcome for outcome in outcomes if outcome in set(Subset)]
        self.n_rows += n_rows
        for subset in subsets:
            self.places[subset] += n_rows
        if subsets:
            self.n_used += n_rows
        else:
            self.counts[next(filter(None, outcomes))] += n_rows

    @property
    def n_written(self) -> int:
        """How many rows the table ``splits`` has."""
        return sum(self.places[subset] for subset in self.rule.subsets)

    def accounting(self) -> list[Entry]:
        """Return the lines of the log; one is for all rows in use, where folds have lines of their own.

        Raises DataError EMPTY_INPUT, or SparkEvalError LEDGER_OPEN unless ``in`` is the sum of all others.
        """
        n_bad = sum(self.counts[code] for code, outcome in UNUSED.items() if outcome is Outcome.QUARANTINED)
        if self.n_rows == n_bad:
            raise DataError("EMPTY_INPUT", f"{INTERACTIONS}: no valid row to split; see columns and where")
        used: dict[str | None, int] = {None: self.n_used}
        if not self.rule.reports_folds:
            used = {subset.value: self.places[subset] for subset in self.rule.subsets}
        lines: list[tuple[str, str | None, int]] = [(Outcome.IN, None, self.n_rows)]
        lines += [(Outcome.USED, reason, n_rows) for reason, n_rows in used.items()]
        lines += [(outcome, str(code), self.counts[code]) for code, outcome in UNUSED.items()]
        rows = closed_rows([Entry(INTERACTIONS, None, *line, None) for line in lines])
        if n_early := self.counts[Outcome.BEFORE_1900]:
            rows.append(Entry(INTERACTIONS, None, Outcome.BEFORE_1900, f"rows={n_early}", 0, None))
        return rows

    def accounting_of_folds(self, counts: FoldCounts) -> list[Entry]:
        """Return the lines of the folds: a row counts once for each fold in which it has a place.

        Raises SparkEvalError LEDGER_OPEN unless the folds have as many rows as were written.
        """
        dropped = {reason.value: self.places[reason] for reason in POLICIES}
        n_places = self.n_written + sum(dropped.values())
        entries = [Entry(FOLDS, None, Outcome.IN, None, n_places, None)]
        for fold in range(len(counts[Subset.TRAIN])):
            for part in self.rule.subsets:
                entries.append(Entry(FOLDS, None, Outcome.USED, f"fold {fold} {part}", *counts[part][fold]))
        entries += [Entry(FOLDS, None, Outcome.DROPPED, reason, n, None) for reason, n in dropped.items()]
        return closed_rows(entries)


def closed_rows(entries: Sequence[Entry]) -> list[Entry]:
    """Return the lines that count a row, once the accounting is closed; the first one counts all rows."""
    check(entries)
    return [entry for entry in entries if entry.rows or entry is entries[0]]
