"""Signals that ask the program to stop: it clears up, and says so in its last line.

``heard`` turns SIGINT, SIGTERM and SIGHUP into the exception Stopped. What must not be left half done is done
under ``held``. A signal that whoever started the program told it to ignore (``nohup``) stays ignored.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Spark needs a second or two to stop its tasks; a second signal does not wait for it.
PATIENCE: Final = 10.0
# What stops the work that goes on elsewhere; called in a thread of its own, before Stopped is raised.
last_acts: Final[list[Callable[[], None]]] = []


class Stopped(BaseException):
    """The program was asked to stop. No handler of Exception may take it for a fault."""


class Requests:
    """The signals that have come, and whether they must wait."""

    def __init__(self) -> None:
        self.arrived: list[signal.Signals] = []
        self.is_held = False

    def take(self, number: int, _: FrameType | None) -> None:
        """Stop the work and raise Stopped; where that must wait, only from the second time on."""
        self.arrived.append(signal.Signals(number))
        if len(self.arrived) == 1:
            if self.is_held:
                return
            stop_work()
        raise Stopped


requests: Final = Requests()


def stop_work() -> None:
    """Call the last acts, in another thread: this one may be in the middle of a call to the JVM."""

    def stop() -> None:
        for act in last_acts:
            with suppress(Exception):  # the JVM may be gone
                act()

    worker = threading.Thread(target=stop, name="last acts", daemon=True)
    worker.start()
    worker.join(PATIENCE)


@contextmanager
def heard() -> Iterator[None]:
    """Raise Stopped where a signal asks for it, until the end; only a main thread can hear signals."""
    requests.arrived.clear()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        listen()
        yield
    finally:
        requests.arrived.clear()
        last_acts.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def listen() -> None:
    """Hear the signals; also again, for PySpark takes SIGINT for itself when a session starts."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, requests.take)


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
