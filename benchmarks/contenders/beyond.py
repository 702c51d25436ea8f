"""Metrics beyond accuracy as libraries have them, and ours under the preset of each."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.spark import session
from benchmarks.workload import Task
from spark_eval import evaluate
from spark_eval.schema import ALL

# What is asked for under each preset, at all cutoffs of the workload where none is named.
METRICS: Final[Mapping[str, Sequence[str]]] = {
    "rectools": ("arp", "novelty", "serendipity", "catalog_coverage", "ild@10"),
    "recommenders": ("novelty_micro", "entropy", "catalog_coverage", "serendipity@10"),
    "replay": ("novelty", "catalog_coverage"),
}
# They measure everybody with a list.
POPULATION: Final = {"no_recommendations": "drop", "no_truth": "zero"}
IDS: Final = {"user": "user_id", "item": "item_id"}


def ours(preset: str, task: Task) -> Repetition:
    """``evaluate`` under a preset; per_user written."""
    spark = session(task)

    def repeat(folder: Path) -> Means:
        tables = read(spark, task)
        evaluation = evaluate(
            tables["recommendations"],
            tables["truth"],
            train=tables["train"],
            items=tables["items"] if preset == "rectools" else None,
            model="only",
            metrics=METRICS[preset],
            k=task.workload.ks,
            conventions={"preset": preset, **POPULATION},
            folder=str(folder / "per_user"),
        )
        rows = evaluation.metric_rows
        evaluation.unpersist()
        return {f"{row.metric}@{row.k}": row.value for row in rows if row.segment == ALL}

    return repeat


as_rectools = partial(ours, "rectools")
as_recommenders = partial(ours, "recommenders")
as_replay = partial(ours, "replay")


def read(spark: SparkSession, task: Task) -> dict[str, DataFrame]:
    """All tables by name."""
    names = ("recommendations", "truth", "train", "items")
    return {name: spark.read.parquet(str(task.folder / name)) for name in names}


def rectools(task: Task) -> Repetition:
    """Its calc_metrics, on pandas."""
    from rectools import metrics as known

    ks = task.workload.ks
    wanted = {f"arp@{k}": known.AvgRecPopularity(k) for k in ks}
    wanted |= {f"novelty@{k}": known.MeanInvUserFreq(k) for k in ks}
    wanted |= {f"serendipity@{k}": known.Serendipity(k) for k in ks}
    wanted |= {f"catalog_coverage@{k}": known.CatalogCoverage(k, normalize=True) for k in ks}

    def repeat(_: Path) -> Means:
        lists, truth, train, items = (
            pd.read_parquet(task.folder / name).rename(columns=IDS)
            for name in ("recommendations", "truth", "train", "items")
        )
        groups = pd.get_dummies(items.set_index("item_id")["features"].explode(), dtype=float)
        distances = known.PairwiseHammingDistanceCalculator(groups.groupby(level=0).max())
        found = known.calc_metrics(
            {**wanted, "ild@10": known.IntraListDiversity(10, distances)},
            reco=lists,
            interactions=truth,
            prev_interactions=train,
            catalog=items["item_id"].unique(),
        )
        return {name: float(value) for name, value in found.items()}

    return repeat


def recommenders(task: Task) -> Repetition:
    """Its SparkDiversityEvaluation, one for each cutoff."""
    from recommenders.evaluation.spark_evaluation import SparkDiversityEvaluation

    spark = session(task)

    def repeat(_: Path) -> Means:
        tables, means = read(spark, task), dict[str, float]()
        relevant = tables["truth"].select("user", "item", F.lit(1.0).alias("relevance"))
        lists = tables["recommendations"].join(relevant, ["user", "item"], "left").fillna(0.0, "relevance")
        for k in task.workload.ks:
            evaluation = SparkDiversityEvaluation(
                tables["train"],
                lists.where(F.col("rank") <= k),
                col_user="user",
                col_item="item",
                col_relevance="relevance",
            )
            means |= {
                f"novelty_micro@{k}": evaluation.novelty(),
                f"entropy@{k}": evaluation.distributional_coverage(),
                f"catalog_coverage@{k}": evaluation.catalog_coverage(),
            }
            if k == 10:
                means[f"serendipity@{k}"] = evaluation.serendipity()
        return means

    return repeat


def replay(task: Task) -> Repetition:
    """Its Surprisal and Coverage, on Spark."""
    from replay.metrics import Coverage, Surprisal

    spark, ks = session(task), list(task.workload.ks)
    columns = {"query_column": "user", "item_column": "item", "rating_column": "rating"}

    def repeat(_: Path) -> Means:
        tables = read(spark, task)
        rating = (-F.col("rank")).cast("double").alias("rating")
        lists = tables["recommendations"].select("user", "item", rating)
        surprisal = Surprisal(ks, **columns)(lists, tables["train"])
        coverage = Coverage(ks, **columns)(lists, tables["train"])
        means = {f"novelty@{k}": surprisal[f"Surprisal@{k}"] for k in ks}
        return means | {f"catalog_coverage@{k}": coverage[f"Coverage@{k}"] for k in ks}

    return repeat
