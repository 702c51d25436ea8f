"""The verb ``evaluate``: measure lists of recommendations against the truth."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from spark_eval.evaluation.evaluate import measure_lists
from spark_eval.evaluation.plan import Plan
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
from spark_eval.tables.spec import ITEMS, USERS, SpecOf
from spark_eval.verbs.gates import comparison_of_gates
from spark_eval.verbs.kinds import EVALUATE


def compute(work: Work) -> Computed:
    """Measure all lists in one pass; ``per_user`` is written by the executors."""
    plan, sources = work.config.plan, sources_read(work)
    rows = rows_of(specs_of_work(work), work, text_columns(plan), sources)
    tables = Tables.of(rows, sources, plan, work.job.most_quarantined)
    events.stage("read", then="measure")
    of_users = (Table.PER_USER, *((Table.ITEM_SEGMENTS,) if plan.item_segments else ()))
    evaluation = measure_lists(tables, {name: work.attempt.staged(name) for name in of_users})
    work.resources.enter_context(closing(evaluation.resources))
    return Computed(
        rows=evaluation.small_tables,
        entries=evaluation.entries,
        written=dict(zip(of_users, (evaluation.n_per_user, evaluation.n_item_rows), strict=False)),
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
    return sources_here(specs_of_work(work), work, text_columns(work.config.plan), sources_read(work))


def text_columns(plan: Plan) -> dict[str, Sequence[str]]:
    """Return the columns of tables that are read as text: the segments of users and of items."""
    return {USERS: plan.user_columns, ITEMS: plan.attributes}


def show(run: Run, screen: Screen) -> None:
    """Print the leaderboard and, for a pipeline, the loss of users along its stages."""
    board = Leaderboard.of(run.rows(Table.METRICS), entries=run.rows(Table.ACCOUNTING))
    screen.board(board, f"metrics of run {run.run_id}")
    if Table.FUNNEL in run.tables:
        screen.funnel(run.rows(Table.STAGES), run.rows(Table.FUNNEL))


def has_item_segments(config: Config) -> bool:
    """Return True if the config has segments of items."""
    return bool(config.plan.item_segments)


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
        Published(Table.ITEM_SEGMENTS, by=(MODEL,), is_reported=False, is_asked=has_item_segments),
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
