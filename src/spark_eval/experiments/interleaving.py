"""Interleaving: two rankers draft one list by turns, and clicks say which one users prefer. No Spark here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from spark_eval.accounting import ACCOUNTING, Entry, check_closed
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.checks import TRUST_LEVEL
from spark_eval.experiments.inference import sample_ratio
from spark_eval.experiments.tables import CHECKS, CheckRow
from spark_eval.names import summarize_names
from spark_eval.results.driver_tables import SmallRows, arrow_table
from spark_eval.schema import EXPERIMENT, ITEM, USER, Fault, Outcome, Reason, ddl_of
from spark_eval.statistics.differences import UNMEASURED, Estimate
from spark_eval.statistics.exact import Ints
from spark_eval.statistics.significance import sign_test, t_test
from spark_eval.tables.arrow_frames import Frame, read_arrow
from spark_eval.tables.local_tables import is_id, is_number

IMPRESSIONS: Final = "impressions"
IMPRESSION: Final = "impression"
TEAM: Final = "team"
FIRST_PICK: Final = "first_pick"
POSITION: Final = "position"
CLICKED: Final = "clicked"
IDS: Final = (IMPRESSION, USER, ITEM)
TEAMS: Final = (TEAM, FIRST_PICK)
RANKS: Final = ("rank_a", "rank_b")
MOST_QUARANTINED: Final = 0.01


class InterleavingRow(NamedTuple):
    """Row of ``interleavings``: the first team against the second, by one analysis.

    ``wins``, ``ties`` and ``losses`` count the impressions of the analysis, from the first team's side.
    """

    experiment: str
    analysis: str
    difference: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    wins: int
    ties: int
    losses: int
    n_users: int
    n_impressions: int


INTERLEAVINGS: Final = ddl_of(InterleavingRow)


@dataclass(frozen=True)
class Interleaving:
    """Result of ``evaluate_interleaving``: the rows of ``interleavings``, ``checks`` and ``accounting``.

    Examples:
        >>> import pandas as pd
        >>> from spark_eval import evaluate_interleaving
        >>> shown = pd.DataFrame({"item": ["x", "y"], "team": ["a", "b"], "clicked": [1, 0]})
        >>> shown = shown.assign(impression=1, user=7, position=[1, 2], first_pick="a")
        >>> [row.analysis for row in evaluate_interleaving(shown).rows]
        ['preference']
    """

    rows: Sequence[InterleavingRow]
    check_rows: Sequence[CheckRow]
    entries: Sequence[Entry]

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """Rows of its tables, with their schemas."""
        return {
            "interleavings": (self.rows, INTERLEAVINGS),
            "checks": (self.check_rows, CHECKS),
            "accounting": (self.entries, ACCOUNTING),
        }

    def table(self, name: str) -> pa.Table:
        """Return one of its tables as an Arrow table.

        Args:
            name: ``interleavings``, ``checks`` or ``accounting``.

        Returns:
            The table.

        Raises:
            ConfigError: UNKNOWN_TABLE for another name.

        Examples:
            >>> import pandas as pd
            >>> from spark_eval import evaluate_interleaving
            >>> shown = pd.DataFrame({"item": ["x", "y"], "team": ["a", "b"], "clicked": [1, 0]})
            >>> shown = shown.assign(impression=1, user=7, position=[1, 2], first_pick="a")
            >>> evaluate_interleaving(shown).table("interleavings")["wins"].to_pylist()
            [1]
        """
        if name not in self.small_tables:
            raise ConfigError.unknown("UNKNOWN_TABLE", "table", name, self.small_tables, "Interleaving.table")
        return arrow_table(*self.small_tables[name])


def evaluate_interleaving(
    impressions: Frame,
    *,
    teams: Sequence[str] = ("a", "b"),
    confidence: float = 0.95,
    max_quarantined: float = MOST_QUARANTINED,
) -> Interleaving:
    """Say which of two interleaved rankers users prefer, in this process.

    ``preference`` counts the impressions that each team wins by clicks. ``paired`` compares the two items of
    each draft round where the rankers differ; it needs each item's rank in both lists.

    Args:
        impressions: One row per shown item: ``impression``, ``user``, ``item``, ``position`` (from 1),
            ``team`` (the one that drafted the item), ``first_pick`` (the team that began) and ``clicked``;
            ``experiment`` if there are several; ``rank_a`` and ``rank_b``, from 1, null if the team's list
            lacks the item. A pandas or polars frame, an Arrow table, or the path of Parquet files.
        teams: Names of the two teams; differences are those of the first from the second.
        confidence: Confidence of the intervals, in (0, 1).
        max_quarantined: Largest share of rows that may be quarantined, in [0, 1].

    Returns:
        An ``Interleaving``: ``table("interleavings")``, ``table("checks")``, ``table("accounting")``.

    Raises:
        ConfigError: NOT_A_FRAME, or OUT_OF_RANGE for an option.
        DataError: MISSING_COLUMN, UNSUPPORTED_TYPE, UNKNOWN_VARIANT for another team, QUARANTINE_SHARE or
            EMPTY_INPUT.

    Examples:
        The item that team ``a`` drafted is clicked:

        >>> import pandas as pd
        >>> from spark_eval import evaluate_interleaving
        >>> shown = pd.DataFrame({"item": ["x", "y"], "team": ["a", "b"], "clicked": [True, False]})
        >>> shown = shown.assign(impression=1, user=7, position=[1, 2], first_pick="a")
        >>> found = evaluate_interleaving(shown)
        >>> found.rows[0].wins, found.rows[0].difference
        (1, 0.5)
    """
    if len(teams) != 2 or len(set(teams)) != 2 or not all(isinstance(team, str) for team in teams):
        raise ConfigError("OUT_OF_RANGE", f"teams is {teams!r}; give two different names")
    if not 0 < confidence < 1:
        raise ConfigError("OUT_OF_RANGE", f"confidence: {confidence} is not in (0, 1)")
    if not 0 <= max_quarantined <= 1:
        raise ConfigError("OUT_OF_RANGE", f"max_quarantined: {max_quarantined} is not in [0, 1]")
    table = read_arrow(IMPRESSIONS, impressions)
    check_columns(table)
    rows, names, entries = usable_rows(table, teams)
    check_usable(entries, max_quarantined)
    check_closed(entries)
    has_ranks = RANKS[0] in table.column_names
    found, checks = list[InterleavingRow](), list[CheckRow]()
    for code in np.argsort(names, kind="stable").tolist():
        own = rows[rows[EXPERIMENT] == code]
        if len(own):
            found.append(preference(names[code], own, confidence))
            found += [paired(names[code], own, confidence)] if has_ranks else []
            checks += draft_checks(names[code], own, confidence)
    return Interleaving(found, checks, entries)


def check_columns(table: pa.Table) -> None:
    """Raise one DataError for missing columns and wrong types."""
    needed = [*IDS, *TEAMS, POSITION, CLICKED]
    if set(RANKS) & set(table.column_names):
        needed += RANKS
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        has = summarize_names(table.column_names)
        raise DataError("MISSING_COLUMN", f"{IMPRESSIONS} lack {', '.join(missing)}; columns are {has}")
    kinds = {**dict.fromkeys([*IDS, *TEAMS], is_id), **dict.fromkeys([POSITION, *RANKS], is_number)}
    kinds |= {CLICKED: lambda kind: is_number(kind) or pa.types.is_boolean(kind), EXPERIMENT: is_id}
    faults = []
    for name, is_fit in kinds.items():
        if name in table.column_names and not is_fit(kind := table.schema.field(name).type):
            message = f"{IMPRESSIONS}: column {name!r} is {kind}; ids and teams are text or integers, "
            faults.append(DataError("UNSUPPORTED_TYPE", f"{message}positions and ranks numbers"))
    DataError.raise_all(faults)


def usable_rows(table: pa.Table, teams: Sequence[str]) -> tuple[pd.DataFrame, Sequence[str], list[Entry]]:
    """Return the used rows as codes and numbers, the experiments' names, and the accounting.

    Each row has the first outcome that applies. Teams are 0 and 1. A missing rank is infinite. All rows of an
    impression are left out if they contradict each other.
    """
    columns: dict[str, Any] = {name: codes_of(table[name])[0] for name in IDS}
    columns |= {name: team_codes(table[name], teams) for name in TEAMS}
    columns |= {name: numbers_of(table[name]) for name in (POSITION, CLICKED)}
    columns |= {name: numbers_of(table[name]) for name in RANKS if name in table.column_names}
    names = ["all"]
    columns[EXPERIMENT] = np.zeros(len(table), np.int64)
    if EXPERIMENT in table.column_names:
        columns[EXPERIMENT], names = codes_of(table[EXPERIMENT])
    rows = pd.DataFrame(columns)
    counted: dict[tuple[Outcome, str | None], int] = {(Outcome.IN, None): len(rows)}

    def leave_out(outcome: Outcome, reason: str, is_out: "pd.Series[bool]") -> None:
        nonlocal rows
        counted[outcome, reason] = int(is_out.sum())
        rows = rows[~is_out]

    ranks = [name for name in RANKS if name in rows]
    leave_out(Outcome.QUARANTINED, Fault.NULL_EXPERIMENT, rows[EXPERIMENT] < 0)
    leave_out(Outcome.QUARANTINED, Fault.NULL_ID, (rows[list(IDS)] < 0).any(axis=1))
    counts = rows[[POSITION, *ranks]]
    is_odd = (counts.notna() & ((counts < 1) | (counts % 1 != 0))).any(axis=1)
    leave_out(Outcome.QUARANTINED, Fault.VALUE_OUT_OF_RANGE, is_odd | ~rows[CLICKED].isin([0, 1]))
    leave_out(Outcome.DROPPED, Reason.NOT_EXPOSED, rows[POSITION].isna())
    leave_out(Outcome.QUARANTINED, Fault.NULL_VARIANT, (rows[list(TEAMS)] < 0).any(axis=1))
    rows = rows.fillna(dict.fromkeys(ranks, np.inf))
    # Two experiments may use one id for different impressions.
    rows[IMPRESSION] = rows.groupby([EXPERIMENT, IMPRESSION]).ngroup()
    leave_out(Outcome.DROPPED, Reason.INCONSISTENT, rows[IMPRESSION].isin(contradictory(rows, ranks)))
    rows = rows.sort_values(CLICKED, ascending=False, kind="stable")
    leave_out(Outcome.DEDUPLICATED, Reason.REPEATED_ITEM, rows.duplicated([IMPRESSION, ITEM]))
    counted[Outcome.USED, None] = len(rows)
    always = (Outcome.IN, Outcome.USED)
    entries = [
        Entry(IMPRESSIONS, None, outcome, reason, n, None)
        for (outcome, reason), n in counted.items()
        if n or outcome in always
    ]
    return rows, names, entries


def codes_of(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """Return the code (n,) of each value, -1 for null, and the values as text."""
    coded = column.combine_chunks().dictionary_encode()
    codes: Ints = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, coded.dictionary.cast(pa.string()).to_pylist()


def team_codes(column: pa.ChunkedArray, teams: Sequence[str]) -> Ints:
    """Return 0 or 1 for each row's team (n,), -1 for null; raise DataError UNKNOWN_VARIANT for others."""
    codes, values = codes_of(column)
    unknown = sorted(set(values) - set(teams))
    if unknown:
        message = f"{IMPRESSIONS}: unknown teams {summarize_names(unknown)}"
        raise DataError("UNKNOWN_VARIANT", f"{message}; teams are {', '.join(teams)}")
    return np.array([*(teams.index(value) for value in values), -1])[codes]


def numbers_of(column: pa.ChunkedArray) -> Any:
    """Return the numbers (n,) of a column as doubles; NaN for null."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.cast(pa.float64()).to_numpy()


def contradictory(rows: pd.DataFrame, ranks: Sequence[str]) -> Any:
    """Return the impressions whose rows contradict each other, which cannot be one list of one draft.

    They have several users or first picks, one position for several items, or rows of one item that differ in
    more than ``clicked``.
    """
    whole = rows.drop_duplicates([IMPRESSION, USER, FIRST_PICK])
    items = rows.drop_duplicates([IMPRESSION, ITEM, TEAM, POSITION, *ranks])
    by = [(whole, [IMPRESSION]), (items, [IMPRESSION, ITEM]), (items, [IMPRESSION, POSITION])]
    return np.concatenate([found.loc[found.duplicated(keys), IMPRESSION].to_numpy() for found, keys in by])


def check_usable(entries: Sequence[Entry], most: float) -> None:
    """Raise DataError for too many quarantined rows, or if none is used."""
    n_rows = {(entry.outcome, entry.reason): entry.rows for entry in entries}
    bad = {reason: n for (outcome, reason), n in n_rows.items() if outcome == Outcome.QUARANTINED}
    n_in, n_bad = n_rows[Outcome.IN, None], sum(bad.values())
    if n_bad > Fraction(str(most)) * n_in:
        by_code = ", ".join(f"{n} {code}" for code, n in bad.items())
        message = f"{IMPRESSIONS}: {n_bad} of {n_in} rows are quarantined ({by_code})"
        raise DataError("QUARANTINE_SHARE", f"{message}; mend them, or raise max_quarantined")
    if not n_rows[Outcome.USED, None]:
        raise DataError("EMPTY_INPUT", f"{IMPRESSIONS}: none of {n_in} rows is used")


def preference(name: str, rows: pd.DataFrame, confidence: float) -> InterleavingRow:
    """Compare the teams by the impressions that each wins by clicks.

    Of the impressions with a click, the difference is (wins + ties / 2) / all - 1/2, with the standard error
    by user. The p-value is that of the sign test of users: each counts once, by wins - losses.

    Source: Chapelle et al., Large-scale validation and analysis of interleaved search evaluation, 2012.
    """
    clicked = rows[rows[CLICKED] == 1]
    votes = (1 - 2 * clicked[TEAM]).groupby([clicked[USER], clicked[IMPRESSION]]).sum()
    signs = np.sign(votes).astype(np.int64)
    users = signs.groupby(level=0).agg(["sum", "count"])
    of_users: Ints = users["sum"].to_numpy()
    estimate = ratio_by_user(of_users, users["count"].to_numpy(np.int64), Fraction(1, 2))
    p_value = sign_test(int((of_users > 0).sum()), int((of_users < 0).sum())).p_value
    return row_of(name, "preference", estimate, p_value if len(users) else None, signs, confidence)


def paired(name: str, rows: pd.DataFrame, confidence: float) -> InterleavingRow:
    """Compare the teams by the two items of each draft round where the rankers differ.

    They differ if each ranks the item that it drafted above the other team's. The team whose item is clicked
    gets the credit. The difference is the mean over users of credits of the first team - the second, with
    Student's t test.
    """
    # Positions 1 and 2 are the first round, 3 and 4 the second.
    rows = rows.assign(round=(rows[POSITION] - 1) // 2)
    first, second = (rows[rows[TEAM] == team] for team in (0, 1))
    pairs = first.merge(second, on=[IMPRESSION, USER, "round"], suffixes=("_0", "_1"))
    is_competitive = (pairs["rank_a_0"] < pairs["rank_a_1"]) & (pairs["rank_b_1"] < pairs["rank_b_0"])
    pairs = pairs[is_competitive]
    credits_ = (pairs["clicked_0"] - pairs["clicked_1"]).astype(np.int64)
    by_impression = credits_.groupby([pairs[USER], pairs[IMPRESSION]]).sum()
    of_users = by_impression.groupby(level=0).sum().to_numpy().astype(np.int64)
    estimate = ratio_by_user(of_users, np.ones(len(of_users), np.int64))
    p_value = t_test(estimate, confidence).p_value
    return row_of(name, "paired", estimate, p_value, by_impression, confidence)


def row_of(
    name: str,
    analysis: str,
    estimate: Estimate,
    p_value: float | None,
    by_impression: "pd.Series[int]",
    confidence: float,
) -> InterleavingRow:
    """Return a row of ``interleavings``; ``by_impression`` is indexed by user and impression."""
    signs = by_impression.to_numpy()
    test = t_test(estimate, confidence)
    return InterleavingRow(
        experiment=name,
        analysis=analysis,
        difference=None if estimate.value is None else float(estimate.value),
        std_error=estimate.std_error,
        ci_low=test.ci_low,
        ci_high=test.ci_high,
        p_value=p_value,
        wins=int((signs > 0).sum()),
        ties=int((signs == 0).sum()),
        losses=int((signs < 0).sum()),
        n_users=by_impression.index.get_level_values(0).nunique(),
        n_impressions=len(signs),
    )


def ratio_by_user(above: Ints, below: Ints, scale: Fraction = Fraction(1)) -> Estimate:
    """Return scale * sum(above) / sum(below) of n users, both (n,), with its variance by the delta method.

    >>> estimate = ratio_by_user(np.array([1, 2, 3]), np.array([1, 1, 1]))
    >>> estimate.value, estimate.variance
    (Fraction(2, 1), Fraction(1, 3))

    Source: Deng et al., Applying the delta method in metric analytics, 2018.
    """
    n, total, weight = len(above), int(above.sum()), int(below.sum())
    if not n:
        return UNMEASURED
    ratio = Fraction(total, weight)
    if n < 2:
        return Estimate(scale * ratio, None, 0)
    squares = int((above * above).sum()) - 2 * ratio * int((above * below).sum())
    spread = squares + ratio**2 * int((below * below).sum())
    return Estimate(scale * ratio, scale**2 * spread * n / ((n - 1) * Fraction(weight) ** 2), n - 1)


def draft_checks(name: str, rows: pd.DataFrame, confidence: float) -> Iterator[CheckRow]:
    """Yield the checks of a fair draft: the coin of the first pick, and equal positions of the teams."""
    firsts = rows.drop_duplicates(IMPRESSION)[FIRST_PICK]
    counts = [int((firsts == team).sum()) for team in (0, 1)]
    coin = sample_ratio([(counts, (0.5, 0.5))])
    yield check_row(name, FIRST_PICK, coin.statistic, coin.freedom, coin.p_value)
    by: Mapping[str, Any] = {
        f"{what}_{team}": values.where(rows[TEAM] == team, 0)
        for what, values in (("n", pd.Series(1, rows.index)), ("sum", rows[POSITION].astype(np.int64)))
        for team in (0, 1)
    }
    sums = pd.DataFrame(by).groupby([rows[USER], rows[IMPRESSION]]).sum()
    # Difference of mean positions, multiplied by the numbers of items of both teams: whole numbers.
    gaps = sums["sum_0"] * sums["n_1"] - sums["sum_1"] * sums["n_0"]
    of_users = gaps.groupby(level=0).sum().to_numpy()
    estimate = ratio_by_user(of_users, np.ones(len(of_users), np.int64))
    test = t_test(estimate, confidence)
    yield check_row(name, POSITION, test.statistic, estimate.freedom, test.p_value)


def check_row(
    name: str, check: str, statistic: float | None, freedom: float, p_value: float | None
) -> CheckRow:
    """Return a row of ``checks``; it fails if p is below the level of trust."""
    passed = None if p_value is None else p_value >= TRUST_LEVEL
    return CheckRow(name, check, IMPRESSIONS, statistic, float(freedom), p_value, passed)
