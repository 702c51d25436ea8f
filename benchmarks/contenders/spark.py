"""What the contenders on Spark share: the same session, the same reading and writing."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.contenders import Means
from benchmarks.workload import Task, Workload
from spark_eval import get_session


def session(task: Task) -> SparkSession:
    """Two cores, whatever the machine has."""
    return get_session(
        "benchmark",
        "local[2]",
        {
            "spark.sql.shuffle.partitions": str(task.workload.partitions),
            "spark.driver.memory": task.workload.memory,
        },
    )


def read(
    spark: SparkSession, task: Task, options: Mapping[str, str] = MappingProxyType({})
) -> tuple[DataFrame, DataFrame]:
    """Recommendations and truth."""
    tables = (spark.read.options(**options).parquet(path) for path in (task.recommendations, task.truth))
    return next(tables), next(tables)


def write_and_average(per_user: DataFrame, folder: Path, workload: Workload) -> Means:
    """Write the table, read it again, average its columns."""
    per_user.write.parquet(str(folder / "per_user"))
    written = per_user.sparkSession.read.parquet(str(folder / "per_user"))
    [means] = written.agg(*(F.avg(column).alias(column) for column in workload.columns)).collect()
    return {column.replace("_at_", "@"): means[column] for column in workload.columns}


def finish(frame: DataFrame) -> None:
    """Compute every row and write none."""
    frame.write.format("noop").mode("overwrite").save()
