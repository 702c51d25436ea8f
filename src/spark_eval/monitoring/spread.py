"""Users of runs on a store: Spark brings their rows together, a range of users at a time, in one shuffle."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_eval.monitoring.worker.user_rows import Tables, by_source, check_ids, send_users
from spark_eval.names import quote_column
from spark_eval.publishing.published import PublishedTable, with_named_errors
from spark_eval.runners.rows import SparkRows
from spark_eval.runners.spread import Object, map_batches, n_buckets_of, of_buckets
from spark_eval.runtime.local_files import LocalFiles
from spark_eval.schema import MODEL, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ModelUsers:
    """Columns of the users of a model of a run; columns that its table lacks are left out."""

    table: PublishedTable
    model: str
    columns: Sequence[str]

    @property
    def n_rows(self) -> int:
        """Number of rows of the table, of all models."""
        return int(self.table.record.job["tables"][Table.PER_USER]["rows"])

    def frame(self) -> "DataFrame":
        """Return the rows."""
        assert not isinstance(self.table.files, LocalFiles)
        rows = self.table.frame(self.table.files.spark)
        names = [quote_column(name) for name in self.columns if name in rows.columns]
        return rows.where(rows[MODEL] == self.model).select(names)


def map_users(sources: Sequence[ModelUsers], make: Callable[[Sequence[Tables]], Object]) -> Iterator[Object]:
    """Yield what ``make`` returns of each range of users: it gets the tables of each source.

    Raises DataError MIXED_CONVENTIONS if ids of the sources have different types.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if not sources:
        return
    frames = [source.frame() for source in sources]
    schemas: list[pa.Schema] = [to_arrow_schema(frame.schema) for frame in frames]
    check_ids(schemas)
    n_buckets = n_buckets_of(sum(source.n_rows for source in sources))
    first, *others = [
        map_batches(SparkRows(frame), partial(send_users, source=number, n_buckets=n_buckets))
        for number, frame in enumerate(frames)
    ]
    made = partial(
        of_buckets, first.concat(others), n_buckets, lambda objects: make(by_source(objects, schemas))
    )
    yield from with_named_errors(sources[0].table.path, lambda: list(made()))
