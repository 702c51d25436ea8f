"""Read the sources of a config as DataFrames: paths and formats are known here and nowhere else."""

import glob
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.batches.files import is_consistent
from spark_eval.config import Output, Scalar, Source
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.hadoop import HadoopFiles
from spark_eval.remote import RENAMES_WHOLE
from spark_eval.scan import CHECKSUMS
from spark_eval.schema import ITEM, SUBSET, SUBSETS, USER
from spark_eval.transforms.inputs import quoted

TEXT_FORMATS = ("csv", "json")
PARQUET: Final = "parquet"
# Spark reads damaged pages without a word unless it is told to look at their checksums.
VERIFIED: Final[dict[str, Scalar]] = {CHECKSUMS: True}
# Typed filters, which Spark can push into the scan.
COMPARISONS: Final[dict[str, Callable[[Column, Any], Column]]] = {
    "==": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, values: column.isin(values),
    "between": lambda column, bounds: column.between(*bounds),
    "is_null": lambda column, _: column.isNull(),
    "is_not_null": lambda column, _: column.isNotNull(),
}
CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


def read_source(spark: SparkSession, source: Source, name: str, splits: str, timezone: str) -> DataFrame:
    """The rows of a source: typed, filtered by ``where`` and ``subset``.

    ``splits`` is where this run's split lies, for sources that are a subset of it. Raises DataError
    MISSING_INPUT, EMPTY_INPUT, EMPTY_FILE, MISSING_SPLIT or MISSING_COLUMN, before any job runs.
    """
    if source.table is not None:
        frame = spark.read.table(source.table)
    elif source.path is None:
        local = local_path(splits)
        if not (HadoopFiles(spark, splits).is_there(splits) if local is None else local.is_dir()):
            raise DataError("MISSING_SPLIT", f"{name}: no split at {splits}; run `spark-eval split` first")
        check_footers(splits, name)
        frame = spark.read.options(**VERIFIED).parquet(splits)
    else:
        check_files(source.path, name)
        if source.format == PARQUET:
            check_footers(source.path, name)
        frame = (
            read_text(spark, source, timezone) if source.format in TEXT_FORMATS else read_files(spark, source)
        )
    if source.subset is not None:
        labels = [subset.value for subset in SUBSETS[source.subset]]
        frame = frame.where(named(frame, SUBSET, name).isin(labels))
    for condition in source.where:
        column = named(frame, condition.column, f"{name}.where")
        frame = frame.where(COMPARISONS[condition.op](column, condition.value))
    return frame


def read_files(spark: SparkSession, source: Source) -> DataFrame:
    """Parquet, ORC or any format on Spark's classpath."""
    options = (VERIFIED if source.format == PARQUET else {}) | source.options
    return spark.read.format(source.format).options(**options).load(source.path)


def read_text(spark: SparkSession, source: Source, timezone: str) -> DataFrame:
    """CSV or JSON, with the types that all its rows agree on, and ids that pass unchanged.

    Inference reads '007' as 7. So id columns of digits are read as text again and become integers only
    if every one is written canonically.
    """
    options: dict[str, Scalar] = {
        "inferSchema": True,
        "enforceSchema": False,
        "mode": "FAILFAST",
        "timeZone": timezone,
    }
    reader = spark.read.format(source.format).options(**(options | source.options))
    inferred = reader.load(source.path)
    ids = {source.columns.get(name, name) for name in (USER, ITEM)}
    digits = [f.name for f in inferred.schema if f.name in ids and isinstance(f.dataType, T.IntegralType)]
    as_text = T.StructType(
        [T.StructField(f.name, T.StringType() if f.name in digits else f.dataType) for f in inferred.schema]
    )
    frame = reader.schema(as_text).load(source.path)
    return frame.withColumns({name: canonical(name) for name in digits})


def canonical(name: str) -> Column:
    """Text as a long; a row written in any other way than the number prints fails the job by name."""
    text = F.col(quoted(name))
    fault = F.concat(
        F.lit(f"error[ID_NOT_CANONICAL] column {name}: '"),
        text,
        F.lit("' is no plain integer; write ids as text"),
    )
    return (
        F.when(text.rlike(CANONICAL_INTEGER), text.cast("long"))
        .when(text.isNotNull(), F.raise_error(fault).cast("long"))
        .alias(name)
    )


def named(frame: DataFrame, name: str, where: str) -> Column:
    """The column of this name; DataError MISSING_COLUMN with the nearest one."""
    if name not in frame.columns:
        raise DataError("MISSING_COLUMN", f"{where}: no column {name!r}; {nearest(name, frame.columns)}")
    return F.col(quoted(name))


def local_path(path: str) -> Path | None:
    """The path on this machine's file system, or None for another scheme."""
    parts = urlparse(path)
    if parts.scheme == "file":
        return Path(parts.path)
    return None if "://" in path else Path(path)


def data_files(path: str) -> list[tuple[str, Path]]:
    """The files that Spark reads for a local path or pattern, each by its name below it.

    Empty where nothing matches; hidden names (``_`` or ``.`` first) are not read.
    """
    found = []
    for top in sorted(glob.glob(path)) if glob.has_magic(path) and not Path(path).exists() else [path]:
        if Path(top).is_file():
            found.append((Path(top).name, Path(top)))
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(name for name in folders if not is_hidden(name))
            shown = (Path(folder, name) for name in sorted(files) if not is_hidden(name))
            found += [(str(file.relative_to(top)), file) for file in shown]
    return found


def is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def check_files(path: str, name: str) -> None:
    """Raise DataError for a missing path, a folder without data and files without a byte."""
    local = local_path(path)
    if local is None:
        return
    if not local.exists() and not glob.has_magic(path):
        raise DataError("MISSING_INPUT", f"{name}: {path!r} does not exist")
    files = data_files(str(local))
    if not files:
        raise DataError("EMPTY_INPUT", f"{name}: no data file at {path!r}")
    empty = [str(file) for _, file in files if file.stat().st_size == 0]
    if empty:
        raise DataError("EMPTY_FILE", f"{name}: {len(empty)} files without a byte, such as {empty[0]!r}")


def check_footers(path: str, name: str) -> None:
    """Raise DataError CORRUPT_FILE for local Parquet files without a footer, or with one that is at odds."""
    local = local_path(path)
    bad = [fault for _, file in ([] if local is None else data_files(str(local))) if (fault := damage(file))]
    if bad:
        raise DataError("CORRUPT_FILE", f"{name}: {len(bad)} files are damaged, such as {bad[0]}")


def damage(file: Path) -> str | None:
    """What is wrong with a Parquet file's footer, if anything is."""
    try:
        is_sound = is_consistent(pq.read_metadata(file))
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"{str(file)!r}: {error}"
    return None if is_sound else f"{str(file)!r}: its footer's numbers of rows do not agree"


def fingerprint(source: Source, splits: str, session: Callable[[], SparkSession]) -> list[object]:
    """What tells one content of a source from another: its files' names, sizes and times.

    Of a table of the catalog the names of its files, as far as it has any. ``session`` is asked for only
    where the source is not local.
    """
    if source.table is not None:
        return [source.table, *sorted(session().read.table(source.table).inputFiles())]
    path = source.path or splits
    local = local_path(path)
    if local is not None:
        states = [(name, file.stat()) for name, file in data_files(str(local))]
        return [[name, state.st_size, state.st_mtime_ns] for name, state in states]
    files = HadoopFiles(session(), path)
    return [
        [file.removeprefix(top), n_bytes, moment]
        for top in files.matching(path)
        for file, n_bytes, moment in sorted(files.files_below(top))
        if not any(map(is_hidden, file.removeprefix(top).split("/")))
    ]


def store_of(output: Output, session: Callable[[], SparkSession]) -> HadoopFiles | None:
    """The store that everything is written to; None where it is a folder of this machine or a mounted one.

    Raises ConfigError UNSUPPORTED_OUTPUT where tables would not appear in one step.
    """
    local = local_path(output.path)
    scheme = urlparse(output.path).scheme
    if not output.manifest and local is not None:
        return None
    if not output.manifest and scheme not in RENAMES_WHOLE:
        message = f"output.path {output.path!r}: {scheme} does not rename a folder in one step; "
        message += "set output.manifest: true, and read with spark_eval.read_published"
        raise ConfigError("UNSUPPORTED_OUTPUT", message)
    return HadoopFiles(session(), uri_of(output.path))


def local_root(output: Output) -> Path:
    """The folder of this machine that everything is written under, where ``store_of`` names no other."""
    return (local_path(output.path) or Path(output.path)).absolute()


def uri_of(path: str) -> str:
    """The path as Hadoop needs it to find the store."""
    local = local_path(path)
    return path if local is None else f"file://{local.absolute()}"


def check_inside(root: Path, folders: Iterable[Path]) -> None:
    """Raise ConfigError OUTSIDE_OUTPUT for a folder that a link leads out of the root."""
    for folder in folders:
        if not folder.resolve().is_relative_to(root.resolve()):
            message = f"{folder} leads to {folder.resolve()}, out of output.path; remove the link"
            raise ConfigError("OUTSIDE_OUTPUT", message)
