"""Comparisons that a config requests: their runs, baseline and gates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_eval.comparison.decisions import failure_of
from spark_eval.comparison.gates import Gate, IfMissing, check_models
from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.rows import GateRow
from spark_eval.comparison.sides import BaselineName
from spark_eval.errors import ConfigError, DataError
from spark_eval.publishing.stores import store_of
from spark_eval.runs.job import Job, Run, digest_of, fingerprints_of, settings_of
from spark_eval.runs.measured import known_runs, measured_run
from spark_eval.runs.run import needed
from spark_eval.runs.sections import Baseline, Config
from spark_eval.runs.verb import Verb
from spark_eval.runs.verbs import evaluate, predictions
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Table


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
        if (measured := measured_run(store, run)) is not None:
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
    """Comparison that a config requests of a run; ``baseline`` is None if only gates request comparisons."""

    plan: ComparePlan
    baseline: BaselineName | None

    @classmethod
    def of(cls, config: Config, run_id: str) -> "CompareRequest":
        """Return the requested comparison; the candidate's own run is None in its gates and baseline.

        Raises ConfigError INVALID_GATE for a gate without a baseline, SAME_MODEL for one with itself.
        """
        if (fault := baseline_fault(config)) is not None:
            raise fault
        plan = config.compare.checked(config.gates)
        gates = [replace(gate, against_run=other_run(gate.against_run, run_id)) for gate in plan.gates]
        for gate in gates:
            check_models(gate)
        baseline = baseline_of(config.compare.baseline, gates)
        if baseline is not None:
            baseline = BaselineName(other_run(baseline.run, run_id), baseline.model)
        return cls(replace(plan, gates=tuple(gates)), baseline)

    @property
    def other_runs(self) -> list[str]:
        """The runs that the candidate's is compared with."""
        others = {gate.against_run for gate in self.plan.gates} | {
            self.baseline.run if self.baseline else None
        }
        return sorted(run for run in others if run is not None)


def job_of_runs(verb: Verb, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job of a comparison; by default of the run that this config makes.

    That is a run of ``evaluate``, or of ``predictions`` without recommendations. The job has the id of the
    candidate's run, and reads published runs instead of sources.
    """
    if run_id is None:
        has_predictions = config.recommendations is None and config.predictions is not None
        if not has_predictions:
            needed(config.recommendations, "recommendations")
        run_id = Job.of(predictions.VERB if has_predictions else evaluate.VERB, config, None, session).run_id
    store = store_of(config.output, session)
    runs = fingerprints_of(store, [run_id, *CompareRequest.of(config, run_id).other_runs])
    settings, timezone = settings_of(verb, config), config.split.rule().timezone
    digest = digest_of(config=settings, runs=runs)
    return Job(verb.name, run_id, digest, settings, {}, {}, store, "", timezone, runs)


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
