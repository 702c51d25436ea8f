"""A run that is over, failed or not, is forgotten: later calls from Python are no part of it."""

import pytest

from spark_eval.runtime import events


def fail_in_a_run() -> None:
    with events.run("evaluate", "r"):
        assert events.clock.get() is not None
        raise ZeroDivisionError


def test_a_failed_run_forgets_itself() -> None:
    with pytest.raises(ZeroDivisionError):
        fail_in_a_run()
    assert events.clock.get() is None


def test_a_failed_program_forgets_its_run() -> None:
    with pytest.raises(ZeroDivisionError), events.program():
        fail_in_a_run()
    assert events.clock.get() is None


def test_the_program_remembers_a_run_until_its_end() -> None:
    with events.program():
        with events.run("evaluate", "r"):
            events.settle()
        assert events.is_published()
    assert events.clock.get() is None
