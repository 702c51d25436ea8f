"""The door: the one crossing from Spark to Python and back, in Arrow batches, without a loop over users."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from spark_eval.conventions import Conventions
from spark_eval.metrics.lists import Ints, Lists, Ragged
from spark_eval.metrics.registry import RANKING, RankingMetric
from spark_eval.schema import (
    GRADE_COUNTS,
    GRADES,
    HIT_RANKS,
    HIT_RELEVANCES,
    MODEL,
    N_RECOMMENDED,
    N_RELEVANT,
    USER,
    metric_column,
)

# pyspark's stubs ask for the function type that its own run time deprecates in favour of type hints.
struct_udf = cast(Callable[..., Callable[..., Column]], pandas_udf)


def measure(
    population: DataFrame, metrics: Sequence[RankingMetric], ks: Sequence[int], conventions: Conventions
) -> DataFrame:
    """model, user, n_relevant, n_recommended and one double per metric and k; null where undefined.

    Ids do not cross. One pandas UDF computes all metrics and cutoffs of a batch of users.
    """
    names = [metric.name for metric in metrics]
    columns = [metric_column(name, k) for name in names for k in ks]

    def measure_batch(
        n_relevant: pd.Series,
        n_recommended: pd.Series,
        grades: pd.Series,
        grade_counts: pd.Series,
        hit_ranks: pd.Series,
        hit_relevances: pd.Series,
    ) -> pd.DataFrame:
        lists = Lists(
            n_relevant=n_relevant.to_numpy(np.int64),
            n_recommended=n_recommended.to_numpy(np.int64),
            hits=ragged(hit_ranks, hit_relevances),
            ideal=ideal(grades, grade_counts, max(ks)),
        )
        values = {
            metric_column(name, k): RANKING[name].kernel(lists, k, conventions) for name in names for k in ks
        }
        return pd.DataFrame(values)

    returned = ", ".join(f"{column} double" for column in columns)
    kernels = struct_udf(measure_batch, returned)
    inputs = [N_RELEVANT, N_RECOMMENDED, GRADES, GRADE_COUNTS, HIT_RANKS, HIT_RELEVANCES]
    measured = population.select(MODEL, USER, N_RELEVANT, N_RECOMMENDED, kernels(*inputs).alias("measured"))
    return measured.select(
        MODEL, USER, N_RELEVANT, N_RECOMMENDED, *(F.col(f"measured.{name}").alias(name) for name in columns)
    )


def flat(arrays: pd.Series, dtype: type[np.int64] | type[np.float64]) -> np.ndarray:
    """The arrays of a batch laid end to end."""
    return np.concatenate([np.empty(0, dtype), *arrays]).astype(dtype, copy=False)


def lengths(arrays: pd.Series) -> Ints:
    """How long each array of a batch is."""
    return np.fromiter((len(array) for array in arrays), np.int64, len(arrays))


def ragged(ranks: pd.Series, relevances: pd.Series) -> Ragged:
    """The hits of a batch of lists."""
    rows = np.repeat(np.arange(len(ranks), dtype=np.int64), lengths(ranks))
    return Ragged(len(ranks), rows, flat(ranks, np.int64), flat(relevances, np.float64))


def ideal(grades: pd.Series, counts: pd.Series, max_k: int) -> Ragged:
    """The best first ``max_k`` relevances of each user, unrolled from their run lengths."""
    of_user = np.repeat(np.arange(len(grades), dtype=np.int64), lengths(grades))
    repeats = np.minimum(flat(counts, np.int64), max_k)
    rows, relevances = np.repeat(of_user, repeats), np.repeat(flat(grades, np.float64), repeats)
    every = Ragged(len(grades), rows, np.empty(0, np.int64), relevances)
    best = every.number <= max_k
    return Ragged(len(grades), rows[best], every.number[best], relevances[best])
