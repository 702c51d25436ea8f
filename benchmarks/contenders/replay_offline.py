"""RePlay's OfflineMetrics: the frames meet once, all metrics are taken from that."""

import warnings
from pathlib import Path

import polars as pl
from pyspark.sql import functions as F
from replay.metrics import MAP, MRR, NDCG, HitRate, OfflineMetrics, Precision, Recall

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.spark import read, session
from benchmarks.workload import Task, Workload

CLASSES = {"precision": Precision, "recall": Recall, "ap": MAP, "rr": MRR, "ndcg": NDCG, "hit_rate": HitRate}


def evaluator(workload: Workload) -> OfflineMetrics:
    """All metrics at all cutoffs."""
    warnings.filterwarnings("ignore", message="ground_truth contains queries")
    metrics = [CLASSES[metric](list(workload.ks)) for metric in workload.metrics]
    return OfflineMetrics(metrics, query_column="user", item_column="item", rating_column="rating")


def by_our_names(means: Means) -> Means:
    """``ndcg@10`` for ``NDCG@10``."""
    names = {kind.__name__: metric for metric, kind in CLASSES.items()}
    return {f"{names[name.split('@')[0]]}@{name.split('@')[1]}": value for name, value in means.items()}


def on_spark(task: Task) -> Repetition:
    """The session and the metrics."""
    spark, metrics = session(task), evaluator(task.workload)

    def repeat(_: Path) -> Means:
        recommendations, truth = read(spark, task)
        rated = recommendations.select("user", "item", (-F.col("rank")).cast("double").alias("rating"))
        return by_our_names(metrics(rated, truth))

    return repeat


def on_polars(task: Task) -> Repetition:
    """The metrics; no Spark."""
    metrics = evaluator(task.workload)

    def repeat(_: Path) -> Means:
        recommendations = pl.read_parquet(f"{task.recommendations}/*.parquet")
        rated = recommendations.select("user", "item", (-pl.col("rank")).cast(pl.Float64).alias("rating"))
        return by_our_names(metrics(rated, pl.read_parquet(f"{task.truth}/*.parquet")))

    return repeat
