"""A log that is plain Parquet files: counted, labelled and written by the workers, without Spark's rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.arrow.files import keep_files
from spark_eval.schema import ITEM, TIMESTAMP, USER
from spark_eval.splits.labels import STRETCHES, Counting, Labelling
from spark_eval.splits.rules import GlobalLocalRanker, Timeline
from spark_eval.transforms.objects import Batches, Made, made_of_files, reading
from spark_eval.transforms.plain_files import PlainFiles
from spark_eval.verbs.small import collected
from spark_eval.verbs.split_counts import Facts


@dataclass(frozen=True)
class PlainLog:
    """The log; integer timestamps are in this unit (s, ms, us)."""

    spark: SparkSession
    files: PlainFiles
    unit: str | None

    def counted(self, spans: Sequence[tuple[int, int]], bits: int | None) -> DataFrame:
        """As ``verbs.cuts.counted``."""
        # Ids are read only to see whether they are there.
        doubtful = [name for name in (USER, ITEM) if not self.files.is_complete(name)]
        needed = {name: self.files.columns[name] for name in (*doubtful, TIMESTAMP)}
        counting = Counting(self.unit, spans, bits)
        tasks, count = reading(self.spark, replace(self.files, columns=needed), counting.stretches)
        return tasks.mapInArrow(count, from_arrow_schema(STRETCHES))

    def write(self, rule: GlobalLocalRanker, timeline: Timeline, folder: str) -> Facts:
        """Write the rows of every part below the folder, as ``<folder>/subset=<name>/*.parquet``."""
        labelling = Labelling(rule, timeline, self.unit)

        def write(batches: Batches) -> list[Made]:
            return [(None, labelling.write(batches, folder))]

        facts, files = Facts(self.files.n_rows), set[str]()
        for written in collected(made_of_files(self.spark, self.files, write)):
            facts.add(written.counts, written.ends)
            files.update(written.files)
        keep_files(folder, files)
        return facts
