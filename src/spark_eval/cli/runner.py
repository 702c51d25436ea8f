"""How a command makes its run: config, session, progress, and what is said of the end.

Spark and the tables' libraries are imported where they are needed, as in ``commands``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_eval.config.sections import Config, read_config
from spark_eval.errors import GateFailure
from spark_eval.names import check_run_id
from spark_eval.runtime import endings, events
from spark_eval.runtime.local_files import check_working_folder
from spark_eval.runtime.signals import Stopped

if TYPE_CHECKING:
    from spark_eval.runs.job import Run


def open_config(file: Path, settings: Sequence[str], run_id: str | None) -> Config:
    """Return the checked config, once the run id is checked."""
    check_working_folder()
    if run_id is not None:
        check_run_id(run_id)
    return read_config(file, settings)


def open_session(config: Config, verb: str) -> Any:
    """Return the submitted session, or a local one as the config has it, with workers that fit.

    From now on Spark's pages and event logs name its jobs by what the run is doing.
    """
    from spark_eval.runtime.session import get_session
    from spark_eval.runtime.versions import check_workers

    conf = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in config.spark.conf.items()
    }
    session = get_session(f"spark-eval {verb}", config.spark.master, conf)
    label = session.sparkContext.setJobGroup
    events.followers.append(lambda run: label(f"{run.verb} of run {run.run_id}", f"{run.verb}: {run.doing}"))
    events.notify_followers()
    check_workers(session)
    return session


def make_run(
    verb: str,
    run: "Callable[[Callable[[], Any], Config, str | None, bool], Run]",
    file: Path,
    run_id: str | None,
    settings: Sequence[str],
    replace: bool,
) -> Config | None:
    """Do what a verb does with its session, print what came of it, and return the config.

    Once the run is published it has not failed: what goes wrong from then on is only said, and None is
    returned. Gates that fail are what was asked for.
    """
    from spark_eval.cli import terminal
    from spark_eval.runs.compare import check_gates
    from spark_eval.runtime.spark_errors import named_spark_error

    config = open_config(file, settings, run_id)
    try:
        with working(config, verb) as session:
            done = run(session, config, run_id, replace)
            place = made_report(config, session, done.run_id)
        terminal.show_done(verb, done)
        if place is not None:
            terminal.show_report(place)
        check_gates(done)
        return config
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
        else:  # not as it is: click takes EOFError, of a JVM that died, for the end of its own input
            raise fault from error
    return None


def made_report(config: Config, session: Callable[[], Any], run_id: str) -> str | None:
    """Write the report of a run that is published, if the config wants one, and return where it is."""
    if not config.report:
        return None
    from spark_eval.publishing.places import store_of
    from spark_eval.runs.report import write_report

    return write_report(store_of(config.output, session), run_id, primary=config.primary)


@contextmanager
def working(config: Config, verb: str) -> Iterator[Callable[[], Any]]:
    """Open the verb's session when it is first asked for; until the end a terminal shows how far it is.

    Nothing is shown elsewhere, so that stderr holds errors or JSON only.
    """
    from spark_eval.runtime.progress import Display

    @cache
    def session() -> Any:
        opened = open_session(config, verb)
        display.watch(opened.sparkContext.statusTracker())
        return opened

    with Display(verb, is_wanted=not events.is_json()) as display:
        try:
            yield session
        finally:
            events.followers.clear()
