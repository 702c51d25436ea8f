"""Rows as JSON, against Spark's ``to_json``."""

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval.arrow.json_rows import rows_as_json

TEXTS = ["", "a", 'b"c\\', "tab\t\n\r\b\f", "\x00\x1f\x7f", "größe 東 🎲", "</x>", "\u2028"]
NUMBERS = [0.0, -0.0, 1.0, 0.1, 1e-3, 9.99e-4, 1e7, 9999999.0, 123456.789, 1e22, -1.5e-9, 1e100, 5.5e-300]
ROWS: dict[str, tuple[list[Any], pa.DataType]] = {
    "text": ([*TEXTS, None], pa.string()),
    "long": ([None, 0, -1, 1 << 62], pa.int64()),
    "double": ([*NUMBERS, float("nan"), float("inf"), -float("inf"), None], pa.float64()),
    "texts": ([["a", None, 'b"'], [], None, [None]], pa.list_(pa.string())),
    "doubles": ([[0.5, None, 1e9], [], None], pa.list_(pa.float64())),
    "floats": ([[0.1, 1e-5, 3.4e38]], pa.list_(pa.float32())),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_as_spark_writes_them(spark: SparkSession, name: str) -> None:
    values, kind = ROWS[name]
    rows = pa.table({"n": pa.array(range(len(values))), "x": pa.array(values, kind)})
    frame = spark.createDataFrame(rows)
    expected = frame.orderBy("n").select(F.to_json(F.struct("*")).alias("row")).toArrow()["row"].to_pylist()
    assert rows_as_json(rows).to_pylist() == expected


@given(st.integers(0, (1 << 64) - 1))
def test_doubles_come_back(bits: int) -> None:
    [number] = struct.unpack("<d", bits.to_bytes(8, "little"))
    [row] = rows_as_json(pa.table({"x": [number]})).to_pylist()
    assert str(number) == str(float(row.removeprefix('{"x":').removesuffix("}").strip('"')))
