"""The one exchange: rows become messages, messages meet by bucket of users, buckets are measured."""

import pickle
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spark_eval.batches.files import FilePart, read_parts
from spark_eval.batches.keys import key_sum
from spark_eval.engine.measure import Bucket, Question
from spark_eval.engine.messages import MESSAGE, Kind, unpacked
from spark_eval.names import folder_name, model_faults
from spark_eval.scan import PlainFiles
from spark_eval.schema import MODEL, N_RECOMMENDED, N_RELEVANT, USER

Batches = Iterable[pa.RecordBatch]
SUMMARY: Final = "summary"


@dataclass(frozen=True)
class Summary:
    """What is left of one model's lists in a bucket."""

    model: str | None
    counts: Mapping[str, int]
    sums: pa.Table
    file: str | None
    keys: int


def send(
    frame: DataFrame, files: PlainFiles | None, sender: Callable[[Batches], Iterator[pa.RecordBatch]], cores: int
) -> DataFrame:
    """Return the messages of a table; if it is nothing but plain files, the workers read these."""
    schema = from_arrow_schema(MESSAGE)
    if files is None:
        return frame.mapInArrow(sender, schema)
    tasks: list[list[FilePart]] = files.tasks(cores)
    columns = files.columns

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return sender(read_parts([part for number in numbers for part in tasks[number]], columns))

    return frame.sparkSession.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, schema)


def exchanged(messages: Sequence[DataFrame], n_tasks: int) -> DataFrame:
    """Return all messages, those of one bucket in one task."""
    return reduce(DataFrame.unionAll, messages).repartition(n_tasks, "bucket")


def by_bucket(batches: Batches) -> Iterator[dict[Kind, list[pa.Buffer]]]:
    """Return the messages of each bucket of a task, a bucket after the other."""
    arrived: dict[int, dict[Kind, list[pa.Buffer]]] = defaultdict(lambda: defaultdict(list))
    for batch in batches:
        for bucket, kind, rows in zip(*batch.columns, strict=True):
            arrived[bucket.as_py()][Kind(kind.as_py())].append(rows.as_buffer())
    while arrived:
        yield arrived.popitem()[1]


def measure(messages: DataFrame, question: Question, folder: str | None) -> DataFrame:
    """summary: of each bucket, what is left of it, while ``per_user`` is written below the folder."""

    def measured(batches: Batches) -> Iterator[pa.RecordBatch]:
        for parts in by_bucket(batches):
            models = models_of(parts, question)
            bucket = Bucket(question, parts)
            writes = folder is not None and not model_faults([name for name in models if name is not None])
            found = []
            for one in bucket.measured(models):
                file, keys = None, 0
                if writes and one.per_user.num_rows:
                    file, keys = write(one.model or "", one.per_user, str(folder))
                found.append(Summary(one.model, one.counts, one.sums, file, keys))
            summary = pickle.dumps((bucket.truth_counts, found), protocol=5)
            yield pa.record_batch([pa.array([summary], pa.binary())], names=[SUMMARY])

    return messages.mapInArrow(measured, f"{SUMMARY} binary")


def models_of(parts: Mapping[Kind, Sequence[pa.Buffer]], question: Question) -> list[str | None]:
    """Return the models that any task has seen."""
    if question.model is not None:
        return [question.model]
    told = {name for data in parts.get(Kind.MODELS, ()) for name in unpacked(data)[MODEL].to_pylist()}
    return sorted(told, key=lambda name: name or "")


def write(model: str, per_user: pa.Table, folder: str) -> tuple[str, int]:
    """Write rows as a file with a name that no other attempt gives to its own; the sum of their keys, too."""
    file = f"{MODEL}={folder_name(model)}/part-{uuid.uuid4().hex}.parquet"
    path = Path(folder, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(per_user, path, write_page_checksum=True)
    return file, key_sum(model, per_user)
