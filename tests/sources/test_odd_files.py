"""Files that nobody would read, and what is no file: refused by name for every input, before any row."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from spark_eval import evaluate, evaluate_predictions, split
from spark_eval.cli.init.samples import sample_of
from spark_eval.config.inputs import Source
from spark_eval.errors import DataError
from spark_eval.sources.listing import fingerprint
from spark_eval.sources.read import read_source

ROWS = pd.DataFrame({"user": [1, 2, 3], "item": [1, 2, 3], "rank": [1, 1, 1]})
FORMATS: dict[str, tuple[Callable[[Path], object], dict[str, Any]]] = {
    "parquet": (lambda path: ROWS.to_parquet(path, index=False), {}),
    "orc": (lambda path: ROWS.to_orc(path, index=False), {}),
    "csv": (lambda path: ROWS.to_csv(path, index=False), {"header": True}),
    "json": (lambda path: ROWS.to_json(path, orient="records", lines=True), {}),
}
# Files of a folder, and those among them that Spark passes over.
LAYOUTS = {
    "a folder below": (["0", "more/1"], ["more/1"]),
    "folders below folders": (["0", "more/deep/1", "more/2"], ["more/2", "more/deep/1"]),
    "only folders below": (["more/0"], ["more/0"]),
    "beside partitions": (["0", "day=1/1", "day=2/2"], ["0"]),
    "a folder in a partition": (["day=1/0", "day=1/more/1"], []),
    "partitions": (["day=1/shop=2/0", "day=2/shop=2/1"], []),
}


def by_format() -> Iterator[Any]:
    """Each layout of Parquet, and by a pattern or of another format; the others repeat them."""
    others = [kind for kind in FORMATS if kind != "parquet"]
    for place, layout in enumerate(LAYOUTS):
        for kind, is_pattern in (("parquet", False), ("parquet", True), *((kind, False) for kind in others)):
            is_other = is_pattern if place % 2 else kind == others[place // 2]
            is_quick = is_other or (kind == "parquet" and not is_pattern)
            marks = [] if is_quick else [pytest.mark.exhaustive]
            yield pytest.param(kind, layout, is_pattern, marks=marks)


@pytest.mark.parametrize(("kind", "layout", "is_pattern"), list(by_format()))
def test_files_that_spark_passes_over(
    spark: SparkSession, tmp_path: Path, kind: str, layout: str, is_pattern: bool
) -> None:
    write, options = FORMATS[kind]
    files, unread = LAYOUTS[layout]
    top = tmp_path / "run=1" / "log"  # folders above the path name no partitions
    for name in files:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        write(top / f"{name}.{kind}")
    path = f"{tmp_path}/run=1/l?g" if is_pattern else str(top)
    source = Source(path=path, format=kind, options=options)
    if unread:
        with pytest.raises(
            DataError, match=f"interactions: .* skip {len(unread)} of {len(files)} files"
        ) as error:
            read_source(spark, source, "interactions", "UTC")
        assert error.value.code == "UNREAD_FILES"
        assert all(f"{top}/{name}.{kind}" in str(error.value) for name in unread)
    else:
        assert read_source(spark, source, "interactions", "UTC").count() == len(files) * len(ROWS)
    every = source.model_copy(update={"options": {**options, "recursiveFileLookup": True}})
    assert read_source(spark, every, "interactions", "UTC").count() == len(files) * len(ROWS)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("layout", [name for name, (_, unread) in LAYOUTS.items() if unread])
def test_paths_in_python_with_files_that_spark_passes_over(tmp_path: Path, layout: str) -> None:
    files, unread = LAYOUTS[layout]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        ROWS.to_parquet(tmp_path / f"{name}.parquet")
    for verb in verbs(str(tmp_path)):
        with pytest.raises(DataError, match=f"UNREAD_FILES.* skip {len(unread)} of {len(files)} files"):
            verb()


def verbs(path: Any) -> list[Callable[[], Any]]:
    return [
        lambda: evaluate(path, ROWS, model="m"),
        lambda: evaluate(ROWS, path, model="m"),
        lambda: split(path),
        lambda: evaluate_predictions(path, "binary", model="m"),
    ]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", [pipe, listening, device])
@pytest.mark.parametrize("where", ["path", "folder", "partition"])
def test_what_is_no_file_is_not_opened(
    spark: SparkSession, tmp_path: Path, make: Callable[[Path], None], where: str
) -> None:
    folder = tmp_path / ("day=1" if where == "partition" else "")
    folder.mkdir(exist_ok=True)
    ROWS.to_parquet(folder / "0.parquet")
    make(folder / "1.parquet")
    path = str(folder / "1.parquet" if where == "path" else tmp_path)
    source = Source(path=path)
    before = [state[0] for state in fingerprint(source, lambda: spark)]
    readers = [lambda: read_source(spark, source, "truth", "UTC", before=before), *verbs(path)]
    if make is not device:  # a link: only Spark follows those
        readers.append(lambda: sample_of(path, "truth"))
    if where != "path":
        frame = spark.read.schema("user long, item long, rank long").parquet(str(folder))
        readers.append(lambda: evaluate(frame, ROWS, model="m"))
    for read in readers:
        with pytest.raises(DataError, match=r"NOT_A_FILE.*1 are no files.*1\.parquet"):
            read()
