"""A log that is plain Parquet files: counted, labelled and written by the workers, without Spark's rows."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_eval.batches.files import keep_files
from spark_eval.batches.logs import STRETCHES, Counting, Labelling
from spark_eval.scan import PlainFiles
from spark_eval.splits.rules import GlobalLocalRanker, Timeline
from spark_eval.transforms.workers import Batches, batches_of, from_files
from spark_eval.verbs.facts import Facts

WRITTEN: Final = pa.schema(dict.fromkeys(("counts", "ends", "files"), pa.string()))


@dataclass(frozen=True)
class PlainLog:
    """The log; integer timestamps are in this unit (s, ms, us)."""

    spark: SparkSession
    files: PlainFiles
    unit: str | None

    def counted(self, spans: Sequence[tuple[int, int]], bits: int | None) -> DataFrame:
        """As ``splits.cuts.counted``."""
        counting = Counting(self.unit, spans, bits)
        return from_files(self.spark, self.files, STRETCHES, counting.stretches)

    def write(self, rule: GlobalLocalRanker, timeline: Timeline, folder: str) -> Facts:
        """Write the rows of every part below the folder, as ``<folder>/subset=<name>/*.parquet``."""
        labelling = Labelling(rule, timeline, self.unit)

        def write(batches: Batches) -> Iterator[pa.RecordBatch]:
            written = labelling.write(batches, folder)
            return batches_of(
                WRITTEN, [tuple(map(json.dumps, (written.counts, written.ends, written.files)))]
            )

        facts, files = Facts(self.files.n_rows), set[str]()
        for row in from_files(self.spark, self.files, WRITTEN, write).collect():
            counts, ends, names = map(json.loads, row)
            facts.add(counts, ends)
            files.update(names)
        keep_files(folder, files)
        return facts
