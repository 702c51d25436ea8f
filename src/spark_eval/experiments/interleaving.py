"""Interleaving: two rankers draft one list by turns, and clicks say which one users prefer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Unpack

from spark_eval.accounting import ACCOUNTING, Entry, check_accounting
from spark_eval.errors import DataError
from spark_eval.experiments.analysis import Decision
from spark_eval.experiments.checks import passed
from spark_eval.experiments.evaluate import MOST_QUARANTINED
from spark_eval.experiments.inference import sample_ratio
from spark_eval.experiments.inputs import as_on_spark
from spark_eval.experiments.plan import (
    INTERLEAVING,
    InterleavingOptions,
    InterleavingPlan,
    make_interleaving_plan,
)
from spark_eval.experiments.specs import spec_of_impressions
from spark_eval.experiments.tables import CHECKS, DECISIONS, CheckRow, DecisionRow
from spark_eval.experiments.worker.drafts import (
    PAIRED,
    PREFERENCE,
    DraftSums,
    by_impression,
    judge_impressions,
    reduce_impressions,
    reduce_users,
)
from spark_eval.names import summarize_names
from spark_eval.options import SHARE, checked_call, documented
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.effects import p_cell, three_digits
from spark_eval.results.exported import Exported, SmallFrame
from spark_eval.runners.door import open_given
from spark_eval.runners.quarantine import share_faults, unusable_rows
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import collect_or_raise, group_by_key, map_batches, map_objects, n_buckets_of
from spark_eval.runtime import events as run_events
from spark_eval.schema import FIRST_PICK, ITEM_RANKS, POSITION, Outcome, Table, ddl_of
from spark_eval.statistics.differences import UNMEASURED, Estimate
from spark_eval.statistics.significance import sign_test, t_test
from spark_eval.tables.arrow_frames import Frame

# Subject of the checks of drafts, and analysis of the same.
IMPRESSIONS: Final = "impressions"


class InterleavingRow(NamedTuple):
    """Row of ``interleavings``: the first team against the second, by one analysis.

    ``preference`` decides, and counts each user once: ``wins``, ``ties`` and ``losses`` are users. Those of
    ``impressions`` and ``paired`` are impressions. All are from the first team's side.
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
SHOWN_INTERLEAVINGS: Final = ("experiment", "analysis", "difference", "interval", "p", "wins, ties, losses")


def interleaving_lines(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return a line of SHOWN_INTERLEAVINGS for each row of ``interleavings``."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        bounds = [three_digits(row[name]) for name in ("ci_low", "ci_high")]
        counts = ", ".join(f"{row[name]:,}" for name in ("wins", "ties", "losses"))
        interval = " to ".join(bounds) if all(bounds) else ""
        numbers = (three_digits(row["difference"]), interval, p_cell(row["p_value"]))
        lines.append((row["experiment"], row["analysis"], *numbers, counts))
    return lines


@dataclass(frozen=True)
class Interleaving(Exported):
    """Result of ``evaluate_interleaving``: interleavings, checks, decisions and accounting.

    Examples:
        >>> import pandas as pd
        >>> from spark_eval import evaluate_interleaving
        >>> shown = pd.DataFrame({"item": ["x", "y"], "team": ["a", "b"], "clicked": [1, 0]})
        >>> shown = shown.assign(impression=1, user=7, position=[1, 2], first_pick="a")
        >>> [row.analysis for row in evaluate_interleaving(shown).rows]
        ['preference', 'impressions']
    """

    rows: Sequence[InterleavingRow]
    check_rows: Sequence[CheckRow]
    decision_rows: Sequence[DecisionRow]
    entries: Sequence[Entry]
    tables: ClassVar[tuple[str, ...]] = ("interleavings", "checks", "decisions", "accounting")

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """Rows of its tables, with their schemas."""
        return {
            Table.INTERLEAVINGS: (self.rows, INTERLEAVINGS),
            Table.CHECKS: (self.check_rows, CHECKS),
            Table.DECISIONS: (self.decision_rows, DECISIONS),
            Table.ACCOUNTING: (self.entries, ACCOUNTING),
        }

    interleavings = SmallFrame(Table.INTERLEAVINGS, "a row per experiment, analysis and segment value.")
    checks = SmallFrame(Table.CHECKS, "the checks of trust.")
    decisions = SmallFrame(Table.DECISIONS, "which of two rankers users prefer.")
    accounting = SmallFrame(Table.ACCOUNTING, "what became of every row.")


@run_events.timed_call("evaluate_interleaving")
@documented(InterleavingOptions)
@checked_call
def evaluate_interleaving(
    impressions: Frame,
    *,
    columns: Mapping[str, str] | None = None,
    max_quarantined: float = MOST_QUARANTINED,
    engine: str | None = None,
    **options: Unpack[InterleavingOptions],
) -> Interleaving:
    """Say which of two interleaved rankers users prefer.

    ``preference`` decides: it counts the users who prefer each team, by the impressions that it wins by
    clicks; ``impressions`` counts these impressions. ``paired`` compares the two items of each draft round
    where the rankers differ; it needs each item's rank in both lists.

    The options under *Keyword args* are also keys of the config's section ``interleaving``.

    Args:
        impressions: One row per shown item: ``impression``, ``user``, ``item``, ``position`` (from 1),
            ``team`` (the one that drafted the item), ``first_pick`` (the team that began) and ``clicked``;
            ``experiment`` if there are several; ``rank_a`` and ``rank_b``, from 1, null if the team's list
            lacks the item. A Spark, pandas or polars frame, an Arrow table, or the path of Parquet files.
        columns: Mapping of our names to the column names of ``impressions``.
        max_quarantined: Largest share of rows that may be quarantined, in [0, 1].
        engine: ``local`` for this process, ``spark``, or ``auto``; see ``evaluate_experiments``.

    Returns:
        An ``Interleaving``: ``table("interleavings")``, ``table("checks")``, ``table("decisions")``,
        ``table("accounting")``.

    Raises:
        ConfigError: NOT_A_FRAME, or OUT_OF_RANGE for an option.
        DataError: MISSING_COLUMN, UNKNOWN_VARIANT for another team, QUARANTINE_SHARE or EMPTY_INPUT.

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
    plan = make_interleaving_plan(**options)
    most, names = SHARE(max_quarantined, "max_quarantined"), columns or {}
    given = {INTERLEAVING: impressions}
    [table] = open_given(given, spec_of_impressions, engine, {INTERLEAVING: names}).values()
    return measure_interleaving(table, plan, most)


def measure_interleaving(table: Rows, plan: InterleavingPlan, most_quarantined: float = 1.0) -> Interleaving:
    """Sum the conformed rows by impression, then by user, and account for every row.

    Two shuffles. Raises one DataError that lists everything found.
    """
    n_buckets = n_buckets_of(table.count())
    by_users = partial(by_impression, teams=plan.teams, n_buckets=n_buckets)
    rows = map_batches(table, by_users, coded=True)
    impressions = group_by_key(rows, n_buckets, lambda _, objects: reduce_impressions(objects, n_buckets))
    users = map_objects(impressions, iter)
    sums = DraftSums()
    for one in collect_or_raise(group_by_key(users, n_buckets, lambda _, objects: reduce_users(objects))):
        sums += one
    entries = entries_of(sums)
    bad = quarantined_impressions(table, entries)
    check_accounting(
        entries,
        [*share_faults(entries, bad, {INTERLEAVING: most_quarantined}), *sum_faults(plan, sums)],
    )
    has_ranks = ITEM_RANKS[0] in table.columns
    teams, checks, decisions = list[InterleavingRow](), list[CheckRow](), list[DecisionRow]()
    for name in sorted({name for name, *_ in sums.numbers}):
        own = OfExperiment(name, plan, sums)
        teams += [own.preference, own.impressions, *([own.paired] if has_ranks else [])]
        checks += own.checks
        decisions.append(own.decision)
    return Interleaving(teams, checks, decisions, entries)


def entries_of(sums: DraftSums) -> list[Entry]:
    """Return the accounting: ``in``, the used rows, then all others."""
    keys = sorted(sums.rows, key=lambda key: (key[0] != Outcome.IN, key[0] != Outcome.USED, *map(str, key)))
    return [
        Entry(INTERLEAVING, None, outcome, reason, sums.rows[outcome, reason], None)
        for outcome, reason in keys
        if sums.rows[outcome, reason] or outcome == Outcome.IN
    ]


def quarantined_impressions(table: Rows, entries: Sequence[Entry]) -> dict[str, Rows]:
    """Return the invalid rows with their code in ``fault``, by table; empty if there are none."""
    if not any(entry.outcome == Outcome.QUARANTINED for entry in entries):
        return {}
    return {INTERLEAVING: unusable_rows(as_on_spark(table, judge_impressions), judge_impressions)}


def sum_faults(plan: InterleavingPlan, sums: DraftSums) -> list[DataError]:
    """Return errors for unknown teams, or for a table without a usable row."""
    if sums.unknown:
        message = f"{INTERLEAVING}: unknown teams {summarize_names(sorted(map(repr, sums.unknown)))}"
        return [DataError("UNKNOWN_VARIANT", f"{message}; teams are {', '.join(map(repr, plan.teams))}")]
    if not sums.rows[Outcome.USED, None]:
        n_rows = sums.rows[Outcome.IN, None]
        return [DataError("EMPTY_INPUT", f"{INTERLEAVING}: none of {n_rows} rows is used")]
    return []


@dataclass(frozen=True)
class OfExperiment:
    """Results of one experiment, from the sums over its users and impressions."""

    name: str
    plan: InterleavingPlan
    sums: DraftSums

    def number(self, analysis: str, name: str) -> int:
        """Return a sum of an analysis."""
        return self.sums.numbers[self.name, analysis, name]

    def per_user(self, analysis: str) -> Estimate:
        """Return the mean over users of their totals."""
        n, x, xx = (self.number(analysis, name) for name in ("users", "x", "xx"))
        return ratio_by_user(n, x, xx, weight=n, squares=n, products=x)

    @property
    def preference(self) -> InterleavingRow:
        """The teams compared by the users who prefer each: a user counts once, by impressions won - lost.

        Of the users with a click, the difference is (wins + ties / 2) / all - 1/2. The p-value comes from the
        sign test, the interval from Student's t.

        Source: Chapelle et al., Large-scale validation and analysis of interleaved search evaluation, 2012.
        """
        n, above, below = (self.number(PREFERENCE, name) for name in ("users", "above", "below"))
        total = above - below
        estimate = ratio_by_user(n, total, above + below, n, n, total, Fraction(1, 2))
        row = self.row(PREFERENCE, estimate, sign_test(above, below).p_value if n else None)
        return row._replace(wins=above, ties=n - above - below, losses=below)

    @property
    def impressions(self) -> InterleavingRow:
        """The teams compared by the impressions that each wins by clicks.

        Of the impressions with a click, the difference is (wins + ties / 2) / all - 1/2, with the standard
        error by user and Student's t test.
        """
        n_users, x, xx, n, nn, xn = (
            self.number(PREFERENCE, name) for name in ("users", "x", "xx", "n", "nn", "xn")
        )
        estimate = ratio_by_user(n_users, x, xx, n, nn, xn, Fraction(1, 2))
        row = self.row(PREFERENCE, estimate, t_test(estimate, self.plan.confidence).p_value)
        return row._replace(analysis=IMPRESSIONS)

    @property
    def paired(self) -> InterleavingRow:
        """The teams compared by the two items of each draft round where the rankers differ.

        The difference is the mean over users of credits of the first team - the second, with Student's t
        test.
        """
        estimate = self.per_user(PAIRED)
        return self.row(PAIRED, estimate, t_test(estimate, self.plan.confidence).p_value)

    def row(self, analysis: str, estimate: Estimate, p_value: float | None) -> InterleavingRow:
        """Return the row of an analysis."""
        test = t_test(estimate, self.plan.confidence)
        wins, ties, losses, n_users, n_impressions = (
            self.number(analysis, name) for name in ("wins", "ties", "losses", "users", "n")
        )
        value = None if estimate.value is None else float(estimate.value)
        numbers = (value, estimate.std_error, test.ci_low, test.ci_high, p_value)
        counts = (wins, ties, losses, n_users, n_impressions)
        return InterleavingRow(self.name, analysis, *numbers, *counts)

    @property
    def checks(self) -> list[CheckRow]:
        """Checks of a fair draft: the coin of the first pick, and equal positions of the teams."""
        coin = sample_ratio([([self.number(FIRST_PICK, team) for team in ("0", "1")], (0.5, 0.5))])
        estimate = self.per_user(POSITION)
        test = t_test(estimate, self.plan.confidence)
        tests = {
            FIRST_PICK: (coin.statistic, 1.0, coin.p_value),
            POSITION: (test.statistic, float(estimate.freedom), test.p_value),
        }
        return [
            CheckRow(self.name, check, IMPRESSIONS, *numbers, passed(numbers[-1]))
            for check, numbers in tests.items()
        ]

    @property
    def decision(self) -> DecisionRow:
        """The decision on the first team, by the sign test of users; blocked if the draft is unfair."""
        failed = [row.check for row in self.checks if row.passed is False]
        p_value, level = self.preference.p_value, 1 - self.plan.confidence
        above, below = (self.number(PREFERENCE, name) for name in ("above", "below"))
        if failed:
            decision, reason = Decision.BLOCKED, f"not trusted: {', '.join(failed)}"
        elif p_value is None:
            decision, reason = Decision.UNDECIDED, "no clicks"
        elif p_value >= level:
            decision, reason = Decision.FLAT, "users do not prefer a team significantly"
        else:
            decision = Decision.WIN if above > below else Decision.LOSS
            reason = f"{max(above, below)} of {above + below} users prefer it"
            reason = reason if above > below else f"{reason.removesuffix(' it')} {self.plan.teams[1]}"
        return DecisionRow(self.name, self.plan.teams[0], decision.value, reason, not failed, False)


def ratio_by_user(
    n: int, total: int, squared: int, weight: int, squares: int, products: int, scale: Fraction = Fraction(1)
) -> Estimate:
    """Return scale * sum(x) / sum(w) of n users, with its variance by the delta method.

    The sums over users are those of x, x^2, w, w^2 and x w. Users of unequal weight are worth
    sum(w)^2 / sum(w^2) of equal weight (Kish): this number - 1 is the divisor of the variance, and its
    degrees of freedom.

    >>> estimate = ratio_by_user(3, total=6, squared=14, weight=3, squares=3, products=6)
    >>> estimate.value, estimate.variance
    (Fraction(2, 1), Fraction(1, 3))

    Source: Deng et al., Applying the delta method in metric analytics, 2018; Kish, Survey Sampling, 1965.
    """
    if not n:
        return UNMEASURED
    ratio = Fraction(total, weight)
    if n < 2:
        return Estimate(scale * ratio, None, 0)
    spread_of_users = squared - 2 * ratio * products + ratio**2 * squares
    n_equal = Fraction(weight**2, squares)
    variance = scale**2 * spread_of_users * n_equal / ((n_equal - 1) * weight**2)
    return Estimate(scale * ratio, variance, float(n_equal - 1))
