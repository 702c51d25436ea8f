"""The verb ``evaluate``: measure lists of recommendations against the truth."""

from contextlib import closing
from typing import Any

from spark_eval.evaluation.evaluate import measure_lists
from spark_eval.evaluation.segments import tables_read
from spark_eval.evaluation.specs import specs_of
from spark_eval.evaluation.tables import Tables
from spark_eval.publishing.verify import Expected
from spark_eval.results.leaderboard import Leaderboard
from spark_eval.runs.job import Run
from spark_eval.runs.sections import Config
from spark_eval.runs.tables import rows_of, sources_here
from spark_eval.runs.verb import ACCOUNTING, METRICS, Computed, LocalInput, Published, Screen, Verb, Work
from spark_eval.runtime import events
from spark_eval.schema import MODEL, Table
from spark_eval.tables.spec import USERS, SpecOf
from spark_eval.verbs.gates import comparison_of_gates
from spark_eval.verbs.kinds import EVALUATE


def compute(work: Work) -> Computed:
    """Measure all lists in one pass; ``per_user`` is written by the executors."""
    plan, sources = work.config.plan, sources_read(work)
    rows = rows_of(specs_of_work(work), work, {USERS: plan.user_columns}, sources)
    tables = Tables.of(rows, sources, plan, work.job.most_quarantined)
    events.stage("read", then="measure")
    evaluation = measure_lists(tables, work.attempt.staged(Table.PER_USER))
    work.resources.enter_context(closing(evaluation.resources))
    return Computed(
        rows=evaluation.small_tables,
        entries=evaluation.entries,
        written={Table.PER_USER: evaluation.n_per_user},
        judged=tables.judged(evaluation.entries),
        expected=Expected.of(plan.metrics, evaluation.keys),
        facts={
            "conventions": evaluation.plan.stamp,
            "models": list(evaluation.models),
            "truth_digest": evaluation.truth_digest,
        },
        n_rows=len(evaluation.metric_rows),
    )


def sources_read(work: Work) -> dict[str, Any]:
    """Return the sources that the plan reads."""
    sources = work.job.sources
    return {name: sources[name] for name in tables_read(work.config.plan, sources)}


def specs_of_work(work: Work) -> SpecOf:
    """Return the specs of the sources that the plan reads."""
    return specs_of(work.config.plan, sources_read(work), work.job.timezone)


def open_locally(work: Work) -> LocalInput:
    """Return the sources as tables of this process."""
    segments = {USERS: work.config.plan.user_columns}
    return sources_here(specs_of_work(work), work, segments, sources_read(work))


def show(run: Run, screen: Screen) -> None:
    """Print the leaderboard and, for a pipeline, the loss of users along its stages."""
    board = Leaderboard.of(run.rows(Table.METRICS), entries=run.rows(Table.ACCOUNTING))
    screen.board(board, f"metrics of run {run.run_id}")
    if Table.FUNNEL in run.tables:
        screen.funnel(run.rows(Table.STAGES), run.rows(Table.FUNNEL))


def has_stages(config: Config) -> bool:
    """Return True if the config describes a pipeline."""
    return bool(config.stages)


VERB = Verb(
    name=EVALUATE.name,
    about="If the config has gates, the comparison follows: exit code 5 if one fails. A gate without a "
    "baseline is left to compare, with a warning.",
    sections=EVALUATE.sections,
    tables=(
        Published(Table.PER_USER, by=(MODEL,), is_reported=False),
        METRICS,
        Published(Table.SUMS, by=(MODEL,), is_reported=False),
        ACCOUNTING,
        Published(Table.STAGES, is_asked=has_stages),
        Published(Table.FUNNEL, is_asked=has_stages),
    ),
    phases=("read", "measure", "metrics"),
    compute=compute,
    open_locally=open_locally,
    show=show,
    sources=EVALUATE.sources,
    then=comparison_of_gates,
    has_verdict=True,
)
