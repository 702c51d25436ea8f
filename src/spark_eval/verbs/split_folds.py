"""What is counted of a split in folds: its ledger, and what of a fold's test is in its train."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from spark_eval.accounting import Entry
from spark_eval.errors import DataError, SparkEvalError
from spark_eval.schema import (
    FAULT,
    FOLD,
    FOLDS,
    ITEM,
    SUBSET,
    TIMESTAMP,
    USER,
    Fault,
    Outcome,
    Reason,
    Subset,
)
from spark_eval.splits.folds import PAIRS_IN_BOTH, TEST_EARLY, USERS_EARLY, USERS_IN_BOTH, FoldRule
from spark_eval.transforms.label_folds import PLACES
from spark_eval.verbs.leakage import LeakageRow
from spark_eval.verbs.split_counts import SOURCE, Facts, closed, early

# Why a row is dropped in a fold for what else there is.
POLICIES: Final = (Reason.COLD_USER, Reason.COLD_ITEM, Reason.SEEN)
# The lines of the ledger but ``in`` and ``used``: what became of rows that are used in no fold.
LINES: Final[Mapping[str, Outcome]] = {
    **dict.fromkeys((Reason.BEFORE_START, Reason.GAP, Reason.AFTER_END, *POLICIES), Outcome.DROPPED),
    **dict.fromkeys((Fault.NULL_ID, Fault.NULL_TIMESTAMP), Outcome.QUARANTINED),
}
PARTS: Final = (Subset.TRAIN, Subset.VALIDATION, Subset.TEST)
# Empty parts that an error names.
MOST_NAMED: Final = 5


@dataclass
class FoldFacts(Facts):
    """All rows of the log; ``counts`` of those that are used in no fold, by reason; rows used in any."""

    n_used: int = 0

    @staticmethod
    def columns_of(rule: FoldRule) -> list[Column]:
        """What to aggregate, or to observe, of a log with its PLACES; ``of`` reads it."""
        counts = [F.count_if(F.col(FAULT) == name).alias(f"n_{name}") for name in LINES]
        n_dropped = [n_places(F.col(PLACES), reason).alias(f"dropped_{reason}") for reason in POLICIES]
        return [
            F.count(F.lit(1)).alias("n_rows"),
            F.count_if(F.col(FAULT).isNull()).alias("n_used"),
            n_places(F.col(PLACES)).alias("n_places"),
            *counts,
            early(),
            *(n_dropped if rule.drops else []),
        ]

    @classmethod
    def of(cls, aggregates: Mapping[str, Any]) -> Self:
        """The facts that ``columns_of`` have found."""
        dropped = Counter({reason.value: aggregates.get(f"dropped_{reason}") or 0 for reason in POLICIES})
        return cls(
            n_rows=aggregates["n_rows"],
            counts=Counter({name: aggregates[f"n_{name}"] for name in (*LINES, Outcome.BEFORE_1900)}),
            dropped=dropped,
            n_written=(aggregates["n_places"] or 0) - dropped.total(),
            n_used=aggregates["n_used"],
        )

    def ledger(self) -> list[Entry]:
        """Of the log: ``used`` is every row that is in a part of any fold.

        Raises DataError EMPTY_INPUT, or SparkEvalError LEDGER_OPEN unless ``in`` is the sum of the others.
        """
        if not self.n_rows - sum(self.counts[fault] for fault in (Fault.NULL_ID, Fault.NULL_TIMESTAMP)):
            raise DataError("EMPTY_INPUT", f"{SOURCE}: no sound row to split; see columns and where")
        lines = [(outcome, str(name), self.counts[name]) for name, outcome in LINES.items()]
        return closed(SOURCE, self.n_rows, [(Outcome.USED, None, self.n_used), *lines]) + self.early_rows()


def n_places(places: Column, reason: Reason | None = None) -> Column:
    """How many places rows have; those only that are dropped for a reason."""
    found = places if reason is None else F.filter(places, lambda place: place[FAULT] == reason.value)
    return F.sum(F.when(places.isNotNull(), F.size(found)))


def users_of(name: str) -> str:
    """The column with the users of whom a part or a check has rows."""
    return f"users_{name}"


def compared(rows: DataFrame, rule: FoldRule, n_folds: int) -> list[Row]:
    """A Row per fold, in their order: of each part and check its rows, and its users as ``users_…``.

    ``rows`` has user, item, timestamp, fold and subset. One shuffle, by fold and user.

    - ``test_at_or_before_train``: rows of test not after the last row of the fold's train.
    - ``test_at_or_before_users_train``: the same within each user.
    - ``users_in_train_and_test``: rows of test or validation whose user has a row in an earlier part.
    - ``pairs_in_train_and_test``: the same of user and item.

    Raises DataError SPLIT_OUT_OF_RANGE where a part of a fold has no row.
    """
    columns = rows.select(FOLD, USER, ITEM, TIMESTAMP, SUBSET)
    names = [*PARTS, *rule.checks]
    is_train, is_test = F.col(SUBSET) == Subset.TRAIN.value, F.col(SUBSET) == Subset.TEST.value
    marks = {part.value: F.count_if(F.col(SUBSET) == part.value) for part in PARTS}
    if TEST_EARLY in rule.checks:
        ends = columns.where(is_train).groupBy(FOLD).agg(F.max(TIMESTAMP).alias("end"))
        columns = columns.join(F.broadcast(ends), FOLD, "left")
        marks[TEST_EARLY] = F.count_if(is_test & (F.col(TIMESTAMP) <= F.col("end")))
    columns = columns.repartition(FOLD, USER)
    if USERS_EARLY in rule.checks:
        of_user = Window.partitionBy(FOLD, USER)
        columns = columns.withColumn("users_end", F.max(F.when(is_train, F.col(TIMESTAMP))).over(of_user))
        marks[USERS_EARLY] = F.count_if(is_test & (F.col(TIMESTAMP) <= F.col("users_end")))
    pairs = columns.groupBy(FOLD, USER, ITEM).agg(*(count.alias(name) for name, count in marks.items()))
    sums = [F.sum(name).alias(name) for name in marks]
    users = pairs.groupBy(FOLD, USER).agg(*sums, F.sum(n_met()).alias(PAIRS_IN_BOTH))
    users = users.withColumn(USERS_IN_BOTH, n_met())
    totals = [F.sum(name).alias(name) for name in names]
    totals += [F.count_if(F.col(name) > 0).alias(users_of(name)) for name in names]
    folds = sorted(users.groupBy(FOLD).agg(*totals).collect(), key=lambda fold: int(fold[FOLD]))
    check_folds(folds, rule, n_folds)
    return folds


def n_met() -> Column:
    """Of a user, or a pair, the rows in parts that come after another part with rows of the same."""
    train, validation, test = (F.col(part.value) for part in PARTS)
    return F.when(train > 0, validation + test).when(validation > 0, test).otherwise(0)


def check_folds(folds: Sequence[Row], rule: FoldRule, n_folds: int) -> None:
    """Raise DataError SPLIT_OUT_OF_RANGE where a part of a fold has no row."""
    rows = {(fold[FOLD], part): fold[part] for fold in folds for part in PARTS}
    parts = [(fold, part) for fold in range(n_folds) for part in rule.subsets]
    empty = [f"{part} of fold {fold}" for fold, part in parts if not rows.get((fold, part))]
    if empty:
        more = f" and {len(empty) - MOST_NAMED} more" if len(empty) > MOST_NAMED else ""
        message = f"no row is left for {', '.join(empty[:MOST_NAMED])}{more}"
        hint = "take fewer folds, larger parts, exact, or a longer log"
        raise DataError("SPLIT_OUT_OF_RANGE", f"{message}; {hint}")


def fold_ledger(folds: Iterable[Row], facts: Facts) -> list[Entry]:
    """Of the folds that ``compared`` has found: a row counts once for each fold in which it has a place, in
    ``in`` too.

    Raises SparkEvalError LEDGER_OPEN unless they are the rows that were written.
    """
    used = [
        Entry(FOLDS, None, Outcome.USED, f"fold {fold[FOLD]} {part}", fold[part], fold[users_of(part)])
        for fold in folds
        for part in PARTS
        if fold[part]
    ]
    n_used = sum(entry.rows for entry in used)
    if n_used != facts.n_written:
        message = f"{FOLDS}: {facts.n_written} rows written, but {n_used} found; report this"
        raise SparkEvalError("LEDGER_OPEN", message)
    dropped = [
        Entry(FOLDS, None, Outcome.DROPPED, reason, number, None)
        for reason, number in facts.dropped.items()
        if number
    ]
    n_all = n_used + facts.dropped.total()
    return [Entry(FOLDS, None, Outcome.IN, None, n_all, None), *used, *dropped]


def leaks(folds: Iterable[Row], rule: FoldRule) -> list[LeakageRow]:
    """The leakage report: per fold and check of the rule fold, check, rows, users, leaked."""
    return [
        (fold[FOLD], check, fold[check], fold[users_of(check)], is_leak and fold[check] > 0)
        for fold in folds
        for check, is_leak in rule.checks.items()
    ]
