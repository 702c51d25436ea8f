"""The verb ``evaluate``: measure lists of recommendations against the truth."""

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from spark_eval.runs.verb import ACCOUNTING, METRICS, Computed, LocalInput, Published, Screen, Verb, Work
from spark_eval.runs.verbs import compare
from spark_eval.schema import MODEL, Table

if TYPE_CHECKING:
    from spark_eval.config.inputs import Source
    from spark_eval.evaluation.tables import Tables
    from spark_eval.runs.job import Run
    from spark_eval.runs.sections import Config


def compute(work: Work) -> Computed:
    """Measure all lists in one pass; ``per_user`` is written by the executors."""
    from spark_eval.evaluation.evaluate import measure_lists
    from spark_eval.publishing.verify import Expected
    from spark_eval.runtime import events

    plan = work.config.plan
    tables = open_on_spark(work) if work.local is None else work.local
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
    from spark_eval.evaluation.segments import tables_read

    sources = work.job.sources
    return {name: sources[name] for name in tables_read(work.config.plan, sources)}


def open_on_spark(work: Work) -> "Tables":
    """Return the sources as conformed Spark frames."""
    from spark_eval.evaluation.conform import tables_of
    from spark_eval.sources.read import read_each

    plan, job, sources = work.config.plan, work.job, sources_read(work)
    frames = read_each(work.spark, sources, job.timezone, plan, job.before)
    return tables_of(frames, sources, plan, job.most_quarantined)


def open_locally(work: Work) -> LocalInput:
    """Return the sources as tables of this process."""
    from functools import partial

    from spark_eval.evaluation.tables import Tables
    from spark_eval.evaluation.wanted import local_tables
    from spark_eval.sources.plain import open_plain

    plan, job, sources = work.config.plan, work.job, sources_read(work)
    opened = {
        name: partial(open_plain, source, name, plan.user_columns, job.before[name], work.session)
        for name, source in sources.items()
    }
    found = local_tables(opened, sources, plan)
    tables = Tables.local(found, plan, sources["recommendations"].model, job.most_quarantined)
    return LocalInput(tables, tables.n_local)


def show(run: "Run", screen: Screen) -> None:
    """Print the leaderboard and, for a pipeline, the loss of users along its stages."""
    from spark_eval.results.leaderboard import Leaderboard

    board = Leaderboard.of(run.rows(Table.METRICS), entries=run.rows(Table.ACCOUNTING))
    screen.board(board, f"metrics of run {run.run_id}")
    if Table.FUNNEL in run.tables:
        screen.funnel(run.rows(Table.STAGES), run.rows(Table.FUNNEL))


def truth_of_split(config: "Config", splits: str) -> "Mapping[str, Source]":
    """Return the truth by default: the test subset of this run's own split."""
    from spark_eval.config.inputs import Source

    return {"truth": Source(subset=config.split.rule().final_test).at(splits)}


def has_stages(config: "Config") -> bool:
    """Return True if the config describes a pipeline."""
    return bool(config.stages)


VERB = Verb(
    name="evaluate",
    order=2,
    about="""Measure recommendations against the truth; publish per_user, metrics and accounting.

    If the config has gates, the comparison follows: exit code 5 if one fails. A gate without a baseline is
    left to compare, with a warning.
    """,
    sections=("recommendations", "truth", "train", "users", "items", "evaluate", "stages"),
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
    sources=truth_of_split,
    then=compare.comparison_of_gates,
    has_verdict=True,
)
