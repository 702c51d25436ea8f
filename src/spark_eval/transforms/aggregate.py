"""Exact, order-independent sums over users: the same bits whatever the partitioning.

A sum of doubles depends on its order, a sum of integers does not. Each value is cut into integer limbs
(see ``stats.intervals``) that Spark sums as longs; the driver turns the sums into means.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.schema import MODEL
from spark_eval.stats.intervals import LIMB_BITS, UNIT_BITS

N_LIMBS: Final = 3
# What the limbs hold: 2^62 units of the top one.
LARGEST: Final = 2.0**66


def limb_sums(per_user: DataFrame, columns: Sequence[str]) -> DataFrame:
    """One row per model and column of doubles: n_users, n_defined, max, total and squares (arrays of limbs).

    A sum that outgrows 64 bits is null, never wrapped; a value whose square outgrows its limbs shows in
    ``max``. Columns become rows first: a few sums over many rows are compiled and run several times
    faster than hundreds of sums over few.
    """
    values = per_user.select(MODEL, F.posexplode(F.array(*columns)).alias("place", "value"))
    value = F.col("value")
    sums = values.groupBy(MODEL, "place").agg(
        F.count("*").alias("n_users"),
        F.count(value).alias("n_defined"),
        F.max(value).alias("max"),
        F.array(*map(F.try_sum, limbs(value))).alias("total"),
        F.array(*map(F.try_sum, limbs(value * value))).alias("squares"),
    )
    names = F.array(*map(F.lit, columns))
    return sums.withColumn("column", F.element_at(names, F.col("place") + 1)).drop("place")


def limbs(value: Column) -> list[Column]:
    """Longs with value = sum of limb_i * 2^(32 i - 60), the smallest limb rounded half to even.

    All steps are exact: scaling by powers of two, and subtracting a truncation.
    """
    parts = []
    rest = F.when(value > LARGEST, LARGEST).otherwise(value)  # F.least would take LARGEST for null
    for place in range(N_LIMBS - 1, 0, -1):
        unit = 2.0 ** (LIMB_BITS * place - UNIT_BITS)
        limb = F.floor(rest / unit)
        parts.append(limb)
        rest = rest - limb * unit
    parts.append(F.rint(rest * 2.0**UNIT_BITS).cast("long"))
    return parts[::-1]
