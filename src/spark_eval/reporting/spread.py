"""How users spread over the values of a metric: counts in bins of equal width, read batch by batch."""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_eval.arrow.files import named_read_errors
from spark_eval.arrow.user_files import check_no_nan
from spark_eval.metrics.columns import value_of_column
from spark_eval.metrics.values import MetricValue
from spark_eval.schema import MODEL

# Of so many metrics, the first ones, each at its largest cutoff.
MOST_SPREAD: Final = 6
N_BINS: Final = 20


class UserCount(NamedTuple):
    """So many users of a model have a value in [low, high), or high itself at the upper bound.

    Users with exactly 0 are counted apart: there ``low`` and ``high`` are 0.
    """

    model: str
    measure: str
    low: float
    high: float
    users: int


def spread_values(columns: Sequence[str], measures: Collection[str] | None = None) -> list[MetricValue]:
    """Return the metrics with an upper bound among the columns of ``per_user``, at their largest cutoff.

    Of ``measures`` (``ndcg@10``) alone, if they are given.
    """
    largest: dict[str, MetricValue] = {}
    for column in columns:
        value = value_of_column(column)
        if value is None or not value.metric.upper or math.isinf(value.metric.upper):
            continue
        if measures is not None and str(value) not in measures:
            continue
        known = largest.setdefault(value.name, value)
        if known.k is None or (value.k is not None and value.k > known.k):
            largest[value.name] = value
    return list(largest.values())[:MOST_SPREAD]


def spread_of(
    dataset: ds.Dataset, measures: Collection[str] | None = None, *, is_published: bool = False
) -> tuple[list[UserCount], int]:
    """Return the counts of files of ``per_user``, and the number of their rows.

    ``dataset`` is partitioned by model; NaN in a published one is an error. No more than a batch of
    some columns is in memory at once.
    """
    values = spread_values(dataset.schema.names, measures)
    counts: dict[str, dict[str, Any]] = {value.column: {} for value in values}
    n_rows = 0
    for fragment in dataset.get_fragments():
        model = str(ds.get_partition_keys(fragment.partition_expression).get(MODEL, ""))
        with named_read_errors(fragment.path):
            for batch in fragment.to_batches(columns=list(counts), batch_size=2**17):
                if is_published:
                    check_no_nan(batch, fragment.path)
                n_rows += batch.num_rows
                for value in values:
                    numbers = pc.drop_null(batch[value.column]).to_numpy(zero_copy_only=False)
                    found, of_value = binned(numbers, upper_bound(value)), counts[value.column]
                    of_value[model] = of_value.get(model, 0) + found
    lists = [(value, model) for value in values for model in sorted(counts[value.column])]
    rows = [user_counts(model, value, counts[value.column][model].tolist()) for value, model in lists]
    return [row for of_list in rows for row in of_list], n_rows


def upper_bound(value: MetricValue) -> float:
    """Return the upper bound of a metric that has one."""
    return float(value.metric.upper or 1)


def binned(values: Any, upper: float, n_bins: int = N_BINS) -> Any:
    """Count exact zeros first, then the other values in bins between 0 and ``upper``; NaN is left out.

    >>> binned(np.array([0.0, 0.05, 0.5, 1.0, np.nan]), 1.0, 2).tolist()
    [1, 1, 2]
    """
    values = values[~np.isnan(values)]
    places = np.minimum(np.floor(values * n_bins / upper), n_bins - 1).astype(np.int64) + 1
    return np.bincount(np.where(values == 0, 0, places), minlength=n_bins + 1)


def user_counts(model: str, value: MetricValue, counts: Sequence[int]) -> Iterator[UserCount]:
    """Yield the counts of ``binned`` with the ends of their bins."""
    n_bins, upper = len(counts) - 1, upper_bound(value)
    for place, users in enumerate(counts):
        low, high = (0.0, 0.0) if place == 0 else ((place - 1) * upper / n_bins, place * upper / n_bins)
        yield UserCount(model, str(value), low, high, users)
