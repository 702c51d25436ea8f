"""kill -9 of real drivers, the first amid publication, others at random times.

Nothing is half published, older runs are untouched, deaths are reported.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from spark_eval.publishing.local import LocalStore
from spark_eval.schema import Table

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

# What an evaluation publishes.
TABLES = (Table.PER_USER, Table.METRICS, Table.SUMS, Table.ACCOUNTING)
SETTINGS = ("--set", "spark.master='local[2]'", "--set", "spark.conf={spark.driver.memory: 1g}")


def driver(desk: "Desk", run_id: str) -> "subprocess.Popen[str]":
    """An evaluation in a process of its own, which leads a group of its own."""
    program = Path(sys.executable).parent / "spark-eval"
    return subprocess.Popen(
        [program, "evaluate", "--config", desk.config(), "--run-id", run_id, *SETTINGS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def n_rows(desk: "Desk", table: Table, run_id: str) -> int:
    """The rows that readers find in a table of a run."""
    files = (desk.out / table / f"run_id={run_id}").rglob("*.parquet")
    return sum(pq.read_metadata(file).num_rows for file in files)


@pytest.mark.brief
@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.parametrize(
    "n_kills", [1, pytest.param(int(os.environ.get("KILLS", "5")), marks=pytest.mark.exhaustive)]
)
def test_kill_minus_nine_of_drivers(desk: "Desk", n_kills: int) -> None:
    desk.change("truth", path=str(desk.home / "log"), columns={"relevance": "stars"})
    desk.done("evaluate", "--run-id", "first")
    expected = {table: n_rows(desk, table, "first") for table in TABLES}
    assert all(expected.values())
    before, chance, n_dead, duration = desk.files(), random.Random(20231), 0, 0.0
    for number in range(n_kills):
        run_id = f"killed-{number}"
        victim = driver(desk, run_id)
        if number:
            time.sleep(chance.uniform(0.3, 1) * duration)
        while not number and not LocalStore(desk.out).unfinished():
            time.sleep(0.01)
        victim.kill()
        with suppress(ProcessLookupError):  # the JVM, which outlives its driver by a moment
            os.killpg(victim.pid, signal.SIGKILL)
        victim.communicate()
        for table in TABLES:
            assert n_rows(desk, table, run_id) in (0, expected[table])
        dead = [staging.name for staging in LocalStore(desk.out).unfinished()]
        n_dead += len(dead)
        started, retry = time.monotonic(), driver(desk, run_id)
        said, complaint = retry.communicate()
        duration = time.monotonic() - started
        assert (retry.returncode, complaint) == (0, ""), complaint
        assert [line.split()[-4].rstrip(",") for line in said.splitlines() if "cleared away" in line] == dead
        assert {table: n_rows(desk, table, run_id) for table in TABLES} == expected
        assert victim.returncode == -signal.SIGKILL or not dead
        after = desk.files()
        assert {name: after[name] for name in before} == before
        before = after
    print(f"{n_kills} kills, {n_dead} attempts dead and reported, 0 bad")
    assert n_dead
    assert LocalStore(desk.out).unfinished() == []
