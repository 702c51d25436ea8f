"""What to measure, and by which rules: checked choices, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_eval.conventions import (
    Checks,
    Conventions,
    NoRecommendations,
    NoTruth,
    parse_choice,
    parse_conventions,
)
from spark_eval.errors import ConfigError
from spark_eval.metrics import RankingMetric, ranking_metrics
from spark_eval.schema import metric_column

DEFAULT_METRICS: Final = ("precision", "recall", "f1", "hit_rate", "map", "mar", "mrr", "arhr", "ndcg")
DEFAULT_K: Final = (1, 5, 10)
MAX_K: Final = 100_000


@dataclass(frozen=True)
class Plan:
    """The section ``evaluate`` of the config, checked."""

    metrics: Sequence[RankingMetric]
    k: Sequence[int]
    conventions: Conventions
    threshold: float | None
    no_recommendations: NoRecommendations
    no_truth: NoTruth
    checks: Checks

    @property
    def columns(self) -> list[str]:
        """The metric columns of ``per_user``: ``ap_at_1``, ``ap_at_5``, ..."""
        return [metric_column(metric.name, k) for metric in self.metrics for k in self.k]

    @property
    def stamp(self) -> str:
        """Conventions and population rules, as they stand on every output row."""
        rules = [f"no_recommendations={self.no_recommendations}", f"no_truth={self.no_truth}"]
        if self.threshold is not None:
            rules.append(f"relevance>={self.threshold}")
        return "; ".join([self.conventions.stamp(), *rules])


def make_plan(
    metrics: Sequence[str] = DEFAULT_METRICS,
    k: Sequence[int] | int = DEFAULT_K,
    conventions: Conventions | str | Mapping[str, str] = "default",
    threshold: float | None = None,
    no_recommendations: str = "zero",
    no_truth: str = "drop",
    checks: str = "hits",
) -> Plan:
    """Check the choices; raises ConfigError with the nearest allowed one."""
    ks = [k] if isinstance(k, int) else list(k)
    if not ks or not all(type(k) is int and 1 <= k <= MAX_K for k in ks):
        raise ConfigError("INVALID_K", f"evaluate.k is {k!r}; give whole numbers from 1 to {MAX_K}")
    if not metrics:
        raise ConfigError("NO_METRICS", "evaluate.metrics is empty; `spark-eval metrics` lists them")
    return Plan(
        metrics=ranking_metrics(metrics),
        k=sorted(set(ks)),
        conventions=parse_conventions(conventions),
        threshold=threshold,
        no_recommendations=parse_choice(NoRecommendations, no_recommendations, "evaluate.no_recommendations"),
        no_truth=parse_choice(NoTruth, no_truth, "evaluate.no_truth"),
        checks=parse_choice(Checks, checks, "evaluate.checks"),
    )
