"""Folds of a validation: a column of whole numbers; rows of two folds never meet."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from spark_eval.schema import FOLD
from spark_eval.transforms.inputs import Input


def fold_of(table: Input) -> dict[str, Column]:
    """The column ``fold`` as a long, where the table has one."""
    if not table.has(FOLD):
        return {}
    whole = table.typed(FOLD, (T.IntegralType,), "FOLD_NOT_INTEGER", "folds are whole numbers")
    return {FOLD: whole.cast("long")}


def folds_in(frame: DataFrame) -> DataFrame:
    """fold: each one of a table, once; of a row without one, null."""
    return frame.select(FOLD).distinct()
