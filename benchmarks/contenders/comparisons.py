"""p-values of the paired t test between two models, in every column of their tables of users."""

from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.spark import session
from benchmarks.data import MEASURED
from benchmarks.workload import Task

BASELINE, CANDIDATE = MEASURED


def ours(task: Task) -> Repetition:
    """Two tests of a table as ``evaluate`` writes it, whose files tell their buckets."""
    from spark_eval.comparison.compare import compare_sides
    from spark_eval.comparison.plan import make_compare_plan
    from spark_eval.comparison.sides import BaselineName, Side, Sides
    from spark_eval.kernels.columns import value_of_column
    from spark_eval.runners.rows import SparkRows
    from spark_eval.runners.user_buckets import UserTable

    spark, plan = session(task), make_compare_plan(tests=["t", "sign"])

    def repeat(_: Path) -> Means:
        per_user = spark.read.parquet(task.per_user)
        values = [value for name in per_user.columns if (value := value_of_column(name)) is not None]
        users = UserTable(SparkRows(per_user), folder=task.per_user)
        sides = Sides(spark, {}, Side(MEASURED, values, lambda: users), str)
        rows = compare_sides(sides, plan, BaselineName()).rows
        names = {(value.name, value.k): value.column for value in values}
        return {names[row.metric, row.k]: row.p_value or 0.0 for row in rows if row.test == "t"}

    return repeat


def frames(task: Task) -> Repetition:
    """``compare`` of a frame: its rows meet in an exchange."""
    from spark_eval import compare
    from spark_eval.kernels.columns import value_of_column

    spark = session(task)

    def repeat(_: Path) -> Means:
        per_user = spark.read.parquet(task.per_user)
        rows = compare(per_user, tests=["t", "sign"]).rows
        values = [value for name in per_user.columns if (value := value_of_column(name)) is not None]
        names = {(value.name, value.k): value.column for value in values}
        return {names[row.metric, row.k]: row.p_value or 0.0 for row in rows if row.test == "t"}

    return repeat


def floor(task: Task) -> Repetition:
    """Spark's sum of every column of each model."""
    spark = session(task)

    def repeat(_: Path) -> None:
        per_user = spark.read.parquet(task.per_user)
        per_user.groupBy("model").agg(*(F.sum(name) for name in task.workload.columns)).collect()

    return repeat


def tested(pair: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """One row: the p-value of the t test in every column, and that of the sign test."""
    from scipy import stats

    found = {}
    for name in columns:
        before, after = pair[name], pair[f"{name}_after"]
        found[name] = stats.ttest_rel(after, before).pvalue
        n_up, n_down = (int((np.rint(sign * (after - before) * 2**40) > 0).sum()) for sign in (1, -1))
        found[f"{name}_sign"] = stats.binomtest(n_up, n_up + n_down).pvalue
    return pd.DataFrame([found])


def apply_in_pandas(task: Task) -> Repetition:
    """What most people write first: the two models joined, and all rows of the pair in one pandas frame."""
    spark, columns = session(task), task.workload.columns

    def repeat(_: Path) -> Means:
        per_user = spark.read.parquet(task.per_user).select("model", "user", *columns)
        after = {name: f"{name}_after" for name in columns}

        def of(model: str) -> DataFrame:
            return per_user.where(F.col("model") == model).drop("model")

        pair = of(BASELINE).join(of(CANDIDATE).withColumnsRenamed(after), "user")
        schema = ", ".join(f"{name} double, {name}_sign double" for name in columns)
        grouped = pair.withColumn("pair", F.lit(0)).groupBy("pair")
        [row] = grouped.applyInPandas(lambda rows: tested(rows, columns), schema).collect()
        return {name: row[name] for name in columns}

    return repeat


def scipy_on_pandas(task: Task) -> Repetition:
    """One node: both models' rows joined in memory."""
    columns = task.workload.columns

    def repeat(_: Path) -> Means:
        before, after = (
            pd.read_parquet(f"{task.per_user}/model={model}", columns=["user", *columns])
            for model in MEASURED
        )
        pair = before.merge(after, on="user", suffixes=("", "_after"))
        row = tested(pair, columns).iloc[0]
        return {name: float(row[name]) for name in columns}

    return repeat


def ranx_compare(task: Task) -> Repetition:
    """The step of ranx's ``compare`` that tests, given the users' values in one order: t alone."""
    from ranx.statistical_tests import compute_statistical_significance

    columns = task.workload.columns

    def repeat(_: Path) -> Means:
        scores = {}
        for model in MEASURED:
            rows = pd.read_parquet(f"{task.per_user}/model={model}", columns=["user", *columns])
            rows = rows.sort_values("user")
            scores[model] = {name: rows[name].to_numpy() for name in columns}
        found = compute_statistical_significance(list(MEASURED), scores, "student")
        of_pair = found[frozenset(MEASURED)]
        return {name: float(of_pair[name]["p_value"]) for name in columns}

    return repeat
