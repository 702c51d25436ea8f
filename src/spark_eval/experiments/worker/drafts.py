"""Interleaved drafts: impressions reduced to votes and credits, and summed by user. For workers."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import (
    Booleans,
    bucket_of,
    concat_tables,
    decode_ids,
    hashes_of,
    pair_hash,
    scramble,
    to_numpy,
)
from spark_eval.arrow.row_faults import Judged, first_fault_code, is_any_null
from spark_eval.experiments.worker.judge import with_text
from spark_eval.experiments.worker.sums import products_by_run
from spark_eval.schema import (
    ALL,
    CLICKED,
    EXPERIMENT,
    FIRST_PICK,
    IMPRESSION,
    ITEM,
    ITEM_RANKS,
    POSITION,
    TEAM,
    USER,
    Fault,
    Outcome,
    Reason,
)
from spark_eval.statistics.additive import Accumulator
from spark_eval.statistics.exact import Ints

IDS: Final = (IMPRESSION, USER, ITEM)
TEAMS: Final = (TEAM, FIRST_PICK)
NUMBERS: Final = (POSITION, CLICKED, *ITEM_RANKS)
# Larger positions and ranks are mistakes, and sums of them might not be exact.
LARGEST_RANK: Final = 1 << 20
MOST_UNKNOWN: Final = 20
# What is summed by user.
PREFERENCE: Final = "preference"
PAIRED: Final = "paired"
# Sums of a user: total, impressions, and those with a total above, at and below 0.
SUMS: Final = ("total", "n", "wins", "ties", "losses")

# Experiment, analysis or check, and name of a number.
NumberKey = tuple[str, str, str]


@dataclass
class DraftSums(Accumulator):
    """Counts of rows, sums over users and impressions, and names of unlisted teams; integers, which add."""

    rows: Counter[tuple[Outcome, str | None]] = field(default_factory=Counter)
    numbers: Counter[NumberKey] = field(default_factory=Counter)
    unknown: set[str] = field(default_factory=set)


def judge_impressions(rows: pa.Table) -> Judged:
    """Validate rows of impressions; teams and experiments become text, numbers doubles."""
    rows = with_text(rows, [*TEAMS, EXPERIMENT])
    for name in NUMBERS:
        if name in rows.column_names:
            whole = pa.types.is_boolean(rows[name].type)
            column = (rows[name].cast(pa.int8()) if whole else rows[name]).cast(pa.float64(), safe=False)
            rows = rows.set_column(rows.column_names.index(name), name, column)
    is_odd = np.zeros(len(rows), dtype=bool)
    for name in (POSITION, *ITEM_RANKS):
        if name in rows.column_names:
            values = as_doubles(rows[name])
            is_rank = (values >= 1) & (values <= LARGEST_RANK) & (np.floor(values) == values)
            is_odd |= ~np.isnan(values) & ~is_rank
    faults: dict[Fault | Reason, Booleans] = {
        Fault.NULL_EXPERIMENT: is_any_null(rows, EXPERIMENT),
        Fault.NULL_ID: is_any_null(rows, *IDS),
        Fault.VALUE_OUT_OF_RANGE: is_odd | ~np.isin(as_doubles(rows[CLICKED]), [0, 1]),
        Reason.NOT_EXPOSED: np.isnan(as_doubles(rows[POSITION])),
        Fault.NULL_VARIANT: is_any_null(rows, *TEAMS),
    }
    return rows, first_fault_code(list(faults.items()))


def as_doubles(column: pa.ChunkedArray) -> Any:
    """Return the doubles (n,) of a column; NaN for null."""
    return column.fill_null(np.nan).to_numpy()


def by_impression(
    batches: Iterable[pa.RecordBatch], teams: Sequence[str], n_buckets: int
) -> Iterator[tuple[int, Any]]:
    """Yield the valid rows by bucket of impressions; then, for bucket 0, the counts of all other rows."""
    counted = DraftSums()
    for batch in batches:
        table, faults = judge_impressions(pa.table(batch))
        counted.rows[Outcome.IN, None] += len(table)
        if faults is not None:
            for code, n_rows in Counter(faults.cast(pa.string()).drop_null().to_pylist()).items():
                outcome = Outcome.DROPPED if code == Reason.NOT_EXPOSED else Outcome.QUARANTINED
                counted.rows[outcome, code] += n_rows
            table = table.filter(faults.is_null())
        names = {team for name in TEAMS for team in table[name].unique().to_pylist()}
        counted.unknown |= set(sorted(names - set(teams))[:MOST_UNKNOWN])
        if len(table) and not counted.unknown:
            yield from split(in_codes(table, teams), (EXPERIMENT, IMPRESSION), n_buckets)
    yield 0, counted


def in_codes(table: pa.Table, teams: Sequence[str]) -> pa.Table:
    """Return the rows with ids as they are, teams as 0 and 1, and missing ranks as infinite."""
    is_named = EXPERIMENT in table.column_names
    columns = {EXPERIMENT: table[EXPERIMENT] if is_named else pa.repeat(ALL, len(table))}
    columns |= {name: pa.chunked_array([decode_ids(chunk) for chunk in table[name].chunks]) for name in IDS}
    order = pa.array(teams)
    columns |= {name: pc.index_in(table[name], value_set=order).cast(pa.int64()) for name in TEAMS}
    columns |= {name: table[name].cast(pa.int64()) for name in (POSITION, CLICKED)}
    ranks = [name for name in ITEM_RANKS if name in table.column_names]
    columns |= {name: pc.if_else(pc.is_nan(table[name]), None, table[name]) for name in ranks}
    columns |= {name: columns[name].fill_null(np.inf) for name in ranks}
    return pa.table(columns)


def split(table: pa.Table, keys: tuple[str, str], n_buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each bucket of their keys."""
    hashes = pair_hash(*(hashes_of(table[name].combine_chunks()) for name in keys))
    buckets = bucket_of(scramble(hashes), n_buckets)
    for number in np.unique(buckets).tolist():
        yield number, table.filter(pa.array(buckets == number))


def reduce_impressions(
    parts: Iterable[pa.Table | DraftSums], n_buckets: int
) -> list[tuple[int, pa.Table | DraftSums]]:
    """Return the sums of each user in a bucket of impressions, by bucket of users; then the counts."""
    counted, tables = DraftSums(), list[pa.Table]()
    for part in parts:
        if isinstance(part, DraftSums):
            counted += part
        else:
            tables.append(part)
    objects: list[tuple[int, pa.Table | DraftSums]] = []
    if tables:
        table = concat_tables(tables)
        rows, names, users = frame_of(table)
        rows = usable_rows(rows, counted)
        firsts = rows.drop_duplicates(IMPRESSION)
        for code, name in enumerate(names):
            teams = firsts.loc[firsts[EXPERIMENT] == code, FIRST_PICK]
            for team in (0, 1) if len(teams) else ():
                counted.numbers[name, FIRST_PICK, str(team)] += int((teams == team).sum())
        objects += split(sums_by_user(rows, names, users), (EXPERIMENT, USER), n_buckets)
    return [*objects, (0, counted)]


def frame_of(table: pa.Table) -> tuple[pd.DataFrame, list[str], pa.Array]:
    """Return the rows with ids as codes, the names of experiments, and the ids of users."""
    columns: dict[str, Any] = {name: to_numpy(table[name]) for name in table.column_names if name not in IDS}
    values = {}
    for name in (EXPERIMENT, *IDS):
        coded = table[name].combine_chunks().dictionary_encode()
        columns[name], values[name] = to_numpy(coded.indices).astype(np.int64), coded.dictionary
    return pd.DataFrame(columns), values[EXPERIMENT].to_pylist(), values[USER]


def usable_rows(rows: pd.DataFrame, counted: DraftSums) -> pd.DataFrame:
    """Return the rows of consistent impressions, each item once; count all rows."""

    def leave_out(outcome: Outcome, reason: str, is_out: "pd.Series[bool]") -> None:
        nonlocal rows
        counted.rows[outcome, reason] += int(is_out.sum())
        rows = rows[~is_out]

    # Two experiments may use one id for different impressions.
    rows[IMPRESSION] = rows.groupby([EXPERIMENT, IMPRESSION]).ngroup()
    leave_out(Outcome.DROPPED, Reason.INCONSISTENT, rows[IMPRESSION].isin(contradictory(rows)))
    rows = rows.sort_values(CLICKED, ascending=False, kind="stable")
    leave_out(Outcome.DEDUPLICATED, Reason.REPEATED_ITEM, rows.duplicated([IMPRESSION, ITEM]))
    counted.rows[Outcome.USED, None] += len(rows)
    return rows


def contradictory(rows: pd.DataFrame) -> Any:
    """Return the impressions whose rows contradict each other, which cannot be one list of one draft.

    They have several users or first picks, one position for several items, or rows of one item that differ in
    more than ``clicked``.
    """
    ranks = [name for name in ITEM_RANKS if name in rows]
    whole = rows.drop_duplicates([IMPRESSION, USER, FIRST_PICK])
    items = rows.drop_duplicates([IMPRESSION, ITEM, TEAM, POSITION, *ranks])
    by = [(whole, [IMPRESSION]), (items, [IMPRESSION, ITEM]), (items, [IMPRESSION, POSITION])]
    return np.concatenate([frame.loc[frame.duplicated(keys), IMPRESSION].to_numpy() for frame, keys in by])


def sums_by_user(rows: pd.DataFrame, names: Sequence[str], users: pa.Array) -> pa.Table:
    """Return experiment, user, analysis and SUMS, a row for each user and analysis."""
    analyses: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {PREFERENCE: votes, POSITION: gaps}
    if ITEM_RANKS[0] in rows:
        analyses[PAIRED] = paired_credits
    parts = []
    for analysis, totals_of in analyses.items():
        totals = totals_of(rows)
        total = totals["total"]
        totals = totals.assign(n=1, wins=total > 0, ties=total == 0, losses=total < 0)
        totals = totals.groupby([EXPERIMENT, USER])[list(SUMS)].sum().reset_index()
        columns = {
            EXPERIMENT: pa.array(names, pa.string()).take(pa.array(totals[EXPERIMENT].to_numpy(np.int64))),
            USER: users.take(pa.array(totals[USER].to_numpy(np.int64))),
            "analysis": pa.repeat(analysis, len(totals)),
        }
        columns |= {name: pa.array(totals[name].to_numpy(np.int64)) for name in SUMS}
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def by_impression_of(rows: pd.DataFrame, totals: Any) -> pd.DataFrame:
    """Return the sum of ``totals`` (n,) over each impression's rows, with its experiment and user."""
    keys = [EXPERIMENT, USER, IMPRESSION]
    return rows[keys].assign(total=totals).groupby(keys)["total"].sum().reset_index()


def votes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return 1, 0 or -1 for each impression with a click: the team with more clicked items wins."""
    clicked = rows[rows[CLICKED] == 1]
    credits = by_impression_of(clicked, 1 - 2 * clicked[TEAM])
    return credits.assign(total=np.sign(credits["total"]))


def paired_credits(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the credits of the first team - the second of each impression with a round that counts.

    Positions 1 and 2 are the first round, 3 and 4 the second. A round counts if each ranker ranks the item
    that it drafted above the other's. The team whose item is clicked gets the credit.
    """
    rows = rows.assign(round=(rows[POSITION] - 1) // 2)
    first, second = (rows[rows[TEAM] == team] for team in (0, 1))
    pairs = first.merge(second, on=[EXPERIMENT, USER, IMPRESSION, "round"], suffixes=("_0", "_1"))
    is_competitive = (pairs["rank_a_0"] < pairs["rank_a_1"]) & (pairs["rank_b_1"] < pairs["rank_b_0"])
    pairs = pairs[is_competitive]
    return by_impression_of(pairs, pairs["clicked_0"] - pairs["clicked_1"])


def gaps(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the difference of the teams' mean positions times both numbers of items, by impression."""
    by = {}
    for team in (0, 1):
        is_own = rows[TEAM] == team
        by[f"n_{team}"] = is_own.astype(np.int64)
        by[f"sum_{team}"] = rows[POSITION].where(is_own, 0)
    keys = [EXPERIMENT, USER, IMPRESSION]
    sums = rows[keys].assign(**by).groupby(keys).sum().reset_index()
    return sums[keys].assign(total=sums["sum_0"] * sums["n_1"] - sums["sum_1"] * sums["n_0"])


def reduce_users(parts: Iterable[pa.Table | DraftSums]) -> DraftSums:
    """Return the sums over all users of a bucket, of each experiment and analysis."""
    result, tables = DraftSums(), list[pa.Table]()
    for part in parts:
        if isinstance(part, DraftSums):
            result += part
        else:
            tables.append(part)
    if not tables:
        return result
    keys = [EXPERIMENT, "analysis", USER]
    table = (
        pa.concat_tables(tables).group_by(keys, use_threads=False).aggregate([(name, "sum") for name in SUMS])
    )
    frame = table.select([EXPERIMENT, "analysis"]).to_pandas(use_threads=False)
    for (experiment, analysis), own in frame.groupby([EXPERIMENT, "analysis"]):
        of_users = table.take(pa.array(own.index.to_numpy()))
        sums = {name: to_numpy(of_users[f"{name}_sum"]) for name in SUMS}
        for name, number in user_numbers(sums).items():
            result.numbers[experiment, analysis, name] += number
    return result


def user_numbers(sums: dict[str, Ints]) -> dict[str, int]:
    """Return the sums over users of their totals x, their impressions n, and the products of both."""
    x, n, start = sums["total"], sums["n"], np.zeros(1, dtype=np.int64)
    pairs = {"x": (x, np.ones_like(x)), "xx": (x, x), "xn": (x, n), "nn": (n, n)}
    numbers = {name: products_by_run(*pair, start)[0] for name, pair in pairs.items()}
    numbers |= {"users": len(x), "above": int((x > 0).sum()), "below": int((x < 0).sum())}
    return numbers | {name: int(sums[name].sum()) for name in SUMS[1:]}
