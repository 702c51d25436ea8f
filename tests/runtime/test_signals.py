"""A signal, and what the next call of the program in the same process finds."""

import signal
import threading
from contextlib import suppress
from typing import cast

import pytest
from pyspark.sql import SparkSession

from spark_eval.runtime import session, signals
from spark_eval.runtime.signals import Stopped, handle_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_session_that_still_stops_is_not_taken_for_one_that_runs(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Spark stops slowly on a busy machine: the call ends before, the next one waits for it."""
    has_left, has_stopped = threading.Event(), threading.Event()

    def stop_slowly() -> None:
        has_left.wait(10)
        has_stopped.set()

    monkeypatch.setattr(signals, "SECONDS_TO_CLEAR_UP", 0.01)
    with suppress(Stopped), handle_signals() as requests:
        requests.last_acts.append(stop_slowly)
        signal.raise_signal(number)
        pytest.fail("the signal stops the work")
    assert not has_stopped.is_set()
    found = cast(SparkSession, object())

    def running() -> SparkSession:
        assert has_stopped.is_set()
        return found

    monkeypatch.setattr(session, "existing_session", running)
    threading.Timer(0.1, has_left.set).start()
    assert session.get_session() is found
