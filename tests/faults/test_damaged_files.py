"""Flipped bits and truncated files: refused by name, or without any effect on the numbers."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_eval.errors import SparkEvalError
from spark_eval.runs.run import run_verb
from spark_eval.runs.sections import parse_config
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.schema import Table
from spark_eval.verbs import VERBS

Write = Callable[[SparkSession, pd.DataFrame, Path], None]
N_USERS = 40


def write_by_spark(spark: SparkSession, rows: pd.DataFrame, folder: Path) -> None:
    """As Spark writes: pages with checksums."""
    spark.createDataFrame(rows).coalesce(1).write.parquet(str(folder))


def write_by_arrow(_: SparkSession, rows: pd.DataFrame, folder: Path) -> None:
    """As Arrow writes, if it is asked for checksums; neither packed nor coded, so that any bit may count."""
    folder.mkdir()
    table = pa.Table.from_pandas(rows, preserve_index=False)
    pq.write_table(
        table, folder / "part.parquet", write_page_checksum=True, compression="none", use_dictionary=False
    )


def inputs(
    spark: SparkSession, home: Path, write: Callable[[SparkSession, pd.DataFrame, Path], None]
) -> None:
    """A log, lists and their truth."""
    draw = np.random.default_rng(5)
    users = np.repeat(np.arange(N_USERS), 10)
    lists = pd.DataFrame(
        {"user": users, "item": draw.integers(0, 30, len(users)), "score": draw.random(len(users))}
    )
    truth = pd.DataFrame({"user": users[::2], "item": draw.integers(0, 30, len(users) // 2)})
    log = truth.assign(timestamp=1_700_000_000 + draw.integers(0, 10**7, len(truth)))
    for name, rows in (("lists", lists), ("truth", truth), ("log", log)):
        write(spark, rows.drop_duplicates(["user", "item"]), home / name)


def results(spark: SparkSession, home: Path, out: Path, reader: str) -> list[pd.DataFrame]:
    """What is published of an evaluation and a split, of tables that the workers read, or Spark."""
    # The workers read no table with an option of Spark's.
    options = {} if reader == "workers" else {"options": {"mergeSchema": True}}
    config = parse_config(
        {
            "output": {"path": str(out)},
            "interactions": {"path": str(home / "log"), "timestamp_unit": "s", **options},
            "split": {"method": "global_local_ranker", "local_cut": 0.5, "global_cut": "20d"},
            "recommendations": {"path": str(home / "lists"), "model": "als", **options},
            "truth": {"path": str(home / "truth"), **options},
            "evaluate": {"k": [3, 10], "metrics": ["map", "ndcg"]},
        }
    )
    tables = []
    for verb, table, order in (
        ("evaluate", Table.METRICS, ["metric", "k"]),
        ("split", Table.SPLITS, ["timestamp", "user", "item"]),
    ):
        run_verb(VERBS[verb], lambda: spark, config, "a", False)
        tables.append(pq.read_table(out / table).to_pandas().sort_values(order, ignore_index=True))
    return tables


def damage(file: Path, chance: random.Random) -> str:
    """Flip one bit of a file, or cut it off."""
    data = bytearray(file.read_bytes())
    place = chance.randrange(len(data))
    if chance.random() < 0.3:
        file.write_bytes(data[:place])
        what = f"{file.parent.name} cut off at {place} of {len(data)}"
    else:
        bit = chance.randrange(8)
        data[place] ^= 1 << bit
        file.write_bytes(data)
        what = f"bit {bit} of byte {place} of {len(data)} of {file.parent.name} flipped"
    for crc in file.parent.glob(".*.crc"):  # of Hadoop's local file system, which no other reader knows
        crc.unlink()
    return what


@pytest.mark.brief
@pytest.mark.slow
@pytest.mark.parametrize("reader", ["workers", "spark"])
@pytest.mark.parametrize("write", [write_by_spark, write_by_arrow])
@pytest.mark.parametrize("n_trials", [5, pytest.param(25, marks=pytest.mark.exhaustive)])
def test_no_damage_gives_a_wrong_number(
    spark: SparkSession,
    tmp_path: Path,
    reader: str,
    write: Write,
    n_trials: int,
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    inputs(spark, whole, write)
    expected = results(spark, whole, tmp_path / "expected", reader)
    chance = random.Random(f"{reader} {write.__name__} {n_trials}")
    codes = []
    for number in range(n_trials):
        home = tmp_path / str(number)
        shutil.copytree(whole, home)
        [file] = (home / chance.choice(["lists", "truth", "log"])).glob("*.parquet")
        what = damage(file, chance)
        try:
            found = results(spark, home, tmp_path / f"out-{number}", reader)
        except Exception as error:
            named = named_spark_error(error)
            assert named.code not in ("UNEXPECTED", "SPARK_FAILED"), (what, named)
            assert isinstance(named, SparkEvalError)
            codes.append(named.code)
        else:
            for table, other in zip(found, expected, strict=True):
                pd.testing.assert_frame_equal(table, other, check_exact=True, obj=what)
            codes.append("no effect")
    print({code: codes.count(code) for code in sorted(set(codes))})
    assert codes.count("CORRUPT_FILE") > n_trials // 3
