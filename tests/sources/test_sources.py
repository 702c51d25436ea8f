"""What Spark reads of a source: filters and columns reach the scan, whatever the format."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conformed import conformed_log
from frames import explained
from pyspark.sql import DataFrame, SparkSession

from spark_eval.config.inputs import Source
from spark_eval.errors import DataError
from spark_eval.sources.read import read_source

LOG = (
    "SELECT id % 5 AS user, id AS item, id % 3 AS stars, id * 86400 AS timestamp, 'x' AS note, "
    "date_add(DATE'2024-01-01', int(id % 4)) AS day FROM range(40)"
)
WHERE = [
    {"column": "day", "op": ">=", "value": "2024-01-03"},
    {"column": "stars", "op": "<=", "value": 1},
]


def read(spark: SparkSession, **source: Any) -> DataFrame:
    """A source of a config as ``split`` sees it."""
    given = Source(**{"columns": {"relevance": "stars"}, "timestamp_unit": "s", **source})
    frame = read_source(spark, given, "interactions", "UTC")
    return conformed_log(frame, given.columns, given.timestamp_unit, "UTC")


def told(frame: DataFrame) -> Mapping[str, str]:
    """What the one scan of a plan tells: PartitionFilters, PushedFilters, ReadSchema."""
    [scan] = [line for line in explained(frame).splitlines() if "FileScan" in line]
    lists = dict(re.findall(r"(\w+Filters): \[(.*?)\](?=, \w+: )", scan))
    return lists | {"ReadSchema": scan.partition("ReadSchema: ")[2]}


def check(frame: DataFrame) -> None:
    """Two of the four days, two of the three numbers of stars, the four columns that are asked for."""
    scan = told(frame.select("user", "item", "timestamp", "relevance"))
    assert re.search(r"\(day#\d+ >= 2024-01-03\)", scan["PartitionFilters"]), scan
    assert "LessThanOrEqual(stars,1)" in scan["PushedFilters"], scan
    columns = re.findall(r"[<,](\w+):", scan["ReadSchema"])
    assert sorted(columns) == ["item", "stars", "timestamp", "user"], scan
    rows = frame.collect()
    assert len(rows) == sum(n % 4 >= 2 and n % 3 <= 1 for n in range(40))
    assert {str(row["day"]) for row in rows} == {"2024-01-03", "2024-01-04"}


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json"])
def test_filters_and_columns_reach_the_scan_of_files(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    options = {"header": True} if kind == "csv" else {}
    log = spark.sql(LOG).coalesce(1)
    log.write.format(kind).options(**options).partitionBy("day").save(str(tmp_path / "log"))
    check(read(spark, path=str(tmp_path / "log"), format=kind, options=options, where=WHERE))


def test_filters_and_columns_reach_the_scan_of_a_table(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE sources_log USING orc PARTITIONED BY (day) AS {LOG}")
    try:
        check(read(spark, table="sources_log", where=WHERE))
    finally:
        spark.sql("DROP TABLE sources_log")


def test_options_count_for_a_table_too(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE sources_text USING csv AS SELECT 1L AS user, 7L AS item, 9L AS timestamp")
    try:
        found = [
            read(spark, table="sources_text", columns={}, options=options).collect()[0]["item"]
            for options in ({}, {"nullValue": "7"})
        ]
    finally:
        spark.sql("DROP TABLE sources_text")
    assert found == [7, None]


def test_another_format_is_read_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    rows = "".join(f"<row><user>00{n}</user><item>{n}</item><when>{n * 86400}</when></row>" for n in range(3))
    (tmp_path / "log.xml").write_text(f"<rows>{rows}</rows>", encoding="utf-8")
    source = {"path": str(tmp_path / "log.xml"), "format": "xml", "options": {"rowTag": "row"}}
    frame = read(spark, **source, columns={"timestamp": "when"})
    with pytest.raises(Exception, match=r"error\[ID_NOT_CANONICAL\] column user: '000'"):
        frame.collect()
    (tmp_path / "log.xml").write_text(f"<rows>{rows.replace('00', '')}</rows>", encoding="utf-8")
    frame = read(spark, **source, columns={"timestamp": "when"})
    assert sorted(row["user"] for row in frame.collect()) == [0, 1, 2]
    with pytest.raises(DataError, match="MISSING_COLUMN"):
        read(spark, **source)
