"""The doors to the workers: tables go in as batches, come back as parcels for buckets, then as numbers."""

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spark_eval.batches.files import read_parts
from spark_eval.batches.judging import Judging
from spark_eval.batches.measuring import Measured, Measuring
from spark_eval.batches.parcels import Kind, Parcel, packed, unpacked
from spark_eval.names import folder_name
from spark_eval.scan import PlainFiles
from spark_eval.schema import MODEL, N_RECOMMENDED, N_RELEVANT, USER

BUCKET: Final = "bucket"
KIND: Final = "kind"
MODELS: Final = "models"
PARCEL: Final = "parcel"
PARCELS: Final = pa.schema(
    {BUCKET: pa.int32(), KIND: pa.string(), MODELS: pa.list_(pa.string()), PARCEL: pa.binary()}
)
COUNTS: Final = "counts"
SLICE: Final = "slice"
JUDGED: Final = pa.schema([*PARCELS, pa.field(COUNTS, pa.string()), pa.field(SLICE, pa.binary())])
# What is left of the lists of one model in one bucket, once they are measured.
TALLIES: Final = pa.schema(
    {
        MODEL: pa.string(),
        COUNTS: pa.string(),
        "n_split": pa.int64(),
        "sums": pa.binary(),
        "file": pa.string(),
    }
)
BUCKETS_PER_TASK: Final = 4
Batches = Iterable[pa.RecordBatch]


def send(
    frame: DataFrame, files: PlainFiles | None, made: Callable[[Batches], Iterator[Parcel]]
) -> DataFrame:
    """PARCELS that are ``made`` of a table; where it is nothing but plain files, the workers read these."""
    if files is None:
        return frame.mapInArrow(
            lambda batches: batches_of(PARCELS, map(parcel_row, made(batches))), spark_schema(PARCELS)
        )
    return from_files(
        frame.sparkSession,
        files,
        PARCELS,
        lambda batches: batches_of(PARCELS, map(parcel_row, made(batches))),
    )


def from_files(
    spark: SparkSession,
    files: PlainFiles,
    schema: pa.Schema,
    made: Callable[[Batches], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """Batches of this schema that are ``made`` of plain files, each task of some of them."""
    tasks, columns = files.tasks(spark.sparkContext.defaultParallelism), files.columns

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        return made(read_parts([part for number in numbers for part in tasks[number]], columns))

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, spark_schema(schema))


def in_each(
    parcels: DataFrame, schema: pa.Schema, row: Callable[[int, list[Parcel]], tuple[Any, ...]]
) -> DataFrame:
    """A row of this schema for each bucket, of its number and its parcels."""
    return parcels.mapInArrow(
        lambda batches: batches_of(schema, (row(*found) for found in by_bucket(batches))),
        spark_schema(schema),
    )


def parcel_row(parcel: Parcel) -> tuple[Any, ...]:
    """A row of PARCELS."""
    has_names = MODEL in parcel.table.column_names
    models = parcel.table[MODEL].unique().cast(pa.string()).to_pylist() if has_names else []
    return (parcel.bucket, parcel.kind, models, packed(parcel.table))


def in_buckets(parcels: Sequence[DataFrame], n_buckets: int) -> DataFrame:
    """All parcels of a bucket in one task, which may have several."""
    united = reduce(DataFrame.unionAll, parcels)
    cores = united.sparkSession.sparkContext.defaultParallelism
    return united.repartition(min(n_buckets, max(2 * cores, n_buckets // BUCKETS_PER_TASK)), BUCKET)


def distinct_parcels(parcels: DataFrame, judging: "Broadcast[Judging]") -> DataFrame:
    """JUDGED: the truth of each bucket as a parcel, counts of what came for it, its slice of the sieve."""

    def row(bucket: int, parcels: Sequence[Parcel]) -> tuple[Any, ...]:
        found = judging.value.distinct(parcels)
        parcel = parcel_row(Parcel(bucket, found.kind, found.rows))
        return (*parcel, json.dumps(found.counts), found.slice)

    return in_each(parcels, JUDGED, row)


def measure_parcels(
    parcels: DataFrame,
    measuring: "Broadcast[Measuring]",
    models: Sequence[str],
    user: T.DataType,
    segments: Sequence[str],
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
        for measured in measured_in(batches, measuring.value, models):
            table = measured.per_user
            names = pa.array([measured.model], pa.string()).take(
                pa.nulls(table.num_rows, pa.int64()).fill_null(0)
            )
            yield from table.add_column(0, MODEL, names).cast(arrow_schema).to_batches()

    return parcels.mapInArrow(measure, schema)


def tally_parcels(
    parcels: DataFrame,
    measuring: "Broadcast[Measuring]",
    models: Sequence[str | None],
    user: T.DataType,
    folder: str | None = None,
) -> DataFrame:
    """TALLIES: a row per bucket and model; with ``folder``, the users' rows are written as files below it."""
    user_type = to_arrow_schema(T.StructType([T.StructField(USER, user)])).field(USER).type

    def tally(batches: Batches) -> Iterator[pa.RecordBatch]:
        return batches_of(
            TALLIES,
            (
                tally_row(measured, folder, user_type)
                for measured in measured_in(batches, measuring.value, models)
            ),
        )

    return parcels.mapInArrow(tally, spark_schema(TALLIES))


def tally_row(measured: Measured, folder: str | None, user_type: pa.DataType) -> tuple[Any, ...]:
    """A row of TALLIES; the file has a name that no other attempt gives to its own."""
    file, table = None, measured.per_user
    if folder is not None and table.num_rows:
        file = f"{MODEL}={folder_name(measured.model or '')}/part-{uuid.uuid4().hex}.parquet"
        path = Path(folder, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.set_column(0, USER, table[USER].cast(user_type)), path)
    counts = json.dumps(measured.counts)
    return (measured.model, counts, measured.n_split, packed(measured.sums), file)


def measured_in(batches: Batches, measuring: Measuring, models: Sequence[str | None]) -> Iterator[Measured]:
    """The lists of all buckets of a task, a bucket after the other."""
    for _, parcels in by_bucket(batches):
        yield from measuring.measured(parcels, models)


def by_bucket(batches: Batches) -> Iterator[tuple[int, list[Parcel]]]:
    """The parcels of each bucket of a task."""
    arrived: dict[int, list[tuple[str, pa.Buffer]]] = defaultdict(list)
    for batch in batches:
        for bucket, kind, parcel in zip(batch[BUCKET], batch[KIND], batch[PARCEL], strict=True):
            arrived[bucket.as_py()].append((kind.as_py(), parcel.as_buffer()))
    while arrived:
        bucket, found = arrived.popitem()
        yield bucket, [Parcel(bucket, Kind(kind), unpacked(data)) for kind, data in found]


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
