"""Metrics: pure numpy kernels and their registry. No Spark here.

The package is also the function ``spark_eval.metrics()``, which lists all metrics.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    import pandas as pd

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


class Metrics(ModuleType):
    """A module that lists the metrics when it is called."""

    def __call__(self) -> "pd.DataFrame":
        """Return one row per metric of lists and of predictions, as printed by ``spark-eval metrics``.

        Returns:
            A pandas frame: ``metric``, as accepted by ``metrics=[...]``; ``of`` (lists or predictions);
            ``column``, its name in ``per_user``; ``better``; ``formula``; ``options``; ``meaning``.

        Examples:
            >>> import spark_eval
            >>> spark_eval.metrics().query("metric == 'ndcg'")[["of", "better"]].to_numpy().tolist()
            [['lists', 'higher']]
        """
        frame: pd.DataFrame = import_module("spark_eval.cli.metric_tables").metric_frame()
        return frame


# ``spark_eval.metrics`` is both this package and a function, so the package must be callable.
sys.modules[__name__].__class__ = Metrics
