"""Accounting: the number of rows used, filtered, deduplicated, dropped or quarantined; the counts add up."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from spark_eval.conventions import Conventions, NoHits, NoRecommendations, NoTruth
from spark_eval.errors import DataError, SparkEvalError
from spark_eval.names import counted
from spark_eval.schema import FATAL, FOLDS, Fault, Outcome, Reason, ddl_of
from spark_eval.statistics.additive import Additive, added_by

RECOMMENDATIONS: Final = "recommendations"
USERS: Final = "users"
REQUESTS: Final = "requests"
# Warn if at least this share of the lists of a model belongs to users without truth.
MOST_UNMATCHED: Final = 0.5
# Outcomes that are counted for users (or lists) only, not for rows.
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
    Outcome.WITHOUT_FLAGS,
    Outcome.WITHOUT_VALUE,
)


class Entry(NamedTuple):
    """Row of the table ``accounting``; ``users`` is None if counting them would cost a shuffle."""

    source: str
    model: str | None
    outcome: str
    reason: str | None
    rows: int
    users: int | None

    @property
    def table(self) -> str:
        """Name of the input table, with the model if the counts are of one model."""
        return self.source if self.model is None else f"{self.source} of model {self.model!r}"


ACCOUNTING: Final = ddl_of(Entry)
# Outcome of rows, and its reason.
EntryKey = tuple[Outcome, str | None]


def outcome_and_reason(fault: str) -> EntryKey:
    """Return the outcome of rows with this fault, or with this reason of a filter."""
    return (Outcome.QUARANTINED if fault in set(Fault) else Outcome.FILTERED), fault


@dataclass(frozen=True)
class Counts(Additive):
    """Counts of the rows of a table, or of a model's lists, by outcome, in one bucket or in all.

    ``rows`` are by outcome and reason; ``in`` counts all of them. ``users`` counts the users with such rows,
    if they are counted, and users of the outcomes BESIDE. ``largest`` is the largest number of rows of a
    user, or of a list.
    """

    rows: Counter[EntryKey] = field(default_factory=Counter)
    users: Counter[EntryKey] = field(default_factory=Counter)
    largest: int = field(metadata=added_by(max), default=0)

    def note(self, key: EntryKey, rows: int, users: int) -> None:
        """Add rows and users to a key."""
        self.rows[key] += rows
        self.users[key] += users

    def entry(self, source: str, model: str | None, line: EntryKey) -> Entry:
        """Return the accounting entry of a key."""
        return Entry(source, model, *line, self.rows[line], self.users.get(line))


@dataclass(frozen=True)
class TruthCounts(Counts):
    """Counts of the truth: also its users with a relevant item, and its largest relevance."""

    n_users: int = 0
    max_relevance: float = field(metadata=added_by(max), default=0)


@dataclass(frozen=True)
class ListCounts(Counts):
    """Counts of a model's lists, and of their users: with truth, with truth but no hit, without truth.

    ``clashes`` are hits that share a rank. If users have a list per request, these are numbers of lists, and
    ``people`` counts the users who have any, who have one in the mean, and who lack one.
    """

    with_truth: int = 0
    without_hits: int = 0
    without_truth: int = 0
    clashes: int = 0
    people: Counter[Outcome] = field(default_factory=Counter)


def table_entries(source: str, counts: Counts) -> list[Entry]:
    """Return the entries of the truth, the training interactions or the items: ``in`` first, then used."""
    used = (Outcome.USED, Outcome.DEDUPLICATED)
    chosen = [line for line, rows in counts.rows.items() if rows and line[0] in used]
    left = [line for line, rows in counts.rows.items() if rows and line[0] not in (Outcome.IN, *used)]
    return [
        *(counts.entry(source, None, line) for line in [(Outcome.IN, None), *chosen]),
        *user_lines(source, None, counts),
        *(counts.entry(source, None, line) for line in sorted(left, key=lambda line: str(line[1]))),
    ]


def user_lines(source: str, model: str | None, counts: Counts) -> list[Entry]:
    """Return entries that count users only, and the entry of the largest number of rows."""
    known = (line for line, users in counts.users.items() if line[0] in BESIDE and users)
    entries = [counts.entry(source, model, line) for line in known]
    if counts.largest:
        entries.append(Entry(source, model, Outcome.LARGEST, f"rows={counts.largest}", 0, 1))
    return entries


def list_entries(
    counts: Mapping[str | None, ListCounts],
    n_truth_users: int,
    conventions: Conventions,
    n_repeats: Mapping[str | None, int] | None = None,
) -> list[Entry]:
    """Return the entries of lists and users, from the counts of each model.

    ``n_truth_users`` is the number of users with truth, or of lists with truth if there is one per request.
    Users count once for each of the ``n_repeats`` of a model, by default one.
    """
    entries = []
    for model, count in sorted(counts.items(), key=lambda one: str(one[0])):
        of_rows = (line for line, rows in count.rows.items() if rows or line[0] == Outcome.IN)
        for entry in (count.entry(RECOMMENDATIONS, model, line) for line in of_rows):
            is_used = entry.reason == Reason.NO_TRUTH and conventions.no_truth is NoTruth.ZERO
            entries.append(entry._replace(outcome=Outcome.USED) if is_used else entry)
        if count.clashes:
            clash = (Outcome.QUARANTINED, Fault.DUPLICATE_RANK, count.clashes, None)
            entries.append(Entry(RECOMMENDATIONS, model, *clash))
        without = n_truth_users * (n_repeats or {}).get(model, 1) - count.with_truth
        n_lacking = count.people[Outcome.NO_RECOMMENDATIONS] if count.people else without
        rule = (Outcome.NO_RECOMMENDATIONS, conventions.no_recommendations, 0, n_lacking)
        entries.append(Entry(RECOMMENDATIONS, model, *rule))
        entries += user_lines(RECOMMENDATIONS, model, count)
        entries += user_entries(model, count, without, conventions)
    return entries


def user_entries(model: str | None, count: ListCounts, without: int, conventions: Conventions) -> list[Entry]:
    """Return the entries of the source ``users``: users in the mean of a model, and users left out.

    With a list per request, the source ``requests`` says the same of lists.
    """
    users = (
        (None, count.with_truth - count.without_hits, False),
        (Reason.NO_HITS, count.without_hits, conventions.no_hits is NoHits.DROP),
        (Reason.NO_RECOMMENDATIONS, without, conventions.no_recommendations is NoRecommendations.DROP),
        (Reason.NO_TRUTH, count.without_truth, conventions.no_truth is NoTruth.DROP),
    )
    total = sum(number for _, number, _ in users)
    lines = [
        (Outcome.DROPPED if is_dropped else Outcome.USED, reason, number, number)
        for reason, number, is_dropped in users
        if number
    ]
    if not count.people:
        return [Entry(USERS, model, *line) for line in ((Outcome.IN, None, total, total), *lines)]
    n_users, n_used = count.people[Outcome.IN], count.people[Outcome.USED]
    of_users = [(Outcome.IN, n_users), (Outcome.USED, n_used), (Outcome.DROPPED, n_users - n_used)]
    return [
        Entry(REQUESTS, model, Outcome.IN, None, total, n_users),
        *(Entry(REQUESTS, model, outcome, reason, n, None) for outcome, reason, n, _ in lines),
        *(Entry(USERS, model, outcome, None, n, n) for outcome, n in of_users if n),
    ]


def check_accounting(entries: Sequence[Entry], others: Sequence[DataError] = ()) -> None:
    """Raise one DataError for fatal faults and ``others``; then check that the counts add up."""
    faults = [
        DataError(entry.reason, f"{entry.table}: {entry.rows} {FATAL[Fault(entry.reason)]}")
        for entry in entries
        if entry.reason is not None and entry.reason in set(FATAL)
    ]
    DataError.raise_all([*faults, *others])
    check_closed(entries)


def check_closed(entries: Iterable[Entry]) -> None:
    """Raise SparkEvalError LEDGER_OPEN unless ``in`` is the sum of the other outcomes for every table."""
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


def unusable(entries: Iterable[Entry]) -> list[str]:
    """Return a sentence for each table, or model, with quarantined rows: their number, share and codes."""
    known, by_table = dict[str, int](), dict[str, list[Entry]]()
    for entry in entries:
        if entry.outcome == Outcome.IN:
            known[entry.table] = entry.rows
        elif entry.outcome == Outcome.QUARANTINED and entry.rows:
            by_table.setdefault(entry.table, []).append(entry)
    notes = []
    for table, bad in by_table.items():
        n_bad, codes = sum(one.rows for one in bad), ", ".join(f"{one.rows:,} {one.reason}" for one in bad)
        share = f"{100 * n_bad / known[table]:.3g} % of " if known.get(table) else ""
        what = f"{n_bad:,} rows could not be used ({share}{table}: {codes})"
        notes.append(f"{what}; the table accounting tells why")
    return notes


def unmatched_lists(entries: Iterable[Entry]) -> list[str]:
    """Return a warning for each model if half of its lists or more belong to users without truth.

    >>> lists, unmatched = ("users", "als", "in", None, 10, 10), ("users", "als", "dropped", "no_truth", 8, 8)
    >>> [note] = unmatched_lists([Entry(*lists), Entry(*unmatched)])
    >>> note.partition("; ")[0]
    'warning: 8 of 10 lists of als met no truth (80 %, no_truth=drop)'
    """
    n_lists, unmatched = Counter[tuple[str, str | None]](), dict[tuple[str, str | None], Entry]()
    for entry in entries:
        if entry.source in (USERS, REQUESTS):
            key = entry.source, entry.model
            n_lists[key] += entry.rows if entry.outcome == Outcome.IN else 0
            n_lists[key] -= entry.rows if entry.reason == Reason.NO_RECOMMENDATIONS else 0
            if entry.reason == Reason.NO_TRUTH:
                unmatched[key] = entry
    notes = []
    for (source, model), entry in unmatched.items():
        n = n_lists[source, model]
        if n and entry.rows >= MOST_UNMATCHED * n:
            rule = f"no_truth={'drop' if entry.outcome == Outcome.DROPPED else 'zero'}"
            what = f"{entry.rows:,} of {counted(n, 'list')} of {model} met no truth"
            share = f"{100 * entry.rows / n:.3g} %, {rule}"
            notes.append(f"warning: {what} ({share}); check `user` of both tables, and the subset")
    return notes


def entries_of_rows(rows: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the entries of rows of the table ``accounting``."""
    return [Entry(*(row[name] for name in Entry._fields)) for row in rows]


def rows_in(entries: Iterable[Entry], source: str) -> int:
    """Return the number of input rows of a source."""
    return sum(entry.rows for entry in entries if (entry.source, entry.outcome) == (source, Outcome.IN))


def headline_counts(entries: Iterable[Entry]) -> dict[str, int | None]:
    """Return a summary for operators: rows in, used, quarantined, users of the largest mean, models.

    Rows of a whole table that are also counted by experiment are counted once.
    """
    entries = list(entries)
    whole = {entry.source for entry in entries if entry.model is None and entry.outcome == Outcome.IN}
    rows, users = Counter[str](), Counter[str | None]()
    for entry in entries:
        if entry.source not in (USERS, REQUESTS, FOLDS) and (
            entry.model is None or entry.source not in whole
        ):
            rows[entry.outcome] += entry.rows
        elif entry.source == USERS and entry.outcome == Outcome.USED:
            users[entry.model] += entry.rows
    outcomes = (Outcome.IN, Outcome.USED, Outcome.QUARANTINED)
    return {f"rows_{outcome}": rows[outcome] for outcome in outcomes} | {
        USERS: max(users.values(), default=None),
        "models": len(users) or None,
    }
