"""The verb ``compare``: compare models of published runs user by user, and decide gates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_eval.comparison.compare import compare_sides, with_forecasts
from spark_eval.comparison.decisions import failure_of
from spark_eval.comparison.gates import Gate, IfMissing, check_models
from spark_eval.comparison.given import CALIBRATION, calibration_rows
from spark_eval.comparison.plan import ComparePlan
from spark_eval.comparison.rows import GateRow, compared_direction
from spark_eval.comparison.sides import BaselineName
from spark_eval.errors import DataError
from spark_eval.publishing.stores import store_of
from spark_eval.results.forecasts import FORECAST, CalibrationRow, forecast_lines, forecast_sentence
from spark_eval.results.sentences import (
    GATED,
    MOST_SENTENCES,
    SLICED,
    compared_table,
    gated_lines,
    lost_sentences,
    seed_sentences,
    segment_notes,
    sentences,
    shortened,
    slice_sentences,
    sliced_lines,
    where,
)
from spark_eval.runs.job import Job, JobKind, Run, fingerprints_of
from spark_eval.runs.run import needed
from spark_eval.runs.sections import Baseline, Config
from spark_eval.runs.verb import ACCOUNTING, Computed, LocalInput, Published, Screen, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Table
from spark_eval.sources.small import read_small
from spark_eval.verbs.gates import baseline_fault
from spark_eval.verbs.kinds import EVALUATE, MEASURING, PREDICTIONS
from spark_eval.verbs.measured import MeasuredRun, known_runs, measured_run, sides_of_runs


def compute(work: Work) -> Computed:
    """Compare the models, and decide the gates; failed gates are published as well."""
    job, asked = work.job, CompareRequest.of(work.config, work.job.run_id)
    sides = work.local or sides_of_runs(work.spark, job.store, list(job.runs), asked.plan)
    comparison = compare_sides(sides, asked.plan, asked.baseline)
    if (calibrated := calibrated_rows(work.config, work.session)) is not None:
        if job_of_runs(VERB, work.config, job.run_id, work.session).fingerprint != job.fingerprint:
            message = "the calibration, or a run, was changed while it was read; start again"
            raise DataError("INPUT_CHANGED_DURING_RUN", message)
        comparison = with_forecasts(comparison, calibrated)
    return Computed(
        rows=comparison.small_tables,
        entries=comparison.entries,
        facts={"runs": job.runs},
        n_rows=len(comparison.rows),
    )


def calibrated_rows(config: Config, session: OpenSession) -> list[CalibrationRow] | None:
    """Return the rows of the calibration that the config names; None if it names none."""
    path = config.compare.calibration
    return None if path is None else calibration_rows(read_small(path, CALIBRATION, session))


def open_locally(work: Work) -> LocalInput:
    """Return the published runs as sides in this process."""
    job = work.job
    sides = sides_of_runs(None, job.store, list(job.runs), CompareRequest.of(work.config, job.run_id).plan)
    return LocalInput(sides, sum(side.n_rows for side in (sides.candidate, *sides.baselines.values())))


def show(run: Run, screen: Screen) -> None:
    """Print differences with intervals, a sentence for each pair and metric, and the decisions of gates."""
    compared = run.rows(Table.COMPARISONS)
    if compared:
        for text in lost_sentences(compared, compared_direction):
            screen.say(text)
        table = compared_table(compared, compared_direction)
        screen.grid(*table, f"comparisons of run {run.run_id}", of=Table.COMPARISONS)
        texts = shortened(sentences(compared, compared_direction), MOST_SENTENCES)
        notes = segment_notes(compared, compared_direction)
        for text in (*notes, *texts, *seed_sentences(compared)):
            screen.say(text)
    if Table.SLICES in run.tables:
        slices = run.rows(Table.SLICES)
        if lines := sliced_lines(slices):
            screen.grid(SLICED, lines, f"slices of run {run.run_id}", of=Table.SLICES)
        for text in slice_sentences(slices)[:MOST_SENTENCES]:
            screen.say(text)
    show_forecasts(run, screen)
    if Table.GATES in run.tables:
        gates = run.rows(Table.GATES)
        screen.grid(GATED, gated_lines(gates), f"gates of run {run.run_id}", of=Table.GATES)
        for row in gates:
            if row["decision"] != "not_worse":
                screen.say(f"gate {where(row)} of {row['model']}: {row['decision']}: {row['reason']}")


def show_forecasts(run: Run, screen: Screen) -> None:
    """Print the effects that past experiments let expect, if the run has a calibration."""
    if Table.FORECASTS in run.tables:
        forecasts = run.rows(Table.FORECASTS)
        title = f"forecasts of run {run.run_id}"
        screen.grid(FORECAST, forecast_lines(forecasts), title, of=Table.FORECASTS)
        for text in map(forecast_sentence, forecasts[:MOST_SENTENCES]):
            screen.say(text)


def check_gates(run: Run) -> None:
    """Raise GateFailure GATE_FAILED if a published gate failed, in this call or in an earlier one."""
    if Table.GATES in run.tables:
        failure = failure_of([GateRow(**row) for row in run.rows(Table.GATES)])
        if failure is not None:
            raise failure


def check_baselines(_verb: Verb, config: Config, session: OpenSession) -> list[str]:
    """Check the calibration, and that the runs to compare with are published; return their names.

    Raises DataError MISSING_BASELINE, unless all gates of the run tolerate it, and the errors of incomplete
    runs.
    """
    store, plan = store_of(config.output, session), config.compare.checked(config.gates)
    calibrated_rows(config, session)
    gated = {gate.against_run for gate in plan.gates}
    refusing = {gate.against_run for gate in plan.gates if gate.if_missing is IfMissing.REFUSE}
    runs, there = {*gated, config.compare.baseline.run} - {None}, []
    for run in sorted(map(str, runs)):
        if (measured := measured_run(store, run)) is not None:
            sees_users = {gate.sees_users for gate in plan.gates if gate.against_run == run}
            is_by_means = sees_users == {False} and run != config.compare.baseline.run
            measured.open(Table.METRICS if is_by_means else Table.PER_USER)
            if plan.reads_items and isinstance(measured, MeasuredRun) and measured.plan.item_segments:
                measured.open(Table.ITEM_SEGMENTS)
            there.append(f"run {run}")
        elif run in refusing or run not in gated:
            raise DataError("MISSING_BASELINE", f"no run {run!r} of evaluate; {known_runs(store, run)}")
    return there


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


def job_of_runs(verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job of a comparison; by default of the run that this config makes.

    That is a run of ``evaluate``, or of ``predictions`` without recommendations. The job has the id of the
    candidate's run, and reads published runs instead of sources.
    """
    if run_id is None:
        has_predictions = config.recommendations is None and config.predictions is not None
        if not has_predictions:
            needed(config.recommendations, "recommendations")
        run_id = Job.of(PREDICTIONS if has_predictions else EVALUATE, config, None, session).run_id
    store = store_of(config.output, session)
    runs = fingerprints_of(store, [run_id, *CompareRequest.of(config, run_id).other_runs], MEASURING)
    calibrated = calibrated_rows(config, session)
    read = {} if calibrated is None else {"calibration": calibrated}
    return Job.of_runs(verb, config, run_id, store, runs, MEASURING, **read)


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


VERB = Verb(
    name="compare",
    about="The candidate is the run of --run-id, or that which evaluate makes of the same config. "
    "Exit code 5 if a gate fails.",
    sections=("compare", "gates"),
    tables=(
        Published(Table.COMPARISONS),
        Published(Table.SLICES, is_asked=lambda config: config.compare.checked().slices is not None),
        Published(Table.FORECASTS, is_asked=lambda config: config.compare.calibration is not None),
        Published(Table.GATES, is_asked=lambda config: bool(config.gates_of_models)),
        ACCOUNTING,
    ),
    phases=("compare",),
    compute=compute,
    open_locally=open_locally,
    show=show,
    job=job_of_runs,
    check=check_baselines,
    judge=check_gates,
    has_verdict=True,
)
