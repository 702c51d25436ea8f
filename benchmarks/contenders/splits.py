"""A log split by time, and the floor of that: the log read and written by a constant column."""

from pathlib import Path

from pyspark.sql import functions as F

from benchmarks.contenders import Repetition
from benchmarks.contenders.spark import session
from benchmarks.workload import Task
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.verbs import VERBS


def published(task: Task) -> Repetition:
    """``spark-eval split`` without the command line: labelled, counted, checked for leaks, published."""
    spark = session(task)

    def repeat(folder: Path) -> None:
        interactions = {"path": task.interactions, "columns": {"relevance": "rating"}}
        config = parse_config({"output": {"path": str(folder)}, "interactions": interactions})
        run_verb(VERBS["split"], lambda: spark, config, None, replace=False)

    return repeat


def constant(task: Task) -> Repetition:
    """Spark's scan and write."""
    spark = session(task)

    def repeat(folder: Path) -> None:
        log = spark.read.parquet(task.interactions).withColumn("subset", F.lit("all"))
        log.write.partitionBy("subset").parquet(str(folder / "splits"))

    return repeat
