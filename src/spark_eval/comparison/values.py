"""Values that are compared: metrics of lists at a cutoff, and metrics of predictions."""

from typing import TypeAlias

from spark_eval.kernels.values import MetricValue
from spark_eval.predictions.values import PredictionValue
from spark_eval.results.leaderboard import is_list_metric, list_direction
from spark_eval.schema import Direction

ComparedValue: TypeAlias = MetricValue | PredictionValue


def is_of_predictions(text: str) -> bool:
    """Return True if a text names a metric of predictions, and no metric of lists at a cutoff.

    >>> is_of_predictions("auc"), is_of_predictions("f1(threshold=0.5)"), is_of_predictions("f1@5")
    (True, True, False)
    """
    return PredictionValue.of(text) is not None and "@" not in text and not is_list_metric(text)


def compared_direction(metric: str) -> Direction:
    """Return the direction of better values of a metric in the table ``comparisons``.

    >>> compared_direction("ndcg"), compared_direction("log_loss")
    (<Direction.HIGHER: 'higher'>, <Direction.LOWER: 'lower'>)
    """
    value = PredictionValue.of(metric) if is_of_predictions(metric) else None
    return list_direction(metric) if value is None else value.metric.direction
