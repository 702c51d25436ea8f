"""Handle signals that stop the program: it cleans up, and reports the signal in its last line.

``heard`` turns SIGINT, SIGTERM and SIGHUP into the exception Stopped. ``held`` delays the first signal until
the end of a step that must complete. A signal that was ignored before (``nohup``) stays ignored.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Spark needs one or two seconds to stop its tasks; a second signal does not wait for it.
SECONDS_TO_CLEAR_UP: Final = 10.0
# A busy machine needs longer; a later call of the program waits for it, but not for ever.
SECONDS_TO_STOP: Final = 120.0


class Stopped(BaseException):
    """Raised by a signal. It is a BaseException, so that ``except Exception`` does not catch it."""


@dataclass
class Requests:
    """Received signals and their handling.

    ``last_acts`` stop Spark's jobs or session, in the thread ``stopping``; ``handlers`` are the installed
    signal handlers. While ``is_held``, the first signal is delayed; once ``is_over``, signals are ignored.
    """

    arrived: list[signal.Signals] = field(default_factory=list)
    last_acts: list[Callable[[], object]] = field(default_factory=list)
    handlers: dict[signal.Signals, Any] = field(default_factory=dict)
    is_held: bool = False
    is_over: bool = False
    stopping: threading.Thread | None = None

    def take(self, number: int, _: FrameType | None) -> None:
        """Stop the work and raise Stopped; while ``is_held``, only from the second signal on."""
        if self.is_over:
            return
        self.arrived.append(signal.Signals(number))
        if len(self.arrived) == 1:
            if self.is_held:
                return
            self.stop_work()
        raise Stopped

    def stop_work(self) -> None:
        """Call the last acts, if any, in another thread, because this one may be in a call to the JVM.

        A run without a JVM may have no memory for a thread.
        """
        if not self.last_acts:
            return

        def stop() -> None:
            for act in self.last_acts:
                with suppress(Exception):  # the JVM may be gone
                    act()

        self.stopping = threading.Thread(target=stop, name="last acts", daemon=True)
        self.stopping.start()
        self.stopping.join(SECONDS_TO_CLEAR_UP)

    def wait_until_stopped(self) -> None:
        """Wait for the last acts of an earlier call: a session that still stops runs no query."""
        if self.stopping is not None:
            self.stopping.join(SECONDS_TO_STOP)
            self.stopping = None

    def listen(self) -> None:
        """Install the handlers; call it again after a session starts, because PySpark replaces SIGINT's."""
        for number, handler in self.handlers.items():
            signal.signal(number, handler)


requests = Requests()


@contextmanager
def handle_signals() -> Iterator[Requests]:
    """Raise Stopped on signals within the context; only the main thread can handle signals."""
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        is_ignored = handler is signal.SIG_IGN
        requests.handlers[number] = handler if is_ignored else requests.take
    try:
        requests.listen()
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        vars(requests).update(vars(Requests(stopping=requests.stopping)))


@contextmanager
def defer_signals() -> Iterator[None]:
    """Delay the first signal until the end of the context, which must complete."""
    requests.is_held = True
    try:
        yield
    finally:
        requests.is_held = False
    if requests.arrived:
        raise Stopped
