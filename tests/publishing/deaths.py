"""Attempts in processes of their own, which die, fail or race wherever a test wants them to."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.errors import BusyError, SparkEvalError
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.schema import Table

# What a process says by its exit code.
WON: Final = 0
ALREADY: Final = 10
BUSY: Final = 4
FAILED: Final = 11
# Steps that touch a file system: how Python's audit events are called, and fsync, which has none.
STEPS: Final = ("open", "os.", "shutil.", "fcntl.", "ctypes.dlsym", "fsync")
Step = Callable[[int, str], None]


def publish(root: Path, run_id: str, tables: Mapping[Table, int], fingerprint: str) -> bool:
    """What a verb does, without Spark: whether there was something to do."""
    with Attempt(LocalStore(root), run_id, "evaluate") as attempt:
        if attempt.is_published(fingerprint, tables, replace=True):
            return False
        for table, n_rows in tables.items():
            folder = Path(attempt.staged(table))
            folder.mkdir(parents=True)
            rows = {"row": list(range(n_rows)), "fingerprint": [fingerprint] * n_rows}
            pq.write_table(pa.table(rows), folder / "part-0.parquet")
        attempt.publish(tables, {"fingerprint": fingerprint})
    return True


def forked(action: Callable[[], bool], step: Step | None = None) -> int:
    """Do it in a process of its own, which calls ``step`` before each of its steps; the process's id."""
    process = os.fork()
    if process == 0:
        if step is not None:
            watch(step)
        leave(action)
    return process


def leave(action: Callable[[], bool]) -> NoReturn:
    """Do it and exit with what came of it."""
    code = FAILED
    try:
        code = WON if action() else ALREADY
    except BusyError:
        code = BUSY
    except (OSError, SparkEvalError):
        pass
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


def watch(step: Step) -> None:
    """Call ``step`` before every step of this process, with its number and name."""
    n_steps = 0

    def hook(event: str, _: object = None) -> None:
        nonlocal n_steps
        if event.startswith(STEPS):
            n_steps += 1
            step(n_steps, event)

    fsync = os.fsync

    def watched(fd: Any) -> None:
        hook("fsync")
        fsync(fd)

    os.fsync = watched
    sys.addaudithook(hook)


def die_at(number: int) -> Step:
    """As by kill -9, before the step of this number."""

    def step(n_steps: int, _: str) -> None:
        if n_steps == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def fail_at(number: int, code: int) -> Step:
    """The operating system refuses the step of this number."""

    def step(n_steps: int, _: str) -> None:
        if n_steps == number:
            raise OSError(code, os.strerror(code))

    return step


def ended(process: int) -> int:
    """How a process ended: its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def unfinished(root: Path) -> list[Path]:
    """The folders of attempts below a root that have not ended, or not well."""
    return [Path(staging.folder) for staging in LocalStore(root).unfinished()]


def recorded(root: Path, run_id: str) -> Any:
    """The commit record of a run, by verb; nothing where there is none."""
    path = root / "_commits" / f"{run_id}.json"
    return json.loads(path.read_text())["jobs"] if path.exists() else {}


def contents(root: Path, run_id: str, table: Table) -> tuple[set[str], int]:
    """The fingerprints and the number of rows that a reader finds in a table of a run."""
    folder = root / table / f"run_id={run_id}"
    files = sorted(folder.rglob("*.parquet"))
    if not files:
        return set(), 0
    rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
    return set(rows["fingerprint"].to_pylist()), rows.num_rows
