"""Metrics of predictions: rows of a label and a score. Pure numpy kernels over exact sums; no Spark here."""

from spark_eval.pointwise import classes, distances
from spark_eval.pointwise.registry import POINTWISE, PointwiseMetric

__all__ = ["POINTWISE", "PointwiseMetric", "classes", "distances"]
