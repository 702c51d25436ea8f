"""Means over users: plain means of metric values, weighted means, and means of a value over repeats."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_eval.kernels.registry import Weight
from spark_eval.kernels.values import MetricValue
from spark_eval.statistics.exact import Floats


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


@dataclass(frozen=True)
class MeanOverRepeats(MetricValue):
    """A mean over users of one value of all repeats of a model, such as a hit in each."""

    run_name: str

    @property
    def name(self) -> str:
        """Name with the options, as in the table ``metrics``."""
        return self.named(self.run_name)

    @property
    def column(self) -> str:
        """Name of its sums; ``per_user`` has the values under each repeat."""
        return self.column_of(self.run_name)

    @property
    def columns(self) -> list[str]:
        """Its only sums; no weighted mean has them."""
        return [self.column]

    @property
    def weights(self) -> dict[str, Weight]:
        """None: it has no weighted means."""
        return {}

    @property
    def of_each(self) -> str:
        """Column of the values under each repeat."""
        return self.column_of(self.metric.name)

    def reduced(self, values: Floats) -> Floats:
        """Return the value (n,) of users from those under each repeat (repeats, n); NaN if one is NaN."""
        return self.metric.over_repeats[self.run_name](values)


def means_over_repeats(values: Iterable[MetricValue]) -> list[MeanOverRepeats]:
    """Return the means of one value over repeats of metric values."""
    return [
        MeanOverRepeats(value.metric, value.options, value.k, run_name)
        for value in values
        for run_name in value.metric.over_repeats
    ]


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
