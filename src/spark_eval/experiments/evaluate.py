"""Online experiments: from exposures and events to estimates, checks, decisions and accounting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, Final, Unpack

from spark_eval.accounting import ACCOUNTING, Entry, check_accounting, unusable
from spark_eval.arrow.row_faults import FaultRule
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.analysis import Analysis, analyses
from spark_eval.experiments.inputs import Tables, judged, open_tables
from spark_eval.experiments.parse import make_experiment_plan
from spark_eval.experiments.plan import ExperimentOptions, ExperimentPlan, TermKey, names_of
from spark_eval.experiments.tables import (
    CHECKS,
    DECISIONS,
    EXPERIMENTS,
    CheckRow,
    DecisionRow,
    ExperimentRow,
)
from spark_eval.experiments.worker.attach import attach_units
from spark_eval.experiments.worker.bucket import (
    EVENTS,
    EXPOSURES,
    UNITS,
    BucketSums,
    measure_bucket,
)
from spark_eval.experiments.worker.send import (
    SEGMENT_BITS,
    ExposedUnits,
    Reach,
    by_bucket,
    exposed_bits,
    filter_of,
    merged_bits,
    n_bits_for,
)
from spark_eval.experiments.worker.tails import measure_tails, quantile_of
from spark_eval.options import Given, checked_call, documented
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.effects import SHOWN, decision_lines, effect_lines
from spark_eval.results.exported import SmallFrame
from spark_eval.results.shown import TextTable, Writable
from spark_eval.runners.conformed import check_id_types
from spark_eval.runners.quarantine import share_faults
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import collect_objects, group_by_key, map_objects, n_buckets_of, of_buckets
from spark_eval.runtime import events as run_events
from spark_eval.schema import UNIT, Outcome, Reason, Table
from spark_eval.tables.arrow_frames import Frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Events of units without an exposure are left behind if there are this many events, also per exposure: to
# know these units, the exposures are read once more.
LEAST_FILTERED: Final = 1_000_000
EVENTS_PER_EXPOSURE: Final = 4
# Shares of invalid rows above these are refused: they are rarely single cases.
MOST_QUARANTINED: Final = 0.01


@run_events.timed_call("evaluate_experiments")
@documented(ExperimentOptions)
@checked_call
def evaluate_experiments(
    exposures: Frame,
    events: Frame,
    metrics: Sequence[Given],
    experiments: Given | Sequence[Given],
    *,
    exposure_columns: Mapping[str, str] | None = None,
    event_columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    max_quarantined: float = MOST_QUARANTINED,
    gates: Sequence[Given] = (),
    engine: str | None = None,
    **options: Unpack[ExperimentOptions],
) -> "Experiments":
    """Compare the variants of online experiments: one scan of the events serves all experiments.

    Every exposure and every event is accounted for before any value is returned.

    The options under *Keyword args* are also keys of the config's section ``online``.

    Args:
        exposures: One row per exposure: ``user``, ``timestamp``, ``variant``; ``experiment`` if there are
            several experiments. A Spark, pandas or polars frame, an Arrow table, or the path of Parquet
            files.
        events: One row per event: ``user``, ``timestamp``, ``kind``, and optionally ``value`` (1 without the
            column) and ``id``; a user's events of equal id count once.
        metrics: A mapping per metric: ``name``, ``kind`` (``mean``, ``ratio``, ``mean_of_ratios``), its terms
            and its role; see the page on experiments.
        experiments: A mapping per experiment, or one: ``name``, ``control``, ``variants`` with their planned
            weights, ``period``, and optionally ``window``, ``assignment``, ``weights``, ``unit``, ``by`` and
            ``sequential``.
        exposure_columns: Mapping of our names to the column names of ``exposures``.
        event_columns: Mapping of our names to the column names of ``events``.
        timestamp_unit: Unit of timestamps that are numbers: ``s``, ``ms`` or ``us``.
        max_quarantined: Largest share of each table's rows that may be quarantined, in [0, 1].
        gates: A mapping per gate: ``experiment``, ``metric`` and ``max_drop``, and optionally ``drop``,
            ``mode`` and ``confidence``.
        engine: ``local`` for this process, ``spark``, or ``auto``: this process for pandas, polars and Arrow
            frames and for plain Parquet files of this machine, otherwise Spark. By default that of the
            environment variable ``SPARK_EVAL_ENGINE``, otherwise ``auto``.

    Returns:
        An ``Experiments``: ``experiments``, ``checks``, ``decisions``, ``accounting``; ``summary()``,
        ``write()``.

    Raises:
        ConfigError: An option, a metric or an experiment is invalid.
        DataError: The rows cannot be evaluated, for example UNKNOWN_VARIANT. One error lists everything that
            was found.

    Examples:
        One of two users of ``a`` and both users of ``b`` click:

        >>> import pandas as pd
        >>> from spark_eval import evaluate_experiments
        >>> noon = pd.Timestamp("2024-05-01T12:00:00Z")
        >>> exposures = pd.DataFrame({"user": [1, 2, 3, 4], "variant": list("aabb"), "timestamp": noon})
        >>> events = pd.DataFrame({"user": [1, 3, 4], "kind": "click", "timestamp": noon})
        >>> clicked = {"name": "clicked", "kind": "mean", "of": {"kind": "click", "value": "any"}}
        >>> home = {"name": "home", "control": "a", "variants": {"a": 1, "b": 1}}
        >>> home["period"] = ["2024-05-01", "2024-05-08"]
        >>> online = evaluate_experiments(exposures, events, [clicked], home)
        >>> online.to_pandas()[["metric", "method", "control_value", "treatment_value"]]
            metric method  control_value  treatment_value
        0  clicked    raw            0.5              1.0
        1  clicked  cuped            0.5              1.0
    """
    plan = make_experiment_plan(metrics, experiments, gates, **options)
    if not 0 <= max_quarantined <= 1:
        raise ConfigError("OUT_OF_RANGE", f"max_quarantined: {max_quarantined} is not in [0, 1]")
    names = {EXPOSURES: exposure_columns or {}, EVENTS: event_columns or {}}
    given = {EXPOSURES: exposures, EVENTS: events}
    plan, tables = open_tables(given, names, timestamp_unit, plan, engine)
    return measure_experiments(tables, plan, dict.fromkeys(given, max_quarantined))


def measure_experiments(
    tables: Tables, plan: ExperimentPlan, most_quarantined: Mapping[str, float] | None = None
) -> "Experiments":
    """Sum all units of the conformed tables in one shuffle by unit, and account for every row.

    ``most_quarantined`` has the largest share of each table's rows that may be quarantined. Raises one
    DataError that lists everything found.
    """
    check_id_types(tables.rows)
    n_rows = {name: table.count() for name, table in tables.rows.items()}
    n_buckets = n_buckets_of(sum(n_rows.values()))
    # Events without the unit meet the exposures of their user first.
    sending = replace(plan, by_unit=False) if tables.lacks_unit(plan) else plan
    reach = Reach.of(plan, exposed_units(tables, sending, n_rows))
    parts = rows_by_bucket(tables, sending, n_buckets, {EVENTS: reach})
    if sending is not plan:
        attach = partial(attach_units, plan=plan, n_buckets=n_buckets)
        parts = map_objects(group_by_key(parts, n_buckets, lambda _, objects: list(attach(objects))), iter)

    if plan.winsorised:
        plan = replace(plan, caps=caps_of(parts, n_buckets, plan))
    sums = BucketSums()
    for one in of_buckets(parts, n_buckets, partial(measure_bucket, plan=plan)):
        sums += one
    entries = entries_of(plan, sums)
    of_tables = judged(tables, plan, entries)
    check_accounting(
        entries, [*sum_faults(plan, sums), *share_faults(entries, of_tables, most_quarantined or {})]
    )
    return Experiments(plan, sums, entries, tables.rows[EVENTS].session)


def exposed_units(tables: Tables, plan: ExperimentPlan, n_rows: Mapping[str, int]) -> ExposedUnits | None:
    """Return a filter of the exposed units; None if it would cost more than it saves."""
    if n_rows[EVENTS] < max(LEAST_FILTERED, EVENTS_PER_EXPOSURE * n_rows[EXPOSURES]):
        return None
    n_bits = n_bits_for(n_rows[EXPOSURES])
    make = partial(exposed_bits, judge=tables.rule(EXPOSURES, plan), plan=plan, n_bits=n_bits)
    segments = group_by_key(tables.map(EXPOSURES, make), n_bits // SEGMENT_BITS, merged_bits)
    return filter_of(collect_objects(segments), n_bits)


def rows_by_bucket(
    tables: Tables,
    plan: ExperimentPlan,
    n_buckets: int,
    reach: Mapping[str, Reach] | None = None,
    rules: Mapping[str, FaultRule] | None = None,
) -> Rows:
    """Return the valid rows of all tables, and the counts of all others, as objects by bucket of units.

    ``reach`` is that of a table whose other rows are only counted. ``rules`` replace those of tables.
    """
    reach, rules = reach or {}, rules or {}
    send = partial(by_bucket, plan=plan, n_buckets=n_buckets)
    first, *others = [
        tables.map(
            name,
            partial(
                send,
                source=name,
                judge=rules.get(name) or tables.rule(name, plan),
                reach=reach.get(name),
            ),
        )
        for name in tables.rows
    ]
    return first.concat(others)


def caps_of(parts: Rows, n_buckets: int, plan: ExperimentPlan) -> dict[TermKey, int]:
    """Return the quantile of each winsorised term over all units of an experiment, in a pass of its own."""
    caps: dict[TermKey, int] = {}
    for is_whole in (False, True):
        of_all = list(of_buckets(parts, n_buckets, partial(measure_tails, plan=plan, is_whole=is_whole)))
        missing = False
        for experiment in plan.experiments:
            for term, scale in plan.winsorised:
                key = (experiment.name, term, scale)
                tails = [tails[key] for tails in of_all if key in tails]
                cap = quantile_of(tails, term.winsorise or 1)
                if cap is not None:
                    caps[key] = cap
                missing |= cap is None and any(tail.n for tail in tails)
        if not missing:
            break
    return caps


def entries_of(plan: ExperimentPlan, sums: BucketSums) -> list[Entry]:
    """Return the accounting of both tables, then of each experiment, whose rows are the used ones."""
    entries = []
    for name in (None, *(one.name for one in plan.experiments)):
        for source in (EXPOSURES, EVENTS, *([UNITS] if name else [])):
            keys = [key for key in sums.rows if key[:2] == (name, source)]
            for key in sorted(
                keys, key=lambda key: (key[2] != Outcome.IN, key[2] != Outcome.USED, *map(str, key[2:]))
            ):
                if (n_rows := sums.rows[key]) or key[2] == Outcome.IN:
                    n_users = n_rows if source == UNITS else None
                    entries.append(Entry(source, name, key[2], key[3], n_rows, n_users))
    return entries


def sum_faults(plan: ExperimentPlan, sums: BucketSums) -> list[DataError]:
    """Return errors for days, unlisted variants, too many crossovers, and tables without a usable row."""
    faults = [
        DataError("INVALID_USER_DAYS", f"{EVENTS}: {n_rows} rows of user_days are {what}")
        for what, n_rows in sorted(sums.day_faults.items())
        if n_rows
    ]
    if sums.of_several_units:
        unit = plan.experiments[0].unit or UNIT
        message = f"{EXPOSURES}: {sums.of_several_units} users have several units ({unit})"
        faults.append(DataError("SEVERAL_UNITS", f"{message}; give {EVENTS} the column, too"))
    faults += variant_faults(plan, sums)
    rows, names = sums.rows, [one.name for one in plan.experiments]
    n_outside = [rows[name, EVENTS, Outcome.DROPPED, Reason.OUTSIDE_PERIOD] for name in names]
    n_used = sum(rows[name, EXPOSURES, Outcome.USED, None] for name in names)
    n_exposures, n_events = (rows[None, source, Outcome.USED, None] for source in (EXPOSURES, EVENTS))
    return faults or input_faults(n_exposures, n_events, n_used, min(n_outside))


def variant_faults(plan: ExperimentPlan, sums: BucketSums) -> list[DataError]:
    """Return errors for unlisted variants and too many crossovers."""
    faults = []
    for experiment in plan.experiments:
        unknown = sorted(variant for name, variant in sums.unknown if name == experiment.name)
        if unknown:
            names = ", ".join(map(repr, unknown))
            message = f"{EXPOSURES} of {experiment.name!r}: variants {names} are not in the config"
            listed = ", ".join(map(repr, experiment.arms))
            faults.append(DataError("UNKNOWN_VARIANT", f"{message}; listed are {listed}"))
        share = Analysis(plan, experiment, sums).crossover_share
        if share > plan.max_crossover:
            message = (
                f"{EXPOSURES} of {experiment.name!r}: {100 * share:.3g} % of users have several variants"
            )
            limit = f"online.max_crossover allows {100 * plan.max_crossover:g} %"
            faults.append(DataError("TOO_MANY_CROSSOVERS", f"{message}; {limit}"))
    return faults


def input_faults(n_exposures: int, n_events: int, n_used: int, n_outside: int) -> list[DataError]:
    """Return errors for tables without any usable row.

    ``n_used`` counts used exposures; all ``n_events`` of ``n_outside`` are outside every period.
    """
    hint = "check period, timezone and timestamp_unit"
    if not n_exposures:
        return [DataError("EMPTY_EXPOSURES", f"{EXPOSURES}: not a single valid row of an experiment")]
    faults = []
    if not n_used:
        message = f"{EXPOSURES}: none of {n_exposures} rows is used; {hint}"
        faults.append(DataError("EMPTY_EXPOSURES", message))
    if n_events and n_events == n_outside:
        message = f"{EVENTS}: all {n_events} rows are outside the periods; {hint}"
        faults.append(DataError("EVENTS_OUTSIDE_PERIOD", message))
    return faults


@dataclass(frozen=True, repr=False)
class Experiments(Writable):
    """Result of ``evaluate_experiments``: the rows of all tables, and the tables as DataFrames.

    Examples:
        ``online`` is the result of the example of ``evaluate_experiments``:

        >>> [row.decision for row in online.decision_rows]
        ['flat']
    """

    plan: ExperimentPlan
    sums: BucketSums
    entries: Sequence[Entry]
    spark: "SparkSession | None"
    verb: ClassVar[str] = "online"
    tables: ClassVar[tuple[str, ...]] = ("experiments", "checks", "decisions", "accounting")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - {"models", "plot", "log_mlflow"})

    @cached_property
    def analyses(self) -> list[Analysis]:
        """Analysis of each experiment."""
        return list(analyses(self.plan, self.sums))

    @cached_property
    def experiment_rows(self) -> list[ExperimentRow]:
        """Rows of ``experiments``."""
        return [row for one in self.analyses for row in one.rows]

    @cached_property
    def check_rows(self) -> list[CheckRow]:
        """Rows of ``checks``."""
        return [row for one in self.analyses for row in one.shown_checks]

    @cached_property
    def decision_rows(self) -> list[DecisionRow]:
        """Rows of ``decisions``."""
        return [row for one in self.analyses for row in one.decisions]

    def shown(self) -> list[TextTable]:
        """Return a line per experiment, metric and treatment, with the decisions below."""
        notes = [*decision_lines([row._asdict() for row in self.decision_rows]), *unusable(self.entries)]
        lines = effect_lines([row._asdict() for row in self.experiment_rows])
        return [TextTable(f"Experiments {names_of(self.plan.experiments)}", SHOWN, lines, notes)]

    def __repr__(self) -> str:
        decisions = decision_lines([row._asdict() for row in self.decision_rows])
        [table] = self.shown()
        return "\n".join([*decisions, repr(replace(table, notes=unusable(self.entries)))])

    @property
    def record(self) -> dict[str, str]:
        """The conventions."""
        return {"conventions": self.plan.stamp}

    @property
    def small_tables(self) -> dict[str, SmallRows]:
        """The rows of all tables."""
        return {
            Table.EXPERIMENTS: (self.experiment_rows, EXPERIMENTS),
            Table.CHECKS: (self.check_rows, CHECKS),
            Table.DECISIONS: (self.decision_rows, DECISIONS),
            Table.ACCOUNTING: (self.entries, ACCOUNTING),
        }

    experiments = SmallFrame(Table.EXPERIMENTS, "a row per experiment, metric and treatment.")
    checks = SmallFrame(Table.CHECKS, "the checks of trust.")
    decisions = SmallFrame(Table.DECISIONS, "a decision per experiment and treatment.")
    accounting = SmallFrame(Table.ACCOUNTING, "what became of every row.")
