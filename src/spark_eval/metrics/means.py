"""Means over users: of each metric value, and those in which users weigh."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_eval.conventions import Conventions
from spark_eval.metrics.registry import RankingMetric
from spark_eval.metrics.values import MetricValue


@dataclass(frozen=True)
class WeightedMean:
    """A weighted mean of a metric's values over users, by its name in ``metrics``; ``weight`` is a column."""

    of: MetricValue
    name: str
    weight: str

    def __str__(self) -> str:
        return f"{self.name}@{self.of.cutoff}"

    @property
    def metric(self) -> RankingMetric:
        """The metric that is averaged."""
        return self.of.metric

    @property
    def k(self) -> int | None:
        """Its cutoff."""
        return self.of.k

    @property
    def column(self) -> str:
        """The column of the values in ``per_user``."""
        return self.of.column

    @property
    def columns(self) -> list[str]:
        """Its columns in ``per_user``: the values, and what weighs."""
        return [self.column, self.weight]

    def conventions(self, run: Conventions) -> Conventions:
        """Return those of the values."""
        return self.of.conventions(run)


# What stands in ``metrics`` and follows from values of users.
MeanOfUsers = MetricValue | WeightedMean


def weighted_means(values: Iterable[MetricValue]) -> list[WeightedMean]:
    """Return the weighted means of metric values."""
    return [
        WeightedMean(value, name, weight)
        for value in values
        for name, weight in zip(value.weights, value.columns[1:], strict=True)
    ]


def means_of_users(values: Sequence[MetricValue]) -> list[MeanOfUsers]:
    """Return all means over users of metric values: plain ones, then weighted ones."""
    of_users = [value for value in values if value.metric.is_of_users]
    return [*of_users, *weighted_means(of_users)]
