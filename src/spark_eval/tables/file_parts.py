"""Plain Parquet files and their parts, which workers read without Spark."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final, Self

import pyarrow.parquet as pq

from spark_eval.arrow.files import (
    FilePart,
    FileState,
    column_statistics,
    named_read_errors,
    split_row_groups,
)
from spark_eval.arrow.sound_footers import read_footer

# A task that reads costs about 12 ms of CPU, mostly in the JVM.
LEAST_PART_BYTES: Final = 16 << 20
MOST_PART_BYTES: Final = 128 << 20


@dataclass(frozen=True)
class PlainFiles:
    """Parquet files with these columns (ours: theirs) in the required types, and the state of each file."""

    states: Mapping[str, FileState]
    columns: Mapping[str, str]

    @classmethod
    def of(cls, paths: Iterable[str], columns: Mapping[str, str]) -> Self:
        """Return the files with their current states."""
        return cls({path: FileState.of(path) for path in paths}, columns)

    @cached_property
    def footers(self) -> Mapping[str, pq.FileMetaData]:
        """Footer of each file; raises DataError INPUT_CHANGED_DURING_RUN if a file's state has changed."""
        footers = {}
        for path, state in self.states.items():
            with named_read_errors(path, state):
                footers[path] = read_footer(path)
        return footers

    @property
    def n_rows(self) -> int:
        """Number of rows according to the footers."""
        return sum(footer.num_rows for footer in self.footers.values())

    def are_filled(self, names: Sequence[str]) -> bool:
        """Return True if the footers guarantee that these columns have no nulls."""
        known = (
            statistics
            for footer, name in product(self.footers.values(), names)
            for statistics in column_statistics(footer, self.columns[name])
        )
        return all(one is not None and one.has_null_count and not one.null_count for one in known)

    def only(self, names: Iterable[str]) -> "PlainFiles":
        """Return the files with only these of our columns."""
        return PlainFiles(self.states, {name: self.columns[name] for name in names})

    def at(self, paths: Collection[str]) -> "PlainFiles":
        """Return those of the files at these paths."""
        states = {path: state for path, state in self.states.items() if path in paths}
        return PlainFiles(states, self.columns)

    def without(self, name: str) -> "PlainFiles":
        """Return the files without one of our columns."""
        columns = {ours: theirs for ours, theirs in self.columns.items() if ours != name}
        return PlainFiles(self.states, columns)

    def tasks(self, parallelism: int) -> list[list[FilePart]]:
        """Return the parts of the files for each task to read, a few tasks per core."""
        n_bytes = sum(state.n_bytes for state in self.states.values())
        most = min(MOST_PART_BYTES, max(LEAST_PART_BYTES, n_bytes // (2 * parallelism)))
        tasks: list[list[FilePart]] = []
        filled = 0
        parts = (
            part
            for path, footer in self.footers.items()
            for part in split_row_groups(path, self.states[path], footer, most)
        )
        for part in parts:
            if not tasks or filled + part.n_bytes > most:
                tasks.append([])
                filled = 0
            tasks[-1].append(part)
            filled += part.n_bytes
        return tasks or [[]]


def takes_files(folder: str) -> bool:
    """Return True if workers can write to a folder: it is on this machine or on a mounted disk."""
    return "://" not in folder
