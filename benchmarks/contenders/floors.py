"""Floors: what nothing that reads, or shuffles, both tables can go below."""

from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.contenders import Repetition
from benchmarks.contenders.spark import finish, read, session
from benchmarks.workload import Task


def scan(task: Task) -> Repetition:
    """Floor i."""
    return on_both(task, shuffled=False)


def shuffle(task: Task) -> Repetition:
    """Floor ii."""
    return on_both(task, shuffled=True)


def on_both(task: Task, shuffled: bool) -> Repetition:
    """Read both tables to the end."""
    spark, partitions = session(task), task.workload.partitions

    def repeat(_: Path) -> None:
        frames: tuple[DataFrame, ...] = read(spark, task)
        for frame in frames:
            finish(frame.repartition(partitions, "user") if shuffled else frame)

    return repeat
