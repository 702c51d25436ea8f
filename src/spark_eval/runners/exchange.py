"""The only shuffle: rows are sent as messages, grouped by bucket of users."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.arrow.files import Batches, FilePart, read_parts
from spark_eval.arrow.messages import MESSAGE
from spark_eval.tables.plain_files import PlainFiles

# Number of buckets per task if row counts are unknown; large buckets are divided later.
BUCKETS_PER_TASK: Final = 4

SendBatches = Callable[[Batches], Iterator[pa.RecordBatch]]


def send(frame: DataFrame, files: PlainFiles | None, sender: SendBatches, n_tasks: int) -> DataFrame:
    """Return the messages of a table; workers read its files themselves if these are plain Parquet."""
    schema = from_arrow_schema(MESSAGE)
    if files is None:
        return frame.mapInArrow(sender, schema)
    tasks: list[list[FilePart]] = files.tasks(n_tasks)
    columns = files.columns

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return sender(read_parts([part for number in numbers for part in tasks[number]], columns, coded=True))

    return frame.sparkSession.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, schema)


def exchange(messages: Sequence[DataFrame], n_tasks: int) -> DataFrame:
    """Return all messages, shuffled so that each bucket is in one task."""
    return reduce(DataFrame.unionAll, messages).repartition(n_tasks, "bucket")
