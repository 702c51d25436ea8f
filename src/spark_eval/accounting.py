"""The accounting: every input row is used, filtered, combined, dropped or quarantined, and the sum closes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spark_eval.conventions import Conventions, NoHits, NoRecommendations, NoTruth
from spark_eval.errors import DataError, SparkEvalError
from spark_eval.schema import FATAL, FOLDS, Fault, Outcome, Reason

# Column names with the types of the table ``accounting``.
ACCOUNTING: Final = "source string, model string, outcome string, reason string, rows long, users long"
# Users of each model who have a list and truth, those of them without a hit, and those without truth.
WITH_TRUTH = "with_truth"
WITHOUT_HITS = "without_hits"
WITHOUT_TRUTH = "without_truth"
# Hits that share a rank.
CLASHES = "clashes"
# What is counted of lists or users beside rows: each a count of such users.
BESIDE: Final = (Outcome.TIES_AT_CUT, Outcome.RANK_GAPS, Outcome.ODD_IDS)
AccountingRow = tuple[str, str | None, str, str | None, int, int | None]


class Entry(NamedTuple):
    """One line of the accounting table; ``users`` is None where counting them would cost a shuffle."""

    source: str
    model: str | None
    outcome: str
    reason: str | None
    rows: int
    users: int | None


def truth_entries(counts: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Entries of the truth, from ``engine.bucket.Bucket.truth_counts``, added up."""
    entries: list[Entry] = []
    for count in counts:
        rows, distinct, users, reason = (count[name] for name in ("rows", "distinct", "users", "fault"))
        if count["everything"]:
            entries.insert(0, Entry("truth", None, Outcome.IN, None, rows or 0, users))
        elif reason is None:
            cold = count.get("cold", 0)
            warm_users = count["warm_users"] if cold else users
            if distinct > cold:
                entries.append(Entry("truth", None, Outcome.USED, None, distinct - cold, warm_users))
            if cold:
                reason, users = Reason.COLD_ITEM, count["cold_users"]
                entries.append(Entry("truth", None, Outcome.USED, reason, cold, users))
            if rows > distinct:
                repeated = (Outcome.DEDUPLICATED, Reason.REPEATED_ITEM)
                entries.append(Entry("truth", None, *repeated, rows - distinct, None))
            entries += beside("truth", None, count)
        else:
            outcome = Outcome.QUARANTINED if reason in set(Fault) else Outcome.FILTERED
            entries.append(Entry("truth", None, outcome, reason, rows, users))
    return entries


def train_entries(counts: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Entries of the training interactions, from ``transforms.segments.count_train``."""
    entries: list[Entry] = []
    for count in counts:
        rows, users, reason = count["rows"] or 0, count["users"], count["fault"]
        if count["everything"]:
            entries.insert(0, Entry("train", None, Outcome.IN, None, rows, users))
        else:
            outcome = Outcome.USED if reason is None else Outcome.QUARANTINED
            entries.append(Entry("train", None, outcome, reason, rows, users))
            entries += [] if reason else beside("train", None, count)
    return entries


def beside(source: str, model: str | None, count: Mapping[str, Any]) -> list[Entry]:
    """What is worth knowing of a table: users of whom something holds, and how much one of them has."""
    entries = []
    for name, users in count.items():
        outcome, _, reason = name.partition(".")
        if outcome in BESIDE and users:
            entries.append(Entry(source, model, outcome, reason or None, 0, users))
    if largest := count.get(Outcome.LARGEST):
        entries.append(Entry(source, model, Outcome.LARGEST, f"rows={largest}", 0, 1))
    return entries


def list_entries(
    counts: Iterable[Mapping[str, Any]],
    n_truth_users: int,
    conventions: Conventions,
) -> list[Entry]:
    """Entries of the recommendations and the users per model, from ``AllLists.counts``, added up."""
    entries = []
    for count in sorted(counts, key=lambda count: str(count["model"])):
        for name in (name.removesuffix(".rows") for name in count if name.endswith(".rows")):
            outcome, reason = name.split(".")
            if reason == Reason.NO_TRUTH and conventions.no_truth is NoTruth.ZERO:
                outcome = Outcome.USED
            rows, users = count[f"{name}.rows"], count[f"{name}.users"]
            if rows or outcome == Outcome.IN:
                entries.append(Entry("recommendations", count["model"], outcome, reason or None, rows, users))
        if count["clashes"]:
            clash = Fault.DUPLICATE_RANK
            entries.append(
                Entry("recommendations", count["model"], Outcome.QUARANTINED, clash, count["clashes"], None)
            )
        entries += user_entries(count, n_truth_users, conventions)
    return entries


def user_entries(count: Mapping[str, Any], n_truth_users: int, conventions: Conventions) -> list[Entry]:
    """Who is in the mean of a model, and who is not: users are the rows of the source ``users``."""
    model = count["model"]
    without = n_truth_users - count["with_truth"]
    is_dropped = {
        Reason.NO_RECOMMENDATIONS: conventions.no_recommendations is NoRecommendations.DROP,
        Reason.NO_TRUTH: conventions.no_truth is NoTruth.DROP,
        Reason.NO_HITS: conventions.no_hits is NoHits.DROP,
    }
    users = {
        None: count["with_truth"] - count["without_hits"],
        Reason.NO_HITS: count["without_hits"],
        Reason.NO_RECOMMENDATIONS: without,
        Reason.NO_TRUTH: count["without_truth"],
    }
    entries = [
        Entry(
            "recommendations", model, Outcome.NO_RECOMMENDATIONS, conventions.no_recommendations, 0, without
        )
    ]
    entries += beside("recommendations", model, count)
    entries.append(Entry("users", model, Outcome.IN, None, sum(users.values()), sum(users.values())))
    for reason, number in users.items():
        outcome = Outcome.DROPPED if reason and is_dropped[reason] else Outcome.USED
        if number:
            entries.append(Entry("users", model, outcome, reason, number, number))
    return entries


def check(entries: Sequence[Entry], beside: Sequence[DataError] = ()) -> None:
    """Raise DataError for faults that refuse a table, with those ``beside`` in one; then close the ledger."""
    faults = [
        DataError(entry.reason, f"{where(entry)}: {entry.rows} {FATAL[Fault(entry.reason)]}")
        for entry in entries
        if entry.reason is not None and entry.reason in set(FATAL)
    ]
    DataError.raise_all([*faults, *beside])
    for total in (entry for entry in entries if entry.outcome == Outcome.IN):
        others = sum(
            entry.rows
            for entry in entries
            if (entry.source, entry.model) == (total.source, total.model) and entry is not total
        )
        if others != total.rows:
            raise SparkEvalError(
                "LEDGER_OPEN",
                f"{where(total)}: {total.rows} rows in, {others} accounted for; please report this",
            )


def rows_in(entries: Iterable[Entry], source: str) -> int:
    """The rows that a source had."""
    return sum(entry.rows for entry in entries if (entry.source, entry.outcome) == (source, Outcome.IN))


def totals(ledger: Iterable[AccountingRow]) -> dict[str, int | None]:
    """What an operator looks for: rows in, used and quarantined, users of the largest mean, models."""
    rows, users = Counter[str](), Counter[str | None]()
    for source, model, outcome, _, n_rows, _ in ledger:
        if source not in ("users", FOLDS):
            rows[outcome] += n_rows
        elif source == "users" and outcome == Outcome.USED:
            users[model] += n_rows
    outcomes = (Outcome.IN, Outcome.USED, Outcome.QUARANTINED)
    return {f"rows_{outcome}": rows[outcome] for outcome in outcomes} | {
        "users": max(users.values(), default=None),
        "models": len(users) or None,
    }


def where(entry: Entry) -> str:
    """The table, and the model if it is one model's."""
    return entry.source if entry.model is None else f"{entry.source} of model {entry.model!r}"
