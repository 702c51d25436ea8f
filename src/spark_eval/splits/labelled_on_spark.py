"""A log that Spark labels: counted, written and read by what ``label`` makes of its frame."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation

from spark_eval.runners.rows import SparkRows, write_frame
from spark_eval.runtime.any_session import MICROSECONDS, TIMESTAMP_TYPE, setting
from spark_eval.schema import SUBSET
from spark_eval.splits.cuts import Times
from spark_eval.splits.facts import SplitCounts
from spark_eval.splits.label import ASSIGNMENT, explode_folds, label, row_counts, used_rows, with_faults
from spark_eval.splits.labelled import LabelledByWorkers
from spark_eval.splits.rules.fold_rule import FoldRule, Found, Layout
from spark_eval.splits.worker.labels import RowLabeller
from spark_eval.tables.file_parts import takes_files
from spark_eval.tables.listed import ListedFiles


@dataclass(frozen=True)
class LabelledBySpark:
    """A log on Spark with ASSIGNMENTS; see ``LabelledLog``.

    Workers label and write the log's files, if they can, without creating Spark rows. ``listed`` is the state
    of the files when the cuts were found.
    """

    rows: SparkRows
    rule: FoldRule
    listed: ListedFiles
    labeller: RowLabeller

    @property
    def in_folds(self) -> DataFrame:
        """``labelled``, with the ASSIGNMENT of each row in its fold.

        Raises DataError INPUT_CHANGED_DURING_RUN if the log's files have changed.
        """
        self.listed.check(self.rows.frame, "interactions")
        return explode_folds(self.rows.frame, self.rule)

    @property
    def labelled(self) -> SparkRows:
        """Every row once for each fold."""
        return SparkRows(self.in_folds.drop(ASSIGNMENT))

    @property
    def used(self) -> SparkRows:
        """The labelled rows that have a subset."""
        return SparkRows(used_rows(self.in_folds).drop(ASSIGNMENT))

    def count(self) -> SplitCounts:
        """Return the counts of all rows."""
        counts = self.in_folds.agg(*row_counts(self.rule))
        return self.counted(counts.collect()[0].asDict())

    def write(self, folder: str) -> SplitCounts:
        """Write the used rows; return the counts, which are observed while writing."""
        if self.rows.files is not None and takes_files(folder):
            return LabelledByWorkers(self.rows, self.labeller).write(folder)
        observed = Observation("split")
        used = used_rows(self.in_folds.observe(observed, *row_counts(self.rule)))
        with setting(self.rows.session, TIMESTAMP_TYPE, MICROSECONDS):
            write_frame(used.drop(ASSIGNMENT), folder, SUBSET)
        return self.counted(observed.get)

    def counted(self, aggregates: Mapping[str, Any]) -> SplitCounts:
        """Return the counts from the aggregates of ``row_counts``."""
        counters: dict[str, Counter[str]] = {"row": Counter(), "assigned": Counter()}
        for name, n_rows in aggregates.items():
            kind, _, code = name.partition("_")
            if kind in counters:
                counters[kind][code] = n_rows
        return SplitCounts(
            self.rule, aggregates["n_rows"], aggregates["n_used"], counters["row"], counters["assigned"]
        )


def labelled_on_spark(
    given: SparkRows, rule: FoldRule, unit: str | None
) -> tuple[LabelledBySpark, Found | None, Layout]:
    """Return a conformed log of Spark with its subsets, what the rule found in it, and the layout."""
    log, plain = with_faults(given.frame, timed=rule.timed), given.files
    listed = ListedFiles.of(given.frame)
    timeline = rule.find(Times(SparkRows(log, plain if rule.timed else None), unit))
    layout = rule.layout(timeline)
    rows = SparkRows(label(log, rule, layout), plain)
    return LabelledBySpark(rows, rule, listed, RowLabeller(rule, layout, unit)), timeline, layout
