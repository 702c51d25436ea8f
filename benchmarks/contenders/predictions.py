"""Log loss, AUC, area under the P-R curve, RMSE, accuracy and F1 of predictions."""

from pathlib import Path
from typing import Final

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.spark import finish, session
from benchmarks.workload import Task

OURS: Final = {
    "log_loss": "log_loss",
    "auc": "auc",
    "auprc": "auprc",
    "rmse": "rmse",
    "accuracy(threshold=0.5)": "accuracy",
    "f1(threshold=0.5)": "f1",
}
SCORED: Final = """
WITH rows AS (
    SELECT label, score, least(greatest(score, 1e-15), 1 - 1e-15) AS p FROM read_parquet('{place}/*.parquet')
), sums AS (
    SELECT count(*) AS n, sum(label) AS m,
        -avg(CASE WHEN label = 1 THEN ln(p) ELSE ln(1 - p) END) AS log_loss,
        sqrt(avg((label - score) ** 2)) AS rmse, avg(((score >= 0.5) = (label = 1))::INT) AS accuracy,
        sum(label) FILTER (score >= 0.5) AS tp, count(*) FILTER (score >= 0.5) AS flags
    FROM rows
), there AS (
    SELECT score, sum(label) AS positives, count(*) - sum(label) AS negatives FROM rows GROUP BY score
), above AS (
    SELECT positives, negatives, sum(positives) OVER best AS tp, sum(negatives) OVER best AS fp
    FROM there WINDOW best AS (ORDER BY score DESC ROWS UNBOUNDED PRECEDING)
), steps AS (
    SELECT *, lag(tp / (tp + fp)) OVER (ORDER BY tp + fp) AS before FROM above
), areas AS (
    SELECT sum(negatives * (tp - positives / 2)) AS pairs,
        sum(positives * (tp / (tp + fp) + coalesce(before, tp / (tp + fp))) / 2) AS area
    FROM steps
)
SELECT log_loss, pairs / (m * (n - m)) AS auc, area / m AS auprc, rmse, accuracy, 2 * tp / (flags + m) AS f1
FROM sums, areas
"""


def ours(task: Task) -> Repetition:
    """``evaluate_predictions``: one pass and one shuffle by score."""
    from spark_eval import evaluate_predictions

    spark = session(task)

    def repeat(_: Path) -> Means:
        names = [name.partition("(")[0] for name in OURS]
        found = evaluate_predictions(
            spark.read.parquet(task.predictions), "binary", model="only", metrics=names, conventions="spark"
        )
        values = dict(zip(found.metrics["metric"], found.metrics["value"], strict=True))
        assert len(found.accounting)
        return {name: values[known] for known, name in OURS.items()}

    return repeat


def floor(task: Task) -> Repetition:
    """The rows shuffled by score."""
    spark = session(task)

    def repeat(_: Path) -> None:
        finish(spark.read.parquet(task.predictions).repartitionByRange("score"))

    return repeat


def evaluators(task: Task) -> Repetition:
    """Spark's evaluators, one call each on a cached frame, areas at every distinct score."""
    from pyspark.ml.evaluation import (
        BinaryClassificationEvaluator,
        MulticlassClassificationEvaluator,
        RegressionEvaluator,
    )
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    spark = session(task)
    areas = {"auc": "areaUnderROC", "auprc": "areaUnderPR"}
    classes = {"log_loss": "logLoss", "accuracy": "accuracy", "f1": "fMeasureByLabel"}

    def repeat(_: Path) -> Means:
        score = F.col("score")
        frame = spark.read.parquet(task.predictions).select(
            F.col("label").cast("double").alias("label"),
            "score",
            array_to_vector(F.array(1 - score, score)).alias("probability"),
            (score >= 0.5).cast("double").alias("prediction"),
        )
        frame = frame.cache()
        found = {
            name: BinaryClassificationEvaluator(
                rawPredictionCol="score", metricName=metric, numBins=0
            ).evaluate(frame)
            for name, metric in areas.items()
        } | {
            name: MulticlassClassificationEvaluator(metricName=metric, metricLabel=1.0).evaluate(frame)
            for name, metric in classes.items()
        }
        found["rmse"] = RegressionEvaluator(predictionCol="score", metricName="rmse").evaluate(frame)
        frame.unpersist()
        return found

    return repeat


def scikit_learn(task: Task) -> Repetition:
    """scikit-learn on one node; its average precision is not Spark's area, and compared with nothing."""
    import pyarrow.parquet as pq
    from sklearn import metrics

    def repeat(_: Path) -> Means:
        rows = pq.read_table(task.predictions)
        label, score = (rows[name].to_numpy() for name in ("label", "score"))
        predicted = score >= 0.5
        return {
            "log_loss": float(metrics.log_loss(label, score)),
            "auc": float(metrics.roc_auc_score(label, score)),
            "average_precision": float(metrics.average_precision_score(label, score)),
            "rmse": float(metrics.root_mean_squared_error(label, score)),
            "accuracy": float(metrics.accuracy_score(label, predicted)),
            "f1": float(metrics.f1_score(label, predicted)),
        }

    return repeat


def duckdb_by_hand(task: Task) -> Repetition:
    """One query; one node, two threads."""
    import duckdb

    connection = duckdb.connect(config={"threads": 2})

    def repeat(_: Path) -> Means:
        names = ("log_loss", "auc", "auprc", "rmse", "accuracy", "f1")
        row = connection.execute(SCORED.format(place=task.predictions)).fetchone()
        return dict(zip(names, row, strict=True))

    return repeat
