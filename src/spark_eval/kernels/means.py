"""Means over users: plain means of metric values, and weighted ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_eval.kernels.values import MetricValue


@dataclass(frozen=True)
class WeightedMean(MetricValue):
    """A weighted mean over users of a metric's values; ``run_name`` is its name without options."""

    run_name: str

    @property
    def name(self) -> str:
        """Name with the options, as in the table ``metrics``."""
        return self.named(self.run_name)

    @property
    def weight(self) -> str:
        """Column of ``per_user`` with the users' weights."""
        return self.column_of(self.metric.weights[self.run_name].name)

    @property
    def columns(self) -> list[str]:
        """Columns in ``per_user``: values and weights."""
        return [self.column, self.weight]


def weighted_means(values: Iterable[MetricValue]) -> list[WeightedMean]:
    """Return the weighted means of metric values."""
    return [
        WeightedMean(value.metric, value.options, value.k, run_name)
        for value in values
        for run_name in value.metric.weights
    ]


def means_of_users(values: Sequence[MetricValue]) -> list[MetricValue]:
    """Return all means over users of metric values: plain ones, then weighted ones."""
    of_users = [value for value in values if value.metric.is_of_users]
    return [*of_users, *weighted_means(of_users)]
