"""Batches in this process: parts computed by threads, brought together by number, in files beyond a limit."""

import errno
import os
import shutil
import stat
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from mmap import mmap
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_eval.errors import EnvironmentFault
from spark_eval.runtime.local_files import Lock as FileLock

# Prefix of folders of spilled batches, and in each the lock that its process holds.
SPILLED: Final = "spark-eval-spilled-"
ALIVE: Final = "alive.lock"
# Bytes of batches that wait in memory for those of the same number; more go to files.
MOST_IN_MEMORY: Final = 1 << 30
# Bytes that a thread needs to start: 8 MiB for its stack, and some for its data.
BYTES_OF_THREAD: Final = 10 << 20


def cores() -> int:
    """Return the number of cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)  # macOS has none
    return len(usable(0)) if usable else os.cpu_count() or 1


def run(work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    """Return the results of ``work`` for all parts, in their order; the first error stops the others."""
    n_threads = min(cores(), len(parts))
    if n_threads < 2:
        return list(map(work, parts))
    # Python waits for ever for a thread that finds no memory as it starts. What is asked for is free again.
    mmap(-1, n_threads * BYTES_OF_THREAD).close()
    with ThreadPoolExecutor(n_threads, "spark-eval") as threads:
        try:
            return list(threads.map(work, parts))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def discard(folder: Path, lock: FileLock) -> None:
    """Remove a folder of spilled batches, and release its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()


def remove_spills_of_the_dead() -> None:
    """Remove this user's folders of spilled batches whose processes have died, such as of SIGKILL.

    A live process holds the lock in its folder; a folder without one was just made.
    """
    for folder in Path(gettempdir()).glob(f"{SPILLED}*"):
        with suppress(OSError):
            status, lock = folder.lstat(), FileLock(folder / ALIVE)
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if is_ours and lock.path.exists() and lock.acquire():
                discard(folder, lock)


@dataclass
class ShuffleBuffer:
    """Batches by part until all have arrived; beyond ``MOST_IN_MEMORY`` bytes they are moved to files."""

    n_parts: int
    lock: Lock = field(default_factory=Lock)
    n_bytes: int = 0
    n_files: int = 0
    folder: Path | None = None

    def __post_init__(self) -> None:
        remove_spills_of_the_dead()
        self.in_memory: list[list[pa.RecordBatch]] = [[] for _ in range(self.n_parts)]
        self.in_files: list[list[Path]] = [[] for _ in range(self.n_parts)]

    def add(self, batch: pa.RecordBatch, parts: Any) -> None:
        """Add the rows of a batch to their parts."""
        for part in np.unique(parts).tolist():
            rows = batch.filter(pa.array(parts == part))
            with self.lock:
                self.in_memory[part].append(rows)
                self.n_bytes += rows.nbytes
                if self.n_bytes > MOST_IN_MEMORY:
                    self.spill()

    def spill(self) -> None:
        """Move all batches to files, one per part; EnvironmentFault DISK_FULL if there is no space."""
        try:
            self.write_files()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            message = f"no space for temporary files in {gettempdir()}; free disk space, or set TMPDIR"
            raise EnvironmentFault("DISK_FULL", message) from error

    def write_files(self) -> None:
        """Write all batches to files, one per part, and let go of them."""
        if self.folder is None:
            self.folder = Path(mkdtemp(prefix=SPILLED))
            lock = FileLock(self.folder / ALIVE)
            weakref.finalize(self, discard, self.folder, lock)
            lock.acquire()
        for part, batches in enumerate(self.in_memory):
            if batches:
                path = self.folder / f"{part}-{self.n_files}.arrow"
                with pa.ipc.new_file(path, batches[0].schema) as file:
                    for batch in batches:
                        file.write_batch(batch)
                self.in_files[part].append(path)
                self.n_files += 1
                batches.clear()
        self.n_bytes = 0

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a part."""
        yield from self.in_memory[part]
        for path in self.in_files[part]:
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
                for number in range(file.num_record_batches):
                    yield file.get_batch(number)
