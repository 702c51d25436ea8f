"""The doors to the workers: tables go in as batches, come back as parcels for buckets, then as numbers.

Parcels travel as bytes, in RDDs: of what Spark plans, compiles and adapts for frames they would use nothing.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import RDD, Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spark_eval.batches.files import FilePart, read_parts
from spark_eval.batches.judging import Judging
from spark_eval.batches.keys import key_sum
from spark_eval.batches.measuring import Measured, Measuring
from spark_eval.batches.parcels import Kind, Parcel, packed, unpacked
from spark_eval.names import folder_name
from spark_eval.scan import PlainFiles
from spark_eval.schema import MODEL, N_RECOMMENDED, N_RELEVANT, USER

# A parcel on its way: the bucket, and what goes there.
Sent = tuple[int, "Packed"]
# The same in a frame.
PARCELS: Final = pa.schema(
    {
        "bucket": pa.int32(),
        "kind": pa.string(),
        "models": pa.list_(pa.string()),
        "n_rows": pa.int64(),
        "table": pa.binary(),
    }
)
BUCKETS_PER_TASK: Final = 4
Batches = Iterable[pa.RecordBatch]
Made = TypeVar("Made")


@dataclass(frozen=True)
class Packed:
    """What a parcel holds, the models in there, its table as bytes."""

    kind: str
    models: Sequence[str | None]
    n_rows: int
    table: bytes

    def opened(self, bucket: int) -> Parcel:
        """The parcel."""
        return Parcel(bucket, Kind(self.kind), unpacked(pa.py_buffer(self.table)))


@dataclass(frozen=True)
class Judged:
    """The truth of a bucket: counts of what came for it, its slice of the sieve, what is sent on.

    Nothing but the number of rows where these are too many.
    """

    bucket: int
    n_rows: int
    counts: Sequence[Mapping[str, Any]] = ()
    slice: bytes = b""
    sent: Sequence[Sent] = ()


@dataclass(frozen=True)
class Tally:
    """What is left of the lists of one model in one bucket, once they are measured; ``sums`` are packed.

    ``keys`` is the sum of the keys of the rows that are in ``file``.
    """

    model: str | None
    counts: Mapping[str, int]
    n_split: int
    sums: bytes
    file: str | None
    keys: int


def send(
    frame: DataFrame, files: PlainFiles | None, made: Callable[[Batches], Iterator[Parcel]]
) -> RDD[Sent]:
    """The parcels that are ``made`` of a table; if it is nothing but plain files, the workers read these."""
    if files is not None:
        return from_files(frame.sparkSession, files, lambda batches: map(sent, made(batches)))
    rows = frame.mapInArrow(
        lambda batches: batches_of(PARCELS, map(row_of, map(sent, made(batches)))), spark_schema(PARCELS)
    )
    return rows.rdd.map(sent_of)


def from_files(
    spark: SparkSession, files: PlainFiles, made: Callable[[Batches], Iterable[Made]]
) -> RDD[Made]:
    """What is ``made`` of batches of plain files, each task of some of them."""
    n_tasks, read = reading(spark, files)
    return spark.sparkContext.parallelize(range(n_tasks), n_tasks).mapPartitions(
        lambda numbers: made(read(numbers))
    )


def frame_from_files(
    spark: SparkSession,
    files: PlainFiles,
    schema: pa.Schema,
    made: Callable[[Batches], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """The same of batches with this schema."""
    n_tasks, read = reading(spark, files)

    def numbers(batches: Batches) -> Iterator[int]:
        return (number for batch in batches for number in batch.column(0).to_pylist())

    return spark.range(0, n_tasks, 1, n_tasks).mapInArrow(
        lambda batches: made(read(numbers(batches))), spark_schema(schema)
    )


def reading(
    spark: SparkSession, files: PlainFiles
) -> tuple[int, Callable[[Iterable[int]], Iterator[pa.RecordBatch]]]:
    """The number of tasks in which files are read, and how those of some numbers read theirs."""
    tasks: list[list[FilePart]] = files.tasks(spark.sparkContext.defaultParallelism)
    columns = files.columns
    return len(tasks), lambda numbers: read_parts(
        [part for number in numbers for part in tasks[number]], columns
    )


def in_each(parcels: RDD[Sent], made: Callable[[int, list[Parcel]], Made]) -> RDD[Made]:
    """What is made of each bucket's number and parcels."""
    return parcels.mapPartitions(lambda arrived: (made(*found) for found in by_bucket(arrived)))


def sent(parcel: Parcel) -> Sent:
    """A parcel ready for its way."""
    has_names = MODEL in parcel.table.column_names
    models = parcel.table[MODEL].unique().cast(pa.string()).to_pylist() if has_names else []
    return parcel.bucket, Packed(parcel.kind.value, models, parcel.table.num_rows, packed(parcel.table))


def row_of(parcel: Sent) -> tuple[Any, ...]:
    """A row of PARCELS."""
    bucket, what = parcel
    return (bucket, what.kind, what.models, what.n_rows, what.table)


def sent_of(row: Iterable[Any]) -> Sent:
    """The parcel in the values of a row of PARCELS."""
    bucket, kind, models, n_rows, table = row
    return bucket, Packed(kind, models, n_rows, bytes(table))


def in_buckets(parcels: Sequence[RDD[Sent]], n_buckets: int) -> RDD[Sent]:
    """All parcels of a bucket in one task, which may have several."""
    united = reduce(RDD.union, parcels)
    n_tasks = min(n_buckets, max(united.context.defaultParallelism, n_buckets // BUCKETS_PER_TASK))
    return united.partitionBy(n_tasks, partitionFunc=int)


def distinct_parcels(parcels: RDD[Sent], judging: "Broadcast[Judging]", most_rows: int) -> RDD[Judged]:
    """The truth of each bucket, each relevant pair once; buckets of more rows are only counted."""

    def judged(bucket: int, arrived: Sequence[Packed]) -> Judged:
        n_rows = sum(parcel.n_rows for parcel in arrived)
        if n_rows > most_rows:
            return Judged(bucket, n_rows)
        found = judging.value.distinct([parcel.opened(bucket) for parcel in arrived])
        parcel = Parcel(bucket, found.kind, found.rows)
        return Judged(bucket, n_rows, found.counts, found.slice, [sent(parcel)])

    return parcels.mapPartitions(lambda arrived: (judged(*found) for found in arrived_in(arrived)))


def models_of(parcels: RDD[Sent]) -> RDD[str | None]:
    """The models that any parcel names, once per task; None where a row names none."""
    return parcels.mapPartitions(lambda arrived: {model for _, parcel in arrived for model in parcel.models})


def measure_parcels(
    parcels: RDD[Sent],
    measuring: "Broadcast[Measuring]",
    models: Sequence[str],
    user: T.DataType,
    segments: Sequence[str],
    spark: SparkSession,
) -> DataFrame:
    """model, user, n_relevant, n_recommended, segments, a double per metric value; of parcels in buckets."""
    columns = [column for value in measuring.value.values for column in value.columns]
    schema = T.StructType(
        [
            T.StructField(MODEL, T.StringType()),
            T.StructField(USER, user),
            *(T.StructField(name, T.LongType()) for name in (N_RELEVANT, N_RECOMMENDED)),
            *(T.StructField(name, T.StringType()) for name in segments),
            *(T.StructField(name, T.DoubleType()) for name in columns),
        ]
    )
    arrow_schema = to_arrow_schema(schema)

    def measure(batches: Batches) -> Iterator[pa.RecordBatch]:
        arrived = (sent_of(row.values()) for batch in batches for row in batch.to_pylist())
        for measured in measured_in(arrived, measuring.value, models):
            table = measured.per_user
            names = pa.repeat(measured.model, table.num_rows)
            yield from table.add_column(0, MODEL, names).cast(arrow_schema).to_batches()

    rows = spark.createDataFrame(parcels.map(row_of), spark_schema(PARCELS), verifySchema=False)
    return rows.mapInArrow(measure, schema)


def tally_parcels(
    parcels: RDD[Sent],
    measuring: "Broadcast[Measuring]",
    models: Sequence[str | None],
    user: T.DataType,
    folder: str | None = None,
) -> RDD[Tally]:
    """A tally per bucket and model; with ``folder``, the users' rows are written as files below it."""
    user_type = to_arrow_schema(T.StructType([T.StructField(USER, user)])).field(USER).type
    tally = partial(tally_of, folder=folder, user_type=user_type)
    return parcels.mapPartitions(lambda arrived: map(tally, measured_in(arrived, measuring.value, models)))


def tally_of(measured: Measured, folder: str | None, user_type: pa.DataType) -> Tally:
    """What is left of it; the file has a name that no other attempt gives to its own."""
    file, keys, table = None, 0, measured.per_user
    if folder is not None and table.num_rows:
        file = f"{MODEL}={folder_name(measured.model or '')}/part-{uuid.uuid4().hex}.parquet"
        keys = key_sum(measured.model or "", table)
        path = Path(folder, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        table = table.set_column(0, USER, table[USER].cast(user_type))
        pq.write_table(table, path, write_page_checksum=True)
    return Tally(measured.model, measured.counts, measured.n_split, packed(measured.sums), file, keys)


def measured_in(
    arrived: Iterable[Sent], measuring: Measuring, models: Sequence[str | None]
) -> Iterator[Measured]:
    """The lists of all buckets of a task, a bucket after the other."""
    for _, parcels in by_bucket(arrived):
        yield from measuring.measured(parcels, models)


def by_bucket(arrived: Iterable[Sent]) -> Iterator[tuple[int, list[Parcel]]]:
    """The parcels of each bucket of a task."""
    for bucket, parcels in arrived_in(arrived):
        yield bucket, [parcel.opened(bucket) for parcel in parcels]


def arrived_in(arrived: Iterable[Sent]) -> Iterator[tuple[int, list[Packed]]]:
    """The same, not opened yet."""
    kept: dict[int, list[Packed]] = defaultdict(list)
    for bucket, parcel in arrived:
        kept[bucket].append(parcel)
    while kept:
        yield kept.popitem()


def batches_of(schema: pa.Schema, rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    """A batch for each row, which may be large."""
    for row in rows:
        arrays = [pa.array([value], field.type) for value, field in zip(row, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def id_type(frame: DataFrame, name: str) -> pa.DataType:
    """The type of ids as batches have them."""
    return pa.string() if isinstance(frame.schema[name].dataType, T.StringType) else pa.int64()


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The same for Spark."""
    return from_arrow_schema(schema)
