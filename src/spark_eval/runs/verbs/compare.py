"""The verb ``compare``: compare models of published runs user by user, and decide gates."""

from typing import TYPE_CHECKING

from spark_eval.runs.verb import ACCOUNTING, Computed, LocalInput, Published, Screen, Verb, Work
from spark_eval.schema import Table

if TYPE_CHECKING:
    from spark_eval.runs.job import Job, Run
    from spark_eval.runs.sections import Config
    from spark_eval.runtime.any_session import OpenSession


def job(verb: Verb, config: "Config", run_id: str | None, session: "OpenSession") -> "Job":
    """Return the job, which has the id of the candidate's run and reads published runs."""
    from spark_eval.runs.compare import job_of_runs

    return job_of_runs(verb, config, run_id, session)


def compute(work: Work) -> Computed:
    """Compare the models, and decide the gates; failed gates are published as well."""
    from spark_eval.comparison.compare import compare_sides
    from spark_eval.runs.compare import CompareRequest
    from spark_eval.runs.measured import sides_of_runs

    job, asked = work.job, CompareRequest.of(work.config, work.job.run_id)
    sides = work.local or sides_of_runs(work.spark, job.store, list(job.runs), asked.plan)
    comparison = compare_sides(sides, asked.plan, asked.baseline)
    return Computed(
        rows=comparison.small_tables,
        entries=comparison.entries,
        facts={"runs": job.runs},
        n_rows=len(comparison.rows),
    )


def open_locally(work: Work) -> LocalInput:
    """Return the published runs as sides in this process."""
    from spark_eval.runs.compare import CompareRequest
    from spark_eval.runs.measured import sides_of_runs

    job = work.job
    sides = sides_of_runs(None, job.store, list(job.runs), CompareRequest.of(work.config, job.run_id).plan)
    return LocalInput(sides, sum(side.n_rows for side in (sides.candidate, *sides.baselines.values())))


def show(run: "Run", screen: Screen) -> None:
    """Print differences with intervals, a sentence for each pair and metric, and the decisions of gates."""
    from spark_eval.comparison.values import compared_direction
    from spark_eval.results.sentences import (
        COMPARED,
        GATED,
        MOST_SENTENCES,
        compared_lines,
        gated_lines,
        sentences,
        shortened,
        where,
    )

    compared = run.rows(Table.COMPARISONS)
    if compared:
        lines = compared_lines(compared)
        screen.grid(COMPARED, lines, f"comparisons of run {run.run_id}", of=Table.COMPARISONS)
        for text in shortened(sentences(compared, compared_direction), MOST_SENTENCES):
            screen.say(text)
    if Table.GATES in run.tables:
        gates = run.rows(Table.GATES)
        screen.grid(GATED, gated_lines(gates), f"gates of run {run.run_id}", of=Table.GATES)
        for row in gates:
            if row["decision"] != "not_worse":
                screen.say(f"gate {where(row)} of {row['model']}: {row['decision']}: {row['reason']}")


def check(_verb: Verb, config: "Config", session: "OpenSession") -> list[str]:
    """Check that the runs to compare with are published; return their names."""
    from spark_eval.runs.compare import check_baselines

    return check_baselines(session, config)


def judge(run: "Run") -> None:
    """Raise GateFailure GATE_FAILED if a published gate failed, in this call or in an earlier one."""
    from spark_eval.runs.compare import check_gates

    check_gates(run)


VERB = Verb(
    name="compare",
    order=4,
    about="""Compare models of published runs, user by user; publish comparisons, gates and accounting.

    The candidate is the run of --run-id, or that which evaluate makes of the same config. Exit code 5 if a
    gate fails.
    """,
    sections=("compare", "gates"),
    tables=(
        Published(Table.COMPARISONS),
        Published(Table.GATES, is_asked=lambda config: bool(config.gates_of_models)),
        ACCOUNTING,
    ),
    phases=("compare",),
    compute=compute,
    open_locally=open_locally,
    show=show,
    job=job,
    check=check,
    judge=judge,
    has_verdict=True,
)


def comparison_of_gates(config: "Config") -> Verb | None:
    """Return the verb that decides the gates; warn if a gate has no baseline yet."""
    if not config.gates_of_models:
        return None
    from spark_eval.runs.compare import baseline_fault
    from spark_eval.runtime import endings

    if (fault := baseline_fault(config)) is None:
        return VERB
    endings.warn(f"its gates are not decided: {fault.message}; compare then decides them")
    return None
