"""The verb ``sample``: draw pairs of records for review."""

from functools import partial

from spark_eval.accounting import ACCOUNTING as ACCOUNTING_COLUMNS
from spark_eval.linkage.plan import SampleOptions
from spark_eval.linkage.reviews import CANDIDATES, draw_sample, shown_strata
from spark_eval.linkage.specs import spec_of
from spark_eval.options import meanings
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runners.rows import Rows, SparkRows
from spark_eval.runs.job import Job, JobKind, Run
from spark_eval.runs.run import needed, stage_frame
from spark_eval.runs.sections import Config
from spark_eval.runs.tables import sources_here
from spark_eval.runs.verb import ACCOUNTING, Computed, Published, Screen, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Table
from spark_eval.verbs.kinds import SAMPLE
from spark_eval.verbs.linkage import check_links, relations_of_sources

PREDICTED = "predicted"


def job(verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job; raise ConfigError MISSING_SECTION without predicted links."""
    needed(config.predicted, PREDICTED)
    return Job.of(verb, config, run_id, session)


def compute(work: Work) -> Computed:
    """Draw pairs of each stratum."""
    plan = work.config.sample.checked()
    make, _, _ = relations_of_sources(work, plan.sources, CANDIDATES)
    drawn, entries = draw_sample(make(), plan)
    is_local = work.attempt.store.is_local
    rows: Rows = LocalTable.of(drawn) if is_local else SparkRows(work.spark.createDataFrame(drawn))
    stage_frame(rows, work.attempt, Table.SAMPLE)
    return Computed(
        rows={Table.ACCOUNTING: (entries, ACCOUNTING_COLUMNS)},
        entries=entries,
        written={Table.SAMPLE: len(drawn)},
        n_rows=len(drawn),
    )


def show(run: Run, screen: Screen) -> None:
    """Print a line per stratum."""
    header = ("stratum", "pairs", "drawn", "weight")
    screen.grid(header, shown_strata(run.rows(Table.SAMPLE)), f"strata of run {run.run_id}")


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    return meanings(SampleOptions)


VERB = Verb(
    name=SAMPLE.name,
    about="Strata are bands of scores, of predicted and of other pairs. The labels come back to linkage.",
    sections=SAMPLE.sections,
    tables=(Published(Table.SAMPLE, is_reported=False), ACCOUNTING),
    phases=("sample",),
    compute=compute,
    open_locally=partial(sources_here, spec_of),
    show=show,
    job=job,
    check=check_links,
    options=options,
)
