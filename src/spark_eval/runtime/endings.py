"""End of the program: the named error, and the last line on stderr."""

import logging
import sys

import click

from spark_eval.errors import SparkEvalError, redacted
from spark_eval.runtime import events
from spark_eval.runtime.signals import Stopped, requests
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.runtime.streams import Stream


def named_error(error: Exception | Stopped) -> SparkEvalError:
    """Return the named error of an exception; after a signal, every failure is INTERRUPTED."""
    if requests.arrived or isinstance(error, Stopped | click.Abort):  # PySpark had handled the signal
        return SparkEvalError("INTERRUPTED", stopped())
    return named_spark_error(error)


def stopped() -> str:
    """Describe the signal that stopped the program, and the run that was not published."""
    run = events.clock.get()
    before = "" if run is None or run.is_published else f" before run {run.run_id!r} was published"
    return f"stopped by {requests.arrived[0].name if requests.arrived else 'SIGINT'}{before}"


def warn(what: str) -> None:
    """Print a warning about a run that is published."""
    run = events.clock.get()
    message = f"run {run and run.run_id} is published, but: {what}"
    if events.is_json():
        events.say("warning", message, logging.WARNING)
    else:
        print(f"warning: {message}", file=sys.stderr)


def output_error(out: Stream) -> SparkEvalError | None:
    """Return the error of an unwritable stdout; None if a run is published or the reader closed the pipe."""
    if out.error is None:
        return None
    what = f"stdout could not be written: {out.error.strerror}"
    if events.is_published():
        warn(what)
        return None
    if isinstance(out.error, BrokenPipeError):
        return None
    named = named_spark_error(out.error)
    return type(named)(named.code, what)


def print_error(error: SparkEvalError, trace: str) -> None:
    """Print the error as the last line, after the trace if there is one."""
    trace = redacted(trace)
    if events.is_json():
        facts = {"code": error.code, "exit_code": error.exit_code, "seconds": events.seconds()}
        events.say("error", error.message, logging.ERROR, **facts, **({"trace": trace} if trace else {}))
    else:
        print(f"{trace}{error}", file=sys.stderr)
