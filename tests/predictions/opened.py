"""Predictions of Spark frames, as the door opens them."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from spark_eval.predictions.measure import PREDICTIONS, PredictionTable
from spark_eval.predictions.specs import specs_of, table_of
from spark_eval.predictions.task import PredictionPlan
from spark_eval.runners.door import tables_on_spark


def opened(
    frame: DataFrame,
    plan: PredictionPlan,
    model: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> PredictionTable:
    """A frame as conformed predictions."""
    rows = tables_on_spark({PREDICTIONS: frame}, specs_of(plan, model), {PREDICTIONS: columns or {}})
    return table_of(rows, plan, model)
