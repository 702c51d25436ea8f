"""Which files a source has: told without a session where that is sure, asked of Spark elsewhere."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from zoo import BASE, put

from spark_eval.config.inputs import Source
from spark_eval.errors import DataError
from spark_eval.runtime.local_files import local_path
from spark_eval.sources.listing import fingerprint
from spark_eval.sources.read import read_source


class Asked(Exception):
    """Somebody wanted a session."""


def no_session() -> SparkSession:
    raise Asked


def link(folder: Path) -> None:
    (folder / "1.parquet").symlink_to(folder / "0.parquet")


@pytest.mark.parametrize(
    ("path", "more", "options", "is_asked"),
    [
        ("log", lambda _: None, {}, False),
        ("file://HOME/log", lambda _: None, {}, False),
        ("log/0.parquet", lambda _: None, {}, False),
        ("log", lambda folder: put(folder / "day=1" / "0.parquet"), {}, False),
        ("log", lambda folder: (folder / "_SUCCESS").touch(), {}, False),
        ("no such", lambda _: None, {}, False),
        ("l?g", lambda _: None, {}, True),
        ("{log,b}", lambda _: None, {}, True),
        ("log", link, {}, True),
        ("log", lambda folder: put(folder / "old" / "0.parquet"), {}, True),
        ("log", lambda folder: (folder / "_spark_metadata").mkdir(), {}, True),
        ("log", lambda _: None, {"pathGlobFilter": "1*"}, True),
        ("hdfs://store/log", lambda _: None, {}, True),
    ],
)
def test_a_session_is_asked_for_only_where_a_walk_may_err(
    tmp_path: Path, path: str, more: Callable[[Path], object], options: dict[str, str], is_asked: bool
) -> None:
    put(tmp_path / "log" / "0.parquet")
    more(tmp_path / "log")
    place = path.replace("HOME", str(tmp_path)) if "://" in path else f"{tmp_path}/{path}"
    source = Source(path=place, options={**options})
    if is_asked:
        with pytest.raises(Asked):
            fingerprint(source, no_session)
    else:
        n_files = sum(file.is_file() and file.name[0] != "_" for file in (tmp_path / "log").rglob("*"))
        assert len(fingerprint(source, no_session)) == (0 if path == "no such" else n_files)


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("a/b", "a/b"),
        ("/a/day#2", "/a/day#2"),
        ("file:///a/day#2?x=%20", "/a/day#2?x=%20"),
        ("file:/a", "/a"),
        ("file://localhost/a", "/a"),
        ("file://elsewhere/a", None),
        ("hdfs:/a", None),
        ("s3a://bucket/a", None),
        ("/a/b:c", "/a/b:c"),
    ],
)
def test_a_path_is_taken_as_hadoop_takes_it(path: str, local: str | None) -> None:
    assert local_path(path) == (None if local is None else Path(local))


@pytest.mark.parametrize("change", ["came", "went"])
def test_files_that_come_or_go_before_they_are_read(spark: SparkSession, tmp_path: Path, change: str) -> None:
    files = [put(tmp_path / f"{number}.parquet", BASE) for number in range(3)]
    source = Source(path=str(tmp_path))
    before = [state[0] for state in fingerprint(source, no_session)]
    if change == "came":
        put(tmp_path / "9.parquet", BASE)
    else:
        files[0].unlink()
    with pytest.raises(DataError, match=r"INPUT_CHANGED.*: 1 files were added or removed"):
        read_source(spark, source, "interactions", "UTC", before=before)


def test_a_path_that_goes_up_is_the_folder_that_spark_lists(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "log" / "0.parquet", BASE)
    (tmp_path / "beside").mkdir()
    source = Source(path=f"{tmp_path}/beside/../log")
    before = [state[0] for state in fingerprint(source, no_session)]
    assert before == ["0.parquet"]
    assert read_source(spark, source, "interactions", "UTC", before=before).count() == len(BASE)
