"""Launch review: what changes by how much, where it is worse, what is not known, and how it was made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from spark_eval.conventions.comparison import Decision, PairTest
from spark_eval.names import counted
from spark_eval.results.leaderboard import measure_of
from spark_eval.results.sentences import (
    RARE,
    decimals_for,
    in_run,
    interval_of,
    interval_text,
    p_text,
    short,
    slice_name,
    standing,
    where,
)
from spark_eval.schema import (
    ALL,
    FOLD,
    FOLDS,
    MODEL,
    NO_TRAIN,
    SEGMENT,
    SEGMENT_VALUE,
    Direction,
    Outcome,
    Row,
    Table,
)

# Number of metrics whose change is named, of slices and segments that are worse, and of lines on one subject.
HEADLINES: Final = 3
MOST_WORSE: Final = 5
MOST_OPEN: Final = 3
# Values of built-in segments of users and items that training does not know.
COLD: Final = (NO_TRAIN, "cold")
NO_PAST: Final = "nothing: no calibration against online experiments was read"

Tables = Mapping[str, Sequence[Row]]
# Direction of better values of a metric, by its name.
Better = Callable[[str], Direction]


class Part(StrEnum):
    """Question that a launch review answers, in this order; the gates answer the first one."""

    CHANGES = "What changes"
    WORSE = "Where it is worse"
    UNKNOWN = "What is not known"
    PAST = "What the past says"
    COMMANDS = "How it was made"


def review_of(
    tables: Tables,
    better: Better,
    commands: Sequence[str],
    model: str = "",
    primary: str = "",
    past: Sequence[str] = (),
) -> dict[str, list[str]]:
    """Return the lines of each part of the review of a comparison; none without a comparison.

    ``model`` is the candidate, by default the first one that passed all of its gates, or the first one. Its
    change in the metric ``primary`` comes first, then metrics with gates, then others. ``past`` are
    sentences on past experiments.
    """
    rows = [row for row in tables.get(Table.COMPARISONS, ()) if row["test"] in set(PairTest)]
    rows = rows_of_pair(rows, model or candidate_of(rows, tables.get(Table.GATES, ())))
    if not rows:
        return {}
    parts = {
        Part.CHANGES: list(changes(rows, tables.get(Table.GATES, ()), primary)),
        Part.WORSE: list(losses(rows, tables, better)),
        Part.UNKNOWN: list(gaps(rows, tables)),
        Part.PAST: list(past) or [NO_PAST],
        Part.COMMANDS: list(commands),
    }
    return {str(part): lines for part, lines in parts.items() if lines}


def candidate_of(rows: Sequence[Row], gates: Sequence[Row]) -> str:
    """Return the first candidate that passed all of its gates; without one, the first candidate."""
    candidates = dict.fromkeys(str(row["candidate"]) for row in rows)
    failed = {str(row[MODEL]) for row in gates if not row["passed"]}
    gated = {str(row[MODEL]) for row in gates} & candidates.keys()
    in_order = sorted(candidates, key=lambda name: (name in failed, bool(gated) and name not in gated))
    return in_order[0] if in_order else ""


def rows_of_pair(rows: Sequence[Row], candidate: str) -> list[Row]:
    """Return the rows of the candidate against its first baseline, by their first test."""
    chosen = [row for row in rows if row["candidate"] == candidate]
    same = ("baseline", "baseline_run", "test")
    return [row for row in chosen if all(row[name] == chosen[0][name] for name in same)]


def changes(rows: Sequence[Row], gates: Sequence[Row], primary: str) -> Iterator[str]:
    """Yield the change of each headline metric over all users."""
    whole = [row for row in rows if row[SEGMENT] == ALL and row["difference"] is not None]
    gated = {measure_of(row) for row in gates}
    whole.sort(key=lambda row: (measure_of(row) != primary, measure_of(row) not in gated))
    for row in whole[:HEADLINES]:
        means = f"{short(row['baseline_value'])} to {short(row['candidate_value'])}"
        p = "" if row["p_adjusted"] is None else f", {p_text(row)}"
        pair = f"{row['candidate']} against {in_run(row['baseline'], row['baseline_run'])}"
        yield f"{measure_of(row)}: {means}, {change_text(row)}{p}, {row['n_users']:,} users ({pair})"


def change_text(row: Row) -> str:
    """Return a difference with its interval, in percent of the baseline's mean unless that is 0.

    >>> row = {"difference": 0.02, "baseline_value": 0.4, "ci_low": 0.01, "ci_high": 0.03}
    >>> change_text(row)
    '+5.0 % (+2.5 to +7.5 %)'
    """
    low, high = interval_of(row)
    before = row["baseline_value"]
    if not before:
        interval = "" if low is None else f" ({interval_text(low, high, decimals_for(row))})"
        return f"{short(row['difference'], decimals_for(row))}{interval}"
    share, *ends = (
        None if one is None else 100 * one / abs(before) for one in (row["difference"], low, high)
    )
    return f"{share:+.1f} %" + ("" if low is None else f" ({ends[0]:+.1f} to {ends[1]:+.1f} %)")


def losses(rows: Sequence[Row], tables: Tables, better: Better) -> Iterator[str]:
    """Yield the slices that stand, the largest part first, and segments that certainly lose.

    A segment value that is a tested slice is judged as such. If nothing loses, one line says how much was
    tested.
    """
    pair = tuple(rows[0][name] for name in ("candidate", "baseline", "baseline_run"))
    slices = [
        row
        for row in tables.get(Table.SLICES, ())
        if tuple(row[name] for name in ("candidate", "baseline", "baseline_run")) == pair
    ]
    segments = [row for row in rows if row[SEGMENT] not in (ALL, FOLD, FOLDS)]
    lost = [row for row in segments if is_lost(row, better(row["metric"]))]
    named = {(row["metric"], row["k"], slice_name(row)) for row in slices}
    lines = [f"{slice_name(row)}: {loss_text(row)}" for row in standing(slices)]
    for row in sorted(lost, key=lambda one: -abs(one["difference"])):
        name = f"{row[SEGMENT]}={row[SEGMENT_VALUE]}"
        if (row["metric"], row["k"], name) not in named:
            lines.append(f"{name}: {loss_text(row)}")
    yield from lines[:MOST_WORSE]
    if len(lines) > MOST_WORSE:
        yield f"and {len(lines) - MOST_WORSE:,} more"
    if not lines and (slices or segments):
        tested = len({slice_name(row) for row in slices}) or len({where_of(row) for row in segments})
        yield f"nowhere for certain, of {tested:,} {'slices' if slices else 'segment values'}"
    if not (slices or segments):
        yield "not asked: compare.slices tests users and items"


def where_of(row: Row) -> tuple[str, str]:
    """Return the segment and its value."""
    return row[SEGMENT], row[SEGMENT_VALUE]


def loss_text(row: Row) -> str:
    """Return the difference of a slice or segment with its interval and users."""
    decimals = decimals_for(row)
    interval = interval_text(*interval_of(row), decimals)
    return f"{measure_of(row)} {short(row['difference'], decimals)} ({interval}), {row['n_users']:,} users"


def is_lost(row: Row, better: Direction) -> bool:
    """Return True if the candidate is certainly worse."""
    low, high = interval_of(row)
    if low is None or row["p_adjusted"] is None or row["p_adjusted"] >= RARE:
        return False
    return (better is Direction.HIGHER and high < 0) or (better is Direction.LOWER and low > 0)


def gaps(rows: Sequence[Row], tables: Tables) -> Iterator[str]:
    """Yield what the comparison cannot tell: open gates, users and slices that are left out, cold shares."""
    gates = [row for row in tables.get(Table.GATES, ()) if row["decision"] == Decision.UNDECIDED]
    yield from (f"{where(row)} of {row[MODEL]}: {row['reason']}" for row in gates[:MOST_OPEN])
    pair = f"{rows[0]['candidate']} against {rows[0]['baseline']}"
    for row in tables.get(Table.ACCOUNTING, ()):
        if row[MODEL] != pair or row["outcome"] != Outcome.DROPPED:
            continue
        if row["source"] in ("baseline", "candidate"):
            yield f"not compared, since the {row['source']} alone has them: {counted(row['users'], 'user')}"
        elif row["source"] == "slices":
            yield f"not tested, for too few users: {counted(row['rows'], 'slice')}"
    undefined = [row for row in rows if row[SEGMENT] == ALL and row["n_undefined"]]
    for row in undefined[:MOST_OPEN]:
        n_all = row["n_users"] + row["n_undefined"]
        yield f"{measure_of(row)} is of {row['n_users']:,} of {n_all:,} users: others have no value"
    yield from cold_shares(rows)


def cold_shares(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the share of users, or of users with such items, that training does not know."""
    first = measure_of(rows[0])
    n_users = sum(row["n_users"] for row in rows if (row[SEGMENT], measure_of(row)) == (ALL, first))
    for row in rows:
        if row[SEGMENT] != ALL and row[SEGMENT_VALUE] in COLD and measure_of(row) == first:
            share = f"{100 * row['n_users'] / max(n_users, 1):.1f} %"
            yield f"{'='.join(where_of(row))}: {row['n_users']:,} of {n_users:,} users ({share})"


def commands_of(run_id: str, records: Mapping[str, Row]) -> list[str]:
    """Return the commands that made the tables of a run; configs are in the commit records.

    Results in Python have none.

    >>> commands_of("b", {"compare": {"config": {}, "runs": {"b": None, "a": None}}})
    ['spark-eval compare --run-id b (reads the runs b, a)']
    """
    texts = []
    for verb, record in ((verb, one) for verb, one in records.items() if "config" in one):
        runs: Mapping[str, Any] = record.get("runs") or {}
        sources = f" (reads the runs {', '.join(runs)})" if len(runs) > 1 else ""
        texts.append(f"spark-eval {verb} --run-id {run_id}{sources}")
    return texts
