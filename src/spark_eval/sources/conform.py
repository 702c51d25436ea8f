"""Read and conform the sources of a config; all that is wrong with their schemas comes at once."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_eval.engine.segments import user_columns
from spark_eval.errors import each
from spark_eval.metrics.options import Plan
from spark_eval.sources.read import read_source
from spark_eval.transforms.conform import (
    conform_interactions,
    conform_items,
    conform_recommendations,
    conform_train,
    conform_truth,
    conform_users,
)
from spark_eval.transforms.predictions import conform_predictions


def read_each(
    spark: SparkSession,
    sources: Mapping[str, Any],
    splits: str,
    timezone: str,
    plan: Plan,
    before: Mapping[str, Collection[str]],
    timed: bool = True,
) -> dict[str, tuple[DataFrame, DataFrame]]:
    """Each source as it is, and conformed; what is wrong with any of them comes in one DataError.

    ``before``: the names of each source's files when the run began. ``timed``: whether rows of
    ``interactions`` need a timestamp.
    """
    segments = {"users": user_columns(plan.segments)}
    if "predictions" in sources:
        segments["predictions"] = sources["predictions"].segments

    def read(name: str) -> tuple[DataFrame, DataFrame]:
        frame = read_source(
            spark, sources[name], name, splits, timezone, segments.get(name, ()), before.get(name)
        )
        return frame, conform(frame, name, sources[name], timezone, plan, timed)

    return each({name: partial(read, name) for name in sources})


def conform(frame: DataFrame, name: str, source: Any, timezone: str, plan: Plan, timed: bool) -> DataFrame:
    """Return a source with our columns, and a fault for each unusable row."""
    match name:
        case "recommendations":
            return conform_recommendations(frame, source.columns, source.model, source.layout)
        case "truth":
            return conform_truth(frame, source.columns, source.timestamp_unit, timezone, plan.conventions)
        case "train":
            return conform_train(frame, source.columns)
        case "users":
            return conform_users(frame, source.columns, plan.segments)
        case "items":
            return conform_items(frame, source.columns)
        case "predictions":
            return conform_predictions(frame, source.columns, source.model, source.checked()).given
    return conform_interactions(frame, source.columns, source.timestamp_unit, timezone, timed)
