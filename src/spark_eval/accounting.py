"""The accounting: every input row is used, filtered, combined, dropped or quarantined, and the sum closes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spark_eval.conventions import Conventions, NoHits, NoRecommendations, NoTruth
from spark_eval.errors import DataError, SparkEvalError
from spark_eval.schema import FATAL, FOLDS, Fault, Outcome, Reason

# Column names with the types of the table ``accounting``.
ACCOUNTING: Final = "source string, model string, outcome string, reason string, rows long, users long"
RECOMMENDATIONS: Final = "recommendations"
USERS: Final = "users"
# Users of each model who have a list and truth, those of them without a hit, and those without truth.
WITH_TRUTH: Final = "with_truth"
WITHOUT_HITS: Final = "without_hits"
WITHOUT_TRUTH: Final = "without_truth"
# Hits that share a rank.
CLASHES: Final = "clashes"
# What is counted of lists or users beside rows: each a count of such users.
BESIDE: Final = (
    Outcome.TIES_AT_CUT,
    Outcome.RANK_GAPS,
    Outcome.ODD_IDS,
    Outcome.EMPTY_LISTS,
    Outcome.OUTSIDE_CATALOG,
    Outcome.UNSEEN_ITEMS,
    Outcome.WITHOUT_GROUPS,
    Outcome.WITHOUT_FEATURES,
    Outcome.WITHOUT_VECTORS,
)
# Counts of which the largest is told, not the sum.
LARGEST: Final = (Outcome.LARGEST, "max_relevance")


class Entry(NamedTuple):
    """A row of the table ``accounting``; ``users`` is None where counting them would cost a shuffle."""

    source: str
    model: str | None
    outcome: str
    reason: str | None
    rows: int
    users: int | None

    @property
    def table(self) -> str:
        """The table that it is of, and the model if it is one model's."""
        return self.source if self.model is None else f"{self.source} of model {self.model!r}"


def added_counts(parts: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Add counts that agree in ``keys``; of what is a largest number, keep the largest."""
    totals: dict[tuple[Any, ...], dict[str, Any]] = {}
    for part in parts:
        total = totals.setdefault(tuple(part[key] for key in keys), {})
        for name, number in part.items():
            known = total.get(name)
            if known is None or name in keys:
                total[name] = number
            elif number is not None:
                total[name] = max(known, number) if name in LARGEST else known + number
    return list(totals.values())


def table_entries(source: str, counts: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the entries of the truth or of the training interactions, from counts by fault, ``in`` first."""
    entries: list[Entry] = []
    for count in sorted(counts, key=lambda count: not count["everything"]):
        rows, users, reason = count["rows"] or 0, count["users"], count["fault"]
        if count["everything"]:
            entries.append(Entry(source, None, Outcome.IN, None, rows, users))
        elif reason is None:
            entries += used_entries(source, count)
        else:
            outcome = Outcome.QUARANTINED if reason in set(Fault) else Outcome.FILTERED
            entries.append(Entry(source, None, outcome, reason, rows, users))
    return entries


def used_entries(source: str, count: Mapping[str, Any]) -> list[Entry]:
    """Return the entries of rows without a fault: warm items, cold items, rows that repeat an item."""
    rows, cold = count["rows"], count.get("cold", 0)
    distinct = count.get("distinct", rows)
    lines = (
        (Outcome.USED, None, distinct - cold, count["warm_users"] if cold else count["users"]),
        (Outcome.USED, Reason.COLD_ITEM, cold, count.get("cold_users")),
        (Outcome.DEDUPLICATED, Reason.REPEATED_ITEM, rows - distinct, None),
    )
    entries = [Entry(source, None, *line) for line in lines if line[2]]
    return entries + beside(source, None, count)


def beside(source: str, model: str | None, count: Mapping[str, Any]) -> list[Entry]:
    """Return entries without rows: users of whom something holds, and how much one of them has."""
    entries = []
    for name, users in count.items():
        outcome, _, reason = name.partition(".")
        if outcome in BESIDE and users:
            entries.append(Entry(source, model, outcome, reason or None, 0, users))
    if largest := count.get(Outcome.LARGEST):
        entries.append(Entry(source, model, Outcome.LARGEST, f"rows={largest}", 0, 1))
    return entries


def list_entries(
    counts: Iterable[Mapping[str, Any]], n_truth_users: int, conventions: Conventions
) -> list[Entry]:
    """Return the entries of lists and users per model, from ``AllLists.counts``, added up."""
    entries = []
    for count in sorted(counts, key=lambda count: str(count["model"])):
        model = count["model"]
        for name in (name.removesuffix(".rows") for name in count if name.endswith(".rows")):
            outcome, reason = name.split(".")
            if reason == Reason.NO_TRUTH and conventions.no_truth is NoTruth.ZERO:
                outcome = Outcome.USED
            rows, users = count[f"{name}.rows"], count[f"{name}.users"]
            if rows or outcome == Outcome.IN:
                entries.append(Entry(RECOMMENDATIONS, model, outcome, reason or None, rows, users))
        if clashes := count[CLASHES]:
            clash = (Outcome.QUARANTINED, Fault.DUPLICATE_RANK, clashes, None)
            entries.append(Entry(RECOMMENDATIONS, model, *clash))
        without = n_truth_users - count[WITH_TRUTH]
        rule = (Outcome.NO_RECOMMENDATIONS, conventions.no_recommendations, 0, without)
        entries.append(Entry(RECOMMENDATIONS, model, *rule))
        entries += beside(RECOMMENDATIONS, model, count)
        entries += user_entries(count, without, conventions)
    return entries


def user_entries(count: Mapping[str, Any], without: int, conventions: Conventions) -> list[Entry]:
    """Return who is in the mean of a model, and who is not: users are the rows of the source ``users``."""
    users = (
        (None, count[WITH_TRUTH] - count[WITHOUT_HITS], False),
        (Reason.NO_HITS, count[WITHOUT_HITS], conventions.no_hits is NoHits.DROP),
        (Reason.NO_RECOMMENDATIONS, without, conventions.no_recommendations is NoRecommendations.DROP),
        (Reason.NO_TRUTH, count[WITHOUT_TRUTH], conventions.no_truth is NoTruth.DROP),
    )
    total = sum(number for _, number, _ in users)
    lines = [
        (Outcome.DROPPED if is_dropped else Outcome.USED, reason, number, number)
        for reason, number, is_dropped in users
        if number
    ]
    return [Entry(USERS, count["model"], *line) for line in ((Outcome.IN, None, total, total), *lines)]


def check(entries: Sequence[Entry], others: Sequence[DataError] = ()) -> None:
    """Raise one DataError for faults that refuse a table and for ``others``; then check that sums close."""
    faults = [
        DataError(entry.reason, f"{entry.table}: {entry.rows} {FATAL[Fault(entry.reason)]}")
        for entry in entries
        if entry.reason is not None and entry.reason in set(FATAL)
    ]
    DataError.raise_all([*faults, *others])
    check_closed(entries)


def check_closed(entries: Iterable[Entry]) -> None:
    """Raise SparkEvalError LEDGER_OPEN unless the ``in`` of every table is the sum of all its others."""
    rows, accounted = dict[str, int](), Counter[str]()
    for entry in entries:
        if entry.outcome == Outcome.IN:
            rows[entry.table] = entry.rows
        else:
            accounted[entry.table] += entry.rows
    for table, n_rows in rows.items():
        if n_rows != accounted[table]:
            message = f"{table}: {n_rows} rows in, {accounted[table]} accounted for; please report this"
            raise SparkEvalError("LEDGER_OPEN", message)


def rows_in(entries: Iterable[Entry], source: str) -> int:
    """Return the rows that a source had."""
    return sum(entry.rows for entry in entries if (entry.source, entry.outcome) == (source, Outcome.IN))


def totals(entries: Iterable[Entry]) -> dict[str, int | None]:
    """Return what an operator looks for: rows in, used, quarantined, users of the largest mean, models."""
    rows, users = Counter[str](), Counter[str | None]()
    for entry in entries:
        if entry.source not in (USERS, FOLDS):
            rows[entry.outcome] += entry.rows
        elif entry.source == USERS and entry.outcome == Outcome.USED:
            users[entry.model] += entry.rows
    outcomes = (Outcome.IN, Outcome.USED, Outcome.QUARANTINED)
    return {f"rows_{outcome}": rows[outcome] for outcome in outcomes} | {
        USERS: max(users.values(), default=None),
        "models": len(users) or None,
    }
