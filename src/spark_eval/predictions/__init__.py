"""Evaluation of predictions, rows of a label and a score: plan, metrics, workers' code and result."""

from spark_eval.predictions import classes, distances
from spark_eval.predictions.registry import PREDICTION_METRICS, PredictionMetric

__all__ = ["PREDICTION_METRICS", "PredictionMetric", "classes", "distances"]
