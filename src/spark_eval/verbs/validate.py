"""Check the inputs of a config: files, columns and types of every table, whatever sections it lacks."""

from collections.abc import Collection, Sequence
from dataclasses import replace as replaced
from functools import partial
from typing import Any, Final

from spark_eval.arrow.sound_footers import read_footer
from spark_eval.config.inputs import Source
from spark_eval.errors import DataError, collect_errors
from spark_eval.evaluation.specs import specs_of as specs_of_lists
from spark_eval.linkage.specs import spec_of as spec_of_links
from spark_eval.predictions.measure import PREDICTIONS
from spark_eval.predictions.specs import specs_of as specs_of_predictions
from spark_eval.runners.conformed import check_id_types
from spark_eval.runs.job import Job
from spark_eval.runs.run import taken_here
from spark_eval.runs.sections import Config
from spark_eval.runs.tables import check_sources, sources_here, sources_on_spark
from spark_eval.runs.verb import LocalInput, Verb, Work
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import INPUT_COLUMNS, KIND, TIMESTAMP, USER
from spark_eval.sources.listing import fingerprint
from spark_eval.sources.plain import open_plain
from spark_eval.sources.snapshots import pinned
from spark_eval.splits.specs import specs_of_rule
from spark_eval.tables.columns import check_mapping, missing_column
from spark_eval.tables.spec import NotPlain, SpecOf, TableSpec
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
    rows = sources_on_spark(specs_of(config, job), job, session, segments_of(job, config), known(job))
    check_id_types({name: one for name, one in rows.items() if name not in ALONE})
    for name in job.sources.keys() - known(job).keys():
        job.read(session(), name)


def known(job: Job) -> dict[str, Any]:
    """Return the sources whose columns more than their own verb knows."""
    return {name: source for name, source in job.sources.items() if name in INPUT_COLUMNS}


def segments_of(job: Job, config: Config) -> dict[str, Sequence[str]]:
    """Return the columns of tables that are read as text."""
    of_predictions = getattr(job.sources.get(PREDICTIONS), "segments", ())
    return {**evaluate.text_columns(config.plan), PREDICTIONS: of_predictions}


def specs_of(config: Config, job: Job) -> SpecOf:
    """Return the specs of logs, lists and predictions."""

    def spec_of(name: str, columns: Sequence[str]) -> TableSpec:
        source: Any = job.sources[name]
        match name:
            case "interactions":
                return specs_of_rule(config.split.rule(), source.timestamp_unit)(name, columns)
            case "predictions":
                return specs_of_predictions(source.checked(), source.model)(name, columns)
        return specs_of_lists(config.plan, job.sources, job.timezone)(name, columns)

    return spec_of


def job_with(verb: Verb, config: Config, names: Collection[str], session: OpenSession) -> Job:
    """Return the job of a verb with these sources alone."""
    job = Job.of(verb, config, None, session)
    sources = {name: pinned(getattr(config, name).at(job.splits), session) for name in names}
    inputs = {name: job.inputs.get(name) or fingerprint(sources[name], session) for name in names}
    return replaced(job, sources=sources, inputs=inputs)


def open_lists(work: Work) -> LocalInput:
    """Return logs, lists and predictions as tables of this process; NotPlain if only Spark can take one."""
    for name in work.job.sources:
        if name not in INPUT_COLUMNS:
            raise NotPlain(f"{name} is known to its own verb alone")
    opened = sources_here(specs_of(work.config, work.job), work, segments_of(work.job, work.config))
    check_id_types({name: table for name, table in opened.tables.items() if name not in ALONE})
    return opened


def check_links(session: OpenSession, config: Config, _names: Sequence[str]) -> None:
    """Check pairs, clusters and reviews; the sample that was reviewed need not be published."""
    check_sources(spec_of_links, linkage.VERB, Job.of(linkage.VERB, config, None, session), config, session)


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
        opened = open_plain(source, name, job.timezone, (), None, work.session)
        check(opened.schema.names)
        return LocalInput(opened, sum(read_footer(path).num_rows for path in opened.paths))

    if taken_here(replaced(online.VERB, open_locally=open_locally), job, config, session) is None:
        check(job.read(session(), name).columns)
