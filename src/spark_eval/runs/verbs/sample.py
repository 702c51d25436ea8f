"""The verb ``sample``: draw pairs of records for review."""

from typing import TYPE_CHECKING

from spark_eval.runs.verb import ACCOUNTING, Computed, Published, Screen, Verb, Work, job_of_inputs
from spark_eval.runs.verbs import linkage
from spark_eval.schema import Table

if TYPE_CHECKING:
    from spark_eval.runs.job import Job, Run
    from spark_eval.runs.sections import Config
    from spark_eval.runtime.any_session import OpenSession

PREDICTED = "predicted"


def job(verb: Verb, config: "Config", run_id: str | None, session: "OpenSession") -> "Job":
    """Return the job; raise ConfigError MISSING_SECTION without predicted links."""
    from spark_eval.runs.run import needed

    needed(config.predicted, PREDICTED)
    return job_of_inputs(verb, config, run_id, session)


def compute(work: Work) -> Computed:
    """Draw pairs of each stratum."""
    from spark_eval.accounting import ACCOUNTING as ACCOUNTING_COLUMNS
    from spark_eval.linkage.reviews import CANDIDATES, draw_sample
    from spark_eval.runs.linkage import relations_of
    from spark_eval.runs.run import stage_frame
    from spark_eval.tables.local_tables import LocalTable

    plan = work.config.sample.checked()
    make, _, _ = relations_of(work, plan.sources, CANDIDATES)
    drawn, entries = draw_sample(make(), plan)
    is_local = work.attempt.store.is_local
    stage_frame(
        LocalTable.of(drawn) if is_local else work.spark.createDataFrame(drawn), work.attempt, Table.SAMPLE
    )
    return Computed(
        rows={Table.ACCOUNTING: (entries, ACCOUNTING_COLUMNS)},
        entries=entries,
        written={Table.SAMPLE: len(drawn)},
        n_rows=len(drawn),
    )


def show(run: "Run", screen: Screen) -> None:
    """Print a line per stratum."""
    from spark_eval.linkage.reviews import shown_strata

    header = ("stratum", "pairs", "drawn", "weight")
    screen.grid(header, shown_strata(run.rows(Table.SAMPLE)), f"strata of run {run.run_id}")


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    from spark_eval.linkage.plan import SampleOptions
    from spark_eval.options import meanings

    return meanings(SampleOptions)


VERB = Verb(
    name="sample",
    order=8,
    about="""Draw pairs of records for review from the candidates; publish sample and accounting.

    Strata are bands of scores, of predicted and of other pairs. The labels come back to linkage.
    """,
    sections=("candidates", PREDICTED, "sample"),
    tables=(Published(Table.SAMPLE, is_reported=False), ACCOUNTING),
    phases=("sample",),
    compute=compute,
    open_locally=linkage.open_locally,
    show=show,
    job=job,
    check=linkage.check,
    options=options,
)
