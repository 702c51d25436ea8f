"""What is measured: pure numpy kernels and their registry. No Spark here."""

from spark_eval.metrics import ranking
from spark_eval.metrics.lists import Lists, Ragged
from spark_eval.metrics.registry import RANKING, RankingMetric, ranking_metrics

__all__ = ["RANKING", "Lists", "Ragged", "RankingMetric", "ranking", "ranking_metrics"]
