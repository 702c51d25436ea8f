"""The line that a terminal shows while Spark works, and who does not see it."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark import SparkStageInfo

from spark_eval.runtime.progress import look

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

SETTINGS = ("--set", "spark.master='local[2]'", "--set", "spark.conf={spark.driver.memory: 1g}")
ESCAPES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\r")
SHOWS_CURSOR = "\x1b[?25h"


def stage(tasks: int, at_work: int, done: int, failed: int = 0) -> SparkStageInfo:
    return SparkStageInfo(1, 0, "runJob", tasks, at_work, done, failed)


@pytest.mark.parametrize(
    ("stages", "shown"),
    [
        ([], {"total": None, "completed": 0, "words": ""}),
        ([stage(40, 2, 12)], {"total": 40, "completed": 12, "words": "12 of 40 tasks, 2 running"}),
        (
            [stage(4000, 2, 1200), stage(1, 1, 0, 3)],
            {"total": 4001, "completed": 1200, "words": "1,200 of 4,001 tasks, 3 running, 3 failed"},
        ),
    ],
)
def test_what_is_said_of_stages(stages: list[SparkStageInfo], shown: dict[str, Any]) -> None:
    assert look(stages) == shown


def on_a_terminal(desk: "Desk", *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, which goes to a file, and what a terminal gets as stderr."""
    outside, inside = pty.openpty()
    told = desk.home / "stdout.txt"
    program = Path(sys.executable).parent / "spark-eval"
    with told.open("w") as out:
        process = subprocess.Popen(
            [program, "split", "--config", desk.config(), *SETTINGS, *arguments],
            stdout=out,
            stderr=inside,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        )
    os.close(inside)
    seen = b""
    with suppress(OSError):  # Linux's way to say that nobody writes any more
        while part := os.read(outside, 65536):
            seen += part
    os.close(outside)
    return process.wait(60), told.read_text(), seen.decode()


@pytest.mark.slow
def test_a_terminal_shows_stages_and_tasks(desk: "Desk") -> None:
    # Through Spark, in more tasks than there are cores.
    log = pd.concat([pd.read_parquet(desk.home / "log")] * 200)
    desk.write("log", log, files=40)
    desk.change("interactions", where=[{"column": "item", "op": ">=", "value": 0}])
    code, out, seen = on_a_terminal(desk, "--run-id", "a")
    assert code == 0
    assert "run a published" in out
    assert "\x1b" not in out
    assert "] publish" in out
    assert seen.endswith(SHOWS_CURSOR) or SHOWS_CURSOR in seen[-40:]
    shown = ESCAPES.sub("", seen)
    assert "split: splits" in shown
    assert re.search(r"\d+ of \d+ tasks, \d running", shown)
    assert "publish" not in shown.replace("split: publish", "")


@pytest.mark.slow
def test_an_error_ends_the_line_and_json_has_none(desk: "Desk") -> None:
    desk.change("interactions", path="no/such/log")
    code, out, seen = on_a_terminal(desk)
    assert code == 3
    assert "] start" in out
    assert "\x1b" not in out
    assert "error[MISSING_INPUT] " in ESCAPES.sub("", seen.splitlines()[-1])
    assert SHOWS_CURSOR in seen
    code, out, seen = on_a_terminal(desk, "--log-format", "json")
    assert (code, out) == (3, "")
    assert "\x1b" not in seen
    assert '"code": "MISSING_INPUT"' in seen
