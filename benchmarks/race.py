"""Run contenders in turn, each in a warm process of its own, and measure the processes from outside."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

from benchmarks.contenders import Contender
from benchmarks.processes import Usage, usage
from benchmarks.workload import Task

SAMPLED_EVERY: Final = 0.1  # seconds
ENDS_WITHIN: Final = 20.0
# Two threads for contenders without Spark, as "local[2]" for those with it.
THREADS: Final = {f"{name}_THREADS": "2" for name in ("POLARS_MAX", "NUMBA_NUM", "OMP_NUM")}
REPOSITORY: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Sample:
    """Cost of one repetition: CPU and wall seconds, peak resident bytes of all processes and of a worker."""

    cpu: float
    wall: float
    peak: int
    worker: int


class Failed(Exception):
    """A contender failed; the message has the reason."""


@dataclass
class Entrant:
    """Contender with its task, process and measurements."""

    contender: Contender
    task: Task
    label: str
    folder: Path
    start: Sample | None = None
    cold: Sample | None = None
    warm: list[Sample] = field(default_factory=list)
    answers: list[Mapping[str, Any]] = field(default_factory=list)
    fault: str | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def means(self) -> Mapping[str, float] | None:
        """Means of the last repetition."""
        means: Mapping[str, float] | None = self.answers[-1]["means"]
        return means

    @property
    def output(self) -> Path:
        """Output folder of the last repetition."""
        return self.folder / "out"

    def launch(self, timeout: float) -> None:
        """Start the process and wait until it is ready."""
        self.folder.mkdir(parents=True)
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", self.contender.name, self.task.to_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **THREADS, "PYTHONPATH": str(REPOSITORY)},
                start_new_session=True,
            )
        self.start, _ = self.measure(timeout)

    def repeat(self, timeout: float) -> None:
        """Run one repetition into an empty folder; the first one is the cold one."""
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir()
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{self.output}\n".encode())
        self.process.stdin.flush()
        sample, answer = self.measure(timeout)
        self.answers.append(answer)
        if self.cold is None:
            self.cold = sample
        else:
            self.warm.append(sample)

    def measure(self, timeout: float) -> tuple[Sample, Mapping[str, Any]]:
        """Wait for the next answer; raises Failed."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        # A process that is just starting has used no CPU time yet.
        before = usage(process.pid).cpu if self.start is not None else 0.0
        begin, seen = monotonic(), list[Usage]()
        while not select.select([process.stdout], [], [], SAMPLED_EVERY)[0]:
            seen.append(usage(process.pid))
            if monotonic() - begin > timeout:
                raise Failed(f"not done in {timeout / 60:g} minutes")
        wall, after = monotonic() - begin, usage(process.pid)
        line = process.stdout.readline()
        if not line:
            raise Failed("the process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        seen.append(after)
        peak, worker = max(one.resident for one in seen), max(one.worker for one in seen)
        return Sample(after.cpu - before, wall, peak, worker), answer

    def end(self) -> None:
        """End the process; kill it if it does not exit in time."""
        if self.process is None:
            return
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(ENDS_WITHIN if self.fault is None else 1.0)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None


def race(entrants: Sequence[Entrant], repetitions: int, timeout: float, tell: Callable[[str], None]) -> None:
    """Run one cold and ``repetitions`` warm repetitions of each contender in turn; drop those that fail."""
    try:
        for turn in range(-1, repetitions + 1):
            for entrant in entrants:
                if entrant.fault is not None:
                    continue
                try:
                    take_turn(entrant, turn, timeout)
                except Failed as failure:
                    entrant.fault = str(failure)
                    entrant.end()
                tell(f"{entrant.label}: {progress(entrant, turn)}")
    finally:
        for entrant in entrants:
            entrant.end()


def take_turn(entrant: Entrant, turn: int, timeout: float) -> None:
    """Start the process in turn -1; run a repetition in all other turns."""
    if entrant.contender.missing:
        raise Failed(f"not installed: {', '.join(entrant.contender.missing)}")
    if turn < 0:
        entrant.launch(timeout)
    else:
        entrant.repeat(timeout)


def progress(entrant: Entrant, turn: int) -> str:
    """Describe the last step in a few words."""
    if entrant.fault is not None:
        return entrant.fault
    last = [entrant.start, entrant.cold, *entrant.warm][turn + 1]
    assert last is not None
    what = {-1: "started", 0: "cold"}.get(turn, f"warm {turn}")
    return f"{what}, {last.cpu:.1f} CPU s, {last.wall:.1f} s"
