"""Types that Spark lacks, text that is not UTF-8, names of partitions, and Parquet files of no rows."""

from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_eval import evaluate, evaluate_predictions, split
from spark_eval.cli.init.samples import sample_of
from spark_eval.config.inputs import Source
from spark_eval.errors import DataError
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.sources.read import read_source

N: Final = 40
DAY: Final = 86_400
LOG = pa.table(
    {
        "user": pa.array(range(N)),
        "item": pa.array([n % 5 for n in range(N)]),
        "timestamp": pa.array([1_700_000_000 + n * DAY for n in range(N)]),
    }
)
CUTS: dict[str, Any] = {"local_cut": "20d", "global_cut": "5d", "timestamp_unit": "s"}
NO_TEXT = pa.Array.from_buffers(
    pa.string(), N, [None, pa.array(range(N + 1), pa.int32()).buffers()[1], pa.py_buffer(b"\xff" * N)]
)


def split_by(how: str, spark: SparkSession, rows: pa.Table, folder: Path) -> Any:
    """Read all rows of a split of a log, given in one of several ways."""
    pq.write_table(rows, folder / "0.parquet")
    log: Any = str(folder)
    if how == "config":
        log = read_source(spark, Source(path=str(folder), timestamp_unit="s"), "interactions", "UTC")
    elif how == "merged":
        log = spark.read.option("mergeSchema", "true").parquet(str(folder))
    elif how == "arrow":
        log = rows
    found = split(log, **CUTS)
    found.write(str(folder / "out"))
    return found.rows.collect()


@pytest.mark.parametrize("how", ["path", "config", "arrow"])
@pytest.mark.parametrize(
    "kind", [pa.decimal256(50), pa.time64("us"), pa.time64("ns"), pa.time32("ms")], ids=str
)
def test_a_column_that_spark_has_no_type_for(
    spark: SparkSession, tmp_path: Path, how: str, kind: pa.DataType
) -> None:
    values = [Decimal(1)] * N if pa.types.is_decimal(kind) else [1] * N
    with pytest.raises(DataError, match=r"UNSUPPORTED_TYPE.*interactions.*'extra'"):
        split_by(how, spark, LOG.append_column("extra", pa.array(values, kind)), tmp_path)


@pytest.mark.parametrize("how", ["path", "config", "merged", "arrow"])
def test_a_column_of_text_that_is_not_utf8(spark: SparkSession, tmp_path: Path, how: str) -> None:
    with pytest.raises(Exception, match="extra") as raised:
        split_by(how, spark, LOG.append_column("extra", NO_TEXT), tmp_path)
    error = named_spark_error(raised.value)
    assert (error.code, error.exit_code) == ("INVALID_TEXT", 3)


def test_integers_of_128_bits_are_not_damage(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    pl.DataFrame(LOG.to_pydict()).with_columns(pl.col("user").cast(pl.Int128).alias("wide")).write_parquet(
        path
    )
    with pytest.raises(DataError, match=r"UNSUPPORTED_TYPE.*0\.parquet.*more than 64 bits"):
        read_source(spark, Source(path=str(tmp_path)), "interactions", "UTC")
    with pytest.raises(DataError, match=r"UNSUPPORTED_TYPE.*0\.parquet.*more than 64 bits"):
        sample_of(str(path), "interactions")


# Names of models, and of the folders that hold them.
FOLDERS = {
    "é": "%C3%A9",
    "naïve": "naïve",
    "推荐": quote("推荐"),
    "a/b": "a%2Fb",
    "a+b": "a+b",
    "50%": "50%25",
    "a b": "a b",
    "Ã": quote("Ã"),
    "zürich": "z%C3%BCrich",
    "плюс+": quote("плюс") + "+",
}


@pytest.mark.parametrize("how", ["path", "config"])
def test_names_of_partitions_are_utf8(spark: SparkSession, tmp_path: Path, how: str) -> None:
    rows = pa.table({"user": [1, 2], "item": [1, 2], "rank": [1, 1]})
    for folder in FOLDERS.values():
        place = tmp_path / f"model={folder}"
        place.mkdir()
        pq.write_table(rows, place / "0.parquet")
    lists: Any = str(tmp_path)
    if how == "config":
        lists = read_source(spark, Source(path=lists), "recommendations", "UTC")
    assert sorted(evaluate(lists, rows, metrics=["precision"], k=[1]).models) == sorted(FOLDERS)
    assert sample_of(str(tmp_path), "recommendations").rows["model"][0].as_py() in FOLDERS


@pytest.mark.parametrize("how", ["path", "config"])
def test_ids_in_encoded_folders_meet_ids_in_columns(spark: SparkSession, tmp_path: Path, how: str) -> None:
    users = ["é", "naïve", "推荐", "plain", None]
    for user in users:
        place = tmp_path / f"user={quote(user or '__HIVE_DEFAULT_PARTITION__')}"
        place.mkdir()
        pq.write_table(pa.table({"item": [1], "rank": [1]}), place / "0.parquet")
    lists: Any = str(tmp_path)
    if how == "config":
        lists = read_source(spark, Source(path=lists), "recommendations", "UTC")
    truth = pa.table({"user": users[:-1], "item": [1] * 4})
    found = evaluate(lists, truth, model="m", metrics=["precision"], k=[1])
    assert {row.user: row.precision_at_1 for row in found.per_user.collect()} == dict.fromkeys(
        users[:-1], 1.0
    )


@pytest.mark.parametrize(
    ("folders", "says"),
    [(["%E9"], "not UTF-8"), (["Ã©", "%C3%A9"], "Spark takes folder")],
)
def test_ambiguous_names_of_partitions_are_refused(
    spark: SparkSession, tmp_path: Path, folders: list[str], says: str
) -> None:
    for folder in folders:
        (tmp_path / f"model={folder}").mkdir()
        pq.write_table(pa.table({"user": [1], "item": [1]}), tmp_path / f"model={folder}" / "0.parquet")
    for read in (
        lambda: read_source(spark, Source(path=str(tmp_path)), "recommendations", "UTC"),
        lambda: evaluate(str(tmp_path), pa.table({"user": [1], "item": [1]})),
    ):
        with pytest.raises(DataError, match=f"INVALID_PARTITION.*{says}"):
            read()


def no_groups(table: pa.Table, path: Path) -> None:
    pq.ParquetWriter(path, table.schema).close()


def empty_group(table: pa.Table, path: Path) -> None:
    """A row group without rows, and so without a page of a dictionary."""
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table.slice(0, 0))


def empty_group_without_dictionary(table: pa.Table, path: Path) -> None:
    pq.write_table(table.slice(0, 0), path, use_dictionary=False)


def empty_groups(table: pa.Table, path: Path) -> None:
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table.slice(0, 0))
        writer.write_table(table.slice(0, 0))


WRITERS = [no_groups, empty_group, empty_group_without_dictionary, empty_groups]


NAMES = ["0", "5", "9", "only"]


@pytest.mark.parametrize(
    ("write", "place"),
    [
        # Each writer and each place once in the slow ring, and one of them by default.
        pytest.param(
            write, place, marks=pytest.mark.exhaustive if row != column else pytest.mark.slow if row else []
        )
        for row, write in enumerate(WRITERS)
        for column, place in enumerate(NAMES)
    ],
)
@pytest.mark.usefixtures("spark")
def test_files_of_no_rows(tmp_path: Path, write: Any, place: str) -> None:
    """First, in the middle, last: what comes is as without them; alone they are an empty table by name."""
    rows = LOG.append_column("rank", pa.array([1] * N)).append_column("label", pa.array([1.0] * N))
    rows = rows.append_column("score", pa.array([0.5] * N)).append_column("groups", pa.array([["x"]] * N))
    rows = rows.append_column("shop", pa.array(["a", "b"] * (N // 2)))
    write(rows, tmp_path / f"{0 if place == 'only' else place}.parquet")
    if place != "only":
        pq.write_table(rows.slice(0, N // 2), tmp_path / "1.parquet")
        pq.write_table(rows.slice(N // 2), tmp_path / "6.parquet")
    path, whole = str(tmp_path), rows.to_pandas()
    items = pa.table({"item": range(5), "groups": [["x"]] * 5})
    tables = {"recommendations": whole, "truth": whole, "train": whole, "users": whole, "items": items}
    options: dict[str, Any] = {"metrics": ["precision", "arp", "exposure"], "k": [1], "segments": ["shop"]}

    def measured(given: dict[str, Any]) -> str:
        lists, truth, *more = given.values()
        known = dict(zip(("train", "users", "items"), more, strict=True))
        return repr(evaluate(lists, truth, model="m", **known, **options).metric_rows)

    if place == "only":
        for name in ("recommendations", "truth", "train"):
            with pytest.raises(DataError, match=f"EMPTY_{name.upper()}"):
                measured(tables | {name: path})
        with pytest.raises(DataError, match="EMPTY_INPUT"):
            split(path, **CUTS)
        with pytest.raises(DataError, match="EMPTY_PREDICTIONS"):
            evaluate_predictions(path, "regression", model="m", metrics=["mae"])
    else:
        assert measured(
            tables | dict.fromkeys(("recommendations", "truth", "train", "users"), path)
        ) == measured(tables)
        assert split(path, **CUTS).rows.count() == N
        [row] = evaluate_predictions(path, "regression", model="m", metrics=["mae"]).metric_rows
        assert row.value == 0.5
