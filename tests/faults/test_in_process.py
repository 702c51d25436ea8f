"""Runs in this process that are stopped, killed, or lack memory or disk: named errors, nothing half done."""

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

SOUND = "from spark_eval.cli.commands import main; main()"
# Runs the program; the first file of ``per_user`` that is written meets the fault of the first argument.
PROGRAM = """
import os, sys, pyarrow as pa
from spark_eval.cli.commands import main
from spark_eval.evaluation import exchange

fault, write = eval(sys.argv[1]), exchange.write_users

def meet(*given):
    name = write(*given)
    if isinstance(fault, int):
        os.kill(os.getpid(), fault)
        return name
    raise fault

exchange.write_users = meet
main(sys.argv[2:])
"""
FAULTS = {
    "SIGINT": (int(signal.SIGINT), "INTERRUPTED"),
    "SIGTERM": (int(signal.SIGTERM), "INTERRUPTED"),
    "memory": ("MemoryError()", "OUT_OF_MEMORY"),
    "memory of Arrow": ("pa.ArrowMemoryError('realloc of size 64 failed')", "OUT_OF_MEMORY"),
    "disk": (f"OSError({errno.ENOSPC}, 'No space left on device')", "DISK_FULL"),
}


def config(home: Path) -> str:
    """A config of an evaluation that this process takes."""
    lists = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 9], "rank": [1, 2, 1]})
    lists.to_parquet(home / "lists.parquet")
    pd.DataFrame({"user": [1, 2], "item": [8, 9]}).to_parquet(home / "truth.parquet")
    tree = {
        "output": {"path": str(home / "out")},
        "engine": "local",
        "recommendations": {"path": str(home / "lists.parquet"), "model": "als"},
        "truth": {"path": str(home / "truth.parquet")},
    }
    (home / "config.yaml").write_text(yaml.safe_dump(tree))
    return str(home / "config.yaml")


def run(path: str, fault: object) -> subprocess.CompletedProcess[str]:
    """The verb in a process of its own, with a fault."""
    program = [sys.executable, "-c", PROGRAM, str(fault)]
    return subprocess.run(
        [*program, "evaluate", "--config", path, "--run-id", "a"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    fault, code = FAULTS[name]
    process = run(config(tmp_path), fault)
    assert process.returncode == 1
    assert process.stderr.startswith(f"error[{code}] ")
    assert len(process.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_killed_run_is_cleared_away_by_the_next(tmp_path: Path) -> None:
    path = config(tmp_path)
    assert run(path, int(signal.SIGKILL)).returncode == -signal.SIGKILL
    assert [one.suffix for one in (tmp_path / "out").rglob("*.parquet")] == [".parquet"]
    assert list((tmp_path / "out").glob("[!_]*")) == []
    done = subprocess.run(
        [sys.executable, "-c", SOUND, "evaluate", "--config", path, "--run-id", "a"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "cleared away: attempt a-evaluate-" in done.stdout
    assert not (tmp_path / "out" / "_staging").exists()
    assert len(pd.read_parquet(tmp_path / "out" / "per_user")) == 2
