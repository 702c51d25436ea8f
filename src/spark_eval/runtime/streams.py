"""Stdout and stderr: they carry what we print, the error last, and nothing else, whatever dies.

Spark's JVM and its Python workers print traces of their own, also after our last line. They print into a pipe
that only ``--debug`` shows. A stream that cannot be written (a closed pipe, a full disk, a terminal that is
gone) stops no work: publication decides how a run ends.
"""

import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TextIO, cast

POLL_SECONDS: Final = 0.1
SECONDS_TO_DRAIN: Final = 2.0
# Of what the JVM said, for the message of its death.
MOST_KEPT_BYTES: Final = 16_384
MOST_KEPT_LINES: Final = 5


class Stream:
    """A stream that takes everything; after the first failure it keeps the ``error`` and writes nothing."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write the text, if that still works."""
        self.attempt(lambda: self.stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream, if that still works."""
        self.attempt(self.stream.flush)

    def attempt(self, act: Callable[[], object]) -> None:
        """Do this unless something failed before; then keep the error, and send the buffer to nowhere.

        What is left in the buffer would fail when Python ends.
        """
        if self.error is None:
            try:
                act()
            except OSError as error:
                self.error = error
                if self.stream in (sys.__stdout__, sys.__stderr__):
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, self.stream.fileno())
                    os.close(nowhere)


class Aside:
    """A pipe that the JVM and its workers print into; with ``is_shown`` all of it goes on to stderr."""

    def __init__(self, *, is_shown: bool) -> None:
        self.is_shown = is_shown
        self.tail = b""
        self.ended = threading.Event()
        self.reader: threading.Thread | None = None
        self.end = -1

    def open(self) -> int:
        """Open the pipe and read it in a thread; return the end to print into."""
        source, self.end = os.pipe()
        self.reader = threading.Thread(target=self.read, args=(source,), name="aside", daemon=True)
        self.reader.start()
        return self.end

    def read(self, source: int) -> None:
        """Read until the end, and then what is there already; nobody reads what is printed later."""
        while True:
            is_last = self.ended.is_set()
            if select.select([source], [], [], 0 if is_last else POLL_SECONDS)[0]:
                part = os.read(source, MOST_KEPT_BYTES)
                self.tail = (self.tail + part)[-MOST_KEPT_BYTES:]
                if self.is_shown:
                    sys.stderr.write(part.decode(errors="replace"))
                    sys.stderr.flush()
            elif is_last:
                os.close(source)
                return

    def close(self) -> None:
        """Show nothing from now on."""
        if self.reader is not None:
            self.ended.set()
            self.reader.join(SECONDS_TO_DRAIN)
            os.close(self.end)
        self.is_shown = False

    def last_words(self) -> str:
        """Return what was printed last, without traces."""
        lines = [line.strip() for line in self.tail.decode(errors="replace").splitlines()]
        said = [line for line in lines if line and not line.startswith("at ")]
        return " / ".join(said[-MOST_KEPT_LINES:])


# Of the program that is at work; a session that a library or a notebook starts prints to stderr.
current: Final[ContextVar[Aside | None]] = ContextVar("aside", default=None)


@contextmanager
def guarded() -> Iterator[Stream]:
    """Make stdout and stderr streams that take everything; give stdout."""
    before = sys.stdout, sys.stderr
    out, err = map(taking_all, before)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before


def taking_all(stream: TextIO | None) -> Stream:
    """Wrap a stream; one that was closed before Python began leads to nowhere, and keeps its number."""
    return Stream(stream or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


@contextmanager
def apart(*, is_shown: bool) -> Iterator[None]:
    """Keep apart what the JVM, its workers and libraries print, until the end."""
    root, silent = logging.getLogger(), logging.NullHandler()
    if not is_shown:
        root.addHandler(silent)  # Py4J's traces go to stderr where the root has no handler
        logging.captureWarnings(True)
    aside = Aside(is_shown=is_shown)
    token = current.set(aside)
    try:
        yield
    finally:
        aside.close()
        current.reset(token)
        if not is_shown:
            logging.captureWarnings(False)
            root.removeHandler(silent)
