"""Progress line on a terminal, updated from Spark's status tracker."""

import sys
from collections.abc import Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from spark_eval.runtime import events

if TYPE_CHECKING:
    from pyspark import SparkStageInfo, StatusTracker

REDRAW_SECONDS: Final = 0.2
# Longer than the tracker needs to answer; a JVM that does not answer must not delay the end.
DRAWING_ENDS_WITHIN: Final = 2.0


class Display:
    """Progress line; if stderr is not an interactive terminal, it is disabled and Spark is not queried."""

    def __init__(self, verb: str, *, is_wanted: bool) -> None:
        console = Console(stderr=True)
        self.line = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # redirected output must not appear on the terminal
            disable=not (is_wanted and sys.stderr.isatty() and console.is_interactive),
        )
        self.task = self.line.add_task(verb, total=None, words="")
        self.ended = Event()
        self.watcher: Thread | None = None

    def __enter__(self) -> Self:
        events.followers.append(lambda run: self.show(description=f"{run.verb}: {run.doing}"))
        self.line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.watcher is not None:
            self.watcher.join(DRAWING_ENDS_WITHIN)
        self.line.stop()

    def watch(self, tracker: "StatusTracker") -> None:
        """Start a thread that polls the tracker."""
        if not self.line.disable:
            self.watcher = Thread(target=self.ask, args=(tracker,), name="progress", daemon=True)
            self.watcher.start()

    def ask(self, tracker: "StatusTracker") -> None:
        """Poll the tracker and update the line, until the end or a failure of the tracker."""
        while not self.ended.wait(REDRAW_SECONDS):
            try:
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            except Exception:
                return  # the JVM is gone; the main thread reports the reason
            self.show(**look([stage for stage in stages if stage is not None]))

    def show(self, **changes: Any) -> None:
        """Update fields of the line."""
        self.line.update(self.task, **changes)


def look(stages: "Sequence[SparkStageInfo]") -> dict[str, Any]:
    """Return the progress of the active Spark stages: total and completed tasks, and a text."""
    if not stages:
        return {"total": None, "completed": 0, "words": ""}
    total = sum(stage.numTasks for stage in stages)
    done = sum(stage.numCompletedTasks for stage in stages)
    at_work = sum(stage.numActiveTasks for stage in stages)
    failed = sum(stage.numFailedTasks for stage in stages)
    words = f"{done:,} of {total:,} tasks, {at_work:,} running" + (f", {failed:,} failed" if failed else "")
    return {"total": total, "completed": done, "words": words}
