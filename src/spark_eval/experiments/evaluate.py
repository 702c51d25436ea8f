"""Online experiments: from exposures and events to estimates, checks, decisions and accounting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Unpack

from pyspark.sql import DataFrame, SparkSession

from spark_eval.accounting import ACCOUNTING, Entry, check_accounting, unusable
from spark_eval.errors import ConfigError, DataError
from spark_eval.experiments.analysis import Analysis, analyses
from spark_eval.experiments.conform import MOST_QUARANTINED, conform_events, conform_exposures, input_faults
from spark_eval.experiments.plan import ExperimentOptions, ExperimentPlan, make_experiment_plan, names_of
from spark_eval.experiments.tables import (
    CHECKS,
    DECISIONS,
    EXPERIMENTS,
    SHOWN,
    CheckRow,
    DecisionRow,
    ExperimentRow,
    decision_lines,
    shown_lines,
)
from spark_eval.experiments.worker.bucket import (
    EVENTS,
    EXPOSURES,
    USERS,
    BucketSums,
    by_bucket,
    measure_bucket,
)
from spark_eval.options import documented
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.shown import SmallFrame, TextTable, Writable
from spark_eval.runners.objects import collect_objects, group_by_key, map_batches
from spark_eval.runtime import events as run_events
from spark_eval.schema import Outcome, Reason, Table
from spark_eval.tables.arrow_frames import Frame
from spark_eval.tables.conformed import check_id_types
from spark_eval.tables.frames import to_spark_frames
from spark_eval.tables.quarantine import share_faults

# Approximate number of events that a task has in memory.
ROWS_PER_BUCKET: Final = 1_000_000


@run_events.timed_call("evaluate_experiments")
@documented(ExperimentOptions)
def evaluate_experiments(
    exposures: Frame,
    events: Frame,
    metrics: Sequence[Mapping[str, Any]],
    experiments: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    exposure_columns: Mapping[str, str] | None = None,
    event_columns: Mapping[str, str] | None = None,
    timestamp_unit: str | None = None,
    max_quarantined: float = MOST_QUARANTINED,
    **options: Unpack[ExperimentOptions],
) -> "Experiments":
    """Compare the variants of online experiments: one scan of the events serves all experiments.

    Every exposure and every event is accounted for before any value is returned.

    The options under *Keyword args* are also keys of the config's section ``online``.

    Args:
        exposures: One row per exposure: ``user``, ``timestamp``, ``variant``; ``experiment`` if there are
            several experiments. A Spark, pandas or polars frame, an Arrow table, or the path of Parquet
            files.
        events: One row per event: ``user``, ``timestamp``, ``kind``, and optionally ``value`` (default 1) and
            ``id``; a user's events of equal id count once.
        metrics: A mapping per metric: ``name``, ``kind`` (``mean``, ``ratio``, ``mean_of_ratios``), its terms
            and its role; see the page on experiments.
        experiments: A mapping per experiment, or one: ``name``, ``control``, ``variants`` with their planned
            weights, ``period``, and optionally ``window``, ``assignment`` and ``gate``.
        exposure_columns: Mapping of our names to the column names of ``exposures``.
        event_columns: Mapping of our names to the column names of ``events``.
        timestamp_unit: Unit of timestamps that are numbers: ``s``, ``ms`` or ``us``.
        max_quarantined: Largest share of each table's rows that may be quarantined, in [0, 1].

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
        >>> online.to_pandas()[["metric", "control_value", "treatment_value"]]
            metric  control_value  treatment_value
        0  clicked            0.5              1.0
    """
    plan = make_experiment_plan(metrics, experiments, **options)
    if not 0 <= max_quarantined <= 1:
        raise ConfigError("OUT_OF_RANGE", f"max_quarantined: {max_quarantined} is not in [0, 1]")
    frames = to_spark_frames({EXPOSURES: exposures, EVENTS: events})
    shown = conform_exposures(frames[EXPOSURES], exposure_columns, timestamp_unit, plan)
    happened = conform_events(frames[EVENTS], event_columns, timestamp_unit, plan)
    return measure_experiments(shown, happened, plan, dict.fromkeys((EXPOSURES, EVENTS), max_quarantined))


def measure_experiments(
    exposures: DataFrame,
    events: DataFrame,
    plan: ExperimentPlan,
    most_quarantined: Mapping[str, float] | None = None,
) -> "Experiments":
    """Sum all units of the conformed tables in one shuffle by user, and account for every row.

    ``most_quarantined`` has the largest share of each table's rows that may be quarantined. Raises one
    DataError that lists everything found.
    """
    check_id_types({EXPOSURES: exposures, EVENTS: events})
    tables = {EXPOSURES: exposures, EVENTS: events}
    n_buckets = 1 + sum(table.count() for table in tables.values()) // ROWS_PER_BUCKET
    parts = rows_by_bucket(exposures, EXPOSURES, plan, n_buckets).unionAll(
        rows_by_bucket(events, EVENTS, plan, n_buckets)
    )
    sums = BucketSums()
    for one in collect_objects(group_by_key(parts, n_buckets, lambda _, found: measure_bucket(found, plan))):
        sums.merge(one)
    entries = entries_of(plan, sums)
    check_accounting(
        entries, [*sum_faults(plan, sums), *share_faults(entries, tables, most_quarantined or {})]
    )
    return Experiments(plan, sums, entries, exposures.sparkSession)


def rows_by_bucket(rows: DataFrame, source: str, plan: ExperimentPlan, n_buckets: int) -> DataFrame:
    """Return the rows of a conformed table as objects, numbered by bucket of users."""
    return map_batches(rows, lambda batches: by_bucket(batches, source, plan, n_buckets))


def entries_of(plan: ExperimentPlan, sums: BucketSums) -> list[Entry]:
    """Return the accounting of both tables, then that of each experiment, whose rows are the used ones."""
    entries = []
    for name in (None, *(one.name for one in plan.experiments)):
        for source in (EXPOSURES, EVENTS, *([USERS] if name else [])):
            keys = [key for key in sums.rows if key[:2] == (name, source)]
            for key in sorted(
                keys, key=lambda key: (key[2] != Outcome.IN, key[2] != Outcome.USED, *map(str, key[2:]))
            ):
                if (n_rows := sums.rows[key]) or key[2] == Outcome.IN:
                    n_users = n_rows if source == USERS else None
                    entries.append(Entry(source, name, key[2], key[3], n_rows, n_users))
    return entries


def sum_faults(plan: ExperimentPlan, sums: BucketSums) -> list[DataError]:
    """Return errors for unlisted variants, too many crossovers, and tables without a usable row."""
    faults = []
    for experiment in plan.experiments:
        unknown = sorted(variant for name, variant in sums.unknown if name == experiment.name)
        if unknown:
            message = (
                f"{EXPOSURES} of {experiment.name!r}: variants {', '.join(unknown)} are not in the config"
            )
            listed = ", ".join(experiment.arms)
            faults.append(DataError("UNKNOWN_VARIANT", f"{message}; listed are {listed}"))
        share = Analysis(plan, experiment, sums).crossover_share
        if share > plan.max_crossover:
            message = (
                f"{EXPOSURES} of {experiment.name!r}: {100 * share:.3g} % of users have several variants"
            )
            limit = f"online.max_crossover allows {100 * plan.max_crossover:g} %"
            faults.append(DataError("TOO_MANY_CROSSOVERS", f"{message}; {limit}"))
    rows, names = sums.rows, [one.name for one in plan.experiments]
    n_outside = [rows[name, EVENTS, Outcome.DROPPED, Reason.OUTSIDE_PERIOD] for name in names]
    n_used = sum(rows[name, EXPOSURES, Outcome.USED, None] for name in names)
    n_exposures, n_events = (rows[None, source, Outcome.USED, None] for source in (EXPOSURES, EVENTS))
    return faults or input_faults(n_exposures, n_events, n_used, min(n_outside))


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
    spark: SparkSession
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
        return [row for one in self.analyses for row in one.checks]

    @cached_property
    def decision_rows(self) -> list[DecisionRow]:
        """Rows of ``decisions``."""
        return [row for one in self.analyses for row in one.decisions]

    def shown(self) -> list[TextTable]:
        """Return a line per experiment, metric and treatment, with the decisions below."""
        notes = [*decision_lines([row._asdict() for row in self.decision_rows]), *unusable(self.entries)]
        lines = shown_lines([row._asdict() for row in self.experiment_rows])
        return [TextTable(f"Experiments {names_of(self.plan.experiments)}", SHOWN, lines, notes)]

    def __repr__(self) -> str:
        text = f"Experiments {names_of(self.plan.experiments)}: {names_of(self.plan.metrics)}; "
        tables = "experiments, checks, decisions, accounting are DataFrames"
        return "; ".join([text + tables, *unusable(self.entries)])

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
