"""Small tables in the driver, and objects collected from the executors."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import Dataset

from spark_eval.arrow.user_files import read_dataset
from spark_eval.names import folder_name
from spark_eval.schema import MODEL, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Rows in the driver, and the Spark schema of their table.
SmallRows = tuple[Sequence[Sequence[Value]], str]
# Arrow types by the names of ``schema.ddl_of``; Spark itself would parse them in a JVM.
ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
}


def small_table(spark: "SparkSession", rows: Sequence[Sequence[Value]], schema: str) -> "DataFrame":
    """Return rows as a frame, via Arrow: Spark would start Python workers to convert tuples."""
    return spark.createDataFrame(arrow_table(rows, schema))


def arrow_schema(schema: str) -> pa.Schema:
    """Return the Arrow types of a schema of ``ddl_of``."""
    named = [field.split(" ") for field in schema.split(", ")]
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in named])


def arrow_table(rows: Sequence[Sequence[Value]], schema: str) -> pa.Table:
    """Return rows as an Arrow table of a schema of ``ddl_of``; other fields of the rows are ignored."""
    fields = arrow_schema(schema)
    arrays = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in fields]
    return pa.Table.from_arrays(arrays, schema=fields)


def write_small(rows: Sequence[Sequence[Value]], schema: str, folder: Path, *, by_model: bool) -> None:
    """Write rows as Parquet, in one file or one per model. Spark's first write would take seconds."""
    write_rows(arrow_table(rows, schema), folder, by_model=by_model)


def write_rows(table: pa.Table, folder: Path, *, by_model: bool) -> None:
    """Write a table as Parquet to a new folder, in one file or one per model."""
    parts = {folder: table}
    if by_model:
        models = table[MODEL]
        parts = {
            folder / f"{MODEL}={folder_name(model)}": table.filter(pc.equal(models, model)).drop_columns(
                MODEL
            )
            for model in pc.unique(models).to_pylist()
        }
    for path, part in parts.items():
        path.mkdir(parents=True)
        pq.write_table(part, path / "part-0.parquet", write_page_checksum=True)


def is_of_spark(table: Any) -> bool:
    """Return True for a Spark frame, of a session here or behind Spark Connect."""
    return type(table).__module__.startswith("pyspark.")


def to_arrow(table: Any) -> pa.Table:
    """Return a Spark, pandas or polars frame, or a dataset of Arrow, as an Arrow table."""
    if is_of_spark(table):
        return table.toArrow()
    if isinstance(table, pd.DataFrame):
        return plain_texts(pa.Table.from_pandas(table, preserve_index=False))
    return read_dataset(table) if isinstance(table, Dataset) else pa.table(table)


def plain_texts(rows: pa.Table) -> pa.Table:
    """Return rows with text as ``string``: pandas 3 exports it as ``large_string``."""
    plain = [one.with_type(pa.string()) if pa.types.is_large_string(one.type) else one for one in rows.schema]
    return rows.cast(pa.schema(plain, rows.schema.metadata))
