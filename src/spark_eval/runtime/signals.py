"""Signals that ask the program to stop: it clears up, and says so in its last line.

``heard`` turns SIGINT, SIGTERM and SIGHUP into the exception Stopped. ``held`` delays the first signal until
the end of a step that must not be left half done. A signal that was ignored before (``nohup``) stays ignored.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Spark needs a second or two to stop its tasks; a second signal does not wait for it.
SECONDS_TO_CLEAR_UP: Final = 10.0


class Stopped(BaseException):
    """The program was asked to stop. It is no Exception, so that no handler takes it for a fault."""


@dataclass
class Requests:
    """The signals that have arrived, and what to do about them.

    ``last_acts`` stop the work that goes on elsewhere; ``handlers`` are those of the program's own signals.
    Signals wait while ``is_held``, and mean nothing more once it ``is_over``.
    """

    arrived: list[signal.Signals] = field(default_factory=list)
    last_acts: list[Callable[[], None]] = field(default_factory=list)
    handlers: dict[signal.Signals, Any] = field(default_factory=dict)
    is_held: bool = False
    is_over: bool = False

    def take(self, number: int, _: FrameType | None) -> None:
        """Stop the work and raise Stopped; while signals are held, only from the second one on."""
        if self.is_over:
            return
        self.arrived.append(signal.Signals(number))
        if len(self.arrived) == 1:
            if self.is_held:
                return
            self.stop_work()
        raise Stopped

    def stop_work(self) -> None:
        """Call the last acts, in another thread: this one may be in the middle of a call to the JVM."""

        def stop() -> None:
            for act in self.last_acts:
                with suppress(Exception):  # the JVM may be gone
                    act()

        worker = threading.Thread(target=stop, name="last acts", daemon=True)
        worker.start()
        worker.join(SECONDS_TO_CLEAR_UP)

    def listen(self) -> None:
        """Install the handlers; again after a session starts, because PySpark takes SIGINT for itself."""
        for number, handler in self.handlers.items():
            signal.signal(number, handler)


requests = Requests()


@contextmanager
def heard() -> Iterator[Requests]:
    """Raise Stopped where a signal asks for it, until the end; only a main thread can hear signals."""
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
        vars(requests).update(vars(Requests()))


@contextmanager
def held() -> Iterator[None]:
    """Let the first signal wait until the end of what must not be left half done."""
    requests.is_held = True
    try:
        yield
    finally:
        requests.is_held = False
    if requests.arrived:
        raise Stopped
