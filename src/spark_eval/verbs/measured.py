"""Published runs of ``evaluate`` and ``predictions`` as baseline and candidate of a comparison."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import mean
from typing import TYPE_CHECKING, Final

from spark_eval.arrow.user_files import read_dataset
from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.sides import Means, Side, Sides, means_of_rows
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.evaluation.plan import Plan
from spark_eval.kernels.means import means_of_users
from spark_eval.predictions.values import SCORED, ModelValues, compared_values
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import Record, published, records_of, usual_place
from spark_eval.publishing.published import PublishedTable, incomplete, open_table
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.local_tables import table_by_model
from spark_eval.runners.rows import Rows, SparkRows
from spark_eval.runners.user_buckets import UserTable
from spark_eval.runs.job import SPLIT
from spark_eval.runs.sections import EvaluateSection
from spark_eval.runtime.versions import release
from spark_eval.schema import FOLD, FOLDS, OF_ITEMS, VERSION, Subset, Table
from spark_eval.verbs.kinds import EVALUATE, MEASURING, PREDICTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Keys of the commit record that a comparison requires.
JOB_KEYS: Final = ("config", "conventions", "models", "versions")
# Methods that test each row in one fold and train on it in all others.
K_FOLDS: Final = ("k_fold", "stratified_k_fold")


def usable_record(store: Store, run_id: str, verb: str) -> Record | None:
    """Return the commit record of a run, None if nothing of it exists; see ``MeasuredRun.of`` for errors."""
    records = records_of(store.files, run_id)
    record = records.get(verb)
    if record is None:
        place = usual_place(store.files.root, run_id, verb, Table.PER_USER)
        is_of_other_verb = any(Table.PER_USER in other.job["tables"] for other in records.values())
        if store.files.is_there(place) and not is_of_other_verb:
            raise incomplete(run_id, f"{place!r} is there, and no commit record")
        return None
    lacking = [name for name in JOB_KEYS if name not in record.job]
    if lacking:
        raise incomplete(run_id, f"its commit record of {verb} has no {', '.join(lacking)}")
    version = record.job["versions"].get("spark_eval", "unknown")
    if release(version) != release(VERSION):
        message = f"run {run_id!r} was measured by version {version}, this is {VERSION}; {verb} it again"
        raise DataError("VERSIONS_DIFFER", message)
    return record


def measured_run(store: Store, run_id: str) -> "MeasuredRun | ScoredRun | None":
    """Return the run of ``evaluate`` or of ``predictions``; None if nothing of it exists."""
    if PREDICTIONS.name in records_of(store.files, run_id):
        return ScoredRun.of(store, run_id)
    return MeasuredRun.of(store, run_id)


@dataclass(frozen=True)
class ScoredRun:
    """Published run of ``predictions``, read from its commit record."""

    store: Store
    record: Record

    @classmethod
    def of(cls, store: Store, run_id: str) -> "ScoredRun | None":
        """Return the run, as ``MeasuredRun.of``; raise ConfigError NO_USERS without sums of users."""
        record = usable_record(store, run_id, PREDICTIONS.name)
        if record is None:
            return None
        if not record.job.get(SCORED):
            message = f"run {run_id!r} of predictions has no sums of users; run it with intervals: user"
            raise ConfigError("NO_USERS", message)
        return cls(store, record)

    def open(self, table: Table) -> PublishedTable:
        """Return a published table; raises DataError as ``open_table`` does."""
        return open_table(self.store.files, self.record, table)

    def side(self, spark: "SparkSession | None") -> Side:
        """Return the run as baseline or candidate; its tables are read when they are needed."""
        models = {model: ModelValues.of_record(one) for model, one in self.record.job[SCORED].items()}
        return Side(
            models=list(models),
            metrics=compared_values(models.values()),
            read_users=partial(self.users, spark),
            read_means=lambda: means_of_rows(self.open(Table.METRICS).rows()),
            conventions=str(self.record.job["conventions"]),
            run=self.record.run_id,
            values_by_model=models,
            n_rows=n_rows_of(self.record),
        )

    def users(self, spark: "SparkSession | None") -> UserTable:
        """Return the per-user table; without a session in this process."""
        table = self.open(Table.PER_USER)
        if spark is not None:
            return UserTable(SparkRows(table.frame(spark)))
        return UserTable(LocalTable.of(read_dataset(table.dataset())))


@dataclass(frozen=True)
class MeasuredRun:
    """Published run of ``evaluate``, read from its commit record."""

    store: Store
    record: Record

    @classmethod
    def of(cls, store: Store, run_id: str) -> "MeasuredRun | None":
        """Return the run, None if nothing of it exists.

        Its tables are checked when they are read. Raises DataError INCOMPLETE_RUN or CORRUPT_FILE for a
        missing or damaged record, VERSIONS_DIFFER if it was computed by another version of the metrics.
        """
        record = usable_record(store, run_id, EVALUATE.name)
        if record is None:
            return None
        measured = cls(store, record)
        try:
            _ = measured.plan
        except (KeyError, ValueError, ConfigError) as error:
            raise incomplete(run_id, f"the config in its commit record cannot be used: {error}") from error
        return measured

    @cached_property
    def plan(self) -> Plan:
        """The metrics, conventions and segments of the run."""
        return EvaluateSection.model_validate(self.record.job["config"][EVALUATE.name]).checked()

    @property
    def models(self) -> list[str]:
        """The names of the models."""
        return list(self.record.job["models"])

    @property
    def conventions(self) -> str:
        """The stamp of the conventions on its rows."""
        return str(self.record.job["conventions"])

    @property
    def truth_digest(self) -> str | None:
        """The digest of the truth; None for old runs without one."""
        digest: str | None = self.record.job.get("truth_digest")
        return digest

    def open(self, table: Table) -> PublishedTable:
        """Return a published table; raises DataError as ``open_table`` does."""
        return open_table(self.store.files, self.record, table)

    def test_train_ratio(self) -> float | None:
        """Return the ratio of test to train rows in a fold of this run's split, averaged over folds.

        None if the truth is not that of the run's own split.
        """
        truth = self.record.job["config"].get("truth")
        split = records_of(self.store.files, self.record.run_id).get(SPLIT.name)
        if split is None or (truth and (truth["path"] or truth["table"])):
            return None
        rule = split.job["config"].get(SPLIT.name, {})
        if rule.get("method") in K_FOLDS:
            return 1 / (int(rule["k"]) - 1)
        entries = open_table(self.store.files, split, Table.ACCOUNTING).rows()
        parts = [row for row in entries if row["source"] == FOLDS and row["reason"] is not None]
        n_rows = {row["reason"]: row["rows"] for row in parts}
        ratios = [n_rows[name] / n_rows[train] for name in n_rows if (train := train_of(name)) in n_rows]
        return mean(ratios) if ratios else None

    def side(self, spark: "SparkSession | None") -> Side:
        """Return the run as baseline or candidate; its tables are read when they are needed."""
        return Side(
            models=self.models,
            metrics=means_of_users(self.plan.metrics),
            read_users=partial(self.users, spark),
            item_segments=[f"{OF_ITEMS}{name}" for name in self.plan.item_segments],
            item_metrics=means_of_users(self.plan.item_metrics),
            read_item_users=partial(self.item_users, spark) if self.plan.item_segments else None,
            read_means=self.means,
            conventions=self.conventions,
            truth_digest=self.truth_digest,
            run=self.record.run_id,
            n_rows=n_rows_of(self.record),
        )

    def users(self, spark: "SparkSession | None") -> UserTable:
        """Return the per-user table; without a session in this process."""
        table = self.open(Table.PER_USER)
        frame: Rows = SparkRows(table.frame(spark)) if spark else table_by_model(Table.PER_USER, table.path)
        segments = [name for name in dict.fromkeys((FOLD, *self.plan.segments)) if name in frame.columns]
        return UserTable(
            frame=frame,
            segments=segments,
            folder=self.record.path_of(Table.PER_USER) if self.store.is_local else None,
            test_train_ratio=self.test_train_ratio() if FOLD in segments else None,
        )

    def item_users(self, spark: "SparkSession | None") -> UserTable:
        """Return the table ``item_segments``; without a session in this process."""
        table = self.open(Table.ITEM_SEGMENTS)
        frame: Rows = (
            SparkRows(table.frame(spark)) if spark else table_by_model(Table.ITEM_SEGMENTS, table.path)
        )
        return UserTable(frame)

    def means(self) -> Means:
        """Return the published means by model, metric, k, segment and segment value."""
        return means_of_rows(self.open(Table.METRICS).rows())


def n_rows_of(record: Record) -> int:
    """Return the number of rows of the per-user table of a run; 0 if it has none."""
    return int(record.job["tables"].get(Table.PER_USER, {"rows": 0})["rows"])


def sides_of_runs(
    spark: "SparkSession | None", store: Store, runs: Sequence[str], plan: ComparePlan
) -> Sides:
    """Return published runs, the candidate's first, as sides of a comparison.

    Without a session they are tables of this process.

    Raises:
        NotPlain: Without a session, for a per-user table that only Spark can read.
        DataError: UNKNOWN_RUN if the candidate's run is missing; MISSING_BASELINE if another one is missing
            and no gate names it.
    """
    run_id, *others = runs
    published_runs = {run: measured for run in runs if (measured := measured_run(store, run)) is not None}
    gated = {gate.against_run for gate in plan.gates}
    for run in runs:
        if run not in published_runs and (run == run_id or run not in gated):
            code = "UNKNOWN_RUN" if run == run_id else "MISSING_BASELINE"
            raise DataError(code, f"no run {run!r} of evaluate; {known_runs(store, run)}")
    sides = Sides(
        spark=spark,
        baselines={run: published_runs[run].side(spark) for run in others if run in published_runs},
        candidate=published_runs[run_id].side(spark),
        hint=lambda run: f"that run is not there; {known_runs(store, run, but=run_id)}",
    )
    for side in (sides.candidate, *sides.baselines.values()) if spark is None else ():
        with suppress(DataError):  # of a table that the comparison may not need
            _ = side.users
            if plan.reads_items:
                _ = side.item_users
    return sides


def train_of(part: str) -> str | None:
    """Return the train subset of a fold's test subset: ``fold 0 train`` for ``fold 0 test``; else None."""
    fold, _, subset = part.rpartition(" ")
    return f"{fold} {Subset.TRAIN}" if subset == Subset.TEST else None


def known_runs(store: Store, run_id: str, but: str = "") -> str:
    """Return a hint: the run of the nearest name, or all published runs of ``evaluate`` except ``but``."""
    runs = {record.run_id for record in published(store.files) if record.verb in MEASURING} - {but}
    return nearest(run_id, runs) if runs else f"no {'other ' if but else ''}run of evaluate is published here"
