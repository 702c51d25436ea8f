"""The one exchange: rows become messages, messages meet by bucket of users, buckets are measured."""

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spark_eval.arrow.checksums import key_sum
from spark_eval.arrow.files import FilePart, read_parts
from spark_eval.engine.bucket import Bucket, models_in
from spark_eval.engine.measure import Measured, Measuring
from spark_eval.engine.messages import MESSAGE, Content, by_bucket, split
from spark_eval.engine.question import Question
from spark_eval.names import folder_name, model_faults
from spark_eval.schema import MODEL, USER
from spark_eval.transforms.plain_files import PlainFiles

Batches = Iterable[pa.RecordBatch]
Sender = Callable[[Batches], Iterator[pa.RecordBatch]]
# What a worker measures at once: rows of lists, and values of ``per_user``; a single user may have more.
MOST_ROWS: Final = 1_000_000
MOST_VALUES: Final = 8_000_000
SUMMARY: Final = "summary"


@dataclass(frozen=True)
class ModelSummary:
    """What is left of one model's lists in a bucket once their rows are written: to ``file``, if any.

    ``keys`` is the sum of the keys of these rows.
    """

    model: str | None
    counts: Mapping[str, int]
    folds: frozenset[int]
    sums: pa.Table
    file: str | None
    keys: int


@dataclass(frozen=True)
class Summary:
    """What is left of a bucket: counts of the rows of its truth, its folds, and each model's lists."""

    truth: Sequence[Mapping[str, Any]]
    folds: frozenset[int]
    models: Sequence[ModelSummary]


def send(frame: DataFrame, files: PlainFiles | None, sender: Sender, n_tasks: int) -> DataFrame:
    """Return the messages of a table; if it is nothing but plain files, the workers read these."""
    schema = from_arrow_schema(MESSAGE)
    if files is None:
        return frame.mapInArrow(sender, schema)
    tasks: list[list[FilePart]] = files.tasks(n_tasks)
    columns = files.columns

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return sender(read_parts([part for number in numbers for part in tasks[number]], columns))

    return frame.sparkSession.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, schema)


def exchanged(messages: Sequence[DataFrame], n_tasks: int) -> DataFrame:
    """Return all messages, those of one bucket in one task."""
    return reduce(DataFrame.unionAll, messages).repartition(n_tasks, "bucket")


def measure(messages: DataFrame, question: Question, n_buckets: int, schema: T.StructType) -> DataFrame:
    """Return the rows of ``per_user`` with this schema, and a row per bucket that holds its summary alone."""
    whole = T.StructType([*schema.fields, T.StructField(SUMMARY, T.BinaryType())])
    rows_schema = to_arrow_schema(schema)

    def measured(batches: Batches) -> Iterator[pa.RecordBatch]:
        for bucket in buckets(batches, question, n_buckets):
            models = []
            for one in Measuring(bucket).measured():
                models.append(summary_of(one))
                rows = one.per_user.add_column(0, MODEL, pa.repeat(one.model, len(one.per_user)))
                rows = rows.select(rows_schema.names).cast(rows_schema)
                yield from rows.append_column(SUMMARY, pa.nulls(len(rows), pa.binary())).to_batches()
            yield batch_of_summary(bucket, models, rows_schema)

    return messages.mapInArrow(measured, whole)


def measure_to_files(
    messages: DataFrame, question: Question, n_buckets: int, schema: T.StructType, folder: str
) -> DataFrame:
    """Write the rows of ``per_user`` below a folder as they are measured; return a summary per bucket.

    Nothing is written where a model's name can be no folder: the run is refused.
    """
    rows_schema = to_arrow_schema(schema)
    rows_schema = rows_schema.remove(rows_schema.get_field_index(MODEL))

    def measured(batches: Batches) -> Iterator[pa.RecordBatch]:
        for bucket in buckets(batches, question, n_buckets):
            is_written = not model_faults([name for name in bucket.models if name is not None])
            models = []
            for one in Measuring(bucket).measured():
                file = None
                if is_written and len(one.per_user):
                    rows = one.per_user.select(rows_schema.names).cast(rows_schema)
                    file = write(one.model or "", rows, folder)
                models.append(summary_of(one, file))
            yield batch_of_summary(bucket, models, pa.schema([]))

    return messages.mapInArrow(measured, f"{SUMMARY} binary")


def buckets(batches: Batches, question: Question, n_buckets: int) -> Iterator[Bucket]:
    """Return the buckets of a task; those of too many rows in parts."""
    for rows in by_bucket(batches):
        n_parts = parts_for(rows, question)
        parts = iter([rows]) if n_parts == 1 else split(rows, n_buckets, n_parts)
        del rows
        for part in parts:
            yield Bucket(question, part)


def parts_for(rows: Mapping[Content, pa.Table], question: Question) -> int:
    """Return in how many parts a bucket is measured."""
    n_lists = rows[Content.LISTS].num_rows if Content.LISTS in rows else 0
    n_users = len(rows[Content.TRUTH][USER].unify_dictionaries().unique()) if Content.TRUTH in rows else 0
    n_columns = sum(len(value.columns) for value in question.values)
    n_values = n_users * len(models_in(rows, question)) * n_columns
    return 1 + max(n_lists // MOST_ROWS, n_values // MOST_VALUES)


def summary_of(measured: Measured, file: str | None = None) -> ModelSummary:
    """Return what is left once the rows are written."""
    keys = key_sum(measured.model or "", measured.per_user)
    return ModelSummary(measured.model, measured.counts, measured.folds, measured.sums, file, keys)


def batch_of_summary(bucket: Bucket, models: Sequence[ModelSummary], rows: pa.Schema) -> pa.RecordBatch:
    """Return a row with the summary of a bucket and nulls in the columns of ``rows``."""
    summary = Summary(list(bucket.truth_counts()), bucket.truth_folds, models)
    nulls = {name: pa.nulls(1, kind) for name, kind in zip(rows.names, rows.types, strict=True)}
    return pa.record_batch(nulls | {SUMMARY: pa.array([pickle.dumps(summary)], pa.binary())})


def write(model: str, rows: pa.Table, folder: str) -> str:
    """Write rows below a folder, to a file with a name that no other attempt gives to its own."""
    file = f"{MODEL}={folder_name(model)}/part-{uuid.uuid4().hex}.parquet"
    path = Path(folder, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, write_page_checksum=True)
    return file
