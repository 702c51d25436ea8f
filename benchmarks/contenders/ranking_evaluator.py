"""Spark's own RankingEvaluator: one call, and one job, per metric and cutoff, on a cached frame of arrays."""

from pathlib import Path
from typing import Any, Final

from pyspark.ml.evaluation import RankingEvaluator
from pyspark.sql import functions as F

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.spark import read, session
from benchmarks.workload import Task

NAMES: Final[dict[str, Any]] = {
    "precision": "precisionAtK",
    "recall": "recallAtK",
    "ap": "meanAveragePrecisionAtK",
    "ndcg": "ndcgAtK",
}


def prepare(task: Task) -> Repetition:
    """The session; arrays are made in each repetition."""
    spark, workload = session(task), task.workload

    def repeat(_: Path) -> Means:
        recommendations, truth = read(spark, task)
        ranked = F.array_sort(F.collect_list(F.struct("rank", "item")))["item"].cast("array<double>")
        lists = recommendations.groupBy("user").agg(ranked.alias("prediction"))
        relevant = F.collect_list("item").cast("array<double>")
        users = truth.groupBy("user").agg(relevant.alias("label")).join(lists, "user", "left")
        empty = F.array().cast("array<double>")
        frame = users.select(F.coalesce("prediction", empty).alias("prediction"), "label").cache()
        means = {
            f"{metric}@{k}": RankingEvaluator(metricName=name, k=k).evaluate(frame)
            for metric, name in NAMES.items()
            if metric in workload.metrics
            for k in workload.ks
        }
        frame.unpersist()
        return means

    return repeat
