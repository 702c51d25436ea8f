"""What most people write first: a Python function over the rows of each user."""

from pathlib import Path

import pandas as pd
from pyspark.sql import functions as F

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.one_user import measure_user
from benchmarks.contenders.spark import read, session, write_and_average
from benchmarks.workload import Task, Workload


def schema(workload: Workload) -> str:
    """Columns of the table that is written."""
    return ", ".join(["user long", "n_relevant long", *(f"{column} double" for column in workload.columns)])


def row(user: int, ranks: pd.Series, n_relevant: int, workload: Workload) -> pd.DataFrame:
    """One row of that table; none for a user without truth."""
    columns = ["user", "n_relevant", *workload.columns]
    if n_relevant == 0:
        return pd.DataFrame(columns=columns)
    values = measure_user(ranks.sort_values().to_numpy("int64"), n_relevant, workload)
    return pd.DataFrame([[user, n_relevant, *values]], columns=columns)


def apply_in_pandas(task: Task) -> Repetition:
    """Join first, then one group per user."""
    spark, workload = session(task), task.workload

    def measure(rows: pd.DataFrame) -> pd.DataFrame:
        relevant = rows[rows["relevant"].notna()]
        return row(rows["user"].iloc[0], relevant["rank"].dropna(), len(relevant), workload)

    def repeat(folder: Path) -> Means:
        recommendations, truth = read(spark, task)
        labelled = recommendations.join(truth.withColumn("relevant", F.lit(1)), ["user", "item"], "full")
        per_user = labelled.groupBy("user").applyInPandas(measure, schema(workload))
        return write_and_average(per_user, folder, workload)

    return repeat


def cogroup(task: Task) -> Repetition:
    """Both tables of each user, joined in Python."""
    spark, workload = session(task), task.workload

    def measure(recommended: pd.DataFrame, relevant: pd.DataFrame) -> pd.DataFrame:
        ranks = recommended["rank"][recommended["item"].isin(relevant["item"])]
        return row(relevant["user"].iloc[0] if len(relevant) else 0, ranks, len(relevant), workload)

    def repeat(folder: Path) -> Means:
        recommendations, truth = read(spark, task)
        both = recommendations.groupBy("user").cogroup(truth.groupBy("user"))
        return write_and_average(both.applyInPandas(measure, schema(workload)), folder, workload)

    return repeat
