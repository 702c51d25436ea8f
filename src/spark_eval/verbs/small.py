"""Rows that the driver holds, as a table."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema


def small_table(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: str) -> DataFrame:
    """Rows as a frame; ``schema`` is written as in SQL.

    Through Arrow: from tuples Spark would start Python workers to convert them.
    """
    kind: Any = T.StructType.fromDDL(schema)
    fields = to_arrow_schema(kind)
    columns = zip(*rows, strict=True) if rows else ([] for _ in fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    frame: DataFrame = spark.createDataFrame(pa.Table.from_arrays(arrays, schema=fields))
    return frame
