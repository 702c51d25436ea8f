"""Columns of ``per_user``: the metric of each, and the sums over users."""

import re
from collections.abc import Sequence
from typing import Final

from spark_eval.conventions import CONVENTIONS
from spark_eval.conventions.choice import ColumnName
from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import find_name
from spark_eval.kernels.registry import RANKING, RankingMetric
from spark_eval.kernels.values import (
    COLUMN,
    FORM,
    MAX_K,
    UNCUT,
    WHOLE,
    MetricValue,
    Options,
    has_cutoff,
    parse_k,
    parse_options,
    without_metric,
)

METRIC_AT_K: Final = re.compile(rf".+(_at_|@)({WHOLE.pattern}|{UNCUT})")


def sum_of_columns(values: Sequence[MetricValue]) -> dict[str, tuple[str, ...]]:
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
    if cutoff != UNCUT and not (WHOLE.fullmatch(cutoff) and 1 <= int(cutoff) <= MAX_K):
        return None
    for name, metric in RANKING.items():
        if metric.is_of_users and (text == name or text.startswith(f"{name}_")):
            options = options_of_column(text.removeprefix(name), metric, metric.options)
            if options is not None:
                return MetricValue(metric, options, parse_k(cutoff))
    return None


def value_of_foreign_column(column: str) -> MetricValue | None:
    """Return the metric of a column in a foreign table: a mean's name, an alias and ``name@k`` are allowed.

    >>> [str(value_of_foreign_column(column)) for column in ("ap_at_5", "map_at_5", "HR@10", "country")]
    ['map@5', 'map@5', 'hit_rate@10', 'None']
    """
    value = value_of_column(column)
    for metric in RANKING.values():
        if value is None and column.startswith(f"{metric.run_name}_"):
            value = value_of_column(f"{metric.name}{column.removeprefix(metric.run_name)}")
    return value or value_of_text(column if "@" in column else "@".join(column.rsplit("_at_", 1)))


def value_of_text(text: str) -> MetricValue | None:
    """Parse a per-user metric from a text with a cutoff; return None for any other text."""
    form = FORM.fullmatch(text)
    if form is None or not has_cutoff(form):
        return None
    of_users = [metric for metric in RANKING.values() if metric.is_of_users]
    metric = find_name(form["name"], {name: one for one in of_users for name in (one.name, one.run_name)})
    try:
        options = parse_options(form["options"] or "", metric, text) if metric else ()
        return MetricValue(metric, options, parse_k(form["k"])) if metric else None
    except ConfigError:
        return None


def looks_like_metric(column: str) -> bool:
    """Return True if a column is named like a metric at a cutoff."""
    return METRIC_AT_K.fullmatch(column) is not None


def options_of_column(text: str, metric: RankingMetric, conventions: Sequence[str]) -> Options | None:
    """Parse the options in a column's name, such as ``_gain_exp2_ideal_list``; None if invalid."""
    if not text:
        return ()
    if (column := metric.column_option) and column in conventions:
        start = f"_{without_metric(column, metric)}_"
        if text.startswith(start) and COLUMN.fullmatch(text.removeprefix(start)):
            return ((column, ColumnName(text.removeprefix(start))),)
    for index, name in enumerate(one for one in conventions if one != metric.column_option):
        for choice in CONVENTIONS[name]:
            start = f"_{without_metric(name, metric)}_{choice}"
            if text.startswith(start):
                rest = options_of_column(text.removeprefix(start), metric, conventions[index + 1 :])
                if rest is not None:
                    return ((name, choice), *rest)
    return None
