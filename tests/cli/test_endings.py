"""Publication decides how a run ends: not the terminal, and no signal that comes later."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from spark_eval.cli import terminal
from spark_eval.cli.commands import main
from spark_eval.publishing.local import LocalStore
from spark_eval.runtime import streams
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.runtime.streams import CapturedPipe
from spark_eval.sources.read import read_source

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


@contextmanager
def closed_pipe() -> Iterator[TextIO]:
    """A pipe whose reader has left, as that of ``| head -1``."""
    reader, writer = os.pipe()
    os.close(reader)
    out = os.fdopen(writer, "w")
    yield out
    with suppress(BrokenPipeError):  # of what is left in its buffer
        out.close()


@contextmanager
def full_disk() -> Iterator[TextIO]:
    """A file on a disk without any space left."""
    out = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w")
    yield out
    with suppress(OSError):
        out.close()


def write_to(out: TextIO, *arguments: str) -> tuple[int, str]:
    """Exit code and stderr of the program with this stdout."""
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code, err.getvalue()


@pytest.mark.parametrize(
    ("stdout", "why"), [(closed_pipe, "Broken pipe"), (full_disk, "No space left on device")]
)
def test_a_run_is_published_though_stdout_cannot_be_written(
    desk: "Desk", stdout: Callable[[], Any], why: str
) -> None:
    for log_format in ("text", "json"):  # published, and already published
        with stdout() as out:
            code, err = write_to(
                out, "split", "--config", desk.config(), "--run-id", "a", "--log-format", log_format
            )
        assert code == 0, err
        said = err.splitlines()[-1]
        assert f"run a is published, but: stdout could not be written: {why}" in said
        assert said.startswith("warning: " if log_format == "text" else '{"time": ')
        assert "error" not in err
        assert desk.files()


def test_a_reader_that_has_left_is_no_error_and_a_full_disk_is() -> None:
    with closed_pipe() as out:
        assert write_to(out, "metrics") == (0, "")
    with full_disk() as out:
        code, err = write_to(out, "metrics")
    assert code == 1
    assert err == "error[DISK_FULL] stdout could not be written: No space left on device\n"


@pytest.mark.parametrize("stdout", ["| head -1", "> /dev/full", ">&-"])
def test_python_has_nothing_to_add_when_it_ends(stdout: str) -> None:
    program = Path(sys.executable).parent / "spark-eval"
    shell = ["bash", "-c", f"set -o pipefail; {program} metrics {stdout}"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if "full" in stdout else 0)
    assert done.stderr.count("\n") == done.returncode, done.stderr


def signalling(number: signal.Signals, call: Callable[..., Any]) -> Callable[..., Any]:
    """The same, and before it a signal."""

    def called(*given: Any, **named: Any) -> Any:
        signal.raise_signal(number)
        return call(*given, **named)

    return called


@pytest.fixture
def hangup_ends() -> Iterator[None]:
    """SIGHUP ends a process, even where the tests were started by nohup, which ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup_ends")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_and_leaves_nothing(
    desk: "Desk", monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    handlers = [signal.getsignal(number) for number in signal.Signals]
    monkeypatch.setattr("spark_eval.sources.read.read_source", signalling(number, read_source))
    answer = desk.run("split", "--run-id", "a")
    assert answer.code == 1
    assert answer.err == f"error[INTERRUPTED] stopped by {number.name} before run 'a' was published\n"
    assert not desk.out.exists()
    assert [signal.getsignal(number) for number in signal.Signals] == handlers


def test_a_signal_comes_too_late_for_a_run_that_is_being_published(
    desk: "Desk", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStore, "carry_out", signalling(signal.SIGTERM, LocalStore.carry_out))
    answer = desk.run("split", "--run-id", "a")
    assert (answer.code, answer.err) == (0, "warning: run a is published, but: stopped by SIGTERM\n")
    monkeypatch.setattr(terminal, "show_done", signalling(signal.SIGINT, terminal.show_done))
    answer = desk.run("split", "--run-id", "a")
    assert (answer.code, answer.err) == (0, "warning: run a is published, but: stopped by SIGINT\n")
    assert not (desk.out / "_staging").exists()


def test_a_signal_that_is_to_be_ignored_is(desk: "Desk", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_eval.sources.read.read_source", signalling(signal.SIGHUP, read_source))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        desk.done("split", "--run-id", "a")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_the_jvm_prints_is_kept_apart(capfd: pytest.CaptureFixture[str]) -> None:
    for is_shown in (False, True):
        aside = CapturedPipe(is_shown=is_shown)
        jvm = os.dup(aside.open())
        os.write(jvm, b"some ERROR\n\tat java.lang.Thread\nthe last words\n")
        aside.close()
        assert aside.last_words() == "some ERROR / the last words"
        with pytest.raises(BrokenPipeError):
            os.write(jvm, b"a trace that comes late\n")
        os.close(jvm)
        said = "some ERROR\n\tat java.lang.Thread\nthe last words\n" if is_shown else ""
        assert capfd.readouterr() == ("", said)


class Ended:
    """The gateway to a JVM that has ended."""

    def __init__(self, code: int) -> None:
        self.proc = subprocess.Popen(["sh", "-c", f"kill -{-code} $$" if code < 0 else f"exit {code}"])
        self.proc.wait()


@pytest.mark.parametrize(
    ("error", "gateway", "says"),
    [
        (ConnectionRefusedError(111, "Connection refused"), -9, "the driver's JVM died (killed by SIGKILL)"),
        (Py4JNetworkError("Answer from Java side is empty"), -15, "(killed by SIGTERM)"),
        (EOFError(), 3, "(exit code 3: OutOfMemoryError: Java heap space)"),
        (Py4JError("An error occurred while calling o1.x"), 3, "(exit code 3: OutOfMemoryError"),
        (ValueError("of whatever"), -9, "(killed by SIGKILL)"),
        (Py4JNetworkError("x"), None, "the driver's JVM died; "),
        (PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway"), None, "did not start: OutOfMemoryError"),
    ],
)
def test_a_dead_jvm_has_a_name(
    monkeypatch: pytest.MonkeyPatch, error: Exception, gateway: int | None, says: str
) -> None:
    aside = CapturedPipe(is_shown=False)
    os.write(aside.open(), b"OutOfMemoryError: Java heap space\n")
    aside.close()
    token = streams.current.set(aside)
    monkeypatch.setattr(SparkContext, "_gateway", None if gateway is None else Ended(gateway))
    try:
        named = named_spark_error(error)
    finally:
        streams.current.reset(token)
    assert (named.code, named.exit_code) == ("JVM_DIED", 1)
    assert says in named.message


def test_a_deleted_working_folder_has_a_name(
    desk: "Desk", monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk.config()
    monkeypatch.chdir(tmp_path / "log")
    (tmp_path / "log" / "0.parquet").unlink()
    (tmp_path / "log").rmdir()
    code, name, _ = desk.refused("validate")
    assert (code, name) == (1, "NO_WORKING_FOLDER")
