"""The only shuffle: rows are sent as messages, grouped by bucket of users."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import MESSAGE
from spark_eval.runners.spread import Spread, map_table, repartition
from spark_eval.tables.conformed import Rows
from spark_eval.tables.file_parts import PlainFiles

# Number of buckets per task if row counts are unknown; large buckets are divided later.
BUCKETS_PER_TASK: Final = 4

SendBatches = Callable[[Batches], Iterator[pa.RecordBatch]]


def send(table: Rows, files: PlainFiles | None, sender: SendBatches, n_tasks: int) -> Any:
    """Return the messages of a table; workers read its files themselves if these are plain Parquet."""
    return map_table(table, sender, MESSAGE, files, n_tasks, coded=True)


def exchange(messages: Sequence[Spread], n_tasks: int) -> Spread:
    """Return all messages, shuffled so that each bucket is in one task."""
    return repartition(messages, "bucket", n_tasks)
