"""A run of the verb ``compare``: compare models of published runs, decide gates, publish both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spark_eval.comparison.decisions import failure_of
from spark_eval.comparison.gates import Gate, IfMissing, check_models
from spark_eval.comparison.plan import COMPARE, ComparePlan
from spark_eval.comparison.rows import GateRow
from spark_eval.comparison.sides import BaselineName
from spark_eval.config.sections import Baseline, Config
from spark_eval.errors import ConfigError, DataError
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.commits import records_of
from spark_eval.publishing.places import store_of
from spark_eval.runs.job import Job, Run, digest_of, settings_of
from spark_eval.runs.measured import EVALUATE, MeasuredRun, compare_published, known_runs
from spark_eval.runs.run import needed, stage_rows
from spark_eval.runtime import events
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Table


def run_compare(session: OpenSession, config: Config, run_id: str | None, replace: bool) -> Run:
    """Compare the models of a published run, and publish ``comparisons``, ``gates`` and ``accounting``.

    Failed gates are published as well; ``check_gates`` then raises the error.
    """
    asked = CompareRequest.of(config, run_id, session)
    job, tables = asked.job, asked.tables
    with job.attempt(session) as attempt:
        if attempt.is_published(job.fingerprint, tables, replace):
            return job.already(attempt, tables)
        spark = session()
        events.stage("start", then="compare")
        comparison = compare_published(spark, job.store, list(asked.runs), asked.plan, asked.baseline)
        events.stage("compare", len(comparison.rows), then="publish")
        written = stage_rows(spark, comparison.small_tables, attempt, tables)
        asked.check_rest()
        return job.publish(attempt, written, comparison.entries, runs=asked.runs)


def check_gates(run: Run) -> None:
    """Raise GateFailure GATE_FAILED if a published gate failed, in this call or in an earlier one."""
    if Table.GATES in run.tables:
        failure = failure_of([GateRow(**row) for row in run.rows(Table.GATES)])
        if failure is not None:
            raise failure


def check_baselines(session: OpenSession, config: Config) -> list[str]:
    """Check that the runs to compare with are published; return their names.

    Raises DataError MISSING_BASELINE, unless all gates of the run tolerate it, and the errors of incomplete
    runs.
    """
    store, plan = store_of(config.output, session), config.compare.checked(config.gates)
    gated = {gate.against_run for gate in plan.gates}
    refusing = {gate.against_run for gate in plan.gates if gate.if_missing is IfMissing.REFUSE}
    runs, there = {*gated, config.compare.baseline.run} - {None}, []
    for run in sorted(map(str, runs)):
        if (measured := MeasuredRun.of(store, run)) is not None:
            sees_users = {gate.sees_users for gate in plan.gates if gate.against_run == run}
            is_by_means = sees_users == {False} and run != config.compare.baseline.run
            measured.open(Table.METRICS if is_by_means else Table.PER_USER)
            there.append(f"run {run}")
        elif run in refusing or run not in gated:
            raise DataError("MISSING_BASELINE", f"no run {run!r} of evaluate; {known_runs(store, run)}")
    return there


def baseline_fault(config: Config) -> ConfigError | None:
    """Return the error INVALID_GATE if a gate has no baseline, neither its own nor that of ``compare``."""
    for gate in config.compare.checked(config.gates).gates:
        if gate.against_run is None and gate.against_model is None:
            hint = "give it against: {run, model}, or all gates compare.baseline"
            return ConfigError("INVALID_GATE", f"{gate} names no baseline; {hint}")
    return None


@dataclass(frozen=True)
class CompareRequest:
    """Comparison that a config requests.

    ``job`` has the id of the candidate's run. ``baseline`` is None if only gates request comparisons.
    ``runs`` maps the ids of all compared runs to the fingerprints of their published tables.
    """

    job: Job
    plan: ComparePlan
    baseline: BaselineName | None
    runs: Mapping[str, str | None]

    @classmethod
    def of(cls, config: Config, run_id: str | None, session: OpenSession) -> "CompareRequest":
        """Return the requested comparison; by default of the run that ``evaluate`` makes of this config."""
        if run_id is None:
            needed(config.recommendations, "recommendations")
            run_id = Job.of(EVALUATE, config, None, session).run_id
        store = store_of(config.output, session)
        if (fault := baseline_fault(config)) is not None:
            raise fault
        plan = config.compare.checked(config.gates)
        gates = [replace(gate, against_run=other_run(gate.against_run, run_id)) for gate in plan.gates]
        for gate in gates:
            check_models(gate)
        baseline = baseline_of(config.compare.baseline, gates)
        if baseline is not None:
            baseline = BaselineName(other_run(baseline.run, run_id), baseline.model)
        others = {gate.against_run for gate in gates} | {baseline.run if baseline else None}
        runs = fingerprints_of(store, [run_id, *sorted(run for run in others if run is not None)])
        settings = settings_of(COMPARE, config)
        digest, timezone = digest_of(config=settings, runs=runs), config.split.rule().timezone
        job = Job(COMPARE, run_id, digest, settings, {}, {}, store, "", timezone)
        return cls(job, replace(plan, gates=tuple(gates)), baseline, runs)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables to publish."""
        gates = (Table.GATES,) if self.plan.gates else ()
        return (Table.COMPARISONS, *gates, Table.ACCOUNTING)

    def check_rest(self) -> None:
        """Raise DataError INPUT_CHANGED_DURING_RUN if a compared run was published again in the meantime."""
        now = fingerprints_of(self.job.store, list(self.runs))
        changed = [run for run in now if now[run] != self.runs[run]]
        if changed:
            message = f"run {changed[0]!r} was published while it was compared; start again"
            raise DataError("INPUT_CHANGED_DURING_RUN", message)


def other_run(run: str | None, run_id: str) -> str | None:
    """Return a run's id, or None for the candidate's own run."""
    return None if run == run_id else run


def baseline_of(given: Baseline, gates: Sequence[Gate]) -> BaselineName | None:
    """Return the given baseline, or the one that all gates share; None if they differ.

    Without gates an empty baseline means that all pairs of models of one run are compared.
    """
    if given != Baseline() or not gates:
        return BaselineName(given.run, given.model)
    named = {BaselineName(gate.against_run, gate.against_model) for gate in gates}
    return named.pop() if len(named) == 1 else None


def fingerprints_of(store: Store, runs: Sequence[str]) -> dict[str, str | None]:
    """Return the fingerprint of each run's published evaluation; None if there is none."""
    records = {run: records_of(store.files, run).get(EVALUATE) for run in runs}
    return {run: None if one is None else one.job["fingerprint"] for run, one in records.items()}
