"""Read and conform the sources of a config; all that is wrong with their schemas comes at once."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_eval.engine.segments import user_columns
from spark_eval.errors import each
from spark_eval.metrics.options import Plan
from spark_eval.sources.read import read_source
from spark_eval.transforms.conform import conform_interactions, conform_table
from spark_eval.transforms.predictions import conform_predictions


def read_each(
    spark: SparkSession,
    sources: Mapping[str, Any],
    timezone: str,
    plan: Plan,
    before: Mapping[str, Collection[str]],
    timed: bool = True,
) -> dict[str, tuple[DataFrame, DataFrame]]:
    """Return each source as it is, and conformed; one DataError tells what is wrong with any of them.

    ``before``: the names of each source's files when the run began. ``timed``: whether rows of
    ``interactions`` need a timestamp.
    """
    segments = {"users": user_columns(plan.segments)}
    if "predictions" in sources:
        segments["predictions"] = sources["predictions"].segments

    def read(name: str) -> tuple[DataFrame, DataFrame]:
        frame = read_source(spark, sources[name], name, timezone, segments.get(name, ()), before.get(name))
        return frame, conform(frame, name, sources[name], timezone, plan, timed)

    return each({name: partial(read, name) for name in sources})


def conform(frame: DataFrame, name: str, source: Any, timezone: str, plan: Plan, timed: bool) -> DataFrame:
    """Return a source with our columns, and a fault for each unusable row."""
    match name:
        case "interactions":
            return conform_interactions(frame, source.columns, source.timestamp_unit, timezone, timed)
        case "predictions":
            return conform_predictions(frame, source.columns, source.model, source.checked()).given
    return conform_table(frame, name, source, timezone, plan)
