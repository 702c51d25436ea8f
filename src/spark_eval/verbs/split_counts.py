"""What is counted of a split's rows on their way: the lines of its ledger, and where its parts end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_eval.accounting import Entry, check_closed
from spark_eval.schema import (
    EPOCH_1900,
    FAULT,
    PREDICTION_FAULTS,
    SUBSET,
    TIMESTAMP,
    Fault,
    Outcome,
    Reason,
)
from spark_eval.splits.rules import GlobalLocalRanker

SOURCE: Final = "interactions"
# The reasons for which the splits in this package drop a row.
REASONS: Final = (Reason.GAP, Reason.AFTER_END, Reason.COLD_USER, Reason.COLD_ITEM, Reason.SEEN)
# The lines of the ledger but the first, in their order: what became of a row, by the code that it has.
LINES: Final[Mapping[str, Outcome]] = {
    **dict.fromkeys(GlobalLocalRanker.subsets, Outcome.USED),
    **dict.fromkeys(REASONS, Outcome.DROPPED),
    **{fault: Outcome.QUARANTINED for fault in Fault if fault not in PREDICTION_FAULTS},
}


@dataclass
class Facts:
    """All rows; rows by what became of them; the last moment of each part, in microseconds; rows of the table
    ``splits``; places in single folds that a policy dropped, by reason.
    """

    n_rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    ends: dict[str, int] = field(default_factory=dict)
    n_written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def columns() -> list[Column]:
        """What to aggregate, or to observe, of labelled rows; ``of`` reads it.

        On the very write of the rows it needs no second scan.
        """
        code = F.coalesce(SUBSET, FAULT)
        counts = [F.count_if(code == name).alias(f"n_{name}") for name in LINES]
        times = F.unix_micros(TIMESTAMP)
        ends = [
            F.max(F.when(F.col(SUBSET) == name, times)).alias(f"end_{name}")
            for name in GlobalLocalRanker.subsets
        ]
        return [F.count(F.lit(1)).alias("n_rows"), *counts, early(), *ends]

    @classmethod
    def of(cls, aggregates: Mapping[str, Any]) -> Self:
        """The facts that ``columns`` have found."""
        counts = Counter({name: aggregates[f"n_{name}"] for name in (*LINES, Outcome.BEFORE_1900)})
        ends = {
            name.value: end
            for name in GlobalLocalRanker.subsets
            if (end := aggregates[f"end_{name}"]) is not None
        }
        facts = cls(aggregates["n_rows"])
        facts.add(counts, ends)
        return facts

    def add(self, counts: Mapping[str, int], ends: Mapping[str, int]) -> None:
        """Take in what one task has counted."""
        self.counts.update(counts)
        self.n_written += sum(counts[part] for part in GlobalLocalRanker.subsets if part in counts)
        for name, end in ends.items():
            self.ends[name] = max(end, self.ends.get(name, end))

    def end(self, *names: str) -> int | None:
        """The last moment of several parts; None where they have no row."""
        return max((self.ends[name] for name in names if name in self.ends), default=None)

    def ledger(self) -> list[Entry]:
        """The line ``in``, every other line that counts a row, and how many happened before 1900.

        Raises SparkEvalError LEDGER_OPEN unless ``in`` is the sum of all others.
        """
        lines = [(outcome, str(name), self.counts[name]) for name, outcome in LINES.items()]
        return closed(SOURCE, self.n_rows, lines) + self.early_rows()

    def early_rows(self) -> list[Entry]:
        """The line of how many happened before 1900, if any did."""
        n_early = self.counts[Outcome.BEFORE_1900]
        line = Entry(SOURCE, None, Outcome.BEFORE_1900, f"rows={n_early}", 0, None)
        return [line] if n_early else []


def early() -> Column:
    """How many rows happened before 1900."""
    return F.count_if(F.unix_micros(TIMESTAMP) < EPOCH_1900).alias(f"n_{Outcome.BEFORE_1900}")


def closed(source: str, n_rows: int, lines: Sequence[tuple[Outcome, str | None, int]]) -> list[Entry]:
    """The line ``in`` of a source, and those of its others (outcome, reason, rows) that count a row.

    Raises SparkEvalError LEDGER_OPEN unless ``in`` is the sum of all others.
    """
    rows = [(Outcome.IN, None, n_rows), *(line for line in lines if line[2])]
    entries = [Entry(source, None, outcome, reason, count, None) for outcome, reason, count in rows]
    check_closed(entries)
    return entries
