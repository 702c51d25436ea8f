"""Runs in this process that are stopped, killed, or lack memory or disk: named errors, nothing half done."""

import errno
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
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
# Runs the program for the config of the first argument, so that all is imported; then sets a limit of memory,
# so many MiB beyond what it has, and runs it again.
LIMITED = """
import resource, sys
from contextlib import suppress
from pathlib import Path
from spark_eval.cli.commands import main

small, more, *given = sys.argv[1:]
with suppress(SystemExit):
    main(["evaluate", "--config", small, "--run-id", "a"])
n_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (n_bytes + (int(more) << 20),) * 2)
main(given)
"""
FAULTS = {
    "SIGINT": (int(signal.SIGINT), "INTERRUPTED"),
    "SIGTERM": (int(signal.SIGTERM), "INTERRUPTED"),
    "memory": ("MemoryError()", "OUT_OF_MEMORY"),
    "memory of Arrow": ("pa.ArrowMemoryError('realloc of size 64 failed')", "OUT_OF_MEMORY"),
    "disk": (f"OSError({errno.ENOSPC}, 'No space left on device')", "DISK_FULL"),
}


# More than a run takes.
SECONDS: Final = 100
LISTS: Final = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 9], "rank": [1, 2, 1]})
TRUTH: Final = pd.DataFrame({"user": [1, 2], "item": [8, 9]})


def many() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lists and truth of 20,000 users, whose tables take 200 KiB."""
    draw, n_users = np.random.default_rng(1), 20_000
    user, items = np.repeat(np.arange(n_users), 10), draw.integers(0, 5_000, 10 * n_users)
    lists = pd.DataFrame({"user": user, "item": items, "rank": np.tile(np.arange(1, 11), n_users)})
    truth = {"user": np.repeat(np.arange(n_users), 3), "item": draw.integers(0, 5_000, 3 * n_users)}
    return lists, pd.DataFrame(truth)


def config(home: Path, lists: pd.DataFrame = LISTS, truth: pd.DataFrame = TRUTH) -> str:
    """A config of an evaluation that this process takes."""
    lists.to_parquet(home / "lists.parquet")
    truth.to_parquet(home / "truth.parquet")
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


@pytest.mark.slow
@pytest.mark.brief
@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell nobody how much memory a process has")
def test_a_limit_of_memory_is_named_unless_a_library_aborts(tmp_path: Path) -> None:
    for name, tables in {"small": (LISTS, TRUTH), "large": many()}.items():
        (tmp_path / name).mkdir()
        config(tmp_path / name, *tables)
    small, large = (str(tmp_path / name / "config.yaml") for name in ("small", "large"))
    ends = []
    for more in (0, 4, 12, 20, 30):
        program = [sys.executable, "-c", LIMITED, small, str(more), "evaluate", "--config", large]
        # Python waits for ever for a thread that finds no memory as it starts.
        process = subprocess.run(
            [*program, "--run-id", "a"], capture_output=True, text=True, check=False, timeout=SECONDS
        )
        ends.append((process.returncode, process.stderr))
        if process.returncode == 1:
            assert process.stderr.startswith("error[OUT_OF_MEMORY] no more memory or threads to be had; ")
            assert len(process.stderr.splitlines()) == 1
            assert not (tmp_path / "large" / "out").exists()
        for folder in (tmp_path / "large" / "out", tmp_path / "small" / "out"):
            shutil.rmtree(folder, ignore_errors=True)
    codes = [code for code, _ in ends]
    # The dynamic linker ends a process without memory for a thread by 127, and C++ aborts.
    assert set(codes) <= {0, 1, 127, -signal.SIGABRT, -signal.SIGSEGV}, ends
    assert 1 in codes


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


def evaluate(path: str, program: str = SOUND, before: Sequence[str] = ()) -> "subprocess.Popen[str]":
    """Start the verb in a process of its own, behind other commands."""
    command = [*before, sys.executable, "-c", program, "evaluate", "--config", path, "--run-id", "a"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def small_disk(folder: Path, size: str) -> list[str]:
    """Commands that run another one with a disk of this size at a folder, which it alone sees."""
    folder.mkdir(exist_ok=True)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a disk")
    # What is left on the disk at the end is on stdout, because nobody else sees the disk.
    mount = f"mount -t tmpfs -o size={size} tmpfs {shlex.quote(str(folder))}"
    look = f"find {shlex.quote(str(folder))} -mindepth 1 >&2"
    return ["unshare", "-m", "sh", "-c", f'{mount} && "$@"; code=$?; {look}; exit $code', "sh"]


@pytest.mark.parametrize("size", ["16k", "120k", "200k"])
def test_a_disk_that_is_full_is_named_and_nothing_stays_on_it(tmp_path: Path, size: str) -> None:
    process = evaluate(config(tmp_path, *many()), before=small_disk(tmp_path / "out", size))
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr == "error[DISK_FULL] No space left on device; free disk space\n"


def test_no_space_for_temporary_files_is_named_and_none_stays(tmp_path: Path) -> None:
    program = f"import spark_eval.runners.in_process as runner; runner.MOST_IN_MEMORY = 1_000; {SOUND}"
    temporary = tmp_path / "tmp"
    before = [*small_disk(temporary, "100k"), "env", f"TMPDIR={temporary}"]
    process = evaluate(config(tmp_path, *many()), program, before)
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr == (
        f"error[DISK_FULL] no space for temporary files in {temporary}; free disk space, or set TMPDIR\n"
    )
    assert not (tmp_path / "out").exists()


def test_two_runs_at_once_publish_one(tmp_path: Path) -> None:
    path = config(tmp_path, *many())
    both = [evaluate(path) for _ in range(2)]
    errors = [process.communicate()[1] for process in both]
    ends = {process.returncode: error for process, error in zip(both, errors, strict=True)}
    assert ends.pop(0) == ""
    # The other one has ended later, and found it published, or at the same time.
    assert [(code, error.startswith("error[RUN_BUSY] ")) for code, error in ends.items()] in ([], [(4, True)])
    assert pq.read_table(tmp_path / "out" / "per_user").num_rows == 20_000
    assert not (tmp_path / "out" / "_staging").exists()


def test_one_core_finds_the_same_bits(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    one = f"import os; os.sched_setaffinity(0, [{core}]); {SOUND}"
    tables = {}
    for name, program in {"one": one, "all": SOUND}.items():
        (tmp_path / name).mkdir()
        process = evaluate(config(tmp_path / name, *many()), program)
        assert process.communicate()[1] == ""
        assert process.returncode == 0
        per_user = pq.read_table(tmp_path / name / "out" / "per_user").sort_by("user")
        tables[name] = (per_user, pq.read_table(tmp_path / name / "out" / "sums"))
    assert tables["one"] == tables["all"]
