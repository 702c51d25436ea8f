"""Inputs on stores that are not plain Parquet: the rows of the same files on a local disk."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import call
from tests.stores.chain import RUN, rows_of, tree_of, write_config, write_inputs
from tests.stores.conftest import put

from spark_eval.runs.job import Job
from spark_eval.runtime.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stores, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("store", ["on_hdfs", "on_s3"])
def test_orc_csv_and_partitions_have_the_rows_of_a_local_disk(
    store: str, spark: "SparkSession", tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    away = request.getfixturevalue(store)
    write_inputs(tmp_path / "in")
    rows = spark.read.parquet(str(tmp_path / "in" / "log"))
    rows = rows.selectExpr("*", "concat('shop ', user % 3) AS shop").repartition(2)
    kinds: dict[str, dict[str, Any]] = {
        "orc": {"format": "orc"},
        "csv": {"format": "csv", "options": {"header": True, "inferSchema": True}},
        "parquet": {},
    }
    for kind, source in kinds.items():
        folder = tmp_path / kind / "log"
        writer = rows.write.partitionBy("shop") if kind == "parquet" else rows.write
        writer.format(kind).option("header", True).save(str(folder))
        put(spark, folder, f"{away}/{kind}/log")
        for place in (str(tmp_path / kind), f"{away}/{kind}"):
            tree = tree_of(place, f"{place}/out", **({"manifest": True} if place.startswith("s3a") else {}))
            tree["interactions"] |= source
            config = write_config(tmp_path / "config.yaml", tree)
            done = call("split", "--config", config, "--run-id", RUN)
            assert (done.code, done.err) == (0, ""), done.err
        there = rows_of(spark, f"{away}/{kind}/out")
        assert there == rows_of(spark, str(tmp_path / kind / "out"))
        assert "shop" in there


@pytest.mark.parametrize("store", ["on_hdfs", "on_s3"])
def test_a_file_that_changes_amid_a_run_is_named(
    store: str, spark: "SparkSession", tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It is replaced once all is read, then removed before it is read: exit 3, and nothing is published."""
    away = request.getfixturevalue(store)
    write_inputs(tmp_path / "in")
    put(spark, tmp_path / "in", f"{away}/in")
    files, name = HadoopFiles(spark, f"{away}/out"), f"{away}/in/log/1.parquet"
    config = write_config(tmp_path / "c.yaml", tree_of(f"{away}/in", f"{away}/out", manifest=True))
    changes: dict[str, Callable[[], None]] = {
        "check_rest": lambda: put(spark, tmp_path / "in" / "lists" / "0.parquet", name),
        "read": lambda: files.remove(name),
    }
    for method, change in changes.items():
        original = getattr(Job, method)

        def changing(*arguments: Any, change: Any = change, original: Any = original, **named: Any) -> Any:
            change()
            return original(*arguments, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Job, method, changing)
            told = call("split", "--config", config, "--run-id", RUN)
        assert (told.code, told.error) == (3, "INPUT_CHANGED_DURING_RUN")
        assert files.names(f"{away}/out/_commits") == []
        put(spark, tmp_path / "in" / "log" / "1.parquet", name)
    assert call("split", "--config", config, "--run-id", RUN).code == 0


def test_what_is_removed_on_hdfs_is_not_kept_in_its_trash(on_hdfs: str, spark: "SparkSession") -> None:
    """The servers of the ring have a trash, which only the shell of HDFS fills."""
    files = HadoopFiles(spark, on_hdfs)
    assert files.write_new(f"{on_hdfs}/file", "text", f"{on_hdfs}/draft")
    home = files.context.getHomeDirectory().toString()
    files.remove(f"{on_hdfs}/file")
    assert not files.is_there(f"{on_hdfs}/file")
    assert not files.is_there(f"{home}/.Trash")
