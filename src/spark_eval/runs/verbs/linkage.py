"""The verb ``linkage``: evaluate predicted links of records."""

from typing import TYPE_CHECKING

from spark_eval.runs.verb import ACCOUNTING, Computed, LocalInput, Published, Screen, Verb, Work
from spark_eval.schema import Table

if TYPE_CHECKING:
    from spark_eval.runs.job import Job, Run
    from spark_eval.runs.sections import Config
    from spark_eval.runtime.any_session import OpenSession


def job(verb: Verb, config: "Config", run_id: str | None, session: "OpenSession") -> "Job":
    """Return the job, which with reviews also reads the published sample."""
    from spark_eval.runs.linkage import job_of_links

    return job_of_links(verb, config, run_id, session)


def compute(work: Work) -> Computed:
    """Compare the links with the truth, with the candidates and with reviews, if they are given."""
    from spark_eval.linkage.evaluate import measure_linkage
    from spark_eval.linkage.wanted import REVIEWS
    from spark_eval.runs.linkage import relations_of, sampled

    plan = work.config.linkage.checked()
    make, names, reviews = relations_of(work, plan.sources)
    reviewed = {} if reviews is None else {REVIEWS: reviews, "sample": sampled(work.job)}
    found = measure_linkage(make, names, reviewed, plan)
    return Computed(
        rows=found.small_tables,
        entries=found.entries,
        facts={"reviewed": dict(work.job.runs)},
        n_rows=len(found.rows),
    )


def open_locally(work: Work) -> LocalInput:
    """Return the sources as tables of this process."""
    from spark_eval.runs.linkage import open_links

    return open_links(work)


def show(run: "Run", screen: Screen) -> None:
    """Print a line per metric, and how many records one table lacks."""
    from spark_eval.linkage.evaluate import SHOWN, shown_lines, shown_missing

    lines = shown_lines(run.rows(Table.LINKAGE))
    screen.grid(SHOWN, lines, f"linkage of run {run.run_id}", of=Table.LINKAGE)
    for text in shown_missing(run.rows(Table.ACCOUNTING)):
        screen.say(text)


def check(verb: Verb, config: "Config", session: "OpenSession") -> list[str]:
    """Check columns and types of the tables; return their names."""
    from spark_eval.runs.linkage import check_links

    return check_links(verb, config, session)


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    from spark_eval.linkage.plan import LinkageOptions
    from spark_eval.options import meanings

    return meanings(LinkageOptions)


VERB = Verb(
    name="linkage",
    order=9,
    about="""Evaluate predicted links of records, pairs or clusters; publish linkage and accounting.

    They are compared with true links. With candidates, blocking is measured. With reviews, precision and
    recall are estimated from the published sample.
    """,
    sections=("predicted", "true", "candidates", "reviews", "linkage"),
    tables=(Published(Table.LINKAGE), ACCOUNTING),
    phases=("linkage",),
    compute=compute,
    open_locally=open_locally,
    show=show,
    job=job,
    check=check,
    options=options,
)
