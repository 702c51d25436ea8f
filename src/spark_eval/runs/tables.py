"""The door of runs: sources of a config become rows with the columns of their specs, on one engine."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from spark_eval.runners.door import tables_here, tables_on_spark
from spark_eval.runners.rows import Rows
from spark_eval.runs.job import Job
from spark_eval.runs.run import taken_here
from spark_eval.runs.sections import Config
from spark_eval.runs.verb import LocalInput, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.sources.plain import open_plain
from spark_eval.tables.spec import SpecOf

Segments = Mapping[str, Sequence[str]]
NONE: Final[Segments] = MappingProxyType({})


def sources_here(spec_of: SpecOf, work: Work, segments: Segments = NONE) -> LocalInput:
    """Return the sources of a job as tables of this process; raise NotPlain if only Spark can take one.

    ``segments`` are columns of tables that are read as text.
    """
    sources, before = work.job.sources, work.job.before
    opened = {
        name: partial(open_plain, source, name, segments.get(name, ()), before[name], work.session)
        for name, source in sources.items()
    }
    tables = tables_here(opened, spec_of, {name: source.columns for name, source in sources.items()})
    return LocalInput(tables, sum(table.n_rows for table in tables.values()))


def sources_on_spark(
    spec_of: SpecOf, job: Job, session: OpenSession, segments: Segments = NONE
) -> dict[str, Rows]:
    """Return the sources of a job as conformed Spark frames."""
    frames = {name: job.read(session(), name, segments.get(name, ())) for name in job.sources}
    return tables_on_spark(frames, spec_of, {name: one.columns for name, one in job.sources.items()})


def rows_of(spec_of: SpecOf, work: Work, segments: Segments = NONE) -> dict[str, Rows]:
    """Return the sources of a job, where they are."""
    if work.local is not None:
        return dict(work.local)
    return sources_on_spark(spec_of, work.job, work.session, segments)


def check_sources(spec_of: SpecOf, verb: Verb, job: Job, config: Config, session: OpenSession) -> None:
    """Check columns and types of the sources of a job; raise DataError with all errors."""
    if taken_here(verb, job, config, session) is None:
        sources_on_spark(spec_of, job, session)
