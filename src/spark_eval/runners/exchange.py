"""The only shuffle: rows are sent as messages, grouped by bucket of users."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import MESSAGE
from spark_eval.runners.in_process import LocalBatches
from spark_eval.runners.spread import Spread, bring_together, map_files, map_parts
from spark_eval.tables.conformed import Rows
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.local_tables import LocalTable

# Number of buckets per task if row counts are unknown; large buckets are divided later.
BUCKETS_PER_TASK: Final = 4

SendBatches = Callable[[Batches], Iterator[pa.RecordBatch]]


def send(table: Rows, files: PlainFiles | None, sender: SendBatches, n_tasks: int) -> Any:
    """Return the messages of a table; workers read its files themselves if these are plain Parquet."""
    if isinstance(table, LocalTable):
        return LocalBatches(table.parts(n_tasks), table.schema).map(sender, MESSAGE)
    if files is None:
        return map_parts(table, sender, MESSAGE)
    return map_files(table.sparkSession, files, n_tasks, sender, MESSAGE, coded=True)


def exchange(messages: Sequence[Spread], n_tasks: int) -> Spread:
    """Return all messages, shuffled so that each bucket is in one task."""
    return bring_together(messages, "bucket", n_tasks)
