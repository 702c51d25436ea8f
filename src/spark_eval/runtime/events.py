"""Log events of a run, with stable keys, as text or as JSON.

``begin`` names the run. Each phase (event ``stage``) begins when the previous one ends, so that their seconds
add up to those of the run. Users of the library see events in a console or a notebook, or if they give the
logger ``spark_eval`` a handler. ``followers`` are called when a phase begins.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from spark_eval.errors import redacted
from spark_eval.runtime.spark_errors import is_of_spark, named_spark_error

log: Final = logging.getLogger("spark_eval")


@dataclass
class Clock:
    """Current run: its start, its phase, and the start of the phase; times are ``time.monotonic()``."""

    verb: str
    run_id: str
    doing: str = "start"
    is_published: bool = False
    start: float = field(default_factory=time.monotonic)
    stage: float = field(default_factory=time.monotonic)


clock: Final[ContextVar[Clock | None]] = ContextVar("clock", default=None)
# True within the program, which says more about a run after its end.
is_program: Final[ContextVar[bool]] = ContextVar("is_program", default=False)
# Called when a phase begins, in the thread of the run.
followers: Final[list[Callable[[Clock], None]]] = []


def begin(verb: str, run_id: str) -> None:
    """Begin a run; the following events belong to it."""
    clock.set(Clock(verb, run_id))
    say("run_started", f"{verb} of run {run_id}")
    notify_followers()


def stage(name: str, rows: int | None = None, *, then: str = "end") -> None:
    """End a phase that read or wrote ``rows`` rows, and begin the phase ``then``."""
    if (run := clock.get()) is not None:
        now = time.monotonic()
        seconds, run.stage = round(now - run.stage, 3), now
        counted = "" if rows is None else f", {rows:,} rows"
        say("stage", f"{name}{counted}", stage=name, rows=rows, seconds=seconds)
        run.doing = then
        notify_followers()


def notify_followers() -> None:
    """Call the followers if there is a run."""
    if (run := clock.get()) is not None:
        for follow in followers:
            follow(run)


def end(outcome: str, **facts: Any) -> None:
    """End a successful run, and log its outcome and counts in one line."""
    if (run := clock.get()) is not None:
        counts = [f"{value:,} {name.replace('_', ' ')}" for name, value in facts.items() if value is not None]
        message = ", ".join([f"{run.verb} of run {run.run_id} {outcome.replace('_', ' ')}", *counts])
        say("run_ended", message, outcome=outcome, **facts, seconds=seconds())


def leave() -> None:
    """Forget the run: later calls from Python in this process are not part of it."""
    clock.set(None)


@contextmanager
def program() -> Iterator[None]:
    """Remember runs beyond their end, for messages about them; forget the last one at its own end."""
    token = is_program.set(True)
    try:
        yield
    finally:
        is_program.reset(token)
        leave()


@contextmanager
def run(verb: str, run_id: str) -> Iterator[None]:
    """Begin a run, and forget it at its end, failed or not; a program remembers it until its own end."""
    begin(verb, run_id)
    try:
        yield
    finally:
        if not is_program.get():
            leave()


def settle() -> None:
    """Mark the run as published; later errors cannot fail it."""
    if (run := clock.get()) is not None:
        run.is_published = True


def is_published() -> bool:
    """Return True if there is a run and it is published."""
    run = clock.get()
    return run is not None and run.is_published


def seconds() -> float:
    """Return the seconds since the run began."""
    run = clock.get()
    return 0.0 if run is None else round(time.monotonic() - run.start, 3)


def say(event: str, message: str, level: int = logging.INFO, **facts: Any) -> None:
    """Log an event with its fields."""
    log.log(level, "%s", message, extra={"facts": {"event": event, **facts}})


def as_object(record: logging.LogRecord) -> str:
    """Format an event as JSON: time, level, event, run, other fields and message, with secrets redacted."""
    run = clock.get()
    fields = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "event": "log",
        "run_id": run and run.run_id,
        "verb": run and run.verb,
        **getattr(record, "facts", {}),
        "message": record.getMessage(),
    }
    return json.dumps({key: redacted(v) if isinstance(v, str) else v for key, v in fields.items()})


def as_text(record: logging.LogRecord) -> str:
    """Format an event as text: the seconds, if it has any, and the message."""
    took = getattr(record, "facts", {}).get("seconds")
    mark = " " * 10 if took is None else f"[{took:6.1f} s]"
    return f"{mark} {redacted(record.getMessage())}"


class ToPrint(logging.Handler):
    """Handler that prints to the current ``sys.stdout`` or ``sys.stderr``."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        """Print JSON to stderr, separate from the tables, or text to stdout, above them."""
        line, stream = (as_object(record), sys.stderr) if self.as_json else (as_text(record), sys.stdout)
        with suppress(OSError):  # a closed stream must not stop the run
            print(line, file=stream, flush=True)


def enable_console_logging_if_interactive() -> None:
    """Print events as text in a console or a notebook, unless the user has configured logging."""
    is_left_alone = not log.handlers and log.level == logging.NOTSET and not log.isEnabledFor(logging.INFO)
    if hasattr(sys, "ps1") and is_left_alone:
        listen(as_json=False)


@contextmanager
def timed_call(what: str) -> Iterator[None]:
    """Log start and duration of a call from Python; within a run, log nothing, because runs log phases.

    Errors of Spark are raised as named errors with one line, with the original error as cause.
    """
    if clock.get() is not None:
        yield
        return
    enable_console_logging_if_interactive()
    start = time.monotonic()
    say("call_started", f"{what} ...")
    try:
        yield
    except Exception as error:
        if is_of_spark(error):
            raise named_spark_error(error, more="") from error
        raise
    say("call_ended", what, seconds=round(time.monotonic() - start, 3))


def is_json() -> bool:
    """Return True if events are printed as JSON."""
    return any(isinstance(handler, ToPrint) and handler.as_json for handler in log.handlers)


def listen(*, as_json: bool) -> None:
    """Start printing events."""
    clock.set(None)
    log.handlers = [ToPrint(as_json)]
    log.setLevel(logging.INFO)
    log.propagate = False  # otherwise a root logger would print it again
