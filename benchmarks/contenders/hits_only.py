"""Floor iii: hits only, and nothing that looks after the data.

The truth is broadcast under one long key, recommendations are joined to their hits, a user's hits become
one mask of 64 bits, and a pandas UDF on plain columns computes all metrics. No list is counted, no repeat
found, no row accounted for; ids must fit 31 bits and k 64.
"""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from benchmarks.contenders import Means, Repetition
from benchmarks.contenders.spark import read, session, write_and_average
from benchmarks.workload import Task, Workload

# pyspark's stubs ask for the function type that its own run time deprecates in favour of type hints.
struct_udf = cast(Callable[..., Callable[..., Column]], pandas_udf)


def prepare(task: Task) -> Repetition:
    """The session and the kernel."""
    spark, workload = session(task), task.workload
    kernel = kernel_of(workload)
    pair = F.shiftleft("user", 32).bitwiseOR(F.col("item")).alias("pair")

    def repeat(folder: Path) -> Means:
        recommendations, truth = read(spark, task)
        near = recommendations.where(F.col("rank") <= max(workload.ks))
        bit: Column = F.call_function("shiftleft", F.lit(1).cast("long"), (F.col("rank") - 1).cast("int"))
        hits = near.select("user", pair, bit.alias("bit")).join(F.broadcast(truth.select(pair)), "pair")
        masks = hits.select("user", "bit", F.lit(0).cast("long").alias("relevant"))
        relevant = truth.select("user", F.lit(0).cast("long").alias("bit"), F.lit(1).alias("relevant"))
        users = masks.unionAll(relevant).groupBy("user")
        rows = users.agg(F.bit_or("bit").alias("mask"), F.sum("relevant").alias("n_relevant"))
        with_truth = rows.where("n_relevant > 0")
        measured = with_truth.select("user", "n_relevant", kernel("mask", "n_relevant").alias("measured"))
        return write_and_average(measured.select("user", "n_relevant", "measured.*"), folder, workload)

    return repeat


def kernel_of(workload: Workload) -> Callable[..., Column]:
    """All metrics of a batch of users from their masks."""
    depth, columns = max(workload.ks), workload.columns
    metrics, ks = workload.metrics, workload.ks

    def measure(mask: pd.Series, n_relevant: pd.Series) -> pd.DataFrame:
        places = np.arange(depth)
        hit = ((mask.to_numpy()[:, None] >> places) & 1).astype(np.float64)
        n_hits = hit.cumsum(axis=1)
        precisions = (hit * n_hits / (places + 1)).cumsum(axis=1)
        discount = 1 / np.log2(places + 2)
        gains, ideal = (hit * discount).cumsum(axis=1), discount.cumsum()
        first = np.where(n_hits[:, -1] > 0, hit.argmax(axis=1), depth)
        relevant = n_relevant.to_numpy()
        values: dict[str, NDArray[np.float64]] = {}
        for k in ks:
            fillable, hits = np.minimum(relevant, k), n_hits[:, k - 1]
            values |= {
                f"precision_at_{k}": hits / k,
                f"recall_at_{k}": hits / relevant,
                f"ap_at_{k}": precisions[:, k - 1] / fillable,
                f"rr_at_{k}": np.where(first < k, 1 / (first + 1), 0.0),
                f"ndcg_at_{k}": gains[:, k - 1] / ideal[fillable - 1],
                f"hit_rate_at_{k}": (hits > 0).astype(np.float64),
            }
        return pd.DataFrame(
            {f"{metric}_at_{k}": values[f"{metric}_at_{k}"] for metric in metrics for k in ks}
        )

    return struct_udf(measure, ", ".join(f"{column} double" for column in columns))
