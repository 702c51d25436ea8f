"""The verb ``linkage``: evaluate predicted links of records."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa

from spark_eval.linkage.evaluate import SHOWN, measure_linkage, shown_lines, shown_missing
from spark_eval.linkage.given import relations_of
from spark_eval.linkage.plan import LinkageOptions, Sources
from spark_eval.linkage.relations import Relations
from spark_eval.linkage.specs import REVIEWS, spec_of
from spark_eval.options import meanings
from spark_eval.publishing.commits import published, records_of
from spark_eval.publishing.published import open_table, unknown_run
from spark_eval.runs.job import Job, JobKind, Run, digest_of, fingerprints_of, usual_id
from spark_eval.runs.run import needed
from spark_eval.runs.sections import Config
from spark_eval.runs.tables import check_sources, rows_of, sources_here
from spark_eval.runs.verb import ACCOUNTING, Computed, Published, Screen, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import Table
from spark_eval.verbs.kinds import SAMPLE


def compute(work: Work) -> Computed:
    """Compare the links with the truth, with the candidates and with reviews, if they are given."""
    plan = work.config.linkage.checked()
    make, names, reviews = relations_of_sources(work, plan.sources)
    reviewed = {} if reviews is None else {REVIEWS: reviews, "sample": sampled(work.job)}
    found = measure_linkage(make, names, reviewed, plan)
    return Computed(
        rows=found.small_tables,
        entries=found.entries,
        facts={"reviewed": dict(work.job.runs)},
        n_rows=len(found.rows),
    )


def show(run: Run, screen: Screen) -> None:
    """Print a line per metric, and how many records one table lacks."""
    lines = shown_lines(run.rows(Table.LINKAGE))
    screen.grid(SHOWN, lines, f"linkage of run {run.run_id}", of=Table.LINKAGE)
    for text in shown_missing(run.rows(Table.ACCOUNTING)):
        screen.say(text)


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    return meanings(LinkageOptions)


def job_of_links(verb: JobKind, config: Config, run_id: str | None, session: OpenSession) -> Job:
    """Return the job, which with reviews also reads the published sample.

    Raises DataError UNKNOWN_RUN if the sample is not published.
    """
    job = Job.of(verb, config, run_id, session)
    if config.reviews is None:
        return job
    of_sample = config.reviews.run or run_id or Job.of(SAMPLE, config, None, session).run_id
    reads = (SAMPLE.name,)
    runs = fingerprints_of(job.store, [of_sample], reads)
    if runs[of_sample] is None:
        known = {record.run_id for record in published(job.store.files) if record.verb in reads}
        raise unknown_run(of_sample, known, job.store.files.root)
    digest = digest_of(links=job.fingerprint, runs=runs)
    return replace(job, run_id=run_id or usual_id(verb, digest), fingerprint=digest, runs=runs, reads=reads)


def sampled(job: Job) -> pa.Table:
    """Return the published sample that was reviewed."""
    [run_id] = job.runs
    record = records_of(job.store.files, run_id)[SAMPLE.name]
    return pa.Table.from_pylist(open_table(job.store.files, record, Table.SAMPLE).rows())


def relations_of_sources(
    work: Work, sources: Sources, scored: str | None = None
) -> tuple[Callable[[], Relations], set[str], pa.Table | None]:
    """Return a maker of the relations of the sources, their names, and the reviews."""
    tables = rows_of(spec_of, work)
    reviews = tables.pop(REVIEWS, None)
    make = partial(relations_of, tables, work.resources, sources, scored)
    return make, set(tables), None if reviews is None else reviews.table()


def check_links(verb: Verb, config: Config, session: OpenSession) -> list[str]:
    """Check columns and types of the sources of a verb; return their names."""
    needed(getattr(config, verb.sections[0]), verb.sections[0])
    job = verb.job(verb, config, None, session)
    check_sources(spec_of, verb, job, config, session)
    return list(job.sources)


VERB = Verb(
    name="linkage",
    about="They are compared with true links. With candidates, blocking is measured. With reviews, precision "
    "and recall are estimated from the published sample.",
    sections=("predicted", "true", "candidates", "reviews", "linkage"),
    tables=(Published(Table.LINKAGE), ACCOUNTING),
    phases=("linkage",),
    compute=compute,
    open_locally=partial(sources_here, spec_of),
    show=show,
    job=job_of_links,
    check=check_links,
    options=options,
)
