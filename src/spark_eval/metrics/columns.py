"""Columns of ``per_user``: the metric of each, and the sums over users."""

from collections.abc import Sequence

from spark_eval.conventions import CONVENTIONS
from spark_eval.conventions.choice import Choice
from spark_eval.metrics.registry import RANKING, RankingMetric
from spark_eval.metrics.values import UNCUT, WHOLE, MetricValue, parse_k, without_metric


def summed(values: Sequence[MetricValue]) -> dict[str, tuple[str, ...]]:
    """Return the sums over users: names, with the columns of ``per_user`` that are multiplied.

    These are each value, each weight, and their products for the weighted means.
    """
    sums: dict[str, tuple[str, ...]] = {}
    for value in values:
        sums |= {column: (column,) for column in value.columns}
        sums |= {weighted(value, weight): (value.column, weight) for weight in value.columns[1:]}
    return sums


def weighted(value: MetricValue, weight: str) -> str:
    """Return the name of the product of a value and a weight."""
    return f"{value.column} * {weight}"


def value_of_column(column: str) -> MetricValue | None:
    """Return the metric of a column of ``per_user``; None for another column.

    >>> str(value_of_column("ap_denominator_relevant_at_5")), value_of_column("n_relevant")
    ('map(denominator=relevant)@5', None)
    """
    text, _, cutoff = column.rpartition("_at_")
    if cutoff != UNCUT and not WHOLE.fullmatch(cutoff):
        return None
    for name, metric in RANKING.items():
        if metric.is_of_users and (text == name or text.startswith(f"{name}_")):
            options = options_of_column(text.removeprefix(name), metric, metric.conventions)
            if options is not None:
                return MetricValue(metric, options, parse_k(cutoff))
    return None


def options_of_column(
    text: str, metric: RankingMetric, conventions: Sequence[str]
) -> tuple[tuple[str, Choice], ...] | None:
    """Parse the options in a column's name, such as ``_gain_exp2_ideal_list``; None if invalid."""
    if not text:
        return ()
    for index, name in enumerate(conventions):
        for choice in CONVENTIONS[name]:
            start = f"_{without_metric(name, metric)}_{choice}"
            if text.startswith(start):
                rest = options_of_column(text.removeprefix(start), metric, conventions[index + 1 :])
                if rest is not None:
                    return ((name, choice), *rest)
    return None
