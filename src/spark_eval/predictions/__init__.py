"""Metrics of predictions, rows of a label and a score: numpy kernels over exact sums, without Spark."""

from spark_eval.predictions import classes, distances
from spark_eval.predictions.registry import POINTWISE, PointwiseMetric

__all__ = ["POINTWISE", "PointwiseMetric", "classes", "distances"]
