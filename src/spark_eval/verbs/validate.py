"""Check the inputs of a config: files, columns and types of every table, whatever sections it lacks."""

from collections.abc import Collection, Sequence
from dataclasses import replace as replaced
from functools import partial
from typing import Any, Final

from spark_eval.arrow.sound_footers import read_footer
from spark_eval.config.inputs import Source
from spark_eval.errors import DataError, collect_errors
from spark_eval.evaluation.wanted import local_tables
from spark_eval.linkage.specs import spec_of
from spark_eval.predictions.specs import specs_of
from spark_eval.runners.conformed import check_id_types
from spark_eval.runners.local_tables import NotPlain, conformed_here
from spark_eval.runners.rows import Rows, SparkRows
from spark_eval.runs.job import Job
from spark_eval.runs.run import taken_here
from spark_eval.runs.sections import Config
from spark_eval.runs.tables import check_sources
from spark_eval.runs.verb import LocalInput, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import INPUT_COLUMNS, KIND, TIMESTAMP, USER
from spark_eval.sources.plain import open_plain
from spark_eval.sources.snapshots import pinned
from spark_eval.splits.specs import specs_of_rule
from spark_eval.tables.columns import check_mapping, missing_column
from spark_eval.verbs import VERBS, evaluate, linkage, online

# Tables whose ids need not have the types of those of other tables.
ALONE: Final = ("interactions", "predictions")
# Columns that a table of experiments has, whatever is measured.
ALWAYS: Final = {online.EXPOSURES: (USER, TIMESTAMP), online.EVENTS: (USER, TIMESTAMP, KIND)}


def check_verb(verb: Verb, config: Config, session: OpenSession) -> list[str]:
    """Check what a verb reads; return the names of what was checked."""
    if verb.check is None:
        return check_inputs(session, config, verb)
    return verb.check(verb, config, session)


def check_inputs(session: OpenSession, config: Config, verb: Verb | None = None) -> list[str]:
    """Check the sources of a verb, or all that the config has, whatever it lacks; return their names.

    A session is opened only for sources that this process does not take. One DataError lists all faults.
    """
    verbs = VERBS.values() if verb is None else [verb]
    sections = dict.fromkeys(name for one in verbs for name in one.sections)
    given = [name for name in sections if isinstance(getattr(config, name), Source)]
    of_links = [name for name in given if name in linkage.VERB.sections]
    of_experiments = [name for name in given if name in (*online.SOURCES, online.INTERLEAVING)]
    others = [name for name in given if name not in (*of_links, *of_experiments)]
    checks = {check_lists: others, check_links: of_links, check_experiments: of_experiments}
    collect_errors(
        {check.__name__: partial(check, session, config, names) for check, names in checks.items() if names}
    )
    return given


def check_lists(session: OpenSession, config: Config, names: Sequence[str]) -> None:
    """Check logs, lists and predictions; tables of columns that only their own verb knows are just read."""
    job = job_with(evaluate.VERB, config, names, session)
    if taken_here(replaced(evaluate.VERB, open_locally=open_lists), job, config, session) is not None:
        return
    from spark_eval.sources.read import read_each

    known = {name: source for name, source in job.sources.items() if name in INPUT_COLUMNS}
    frames = read_each(session(), known, job.timezone, config.plan, {}, config.split.rule().timed)
    check_id_types({name: SparkRows(one) for name, (_, one) in frames.items() if name not in ALONE})
    for name in job.sources.keys() - known.keys():
        job.read(session(), name)


def job_with(verb: Verb, config: Config, names: Collection[str], session: OpenSession) -> Job:
    """Return the job of a verb with these sources alone."""
    job = Job.of(verb, config, None, session)
    sources = {name: pinned(getattr(config, name).at(job.splits), session) for name in names}
    return replaced(job, sources=sources, inputs={name: job.inputs.get(name, ()) for name in names})


def open_lists(work: Work) -> LocalInput:
    """Return logs, lists and predictions as tables of this process; NotPlain if only Spark can take one."""
    tables = collect_errors({name: partial(open_list, work, name) for name in work.job.sources})
    check_id_types({name: table for name, table in tables.items() if name not in ALONE})
    return LocalInput(tables, sum(table.count() for table in tables.values()))


def open_list(work: Work, name: str) -> Rows:
    """Return a log, lists or predictions as a table of this process."""
    source: Any = work.job.sources[name]
    plan = work.config.plan
    if name not in INPUT_COLUMNS:
        raise NotPlain(f"{name} is known to its own verb alone")
    segments = {"users": plan.user_columns, "predictions": getattr(source, "segments", ())}.get(name, ())
    opened = partial(open_plain, source, name, segments, None, work.session)
    match name:
        case "interactions":
            specs = specs_of_rule(work.config.split.rule(), source.timestamp_unit)
            return conformed_here(specs, name, opened(), source.columns)
        case "predictions":
            specs = specs_of(source.checked(), source.model)
            return conformed_here(specs, name, opened(), source.columns)
    return local_tables({name: opened}, work.job.sources, plan)[name]


def check_links(session: OpenSession, config: Config, _names: Sequence[str]) -> None:
    """Check pairs, clusters and reviews; the sample that was reviewed need not be published."""
    check_sources(spec_of, linkage.VERB, Job.of(linkage.VERB, config, None, session), config, session)


def check_experiments(session: OpenSession, config: Config, names: Sequence[str]) -> None:
    """Check tables of experiments, each alone if the config lacks the experiments or the other table."""
    is_whole = config.online is not None and set(online.SOURCES) <= set(names)
    if is_whole or online.INTERLEAVING in names:
        part = config if is_whole else config.model_copy(update={"online": None})
        online.check(online.VERB, part, session)
    job = job_with(online.VERB, config, [] if is_whole else [*ALWAYS.keys() & {*names}], session)
    collect_errors({name: partial(check_alone, session, config, job, name) for name in sorted(job.sources)})


def check_alone(session: OpenSession, config: Config, job: Job, name: str) -> None:
    """Check that a table of experiments has the columns that it always has, and those that are mapped."""
    source = job.sources[name]
    check_mapping(name, source.columns)

    def check(columns: Sequence[str]) -> None:
        known = {column.lower() for column in columns}
        DataError.raise_all(
            [
                missing_column(name, ours, source.columns, columns)
                for ours in dict.fromkeys((*ALWAYS[name], *source.columns))
                if source.columns.get(ours, ours).split(".")[0].lower() not in known
            ]
        )

    def open_locally(work: Work) -> LocalInput:
        _, paths, schema = open_plain(source, name, (), None, work.session)
        check(schema.names)
        return LocalInput(paths, sum(read_footer(path).num_rows for path in paths))

    if taken_here(replaced(online.VERB, open_locally=open_locally), job, config, session) is None:
        check(job.read(session(), name).columns)
