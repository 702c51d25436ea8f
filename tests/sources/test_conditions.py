"""Conditions on rows: this process keeps those that Spark keeps, or leaves them to Spark."""

import math
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from test_delimited import here, there, told

from spark_eval.config.inputs import Source
from spark_eval.tables.spec import NotPlain

ROWS: Final = pa.table(
    {
        "user": [1, 2, 3, 4, 5],
        "item": ["a", "b", None, "ä", "B"],
        "timestamp": [10, 20, 30, 40, 50],
        "price": [0.5, math.nan, None, 2**53 + 2.0, -0.0],
        "small": pa.array([0.1, 1.0, None, math.inf, -1.0], pa.float32()),
        "is_new": [True, False, None, True, False],
    }
)
KEPT: Final[list[tuple[str, str, Any]]] = [
    *(("user", op, 3) for op in ("==", "!=", "<", "<=", ">", ">=")),
    *(("price", op, 0.5) for op in ("==", "!=", "<", "<=", ">", ">=")),
    *(("price", op, 0) for op in ("==", "!=", ">=", "<", "<=")),
    ("price", "in", [0, 0.5]),
    ("price", "between", [0, 1]),
    ("price", "between", [-1, 0.5]),
    ("price", ">", 2**53 + 1),
    ("small", "==", 0.1),
    ("small", ">", 1),
    ("user", "in", [1, 5, 9]),
    ("user", "<", 2.5),
    ("item", ">", "a"),
    ("item", "in", ["a", "ä"]),
    ("item", "between", ["A", "a"]),
    ("item", "is_null", None),
    ("price", "is_not_null", None),
    ("is_new", "==", True),
    ("is_new", "!=", True),
]


def source_with(tmp_path: Path, **changes: Any) -> Source:
    pq.write_table(ROWS, tmp_path / "p.parquet")
    return Source(path=str(tmp_path / "p.parquet"), timestamp_unit="s", **changes)


@pytest.mark.parametrize(("column", "op", "value"), KEPT)
def test_conditions_keep_the_rows_that_spark_keeps(
    spark: SparkSession, tmp_path: Path, column: str, op: str, value: Any
) -> None:
    source = source_with(tmp_path, where=[{"column": column, "op": op, "value": value}])
    found = told(partial(here, source))
    assert found is not None
    assert found == told(partial(there, spark, source))


@pytest.mark.parametrize(
    ("column", "op", "value"),
    [
        *(("user", "==", "3"), ("user", "<", 10**30)),
        *(("item", "==", 1), ("item", "in", ["a", 1])),
        ("is_new", "==", 1),
    ],
)
def test_values_of_other_types_are_left_to_spark(tmp_path: Path, column: str, op: str, value: Any) -> None:
    with pytest.raises(NotPlain, match=f"column {column} is compared with"):
        here(source_with(tmp_path, where=[{"column": column, "op": op, "value": value}]))
