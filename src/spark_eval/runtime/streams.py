"""Guard stdout and stderr: only the program's output reaches them, with the error as the last line.

Spark's JVM and its Python workers print traces, even after the program's last line. Their output goes to a
pipe that only ``--debug`` shows. A stream that cannot be written (a closed pipe, a full disk, a closed
terminal) does not stop the work; a run succeeds if it is published.
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
# Limits of the JVM's last output, for the error message if the JVM dies.
MOST_KEPT_BYTES: Final = 16_384
MOST_KEPT_LINES: Final = 5


class Stream:
    """Stream that never raises; after the first failure it stores the ``error`` and discards all output."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write the text, unless the stream has failed."""
        self.attempt(lambda: self.stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream, unless it has failed."""
        self.attempt(self.stream.flush)

    def attempt(self, act: Callable[[], object]) -> None:
        """Call ``act`` unless the stream has failed; if it fails now, store the error.

        The rest of the buffer goes to the null device; otherwise it would fail again when Python ends.
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


class CapturedPipe:
    """Pipe for the output of the JVM and its workers; with ``is_shown`` it is copied to stderr."""

    def __init__(self, *, is_shown: bool) -> None:
        self.is_shown = is_shown
        self.tail = b""
        self.ended = threading.Event()
        self.reader: threading.Thread | None = None
        self.end = -1

    def open(self) -> int:
        """Open the pipe and start a thread that reads it; return the file descriptor to write to."""
        source, self.end = os.pipe()
        self.reader = threading.Thread(target=self.read, args=(source,), name="aside", daemon=True)
        self.reader.start()
        return self.end

    def read(self, source: int) -> None:
        """Read until ``close``, including output that is already in the pipe by then."""
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
        """Stop reading and showing output."""
        if self.reader is not None:
            self.ended.set()
            self.reader.join(SECONDS_TO_DRAIN)
            os.close(self.end)
        self.is_shown = False

    def last_words(self) -> str:
        """Return the last printed lines, without traces."""
        lines = [line.strip() for line in self.tail.decode(errors="replace").splitlines()]
        messages = [line for line in lines if line and not line.startswith("at ")]
        return " / ".join(messages[-MOST_KEPT_LINES:])


# Pipe of the running program; None in libraries and notebooks, whose sessions print to stderr.
current: Final[ContextVar[CapturedPipe | None]] = ContextVar("aside", default=None)


@contextmanager
def protect_streams() -> Iterator[Stream]:
    """Replace stdout and stderr by streams that never raise; yield stdout."""
    before = sys.stdout, sys.stderr
    out, err = map(never_failing, before)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before


def never_failing(stream: TextIO | None) -> Stream:
    """Wrap a stream; one that was closed before Python started is replaced by the null device."""
    return Stream(stream or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


@contextmanager
def capture_child_output(*, is_shown: bool) -> Iterator[None]:
    """Redirect the output of the JVM, its workers and libraries within the context."""
    root, silent = logging.getLogger(), logging.NullHandler()
    if not is_shown:
        root.addHandler(silent)  # Py4J's traces go to stderr if the root logger has no handler
        logging.captureWarnings(True)
    aside = CapturedPipe(is_shown=is_shown)
    token = current.set(aside)
    try:
        yield
    finally:
        aside.close()
        current.reset(token)
        if not is_shown:
            logging.captureWarnings(False)
            root.removeHandler(silent)
