"""Exact, order-independent sums over users: the same bits whatever the partitioning.

A sum of doubles depends on its order, a sum of integers does not. Each value is cut into integer limbs
(see ``stats.intervals``) that Spark sums as longs; the driver turns the sums into means.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_eval.schema import ALL, MISSING, MODEL, N_RECOMMENDED, N_RELEVANT, SEGMENT, SEGMENT_VALUE, USER
from spark_eval.stats.intervals import LARGEST, LIMB_BITS, UNIT_BITS
from spark_eval.transforms.inputs import quoted

N_LIMBS: Final = 3


def sum_of_keys() -> Column:
    """As ``batches.keys.key_sum``, over the rows of all models."""
    keys = F.xxhash64(F.col(MODEL).cast("string"), F.col(USER).cast("string"), N_RELEVANT, N_RECOMMENDED)
    return F.sum(keys.cast("decimal(20,0)"))


def limb_sums(per_user: DataFrame, values: Mapping[str, Column], segments: Sequence[str] = ()) -> DataFrame:
    """Exact sums of named values (doubles), for everybody and for each value of the segment columns.

    One row per model, segment, segment_value and column: n_users, n_defined, max, total and squares (arrays
    of limbs). A sum that outgrows 64 bits is null, never wrapped; a value whose square outgrows its limbs
    shows in ``max``. Values become rows first: a few sums over many rows are compiled and run several times
    faster than hundreds of sums over few. Users are summed once, by all segments together; the sums of
    these few cells then make those of each segment.
    """
    # Under names of our own: a segment may be called value.
    keys = {name: f"segment_{number}" for number, name in enumerate(segments)}
    segment_values = [F.col(quoted(name)).alias(key) for name, key in keys.items()]
    value_rows = F.posexplode(F.array(*values.values())).alias("place", "value")
    rows = per_user.select(MODEL, *segment_values, value_rows)
    value = F.col("value")
    parts = {f"total_{place}": limb for place, limb in enumerate(limbs(value))}
    parts |= {f"squares_{place}": limb for place, limb in enumerate(limbs(value * value))}
    cells = rows.groupBy(MODEL, *keys.values(), "place").agg(
        F.count("*").alias("n_users"),
        F.count(value).alias("n_defined"),
        F.max(value).alias("max"),
        *(F.try_sum(limb).alias(name) for name, limb in parts.items()),
    )
    sums = cells.select("*", F.explode(F.array(*cells_of(keys))).alias("cell")).select("*", "cell.*")
    if segments:
        sums = sums.groupBy(MODEL, SEGMENT, SEGMENT_VALUE, "place").agg(
            F.sum("n_users").alias("n_users"),
            F.sum("n_defined").alias("n_defined"),
            F.max("max").alias("max"),
            *(sum_of_sums(name).alias(name) for name in parts),
        )
    names = F.array(*map(F.lit, values))
    arrays = [
        F.array(*(name for name in parts if name.startswith(kind))).alias(kind)
        for kind in ("total", "squares")
    ]
    column = F.element_at(names, F.col("place") + 1).alias("column")
    return sums.select(MODEL, SEGMENT, SEGMENT_VALUE, column, "n_users", "n_defined", "max", *arrays)


def cells_of(segments: Mapping[str, str]) -> list[Column]:
    """The segments that a user is in: everybody, and one value of each segment (name: column)."""
    everybody = F.struct(F.lit(ALL).alias(SEGMENT), F.lit(ALL).alias(SEGMENT_VALUE))
    return [everybody] + [
        F.struct(
            F.lit(name).alias(SEGMENT),
            F.coalesce(F.col(key).cast("string"), F.lit(MISSING)).alias(SEGMENT_VALUE),
        )
        for name, key in segments.items()
    ]


def sum_of_sums(name: str) -> Column:
    """The sum of sums; null where one of them outgrew 64 bits, which is not the null of no value at all."""
    is_lost = F.col(name).isNull() & (F.col("n_defined") > 0)
    return F.when(F.count_if(is_lost) == 0, F.try_sum(F.coalesce(name, F.lit(0).cast("long"))))


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
