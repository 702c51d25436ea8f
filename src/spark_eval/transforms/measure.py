"""The door: the one crossing from Spark to Python and back, in Arrow batches, without a loop over users."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from spark_eval.conventions import Conventions
from spark_eval.metrics import MetricValue, parse_metric
from spark_eval.metrics.lists import Floats, Held, Ints, Lists, Ragged
from spark_eval.schema import (
    GRADE_COUNTS,
    GRADES,
    HELD_PLACES,
    HELD_WITHIN,
    HIT_RANKS,
    HIT_RELEVANCES,
    HIT_TIE_FIRSTS,
    HIT_TIE_LASTS,
    MODEL,
    N_RECOMMENDED,
    N_RELEVANT,
    USER,
)

# pyspark's stubs ask for the function type that its own run time deprecates in favour of type hints.
struct_udf = cast(Callable[..., Callable[..., Column]], pandas_udf)


def measure(
    population: DataFrame,
    metrics: Sequence[MetricValue],
    conventions: Conventions,
    truth_depth: int | None,
    kept: Sequence[str] = (),
    held_cuts: Sequence[int] = (),
) -> DataFrame:
    """model, user, n_relevant, n_recommended, the columns ``kept``, and one double per metric value.

    Null where undefined. Ids do not cross. One pandas UDF computes all metrics and cutoffs of a batch of
    users. ``truth_depth`` is how many of a user's relevant items an ideal list can hold; None: all. Where the
    population has them, the items of each list were counted up to each of ``held_cuts``.
    """
    has_places = HELD_PLACES in population.columns

    def measure_batch(
        n_relevant: pd.Series,
        n_recommended: pd.Series,
        grades: pd.Series,
        grade_counts: pd.Series,
        hit_ranks: pd.Series,
        hit_relevances: pd.Series,
        tie_firsts: pd.Series,
        tie_lasts: pd.Series,
        held_places: pd.Series,
        held_within: pd.Series,
    ) -> pd.DataFrame:
        lists = Lists(
            n_relevant=n_relevant.to_numpy(np.int64),
            n_recommended=n_recommended.to_numpy(np.int64),
            hits=ragged(hit_ranks, hit_relevances),
            ideal=ideal(grades, grade_counts, truth_depth),
            tie_first=flat(tie_firsts, np.int64),
            tie_last=flat(tie_lasts, np.int64),
            held=Held(flat(held_places, np.int64), within(held_within, held_cuts)) if has_places else None,
        )
        measured: dict[str, Floats] = {}
        for text, k in texts:
            for value in parse_metric(text, [k]):
                measured |= value.measure(lists, conventions)
        return pd.DataFrame(measured)

    # Metrics cross to the workers as text: kernels are found there in the registry.
    texts = [(value.name, value.k) for value in metrics]
    columns = [column for value in metrics for column in value.columns]
    kernels = struct_udf(measure_batch, ", ".join(f"{column} double" for column in columns))
    # Without scores no two items tie: each hit's ties are its own rank.
    ranks = (HIT_TIE_FIRSTS, HIT_TIE_LASTS, HELD_PLACES, HELD_WITHIN)
    others = [name if name in population.columns else HIT_RANKS for name in ranks]
    inputs = [N_RELEVANT, N_RECOMMENDED, GRADES, GRADE_COUNTS, HIT_RANKS, HIT_RELEVANCES, *others]
    facts = [MODEL, USER, N_RELEVANT, N_RECOMMENDED, *kept]
    measured = population.select(*facts, kernels(*inputs).alias("measured"))
    return measured.select(*facts, *(F.col(f"measured.{name}").alias(name) for name in columns))


def flat(arrays: pd.Series, dtype: type[np.int64] | type[np.float64]) -> np.ndarray:
    """The arrays of a batch laid end to end."""
    return np.concatenate([np.empty(0, dtype), *arrays]).astype(dtype, copy=False)


def lengths(arrays: pd.Series) -> Ints:
    """How long each array of a batch is."""
    return np.fromiter((len(array) for array in arrays), np.int64, len(arrays))


def within(counts: pd.Series, cuts: Sequence[int]) -> dict[int, Ints]:
    """The counts of each list up to each of the cutoffs; 0 where there is no list."""
    table = np.zeros((len(counts), len(cuts)), dtype=np.int64)
    for row, numbers in enumerate(counts):
        table[row, : len(numbers)] = numbers
    return dict(zip(cuts, table.T, strict=True))


def ragged(ranks: pd.Series, relevances: pd.Series) -> Ragged:
    """The hits of a batch of lists."""
    rows = np.repeat(np.arange(len(ranks), dtype=np.int64), lengths(ranks))
    return Ragged(len(ranks), rows, flat(ranks, np.int64), flat(relevances, np.float64))


def ideal(grades: pd.Series, counts: pd.Series, depth: int | None) -> Ragged:
    """The best first ``depth`` relevances of each user, unrolled from their run lengths."""
    of_user = np.repeat(np.arange(len(grades), dtype=np.int64), lengths(grades))
    repeats = flat(counts, np.int64) if depth is None else np.minimum(flat(counts, np.int64), depth)
    rows, relevances = np.repeat(of_user, repeats), np.repeat(flat(grades, np.float64), repeats)
    every = Ragged(len(grades), rows, np.empty(0, np.int64), relevances)
    best = every.number <= (len(rows) if depth is None else depth)
    return Ragged(len(grades), rows[best], every.number[best], relevances[best])
