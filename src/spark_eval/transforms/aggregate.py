"""Exact, order-independent sums over users: the same bits whatever the partitioning.

A sum of doubles depends on its order, a sum of integers does not. Each value is cut into integer limbs
(see ``stats.intervals``) that Spark sums as longs; the driver turns the sums into means.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.metrics.registry import RankingMetric
from spark_eval.schema import MODEL, metric_column
from spark_eval.stats.intervals import LIMB_BITS, UNIT_BITS

TOTAL = "total"
SQUARES = "squares"
# Values up to this bound fit two limbs with room for 2^31 users.
TWO_LIMBS = 16.0
# What three limbs hold: 2^62 units of the top one.
LARGEST = 2.0**66


def limb_sums(per_user: DataFrame, metrics: Sequence[RankingMetric], ks: Sequence[int]) -> DataFrame:
    """One wide row per model: n_users, and per metric and k how many are defined and the limbs' sums.

    Columns: ``<metric>_at_<k>.n``, ``….max``, ``….total.<i>``, ``….squares.<i>``. A sum that outgrows
    64 bits is null, never wrapped; a value whose square outgrows its limbs shows in ``max``.
    """
    sums = [F.count("*").alias("n_users")]
    for metric in metrics:
        for k in ks:
            name = metric_column(metric.name, k)
            value = F.col(name)
            sums.append(F.count(value).alias(f"{name}.n"))
            sums.append(F.max(value).alias(f"{name}.max"))
            for what, quantity in ((TOTAL, value), (SQUARES, value * value)):
                for place, limb in enumerate(limbs(quantity, metric.upper)):
                    sums.append(F.try_sum(limb).alias(f"{name}.{what}.{place}"))
    return per_user.groupBy(MODEL).agg(*sums)


def limbs(value: Column, upper: float | None) -> list[Column]:
    """Longs with value = sum of limb_i * 2^(32 i - 60), the smallest limb rounded half to even.

    All steps are exact: scaling by powers of two, and subtracting a truncation.
    """
    places = 2 if upper is not None and upper <= TWO_LIMBS else 3
    parts = []
    rest = F.when(value > LARGEST, LARGEST).otherwise(value)  # F.least would take LARGEST for null
    for place in range(places - 1, 0, -1):
        unit = 2.0 ** (LIMB_BITS * place - UNIT_BITS)
        limb = F.floor(rest / unit)
        parts.append(limb)
        rest = rest - limb * unit
    parts.append(F.rint(rest * 2.0**UNIT_BITS).cast("long"))
    return parts[::-1]
