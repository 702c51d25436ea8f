"""CPU time and memory of a process with all its descendants, from Linux's /proc."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """CPU seconds since the start, including ended children, and resident bytes now.

    ``worker`` is the resident size, in bytes, of the largest process that a child has started; with Spark,
    that is the largest Python worker. Shared memory counts for each process.
    """

    cpu: float
    resident: int
    worker: int


@dataclass(frozen=True)
class Process:
    """One process of /proc."""

    pid: int
    parent: int
    ticks: int
    pages: int


def usage(root: int) -> Usage:
    """Measure the process ``root`` and all its descendants."""
    children: dict[int, list[Process]] = {}
    tree: list[Process] = []
    for process in every_process():
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            tree.append(process)
    for process in tree:  # grows while it is walked
        tree += children.get(process.pid, [])
    ticks = sum(process.ticks for process in tree)
    below = max((process.pages for process in tree[1:] if process.parent != root), default=0)
    return Usage(ticks / TICKS_PER_SECOND, PAGE * sum(process.pages for process in tree), PAGE * below)


def every_process() -> Iterator[Process]:
    """Yield every process of this machine."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            line = (folder / "stat").read_text()
        except OSError:  # it ended
            continue
        # The name in parentheses may have any characters; fields after it are numbered from 3, see proc(5).
        fields = line.rpartition(")")[2].split()
        own_and_children = sum(int(fields[number - 3]) for number in (14, 15, 16, 17))
        yield Process(int(folder.name), int(fields[4 - 3]), own_and_children, int(fields[24 - 3]))
