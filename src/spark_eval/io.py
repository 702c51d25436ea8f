"""Read the sources of a config as DataFrames: paths and formats are known here and nowhere else."""

import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.batches.files import is_consistent
from spark_eval.config import Scalar, Source
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.faults import renamed
from spark_eval.hadoop import HadoopFiles
from spark_eval.places import local_path
from spark_eval.scan import CHECKSUMS
from spark_eval.schema import FOLD, ITEM, MODEL, RANK, RELEVANCE, SCORE, SUBSET, SUBSETS, TIMESTAMP, USER
from spark_eval.transforms.inputs import quoted

TEXT_FORMATS = ("csv", "json", "xml")
PARQUET: Final = "parquet"
ORC: Final = "orc"
# Options of readers, and settings of the session, under which Spark loses files or rows without a word.
LOSSY_OPTIONS: Final = {"ignorecorruptfiles": "true", "ignoremissingfiles": "true", "mode": "dropmalformed"}
LOSSY_SETTINGS: Final = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
LIST_COLUMNS: Final = (USER, ITEM, MODEL, RANK, SCORE, FOLD)
LOG_COLUMNS: Final = (USER, ITEM, TIMESTAMP, RELEVANCE, FOLD)
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
    """The rows of a source: typed, filtered by ``where``, ``subset`` and ``fold``.

    ``splits`` is where this run's split lies, for sources that are a subset of it. Raises ConfigError
    LOSSY_OPTION, and DataError MISSING_INPUT, EMPTY_INPUT, EMPTY_FILE, CORRUPT_FILE, SCHEMA_DRIFT,
    MISSING_SPLIT, MISSING_COLUMN or what Spark finds, before a table is read.
    """
    check_lossless(spark, source, name)
    try:
        frame = read_place(spark, source, name, splits, timezone)
    except (PySparkException, Py4JError) as error:
        raise renamed(error, name) from error
    if source.subset is not None:
        labels = [subset.value for subset in SUBSETS[source.subset]]
        frame = frame.where(named(frame, SUBSET, name).isin(labels))
    if source.fold is not None:
        frame = frame.where(named(frame, FOLD, name) == source.fold)
    for condition in source.where:
        column = named(frame, condition.column, f"{name}.where")
        frame = frame.where(COMPARISONS[condition.op](column, condition.value))
    return frame


def read_place(spark: SparkSession, source: Source, name: str, splits: str, timezone: str) -> DataFrame:
    """All rows of a table, of this run's split, or of files, which are looked at first."""
    if source.table is not None:
        return spark.read.options(**source.options).table(source.table)
    if source.path is None:
        local = local_path(splits)
        if not (HadoopFiles(spark, splits).is_there(splits) if local is None else local.is_dir()):
            raise DataError("MISSING_SPLIT", f"{name}: no split at {splits}; run `spark-eval split` first")
        check_footers(splits, source, name)
        return spark.read.options(**VERIFIED).parquet(splits)
    check_files(source.path, name)
    if source.format in (PARQUET, ORC):
        check_footers(source.path, source, name)
    is_text = source.format in TEXT_FORMATS
    return read_text(spark, source, timezone) if is_text else read_files(spark, source)


def check_lossless(spark: SparkSession, source: Source, name: str) -> None:
    """Raise ConfigError LOSSY_OPTION where Spark is told to leave out what it cannot read."""
    found = [
        f"{name}.options.{option}: {value}"
        for option, value in source.options.items()
        if LOSSY_OPTIONS.get(option.lower()) == str(value).lower()
    ]
    found += [f"{key}: true" for key in LOSSY_SETTINGS if str(spark.conf.get(key, "false")).lower() == "true"]
    if found:
        message = f"{', '.join(found)}: what cannot be read would be left out without a word; remove it"
        raise ConfigError("LOSSY_OPTION", message)


def read_files(spark: SparkSession, source: Source) -> DataFrame:
    """Parquet, ORC or any format on Spark's classpath."""
    options = (VERIFIED if source.format == PARQUET else {}) | source.options
    return spark.read.format(source.format).options(**options).load(source.path)


def read_text(spark: SparkSession, source: Source, timezone: str) -> DataFrame:
    """CSV, JSON or XML, with the types that all its rows agree on, and ids that pass unchanged.

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
        start = "" if Path(path).is_absolute() or ":" in path else " (relative to the working folder)"
        mend = f"Fix `{name}.path`, or run the job that produces it"
        raise DataError("MISSING_INPUT", f"{name}: {path!r} not found{start}. {mend}")
    files = data_files(str(local))
    if not files:
        raise DataError("EMPTY_INPUT", f"{name}: no data file at {path!r}; run what writes it")
    empty = [str(file) for _, file in files if file.stat().st_size == 0]
    if empty:
        message = f"{name}: {len(empty)} files without a byte, such as {empty[0]!r}; write or remove them"
        raise DataError("EMPTY_FILE", message)


def check_footers(path: str, source: Source, name: str) -> None:
    """Raise DataError for local Parquet and ORC files that are damaged, or lack a column that others have.

    CORRUPT_FILE: without a footer, or with one that is at odds. SCHEMA_DRIFT: Spark would fill the column
    with nulls, or leave it out where it is. Columns of no concern may come and go.
    """
    local = local_path(path)
    held, damaged = dict[str, set[str]](), []
    for _, file in [] if local is None else data_files(str(local)):
        try:
            held[str(file)] = {column.lower() for column in columns_in(file, source.format)}
        except (OSError, ValueError, pa.ArrowException) as error:
            damaged.append(f"{str(file)!r}: {error}")
    faults = []
    if damaged:
        message = f"{name}: {len(damaged)} files are damaged, such as {damaged[0]}; write them again"
        faults.append(DataError("CORRUPT_FILE", message))
    options = {option.lower(): value for option, value in source.options.items()}
    for column in [] if options.get("mergeschema") else columns_of(source, name):
        without = [file for file, columns in held.items() if column.lower() not in columns]
        if 0 < len(without) < len(held):
            message = f"{name}: {len(without)} of {len(held)} files have no column {column!r}, such as "
            message += f"{without[0]!r}; write all with one schema, or take nulls with options.mergeSchema"
            faults.append(DataError("SCHEMA_DRIFT", message))
    DataError.raise_all(faults)


def columns_in(file: Path, file_format: str) -> list[str]:
    """The columns that a file's footer names; raises where the footer is damaged."""
    if file_format == ORC:
        import pyarrow.orc

        return list(pyarrow.orc.ORCFile(file).schema.names)
    footer = pq.read_metadata(file)
    if not is_consistent(footer):
        raise ValueError("its footer's numbers of rows do not agree")
    return list(footer.schema.to_arrow_schema().names)


def columns_of(source: Source, name: str) -> list[str]:
    """The columns of a source that matter to us, by their own names."""
    ours = LIST_COLUMNS if name == "recommendations" else LOG_COLUMNS
    return [source.columns.get(column, column) for column in {*ours, *source.columns}]


def fingerprint(source: Source, splits: str, session: Callable[[], SparkSession]) -> list[tuple[Any, ...]]:
    """What tells one content of a source from another: its files' names, sizes and times.

    Of a table of the catalog the names of its files, as far as it has any. ``session`` is asked for only
    where the source is not local.
    """
    if source.table is not None:
        spark = session()
        is_there = spark.catalog.tableExists(source.table)  # where it is not, reading it says so
        names = spark.read.table(source.table).inputFiles() if is_there else []
        return [(source.table,), *((name,) for name in sorted(names))]
    path = source.path or splits
    local = local_path(path)
    if local is not None:
        states = [(name, file.stat()) for name, file in data_files(str(local))]
        return [(name, state.st_size, state.st_mtime_ns) for name, state in states]
    files = HadoopFiles(session(), path)
    return [
        (file.removeprefix(top), n_bytes, moment)
        for top in files.matching(path)
        for file, n_bytes, moment in sorted(files.files_below(top))
        if not any(map(is_hidden, file.removeprefix(top).split("/")))
    ]
