"""Metrics of predictions, rows of a label and a score: numpy kernels over exact sums, without Spark."""

from spark_eval.pointwise import classes, distances
from spark_eval.pointwise.registry import POINTWISE, PointwiseMetric

__all__ = ["POINTWISE", "PointwiseMetric", "classes", "distances"]
