"""Distribution of users over metric values: counts in bins of equal width, read in batches."""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_eval.arrow.files import BATCH_ROWS, named_read_errors
from spark_eval.arrow.user_files import check_no_nan, open_file
from spark_eval.kernels.columns import value_of_column
from spark_eval.kernels.values import MetricValue
from spark_eval.schema import MODEL

# Maximum number of metrics with a distribution: the first ones, each at its largest cutoff.
MOST_SPREAD: Final = 6
N_BINS: Final = 20
# Numbers of users by bin, by the column of a metric and by model.
Counts = dict[str, dict[str, Any]]


class UserCount(NamedTuple):
    """Number of users of a model with a value in [low, high); the last bin includes ``high``.

    Users with exactly 0 are counted separately, with ``low`` and ``high`` 0.
    """

    model: str
    measure: str
    low: float
    high: float
    users: int


def spread_values(columns: Sequence[str], measures: Collection[str] | None = None) -> list[MetricValue]:
    """Return the metrics with an upper bound among the columns of ``per_user``, at their largest cutoff.

    Only metrics in ``measures`` (``ndcg@10``) are returned, if given.
    """
    largest: dict[str, MetricValue] = {}
    for column in columns:
        value = value_of_column(column)
        if value is None or not value.metric.upper or math.isinf(value.metric.upper):
            continue
        if measures is not None and str(value) not in measures:
            continue
        metric = largest.setdefault(value.name, value)
        if metric.k is None or (value.k is not None and value.k > metric.k):
            largest[value.name] = value
    return list(largest.values())[:MOST_SPREAD]


def spread_of(
    dataset: ds.Dataset, measures: Collection[str] | None = None, *, is_published: bool = False
) -> tuple[list[UserCount], int]:
    """Return the counts of the files of ``per_user``, and their number of rows.

    ``dataset`` is partitioned by model. NaN in a published dataset is an error. Only one batch of the needed
    columns is in memory at a time.
    """
    values = spread_values(dataset.schema.names, measures)
    counts: Counts = {value.column: {} for value in values}
    n_rows = 0
    for fragment in dataset.get_fragments():
        model = str(ds.get_partition_keys(fragment.partition_expression).get(MODEL, ""))
        with named_read_errors(fragment.path), open_file(fragment.path, fragment.path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(counts), use_threads=False):
                if is_published:
                    check_no_nan(batch, fragment.path)
                n_rows += batch.num_rows
                count_values(counts, values, model, batch)
    return user_rows(counts, values), n_rows


def spread_of_table(per_user: pa.Table, measures: Collection[str] | None = None) -> list[UserCount]:
    """Return the counts of a table with the columns of ``per_user``, among them the model."""
    values = spread_values(per_user.column_names, measures)
    counts: Counts = {value.column: {} for value in values}
    for model in pc.unique(per_user[MODEL]).to_pylist():
        for batch in per_user.filter(pc.equal(per_user[MODEL], model)).select(list(counts)).to_batches():
            count_values(counts, values, model, batch)
    return user_rows(counts, values)


def count_values(counts: Counts, values: Sequence[MetricValue], model: str, batch: pa.RecordBatch) -> None:
    """Add the values of a batch of a model's users to ``counts``."""
    for value in values:
        numbers = pc.drop_null(batch[value.column]).to_numpy(zero_copy_only=False)
        of_value = counts[value.column]
        of_value[model] = of_value.get(model, 0) + binned(numbers, upper_bound(value))


def user_rows(counts: Counts, values: Sequence[MetricValue]) -> list[UserCount]:
    """Return the rows of all values, each with its models by name."""
    return [
        row
        for value in values
        for model in sorted(counts[value.column])
        for row in user_counts(model, value, counts[value.column][model].tolist())
    ]


def upper_bound(value: MetricValue) -> float:
    """Return the upper bound of a metric that has one."""
    return float(value.metric.upper or 1)


def binned(values: Any, upper: float, n_bins: int = N_BINS) -> Any:
    """Count the exact zeros, then the other values in bins of (0, upper]; shape (n_bins + 1,).

    NaN is ignored.

    >>> binned(np.array([0.0, 0.05, 0.5, 1.0, np.nan]), 1.0, 2).tolist()
    [1, 1, 2]
    """
    values = values[~np.isnan(values)]
    bins = np.minimum(np.floor(values * n_bins / upper), n_bins - 1).astype(np.int64) + 1
    return np.bincount(np.where(values == 0, 0, bins), minlength=n_bins + 1)


def user_counts(model: str, value: MetricValue, counts: Sequence[int]) -> Iterator[UserCount]:
    """Yield the counts of ``binned`` with the limits of their bins."""
    n_bins, upper = len(counts) - 1, upper_bound(value)
    for index, users in enumerate(counts):
        low, high = (0.0, 0.0) if index == 0 else ((index - 1) * upper / n_bins, index * upper / n_bins)
        yield UserCount(model, str(value), low, high, users)
