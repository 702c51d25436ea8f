"""Execution of commands that make a run: config, session, progress and final messages.

Loaded when a command runs; Spark, verdicts and reports only where they are needed.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_eval.cli import terminal
from spark_eval.cli.options import VERDICT, run_options
from spark_eval.errors import GateFailure
from spark_eval.names import check_run_id
from spark_eval.publishing.stores import store_of
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import Config, read_config
from spark_eval.runs.verb import Verb
from spark_eval.runtime import endings, events
from spark_eval.runtime.any_session import is_remote, refuse_remote
from spark_eval.runtime.local_files import check_working_folder
from spark_eval.runtime.progress import Display
from spark_eval.runtime.signals import Stopped
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.runtime.versions import check_workers
from spark_eval.verbs import SENTENCES, VERBS

if TYPE_CHECKING:
    from spark_eval.runs.job import Run


def open_config(file: Path, settings: Sequence[str], run_id: str | None) -> Config:
    """Validate the run id, then read and return the validated config."""
    check_working_folder()
    if run_id is not None:
        check_run_id(run_id)
    return read_config(file, settings)


def open_session(config: Config, verb: str) -> Any:
    """Return the submitted session, or a local one as configured, after a check of its workers' versions.

    From then on, Spark's UI and event logs describe jobs by the current phase of the run. Raises ConfigError
    CONNECT_UNSUPPORTED for a session of Spark Connect unless results are tables of a catalog.
    """
    from spark_eval.runtime.session import get_session

    conf = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in config.spark.conf.items()
    }
    session = get_session(f"spark-eval {verb}", config.spark.master, conf)
    if config.output.table is None:
        refuse_remote(session, f"output.path {config.output.path!r}", "set output.table: CATALOG.SCHEMA")
    if not is_remote(session):
        label = session.sparkContext.setJobGroup
        events.followers.append(
            lambda run: label(f"{run.verb} of run {run.run_id}", f"{run.verb}: {run.doing}")
        )
        events.notify_followers()
    check_workers(session)
    return session


class VerbCommand(click.Command):
    """Command of a verb, whose help lists the options of its section that the record names."""

    def __init__(self, *, verb: Verb, **given: Any) -> None:
        super().__init__(**given)
        self.verb = verb

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the config's section."""
        if options := self.verb.options():
            with formatter.section(f"Options of {self.verb.name} in the config (methods; default)"):
                formatter.write_dl(options)
        super().format_epilog(ctx, formatter)


def command_of(verb: Verb) -> click.Command:
    """Return the command of a verb that makes a run."""

    @run_options
    def make(settings: Sequence[str], engine: str | None, **given: Any) -> None:
        if engine is not None:
            settings = [*settings, f"engine={engine}"]
        chosen = {one.key: given.pop(one.parameter) for one in verb.shortcuts}
        own = [f"{key}={json.dumps(value)}" for key, value in chosen.items() if value is not None]
        make_run(verb.name, settings=[*settings, *own], **given)

    for one in reversed(verb.shortcuts):
        make = click.option(one.option, one.parameter, metavar=one.metavar, help=one.meaning)(make)
    if verb.has_verdict:
        make = VERDICT(make)
    text = f"{SENTENCES[verb.name]}\n\n{verb.about}"
    return click.command(verb.name, cls=VerbCommand, help=text, verb=verb)(make)


def make_run(
    name: str,
    file: Path,
    run_id: str | None,
    settings: Sequence[str],
    replace: bool,
    verdict: Path | None = None,
) -> None:
    """Do the verb of this name, print its results, and go on with the verb that follows.

    After the run is published, it counts as successful: later errors are only printed, and no verb follows.
    Failed gates are an exception and raise GateFailure.
    """
    config = open_config(file, settings, run_id)
    verb = VERBS[name]
    verb.check_sections(config)
    make_way(verdict, config)
    try:
        with working(config, name) as session:
            done = run_verb(verb, session, config, run_id, replace)
            path = made_report(config, session, done.run_id)
        following = verb.then(config)
        terminal.show_done(verb, done)
        if path is not None:
            terminal.show_report(path)
        judge(verb, done, config, verdict, is_last=following is None)
    except GateFailure:
        raise
    except Stopped:
        if not events.is_published():
            raise
        endings.warn(endings.stopped())
    except Exception as error:
        fault = named_spark_error(error)
        if events.is_published():
            endings.warn(str(fault))
        elif fault is error:
            raise
        else:  # converted: click would take EOFError of a dead JVM for the end of its own input
            raise fault from error
    else:
        if following is not None:
            make_run(following, file, run_id, settings, replace, verdict)


def make_way(verdict: Path | None, config: Config) -> None:
    """Remove an earlier verdict, after all checks of its file."""
    if verdict is None:
        return
    from spark_eval.runs.verdict import check_verdict, remove_verdict

    check_verdict(verdict, config.output.local_root)
    remove_verdict(verdict)


def judge(verb: Verb, done: "Run", config: Config, verdict: Path | None, *, is_last: bool) -> None:
    """Record the verdict on the run of the last verb of a command; raise GateFailure for failed gates.

    The verdict is recorded in a file if one is given, and in MLflow if the config requests it.
    """
    try:
        if is_last and verb.has_verdict and (verdict is not None or config.mlflow is not None):
            record_verdict(verb, done, config, verdict)
    finally:  # a verdict that cannot be recorded hides no failed gate
        verb.judge(done)


def record_verdict(verb: Verb, done: "Run", config: Config, file: Path | None) -> None:
    """Write the verdict on a run to a file, and mark the model version of the config."""
    from spark_eval.runs.verdict import mark_model, write_verdict

    if file is not None:
        write_verdict(done, verb.name, file, config.output.local_root)
        terminal.show_verdict(file)
    if config.mlflow is not None:
        mark_model(done, verb.name, config.mlflow)


def made_report(config: Config, session: Callable[[], Any], run_id: str) -> str | None:
    """Write the report of a published run if the config requests one; return its path."""
    if not config.report:
        return None
    from spark_eval.verbs.report import write_report

    return write_report(store_of(config.output, session), run_id, primary=config.primary)


@contextmanager
def working(config: Config, verb: str) -> Iterator[Callable[[], Any]]:
    """Yield a function that opens the verb's session at its first call; show progress on terminals.

    Elsewhere progress is not shown, so that stderr has errors or JSON only.
    """

    @cache
    def session() -> Any:
        opened = open_session(config, verb)
        if not is_remote(opened):
            display.watch(opened.sparkContext.statusTracker())
        return opened

    with Display(verb, is_wanted=not events.is_json()) as display:
        try:
            yield session
        finally:
            events.followers.clear()
