"""Folds of a validation: an id carries the fold that it is in, so that rows of two folds never meet.

User 7 of fold 2 is ``{fold: 2, id: 7}`` on the way, another user than ``{fold: 3, id: 7}``: joins, groups and
counts by users and items are then those of each fold by itself, and all folds are measured in one pass.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.schema import FOLD, ITEM, USER
from spark_eval.transforms.inputs import Input

ID: Final = "id"


def fold_of(table: Input) -> dict[str, Column]:
    """The column ``fold`` as a long, where the table has one."""
    if not table.has(FOLD):
        return {}
    whole = table.typed(FOLD, (T.IntegralType,), "FOLD_NOT_INTEGER", "folds are whole numbers")
    return {FOLD: whole.cast("long")}


def carry(frame: DataFrame) -> DataFrame:
    """The table with user and item as ``struct<fold, id>``, null where either is; without ``fold``."""
    fold = F.col(FOLD)
    ids: dict[str, Column] = {
        name: F.when(fold.isNotNull() & F.col(name).isNotNull(), F.struct(FOLD, F.col(name).alias(ID)))
        for name in (USER, ITEM)
        if name in frame.columns
    }
    return frame.withColumns(ids).drop(FOLD)


def in_every_fold(frame: DataFrame, folds: Sequence[int]) -> DataFrame:
    """The table once per fold, with the column ``fold``."""
    return frame.select("*", F.explode(F.array(*(F.lit(fold).cast("long") for fold in folds))).alias(FOLD))


def set_down(population: DataFrame) -> DataFrame:
    """``user`` as it came, and its ``fold`` as an int."""
    return population.withColumns({FOLD: F.col(f"{USER}.{FOLD}").cast("int"), USER: F.col(f"{USER}.{ID}")})


def folds_in(frame: DataFrame) -> DataFrame:
    """fold: each one of a table, once; of a row without one, null."""
    return frame.select(FOLD).distinct()


def folds_of(users: DataFrame, *keys: str) -> DataFrame:
    """The ``keys``, fold: each that a table's users carry, once."""
    return users.select(*keys, F.col(f"{USER}.{FOLD}").alias(FOLD)).distinct()


def bare(frame: DataFrame, name: str) -> Column:
    """An id as it came, whether it carries a fold or not."""
    return F.col(f"{name}.{ID}" if isinstance(frame.schema[name].dataType, T.StructType) else name)
