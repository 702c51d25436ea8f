"""Microsoft recommenders on Spark: an evaluation object per cutoff, a call per metric."""

from pathlib import Path

from pyspark.sql import functions as F
from recommenders.evaluation.spark_evaluation import SparkRankingEvaluation

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.spark import read, session
from benchmarks.workload import Task

NAMES = {
    "precision": "precision_at_k",
    "recall": "recall_at_k",
    "ap": "map_at_k",
    "ndcg": "ndcg_at_k",
}


def prepare(task: Task) -> Repetition:
    """The session."""
    spark, workload = session(task), task.workload

    def repeat(_: Path) -> Means:
        recommendations, truth = read(spark, task)
        predicted = recommendations.withColumn("prediction", -F.col("rank").cast("double"))
        rated = truth.withColumn("rating", F.lit(1.0))
        means: dict[str, float] = {}
        for k in workload.ks:
            evaluation = SparkRankingEvaluation(
                rated, predicted, k=k, col_user="user", col_item="item", col_rating="rating"
            )
            means |= {
                f"{metric}@{k}": getattr(evaluation, name)()
                for metric, name in NAMES.items()
                if metric in workload.metrics
            }
        return means

    return repeat
