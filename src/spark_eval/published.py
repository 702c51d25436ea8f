"""Read what is published, of whole runs only: those that have a commit record, on whatever store."""

import json
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from spark_eval.commits import SHARED
from spark_eval.errors import DataError
from spark_eval.hadoop import HadoopFiles
from spark_eval.names import literal
from spark_eval.places import uri_of
from spark_eval.remote import published_jobs
from spark_eval.schema import MODEL, Table

RUN_ID: Final = "run_id"
NO_COMMIT: Final = '{"jobs": {}}'


def read_published(
    spark: SparkSession, path: str, table: str, run_ids: Collection[str] | None = None
) -> DataFrame:
    """A table of the runs published below an output path, or of these runs; with the column ``run_id``.

    Each run is whole, in all its tables: it counts from its commit record on. Columns that a run lacks are
    null. Run ids and models are text, whatever they look like.

    Raises DataError MISSING_INPUT where there is none.
    """
    files = HadoopFiles(spark, uri_of(path))
    wanted = Table(table)
    places = [place for run_id, place in places_of(files, wanted) if run_ids is None or run_id in run_ids]
    if not places:
        raise DataError("MISSING_INPUT", f"no run published below {path!r} has a table {table!r}")
    by_base: dict[str, list[str]] = {}
    for place in places:
        by_base.setdefault(base_of(place), []).append(place)
    frames = [read_places(spark, found) for found in by_base.values()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def places_of(files: HadoopFiles, table: Table) -> Iterator[tuple[str, str]]:
    """Run by run, where a table is."""
    folder = f"{files.root}/_commits"
    for name in files.names(folder):
        if name.endswith(".json"):
            commit = json.loads(files.read(f"{folder}/{name}") or NO_COMMIT)
            for verb, job in commit["jobs"].items():
                if table in job["tables"]:
                    place = f"{files.root}/{table}/{RUN_ID}={commit['run_id']}"
                    yield commit["run_id"], f"{place}/{verb}.parquet" if table in SHARED else place
    for run_id, _, job in published_jobs(files):
        if table in job["tables"]:
            yield run_id, job["tables"][table]["path"]


def base_of(place: str) -> str:
    """The folder in which each run has one of its own."""
    return place.partition(f"/{RUN_ID}=")[0]


def read_places(spark: SparkSession, places: Sequence[str]) -> DataFrame:
    """Folders and files of one table, below one base, with run ids and models as text."""
    names = [literal(place) for place in places]
    reader = spark.read.options(basePath=base_of(places[0]), mergeSchema=True)
    # Spark would take models named 1 and 01 for one number, unless it is given a schema.
    schema = T.StructType(
        [
            T.StructField(field.name, T.StringType() if field.name in (RUN_ID, MODEL) else field.dataType)
            for field in reader.parquet(*names).schema
        ]
    )
    return reader.schema(schema).parquet(*names)
