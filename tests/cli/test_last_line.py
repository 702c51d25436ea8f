"""Whatever dies: the error is the last thing on stderr, and alone there."""

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

SETTINGS = ("--set", "spark.master='local[2]'", "--set", "spark.conf={spark.driver.memory: 1g}")
# Runs of the program, one after the other, with faults in the place of what it measures.
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from pyspark import SparkContext
from spark_eval.verbs import evaluate
from spark_eval.cli.commands import main

measure = evaluate.measure_lists


def in_a_worker(tables, work):
    tables.truth.session.sparkContext.parallelize([0], 1).map(work).collect()


def kill_a_worker(tables, *_):
    in_a_worker(tables, lambda _: os.kill(os.getpid(), signal.SIGKILL))


def delete_an_input(*given):
    Path(os.environ["INPUT"]).unlink()
    return measure(*given)


def wait(tables, *_):
    in_a_worker(tables, lambda _: (Path(os.environ["MARK"]).touch(), time.sleep(100)))


def kill_the_jvm(*given):
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    return measure(*given)


arguments = sys.argv[2:]
for fault in sys.argv[1].split():
    evaluate.measure_lists = globals()[fault]
    try:
        main(arguments)
    except SystemExit as left:
        print("left", fault, left.code, flush=True)
"""


def run(desk: "Desk", *faults: str) -> "subprocess.Popen[str]":
    """Evaluations of a process of its own, which leads a group of its own, with these faults."""
    desk.change("truth", path=str(desk.home / "log"), columns={"relevance": "stars"})
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, " ".join(faults), "evaluate", "--config", desk.config(), *SETTINGS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "INPUT": str(desk.home / "lists" / "0.parquet"), "MARK": str(desk.home / "mark")},
    )


@pytest.mark.slow
def test_whatever_dies_leaves_one_line(desk: "Desk") -> None:
    out, err = (process := run(desk, "kill_a_worker", "delete_an_input")).communicate()
    assert process.returncode == 0, err
    assert [line for line in out.splitlines() if line.startswith("left")] == [
        "left kill_a_worker 1",
        "left delete_an_input 3",
    ]
    codes = [line.partition(" ")[0] for line in err.splitlines()]
    assert codes == ["error[WORKER_CRASHED]", "error[INPUT_CHANGED_DURING_RUN]"], err


@pytest.mark.slow
def test_a_jvm_that_dies_has_a_name(desk: "Desk") -> None:
    out, err = run(desk, "kill_the_jvm").communicate()
    assert out.splitlines()[-1] == "left kill_the_jvm 1"
    [line] = err.splitlines()
    assert line.startswith("error[JVM_DIED] ")
    assert "SIGKILL" in line
    assert not (desk.out / "_staging").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.brief)])
def test_a_signal_leaves_one_line_and_nothing_else(desk: "Desk", number: signal.Signals) -> None:
    process, mark = run(desk, "wait"), desk.home / "mark"
    while not mark.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, number)  # as a terminal does
    out, err = process.communicate()
    assert [line for line in out.splitlines() if line.startswith("left")] == ["left wait 1"], err
    [line] = err.splitlines()
    assert line.startswith(f"error[INTERRUPTED] stopped by {number.name} ")
    assert not desk.out.exists()
