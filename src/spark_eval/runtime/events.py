"""Events of a run while it works, with stable keys, as text or as JSON.

``begin`` names the run. Each ``stage`` begins where the one before it ended, so that their seconds add up to
those of the run. Users of the library see no events, unless they type in a console or a notebook, or give the
logger ``spark_eval`` a handler. ``followers`` are called when a stage begins.
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

log: Final = logging.getLogger("spark_eval")


@dataclass
class Clock:
    """The run under way: since when, its stage, and since when that."""

    verb: str
    run_id: str
    doing: str = "start"
    is_published: bool = False
    start: float = field(default_factory=time.monotonic)
    stage: float = field(default_factory=time.monotonic)


clock: Final[ContextVar[Clock | None]] = ContextVar("clock", default=None)
# Called in the thread that works, when a stage begins.
followers: Final[list[Callable[[Clock], None]]] = []


def begin(verb: str, run_id: str) -> None:
    """Begin a run; events from now on are of it."""
    clock.set(Clock(verb, run_id))
    say("run_started", f"{verb} of run {run_id}")
    tell_followers()


def stage(name: str, rows: int | None = None, *, then: str = "end") -> None:
    """End a stage of the run, in which so many rows were read or written, and begin another."""
    if (run := clock.get()) is not None:
        now = time.monotonic()
        seconds, run.stage = round(now - run.stage, 3), now
        counted = "" if rows is None else f", {rows:,} rows"
        say("stage", f"{name}{counted}", stage=name, rows=rows, seconds=seconds)
        run.doing = then
        tell_followers()


def tell_followers() -> None:
    """Call the followers, if a run is under way."""
    if (run := clock.get()) is not None:
        for follow in followers:
            follow(run)


def end(outcome: str, **facts: Any) -> None:
    """End a run that went well, and say in one line what it read and measured."""
    if (run := clock.get()) is not None:
        counts = [f"{value:,} {name.replace('_', ' ')}" for name, value in facts.items() if value is not None]
        message = ", ".join([f"{run.verb} of run {run.run_id} {outcome.replace('_', ' ')}", *counts])
        say("run_ended", message, outcome=outcome, **facts, seconds=seconds())


def settle() -> None:
    """Note that the run is published: whatever comes, it has not failed."""
    if (run := clock.get()) is not None:
        run.is_published = True


def is_published() -> bool:
    """Return whether a run began, and is published."""
    run = clock.get()
    return run is not None and run.is_published


def seconds() -> float:
    """Return how long the run has taken so far."""
    run = clock.get()
    return 0.0 if run is None else round(time.monotonic() - run.start, 3)


def say(event: str, message: str, level: int = logging.INFO, **facts: Any) -> None:
    """Log an event with its facts."""
    log.log(level, "%s", message, extra={"facts": {"event": event, **facts}})


def as_object(record: logging.LogRecord) -> str:
    """Return an event as JSON: time, level, event and run, the facts, the message, without secrets."""
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
    """Return an event for people: the seconds of a stage, if it is one, and the message."""
    took = getattr(record, "facts", {}).get("seconds")
    mark = " " * 10 if took is None else f"[{took:6.1f} s]"
    return f"{mark} {redacted(record.getMessage())}"


class ToPrint(logging.Handler):
    """Print to whatever stdout or stderr are at that moment."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        """Print JSON on stderr, apart from the tables, and text on stdout, above them."""
        line, stream = (as_object(record), sys.stderr) if self.as_json else (as_text(record), sys.stdout)
        with suppress(OSError):  # nobody listens any more: no reason to stop
            print(line, file=stream, flush=True)


def listen_if_somebody_types() -> None:
    """Print events as text in a console or a notebook, unless its owner has set up logging."""
    is_left_alone = not log.handlers and log.level == logging.NOTSET and not log.isEnabledFor(logging.INFO)
    if hasattr(sys, "ps1") and is_left_alone:
        listen(as_json=False)


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Say that a call from Python begins, and how long it took; a run has stages of its own.

    What Spark raises in it gets a name and one line, with Spark's own error as its cause.
    """
    if clock.get() is not None:
        yield
        return
    listen_if_somebody_types()
    start = time.monotonic()
    say("call_started", f"{what} ...")
    try:
        yield
    except Exception as error:
        # Loads PySpark, which the call has loaded anyway.
        from spark_eval.runtime.spark_errors import is_of_spark, renamed

        if is_of_spark(error):
            raise renamed(error, more="") from error
        raise
    say("call_ended", what, seconds=round(time.monotonic() - start, 3))


def is_json() -> bool:
    """Return whether events are printed as JSON."""
    return any(isinstance(handler, ToPrint) and handler.as_json for handler in log.handlers)


def listen(*, as_json: bool) -> None:
    """Print events from now on."""
    clock.set(None)
    log.handlers = [ToPrint(as_json)]
    log.setLevel(logging.INFO)
    log.propagate = False  # or a root logger would say it again
