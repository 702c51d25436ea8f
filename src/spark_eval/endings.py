"""How the program ends: what went wrong by its name, and what is said of it, last on stderr."""

import logging
import sys

import click

from spark_eval import journal
from spark_eval.errors import EnvironmentFault, SparkEvalError
from spark_eval.redact import redacted
from spark_eval.signals import Stopped, requests
from spark_eval.streams import Stream


def named(error: Exception | Stopped) -> SparkEvalError:
    """What went wrong, by its name. Whatever fails after a signal, the signal is why."""
    if requests.arrived or isinstance(error, Stopped | click.Abort):  # of a signal that PySpark had taken
        return SparkEvalError("INTERRUPTED", stopped())
    from spark_eval.faults import renamed

    return renamed(error)


def stopped() -> str:
    """By which signal the program was stopped, and before what."""
    run = journal.clock.get()
    before = "" if run is None or run.is_published else f" before run {run.run_id!r} was published"
    return f"stopped by {requests.arrived[0].name if requests.arrived else 'SIGINT'}{before}"


def warn(what: str) -> None:
    """Say on stderr what hindered a run that is published."""
    run = journal.clock.get()
    message = f"run {run and run.run_id} is published, but: {what}"
    if journal.is_json():
        journal.say("warning", message, logging.WARNING)
    else:
        print(f"warning: {message}", file=sys.stderr)


def unwritten(out: Stream) -> SparkEvalError | None:
    """What is wrong where stdout could not be written: nothing if a run is published, or the reader left."""
    if out.error is None:
        return None
    what = f"stdout could not be written: {out.error.strerror}"
    if journal.is_published():
        warn(what)
        return None
    if isinstance(out.error, BrokenPipeError):
        return None
    from spark_eval.faults import renamed

    return EnvironmentFault(renamed(out.error).code, what)


def tell_error(error: SparkEvalError, trace: str) -> None:
    """Say what went wrong, last, below the trace if there is one."""
    trace = redacted(trace)
    if journal.is_json():
        facts = {"code": error.code, "exit_code": error.exit_code, "seconds": journal.seconds()}
        journal.say("error", error.message, logging.ERROR, **facts, **({"trace": trace} if trace else {}))
    else:
        print(f"{trace}{error}", file=sys.stderr)
