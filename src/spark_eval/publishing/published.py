"""Read what is published, of whole runs only: those that have a commit record, on whatever store."""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from spark_eval.arrow.user_files import dataset_at
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.metrics.aliases import several
from spark_eval.names import literal
from spark_eval.publishing.commits import Files, published
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.local_files import uri_of
from spark_eval.schema import MODEL, Table

RUN_ID_COLUMN: Final = "run_id"


def read_published(
    spark: SparkSession, path: str, table: str, run_ids: Collection[str] | str | None = None
) -> DataFrame:
    """Return a table of the runs published below an output path, or of these runs, with a column ``run_id``.

    Each run is whole, in all its tables: it counts from its commit record on. Columns that a run lacks are
    null. Run ids and models are text, whatever they look like.

    Raises ConfigError UNKNOWN_TABLE; DataError UNKNOWN_RUN or MISSING_TABLE for a run that is asked for and
    is not published, or not with this table; DataError MISSING_INPUT where no run has it.
    """
    if table not in set(Table):
        raise ConfigError.unknown("UNKNOWN_TABLE", "table", table, Table, "read_published")
    tables = published_tables(HadoopFiles(spark, uri_of(path)))
    if run_ids is not None:
        check_runs(several(run_ids), tables, table, path)
        tables = {run_id: tables[run_id] for run_id in several(run_ids)}
    places = [place for places in tables.values() for place in places.get(table, ())]
    if not places:
        raise DataError("MISSING_INPUT", f"no run published below {path!r} has a table {table!r}")
    by_base: dict[str, list[str]] = {}
    for place in places:
        by_base.setdefault(base_of(place), []).append(place)
    frames = [read_places(spark, places) for places in by_base.values()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def check_runs(
    run_ids: Sequence[str], tables: Mapping[str, Mapping[str, object]], table: str, path: str
) -> None:
    """Raise one DataError for all runs that are not published, or not with this table."""
    faults = []
    for run_id in run_ids:
        if run_id not in tables:
            faults.append(unknown_run(run_id, tables, path))
        elif table not in tables[run_id]:
            has = ", ".join(sorted(tables[run_id]))
            faults.append(DataError("MISSING_TABLE", f"run {run_id!r} has no table {table!r}; it has {has}"))
    DataError.raise_all(faults)


def unknown_run(run_id: str, known: Collection[str], path: str) -> DataError:
    """Return the error of a run that is not among those that are published."""
    hint = nearest(run_id, known) if known else "none is"
    return DataError("UNKNOWN_RUN", f"no run {run_id!r} is published below {path!r}; {hint}")


def published_tables(files: Files) -> dict[str, dict[str, list[str]]]:
    """Return the places of each table, run by run."""
    places: dict[str, dict[str, list[str]]] = {}
    for record in published(files):
        for table in record.job["tables"]:
            places.setdefault(record.run_id, {}).setdefault(table, []).append(record.place(table))
    return places


def rows_at(files: Files, place: str) -> list[dict[str, Any]]:
    """Return the rows of a small table, its models as text."""
    if isinstance(files, HadoopFiles):
        frame = read_places(files.spark, [place]).drop(RUN_ID_COLUMN)
        return [row.asDict() for row in frame.collect()]
    rows: list[dict[str, Any]] = dataset_at(place).to_table().to_pylist()
    return rows


def base_of(place: str) -> str:
    """Return the folder in which each run has one of its own."""
    return place.partition(f"/{RUN_ID_COLUMN}=")[0]


def read_places(spark: SparkSession, places: Sequence[str]) -> DataFrame:
    """Read folders and files of one table, below one base, with run ids and models as text."""
    names = [literal(place) for place in places]
    reader = spark.read.options(basePath=base_of(places[0]), mergeSchema=True)
    # Spark would take models named 1 and 01 for one number, unless it is given a schema.
    fields = [
        T.StructField(one.name, T.StringType() if one.name in (RUN_ID_COLUMN, MODEL) else one.dataType)
        for one in reader.parquet(*names).schema
    ]
    return reader.schema(T.StructType(fields)).parquet(*names)
