"""A zoo of folders, read by workers, Spark and one process: all give what is there, or refuse it alike."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from conformed import conformed_log, files_of_log
from opened_tables import conform_recommendations, opened
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from zoo import LISTS, LOG, PLAIN, PREDICTIONS, ZOO, Folder, under

from spark_eval.arrow.files import read_parts
from spark_eval.config.inputs import Recommendations, Source
from spark_eval.errors import SparkEvalError
from spark_eval.predictions.specs import specs_of
from spark_eval.runners.local_tables import conformed_here
from spark_eval.runners.rows import SparkRows
from spark_eval.runners.spread import collect_objects, map_batches
from spark_eval.runs.sections import PredictionsSection
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.sources.listing import fingerprint
from spark_eval.sources.plain import open_plain
from spark_eval.sources.read import read_source
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.inputs import conformed_on_spark
from spark_eval.tables.spec import Column, Kind, NotPlain, TableSpec
from spark_eval.tables.stored_files import StoredFiles

COLUMNS = {
    LOG: ["user", "item", "timestamp", "relevance"],
    LISTS: ["model", "user", "item", "score"],
    PREDICTIONS: ["label", "score", "weight"],
}
SOURCES: dict[str, type[Source]] = {LOG: Source, LISTS: Recommendations, PREDICTIONS: PredictionsSection}
Rows = list[tuple[Any, ...]]


def predictions_of(frame: DataFrame, source: Any) -> tuple[DataFrame, PlainFiles | StoredFiles | None]:
    """Conformed predictions, and the files that the workers read themselves."""
    specs = specs_of(source.checked(), source.model)
    return conformed_on_spark(specs, PREDICTIONS, frame, source.columns)


def conformed(frame: DataFrame, source: Any, table: str) -> DataFrame:
    """A source with our columns."""
    if table == LISTS:
        return conform_recommendations(frame, source.columns, source.model, source.layout)
    if table == PREDICTIONS:
        return predictions_of(frame, source)[0]
    return conformed_log(frame, source.columns, source.timestamp_unit, "UTC")


def plain(frame: DataFrame, source: Any, table: str) -> PlainFiles | StoredFiles | None:
    """The files that the workers read themselves."""
    if table == LISTS:
        return opened(frame, LISTS, source)[1]
    if table == PREDICTIONS:
        return predictions_of(frame, source)[1]
    return files_of_log(frame, source.columns, source.timestamp_unit, "UTC")


def by_spark(frame: DataFrame, names: list[str]) -> Rows:
    """The rows as Spark reads them, moments in microseconds."""
    columns = [F.unix_micros(name) if name == "timestamp" else F.col(name) for name in names]
    return in_order(tuple(row) for row in frame.select(*columns).collect())


def by_workers(files: PlainFiles | StoredFiles, names: list[str]) -> Rows:
    """The rows as the workers read them, of files or of their bytes."""
    if isinstance(files, StoredFiles):
        return of_bytes(files, names)
    parts = [part for task in files.tasks(2) for part in task]
    batches = list(read_parts(parts, files.columns))
    assert files.n_rows == sum(batch.num_rows for batch in batches)  # what accounting takes for them
    if not batches:
        return []
    rows = rows_of(pa.Table.from_batches(batches), names)
    coded = pa.Table.from_batches(list(read_parts(parts, files.columns, coded=True)))
    assert rows_of(coded, names) == rows
    return rows


def of_bytes(files: StoredFiles, names: list[str]) -> Rows:
    """The rows as the workers read them of bytes that Spark brings, text as codes and as text."""
    rows, found = SparkRows(files.groups[0], files), []
    for coded in (False, True):
        batches = collect_objects(map_batches(rows, lambda all_: ((None, one) for one in all_), coded=coded))
        found.append(in_order(row for one in batches for row in rows_of(pa.table(one), names)))
    assert found[0] == found[1]
    assert files.n_rows == len(found[0])
    return found[0]


def by_this_process(source: Source, table: str, names: list[str]) -> Rows:
    """The rows as an evaluation in this process reads them."""
    columns = [
        Column(
            name,
            Kind.NUMBER if name in ("relevance", "score") else Kind.ID,
            named=source.columns.get(name, name),
        )
        for name in names
    ]
    opened = open_plain(source, table, "UTC", (), None, no_session)
    spec = TableSpec(table, columns)
    return rows_of(conformed_here(lambda *_: spec, table, opened, {}).table(), names)


def no_session() -> SparkSession:
    """Fail: what this process takes is listed without Spark."""
    raise AssertionError("a session was opened")


def check_this_process(folder: Folder, source: Source, expected: Rows | str) -> bool:
    """This process reads the same rows as Spark, refuses them alike, or leaves them to Spark."""
    if isinstance(expected, str) and expected.startswith("TIMESTAMP"):
        return False  # no evaluation in this process reads timestamps
    names = [name for name in COLUMNS[folder.table] if name != "timestamp"]
    indices = [COLUMNS[folder.table].index(name) for name in names]
    try:
        found = told(partial(by_this_process, source, folder.table, names))
    except NotPlain:
        return False
    is_code = isinstance(expected, str) or isinstance(found, str)
    assert found == (expected if is_code else in_order([row[i] for i in indices] for row in expected))
    return not is_code


def rows_of(table: pa.Table, names: list[str]) -> Rows:
    """The rows of a table of Arrow, moments in microseconds."""
    columns = [
        table[name].cast(pa.timestamp("us")).cast(pa.int64()) if name == "timestamp" else table[name]
        for name in names
    ]
    return in_order(zip(*(column.to_pylist() for column in columns), strict=True))


def in_order(rows: Any) -> Rows:
    """Rows with numbers alike, sorted."""
    return sorted(
        tuple(float(v) if isinstance(v, int | float) or hasattr(v, "quantize") else v for v in row)
        for row in rows
    )


def told(make: Callable[[], Rows]) -> Rows | str:
    """Rows, or the code of the refusal."""
    try:
        return make()
    except (SparkEvalError, PySparkException, Py4JError) as error:
        return named_spark_error(error).code


def local_files(frame: DataFrame) -> list[str]:
    """The data files that Spark reads."""
    places = [unquote(urlsplit(place).path) for place in frame.inputFiles()]
    return [place for place in places if not place.rpartition("/")[2].startswith("_")]


def check_fingerprint(spark: SparkSession, source: Source, frame: DataFrame) -> None:
    """Every file that Spark reads is in the fingerprint, and no other; a change of any of them shows."""
    before = fingerprint(source, lambda: spark)
    files = local_files(frame)
    assert len(before) == len(files), (before, files)
    for file in files:
        os.utime(file, (0, 0))
    assert not set(before) & set(fingerprint(source, lambda: spark))


def look(spark: SparkSession, folder: Folder, home: Path) -> None:
    path = folder.make(spark, home / "data") or str(home / "data")
    source = SOURCES[folder.table](path=path, **folder.source)
    names = COLUMNS[folder.table]

    def read(way: str) -> Rows:
        asked = source.model_copy(update={"read": "bytes" if way == "bytes" else "auto"})
        frame = read_source(spark, asked, folder.table, "UTC")
        rows = conformed(frame, source, folder.table)
        files = plain(frame, source, folder.table)
        assert files is not None or folder.name not in PLAIN
        assert files is None or isinstance(files, StoredFiles) == (way == "bytes")
        if way != "spark" and files is not None:
            return by_workers(files, names)
        return by_spark(rows, names)

    with under(spark, folder.settings):
        found = {way: told(partial(read, way)) for way in ("workers", "bytes", "spark")}
        assert found["workers"] == found["spark"]
        assert found["bytes"] == found["spark"]
        if folder.table != PREDICTIONS and not folder.settings:  # runs with such settings are Spark's
            is_taken = check_this_process(folder, source, found["spark"])
            assert is_taken or folder.name not in PLAIN or folder.table == LOG
        if folder.code is not None:
            assert found["spark"] == folder.code
        elif folder.rows is not None:
            assert found["spark"] == rows_of(folder.rows, names)
        if not isinstance(found["spark"], str):
            check_fingerprint(spark, source, read_source(spark, source, folder.table, "UTC"))


@pytest.mark.parametrize(
    "folder",
    [pytest.param(f, id=f.name, marks=[] if f.is_quick else [pytest.mark.exhaustive]) for f in ZOO],
)
def test_both_readers_give_what_is_there_or_refuse_it(
    spark: SparkSession, tmp_path: Path, folder: Folder
) -> None:
    look(spark, folder, tmp_path)


def test_the_zoo_is_large() -> None:
    assert len(ZOO) >= 60
    assert len({folder.name for folder in ZOO}) == len(ZOO)
    assert {folder.name for folder in ZOO} > PLAIN
