"""Metrics: pure numpy kernels and their registry. No Spark here."""

from spark_eval.metrics import binary, graded, pairwise
from spark_eval.metrics.beyond import (
    counts,
    discovery,
    diversity,
    exposure,
    history,
    intents,
    popularity,
)
from spark_eval.metrics.lists import Lists, Ragged
from spark_eval.metrics.registry import RANKING, RankingMetric
from spark_eval.metrics.values import MetricValue, metric_values, parse_metric

__all__ = [
    "RANKING",
    "Lists",
    "MetricValue",
    "Ragged",
    "RankingMetric",
    "binary",
    "counts",
    "discovery",
    "diversity",
    "exposure",
    "graded",
    "history",
    "intents",
    "metric_values",
    "pairwise",
    "parse_metric",
    "popularity",
]
