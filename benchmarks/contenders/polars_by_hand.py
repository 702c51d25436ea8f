"""The same table by Polars, lazily; one node, two threads."""

from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.contenders import Means, Repetition
from benchmarks.workload import Task, Workload


def prepare(task: Task) -> Repetition:
    """Nothing to prepare."""
    workload = task.workload

    def repeat(folder: Path) -> Means:
        recommendations = pl.scan_parquet(f"{task.recommendations}/*.parquet")
        truth = pl.scan_parquet(f"{task.truth}/*.parquet")
        target = folder / "per_user.parquet"
        per_user(recommendations, truth, workload).sink_parquet(target)
        means = pl.scan_parquet(target).select(pl.col(workload.columns).mean()).collect().row(0, named=True)
        return {column.replace("_at_", "@"): value for column, value in means.items()}

    return repeat


def per_user(recommendations: pl.LazyFrame, truth: pl.LazyFrame, workload: Workload) -> pl.LazyFrame:
    """The columns of one row per user with truth."""
    rank, depth = pl.col("rank"), max(workload.ks)
    near = recommendations.filter(rank <= depth)
    hits = near.join(truth, on=["user", "item"]).sort("user", "rank")
    numbered = hits.with_columns(number=pl.col("rank").cum_count().over("user"))
    sums = [
        expression
        for k in workload.ks
        for expression in (
            (rank <= k).sum().alias(f"hits_{k}"),
            (pl.col("number") / rank).filter(rank <= k).sum().alias(f"precisions_{k}"),
            (1 / (rank + 1).log(2)).filter(rank <= k).sum().alias(f"gains_{k}"),
        )
    ]
    hit_users = numbered.group_by("user").agg(*sums, rank.min().alias("first"))
    users = truth.group_by("user").agg(pl.len().cast(pl.Int64).alias("n_relevant"))
    lists = recommendations.group_by("user").agg(pl.len().cast(pl.Int64).alias("n_recommended"))
    rows = users.join(hit_users, on="user", how="left").join(lists, on="user", how="left")
    return rows.select(
        "user",
        "n_relevant",
        pl.col("n_recommended").fill_null(0),
        *(
            value(metric, k, depth).alias(f"{metric}_at_{k}")
            for metric in workload.metrics
            for k in workload.ks
        ),
    )


def value(metric: str, k: int, depth: int) -> pl.Expr:
    """One metric at one cutoff."""
    relevant, hits = pl.col("n_relevant"), pl.col(f"hits_{k}").fill_null(0)
    fillable = pl.min_horizontal(relevant, pl.lit(k))
    ideal = pl.lit(pl.Series((1 / np.log2(np.arange(2, depth + 2))).cumsum()))
    return {
        "precision": hits / k,
        "recall": hits / relevant,
        "ap": pl.col(f"precisions_{k}").fill_null(0) / fillable,
        "rr": pl.when(pl.col("first") <= k).then(1 / pl.col("first")).otherwise(0.0),
        "ndcg": pl.col(f"gains_{k}").fill_null(0) / ideal.gather(fillable - 1),
        "hit_rate": (hits > 0).cast(pl.Float64),
    }[metric]
