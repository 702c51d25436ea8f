"""The rows of a log in the subsets of a rule, as workers label them; Spark does in ``labelled_on_spark``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from spark_eval.arrow.files import Batches, remove_other_files
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import collect_objects, map_batches
from spark_eval.splits.facts import SplitCounts
from spark_eval.splits.worker.labels import RowLabeller

# Counts of the rows of a task, and the files that it has written.
Done = tuple[SplitCounts, Iterable[str]]


class LabelledLog(Protocol):
    """A log whose rows have their subsets in the folds of a rule; they are computed when they are read."""

    @property
    def rows(self) -> Rows:
        """Each row of the log once."""

    @property
    def labelled(self) -> Rows:
        """Every row once for each fold, with ``fault``, ``fold`` and ``subset``; an invalid row once."""

    @property
    def used(self) -> Rows:
        """The labelled rows that have a subset, with the columns of the table ``splits``."""

    def count(self) -> SplitCounts:
        """Return the counts of all rows; this takes a scan."""

    def write(self, folder: str) -> SplitCounts:
        """Write ``used`` to a new folder as Parquet partitioned by subset; return the counts."""


@dataclass(frozen=True)
class LabelledByWorkers:
    """A log of this process, or of plain files on Spark, as the workers label it."""

    rows: Rows
    labeller: RowLabeller

    @property
    def schema(self) -> pa.Schema:
        """The columns of the log."""
        return pa.schema({name: self.rows.kind(name) for name in self.rows.columns})

    @property
    def labelled(self) -> Rows:
        """Every row once for each fold; see ``LabelledLog.labelled``."""
        return self.rows.map(self.labeller.labelled, self.labeller.labelled_schema(self.schema))

    @property
    def used(self) -> Rows:
        """The labelled rows that have a subset."""
        return self.rows.map(self.labeller.used, self.labeller.used_schema(self.schema))

    def count(self) -> SplitCounts:
        """Return the counts of all rows."""
        count = self.labeller.count
        return self.added(lambda batches: (count(batches), ()))[0]

    def write(self, folder: str) -> SplitCounts:
        """Write the used rows by workers; return the counts."""
        write = self.labeller.write
        counts, files = self.added(lambda batches: write(batches, folder))
        remove_other_files(folder, files)
        return counts

    def added(self, make: Callable[[Batches], Done]) -> tuple[SplitCounts, set[str]]:
        """Return the sum of the counts that ``make`` returns of each task, and all files."""
        counts, files = SplitCounts(self.labeller.rule), set[str]()
        tasks = map_batches(self.rows, lambda batches: [(None, make(batches))])
        for of_task, written in collect_objects(tasks):
            counts += of_task
            files.update(written)
        return counts, files
