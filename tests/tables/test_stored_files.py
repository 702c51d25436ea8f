"""Files of a store: bytes that Spark brings, rows of Spark, and files of this machine give the same bits."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_eval import evaluate
from spark_eval.arrow.files import FileState
from spark_eval.errors import SparkEvalError
from spark_eval.evaluation.result import Evaluation
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.tables import stored_files
from spark_eval.tables.plain_files import listed_files, plain_files
from spark_eval.tables.stored_files import READ, StoredFiles, grouped

N_USERS, LENGTH = 300, 10


def lists_of(model: str) -> pa.Table:
    """Lists of all users, with equal scores and a user without an id."""
    chance = np.random.default_rng(len(model))
    users = np.repeat(np.arange(N_USERS), LENGTH)
    return pa.table(
        {
            "user": pa.array([None if user == 7 else int(user) for user in users], pa.int64()),
            "item": [f"é{item}" for item in chance.integers(0, 50, len(users))],
            "score": chance.integers(0, 5, len(users)) / 4,
            "model": [model] * len(users),
        }
    )


TRUTH = pa.table({"user": np.arange(N_USERS), "item": [f"é{user % 50}" for user in range(N_USERS)]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Lists of two models in five files, and the truth in one."""
    for model in ("a", "b"):
        for number, start in enumerate(range(0, N_USERS * LENGTH, 1300)):
            path = tmp_path / "lists" / f"{model}-{number}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(lists_of(model).slice(start, 1300), path, row_group_size=500)
    (tmp_path / "truth").mkdir()
    pq.write_table(TRUTH, tmp_path / "truth" / "0.parquet")
    return tmp_path


def values(result: Evaluation) -> list[Any]:
    """Users, means and accounting."""
    per_user: Any = result.per_user
    rows = per_user.select(*sorted(per_user.columns)).collect()
    found = [sorted(map(tuple, rows), key=str), sorted(result.metric_rows, key=str)]
    found.append(sorted(result.entries, key=str))
    result.unpersist()
    return found


def measured(spark: SparkSession, folder: Path, read: str) -> list[Any]:
    """The values of an evaluation of files that travel in this way."""

    def frame(name: str) -> DataFrame:
        return spark.read.option(READ, read).parquet(str(folder / name))

    return values(evaluate(frame("lists"), frame("truth"), metrics=["ndcg", "map"], k=[5]))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines on how files are read."""
    return [one.getMessage() for one in caplog.records if one.getMessage().startswith("read: ")]


def code_of(make: Callable[[], object]) -> str:
    """The code of the error that a call raises."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        make()
    error = raised.value
    return error.code if isinstance(error, SparkEvalError) else named_spark_error(error).code


def test_bytes_rows_of_spark_and_local_files_give_the_same_bits(
    spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "spark_eval")
    expected = measured(spark, folder, "auto")
    assert said(caplog) == []
    assert measured(spark, folder, "spark") == expected
    assert measured(spark, folder, "bytes") == expected
    assert said(caplog) == ["read: 6 files as bytes", "read: 1 file as bytes"]
    # The largest files are beyond the memory: Spark reads these, and both are put together.
    sizes = sorted(path.stat().st_size for path in (folder / "lists").iterdir())
    heap = stored_files.COPIES * sizes[2]
    monkeypatch.setattr(stored_files, "heap_of_task", lambda _: (heap, 2))
    monkeypatch.setattr(stored_files, "OPEN_BYTES", 0)
    caplog.clear()
    assert measured(spark, folder, "bytes") == expected
    n_small = sum(size <= sizes[2] for size in sizes)
    assert said(caplog)[0] == f"read: {n_small} files as bytes, {6 - n_small} by Spark (0 MB)"


def test_values_of_folders_come_with_bytes(spark: SparkSession, tmp_path: Path) -> None:
    for model in ("a", "b b"):
        path = tmp_path / "lists" / f"model={model}"
        path.mkdir(parents=True)
        pq.write_table(lists_of(model).drop_columns("model"), path / "0.parquet")
    (tmp_path / "truth").mkdir()
    pq.write_table(TRUTH, tmp_path / "truth" / "0.parquet")
    assert measured(spark, tmp_path, "bytes") == measured(spark, tmp_path, "spark")
    (tmp_path / "lists" / "model=b b").rename(tmp_path / "lists" / "model=%C3%A9")
    frame = spark.read.option(READ, "bytes").parquet(str(tmp_path / "lists"))
    assert isinstance(plain_files(frame, {"user": "user"}), StoredFiles)
    assert plain_files(frame, {"user": "user", "model": "model"}) is None  # Spark misreads the name


def test_whole_files_travel_where_most_of_their_bytes_are_needed(
    spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spark_eval")
    frame = spark.read.parquet(str(folder / "lists"))
    listed = listed_files(frame)
    assert listed is not None
    assert listed.choice == "auto"
    kinds = {"user": pa.int64(), "item": pa.string(), "score": pa.float64()}
    files = stored_files.stored_files(listed, {name: name for name in kinds}, pa.schema(kinds))
    assert files is not None
    assert files.n_rows == 2 * N_USERS * LENGTH
    assert not files.are_filled(["user"])
    assert files.are_filled(["item", "score"])
    assert said(caplog) == ["read: 6 files as bytes"]
    of_models = pa.schema({"model": pa.string()})
    assert stored_files.stored_files(listed, {"model": "model"}, of_models) is None
    assert said(caplog)[1] == "read: 6 files by Spark (0 MB)"
    assert plain_files(frame.where("score > 0"), {"user": "user"}) is None
    by_spark = spark.read.option(READ, "spark").parquet(str(folder / "lists"))
    assert plain_files(by_spark, {"user": "user"}) is None


def test_files_that_change_or_are_damaged_are_named(spark: SparkSession, folder: Path) -> None:
    def opened() -> StoredFiles:
        frame = spark.read.option(READ, "bytes").parquet(str(folder / "lists"))
        files = plain_files(frame, {"user": "user", "item": "item"})
        assert isinstance(files, StoredFiles)
        return files

    def read(files: StoredFiles) -> int:
        from spark_eval.runners.rows import SparkRows

        rows = SparkRows(files.groups[0], files)
        return rows.map(iter, pa.schema({"user": pa.int64(), "item": pa.string()})).count()

    files, path = opened(), folder / "lists" / "a-0.parquet"
    assert read(files) == files.n_rows
    content = path.read_bytes()
    pq.write_table(lists_of("a"), path)
    assert code_of(lambda: read(files)) == "INPUT_CHANGED_DURING_RUN"
    frame = spark.read.option(READ, "bytes").parquet(str(folder / "lists"))
    path.write_bytes(content)
    assert code_of(lambda: plain_files(frame, {"user": "user"})) == "INPUT_CHANGED_DURING_RUN"
    pq.write_table(lists_of("a"), path, write_page_checksum=True, compression="none")
    damaged = bytearray(path.read_bytes())
    damaged[200] ^= 1
    path.write_bytes(damaged)
    assert code_of(lambda: read(opened())) == "CORRUPT_FILE"


@pytest.mark.parametrize("read", ["auto", "bytes"])
def test_a_file_with_a_line_break_in_its_name_is_not_lost(
    spark: SparkSession, folder: Path, read: str
) -> None:
    path = folder / "lists" / "a-0.parquet"
    path.rename(path.with_name("a\n0.parquet"))
    frame = spark.read.option(READ, read).parquet(str(folder / "lists"))
    assert frame.count() == 2 * N_USERS * LENGTH
    files = plain_files(frame, {"user": "user"})
    assert files is None  # Spark reads it


def test_a_long_footer_is_read_whole(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_files, "TAIL_BYTES", 100)
    frame = spark.read.option(READ, "bytes").parquet(str(folder / "lists"))
    files = plain_files(frame, {"user": "user"})
    assert files is not None
    assert files.n_rows == 2 * N_USERS * LENGTH


@pytest.mark.parametrize("heap", [1 << 28, 1 << 30, 1 << 32])
def test_no_task_gets_more_bytes_than_its_share_of_the_heap_allows(heap: int) -> None:
    sizes = np.random.default_rng(heap).integers(1, heap // 4, 200).tolist()
    states = {str(number): FileState(n_bytes, 0) for number, n_bytes in enumerate(sizes)}
    most, n_tasks = heap // stored_files.COPIES, 4
    groups = grouped(states, heap, n_tasks)
    assert 0 < len(groups) <= stored_files.MOST_GROUPS
    for group in groups:
        total = sum(state.n_bytes + stored_files.OPEN_BYTES for state in group.values())
        of_task = min(stored_files.TASK_BYTES, max(stored_files.OPEN_BYTES, total // n_tasks))
        largest = max(state.n_bytes for state in group.values())
        assert max(of_task, largest) <= max(most, stored_files.TASK_BYTES)
        assert all(state.n_bytes <= most for state in group.values())
        assert most >= stored_files.TASK_BYTES or total <= most * n_tasks or len(group) == 1
