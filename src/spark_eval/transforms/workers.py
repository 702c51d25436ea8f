"""The doors to the workers: recommendations go in as batches, come back as parcels, then as numbers."""

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spark_eval.batches.files import FilePart, read_parts
from spark_eval.batches.measuring import Measured, Measuring
from spark_eval.batches.meet import BUCKET, Parcel
from spark_eval.batches.parcels import packed, unpacked
from spark_eval.names import folder_name
from spark_eval.schema import ITEM, MODEL, N_RECOMMENDED, N_RELEVANT, RANK, SCORE, USER

IS_FRAGMENTS: Final = "is_fragments"
MODELS: Final = "models"
PARCEL: Final = "parcel"
PARCELS: Final = pa.schema(
    {
        BUCKET: pa.int32(),
        IS_FRAGMENTS: pa.bool_(),
        MODELS: pa.list_(pa.string()),
        PARCEL: pa.binary(),
    }
)
# What is left of the lists of one model in one bucket, once they are measured.
TALLIES: Final = pa.schema(
    {
        MODEL: pa.string(),
        "counts": pa.string(),
        "n_split": pa.int64(),
        "sums": pa.binary(),
        "file": pa.string(),
    }
)
Batches = Iterable[pa.RecordBatch]


def send(recommendations: DataFrame, measuring: "Broadcast[Measuring]", model: str | None) -> DataFrame:
    """PARCELS of recommendations, wherever they come from."""
    wanted = (USER, ITEM, RANK, SCORE) if model is not None else (MODEL, USER, ITEM, RANK, SCORE)
    names = [name for name in wanted if name in recommendations.columns]

    def reduce(batches: Batches) -> Iterator[pa.RecordBatch]:
        return batches_of(PARCELS, map(parcel_row, measuring.value.meeting.parcels(batches)))

    return recommendations.select(*names).mapInArrow(reduce, spark_schema(PARCELS))


def send_files(
    spark: SparkSession,
    tasks: Sequence[Sequence[FilePart]],
    columns: Mapping[str, str],
    measuring: "Broadcast[Measuring]",
) -> DataFrame:
    """PARCELS of plain Parquet files, which the workers read themselves; ``columns`` are ours: theirs."""

    def reduce(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        rows = read_parts([part for number in numbers for part in tasks[number]], columns)
        return batches_of(PARCELS, map(parcel_row, measuring.value.meeting.parcels(rows)))

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(reduce, spark_schema(PARCELS))


def parcel_row(parcel: Parcel) -> tuple[Any, ...]:
    """A row of PARCELS."""
    has_names = MODEL in parcel.table.column_names
    models = parcel.table[MODEL].unique().cast(pa.string()).to_pylist() if has_names else []
    return (parcel.bucket, parcel.is_fragments, models, packed(parcel.table))


def in_buckets(parcels: DataFrame, n_buckets: int) -> DataFrame:
    """All parcels of a bucket in one task; a row without a parcel stands for each bucket."""
    nothing = (F.lit(None).cast(field.dataType).alias(field.name) for field in parcels.schema.fields[1:])
    every = parcels.sparkSession.range(n_buckets).select(F.col("id").cast("int").alias(BUCKET), *nothing)
    return parcels.unionAll(every).repartition(n_buckets, BUCKET)


def measure_parcels(
    parcels: DataFrame, measuring: "Broadcast[Measuring]", models: Sequence[str], user: T.DataType
) -> DataFrame:
    """model, user, n_relevant, n_recommended, segments, a double per metric value; of parcels in buckets."""
    columns = [column for value in measuring.value.values for column in value.columns]
    schema = T.StructType(
        [
            T.StructField(MODEL, T.StringType()),
            T.StructField(USER, user),
            *(T.StructField(name, T.LongType()) for name in (N_RELEVANT, N_RECOMMENDED)),
            *(T.StructField(name, T.StringType()) for name in measuring.value.segments),
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
    parcels: dict[int, list[Parcel]] = defaultdict(list)
    for batch in batches:
        for bucket, is_fragments, parcel in zip(
            batch[BUCKET], batch[IS_FRAGMENTS], batch[PARCEL], strict=True
        ):
            of_bucket = parcels[bucket.as_py()]
            if parcel.is_valid:
                of_bucket.append(Parcel(bucket.as_py(), is_fragments.as_py(), unpacked(parcel.as_buffer())))
    while parcels:
        yield from measuring.measured(*parcels.popitem(), models)


def batches_of(schema: pa.Schema, rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    """A batch for each row, which may be large."""
    for row in rows:
        arrays = [pa.array([value], field.type) for value, field in zip(row, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The same for Spark."""
    return from_arrow_schema(schema)
