"""The door of runs: sources of a config become rows with the columns of their specs, on one engine."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from spark_eval.errors import collect_errors
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
Sources = Mapping[str, Any]
NONE: Final[Segments] = MappingProxyType({})


def sources_here(
    spec_of: SpecOf, work: Work, segments: Segments = NONE, given: Sources | None = None
) -> LocalInput:
    """Return the sources of a job as tables of this process; raise NotPlain if only Spark can take one.

    ``segments`` are columns of tables that are read as text. ``given`` are the sources to read; by default
    all.
    """
    sources, before = given or work.job.sources, work.job.before
    opened = {
        name: partial(
            open_plain, source, name, work.job.timezone, segments.get(name, ()), before[name], work.session
        )
        for name, source in sources.items()
    }
    tables = tables_here(opened, spec_of, {name: source.columns for name, source in sources.items()})
    return LocalInput(tables, sum(table.n_rows for table in tables.values()))


def sources_on_spark(
    spec_of: SpecOf,
    job: Job,
    session: OpenSession,
    segments: Segments = NONE,
    given: Sources | None = None,
) -> dict[str, Rows]:
    """Return the sources of a job as conformed Spark frames; see ``sources_here``."""
    sources = given or job.sources

    def opened(name: str) -> Rows:
        frame = job.read(session(), name, segments.get(name, ()))
        return tables_on_spark({name: frame}, spec_of, {name: sources[name].columns})[name]

    return collect_errors({name: partial(opened, name) for name in sources})


def rows_of(
    spec_of: SpecOf, work: Work, segments: Segments = NONE, given: Sources | None = None
) -> dict[str, Rows]:
    """Return the sources of a job, where they are; see ``sources_here``."""
    if work.local is not None:
        return dict(work.local)
    return sources_on_spark(spec_of, work.job, work.session, segments, given)


def check_sources(spec_of: SpecOf, verb: Verb, job: Job, config: Config, session: OpenSession) -> None:
    """Check columns and types of the sources of a job; raise DataError with all errors."""
    if taken_here(verb, job, config, session) is None:
        sources_on_spark(spec_of, job, session)
