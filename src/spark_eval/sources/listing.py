"""The files of a source, as Spark lists them.

Before a session is started, a plain local folder is walked instead, if the result is sure to be the same.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from spark_eval.config.inputs import Source
from spark_eval.errors import ConfigError, DataError
from spark_eval.names import PATTERN, literal_path
from spark_eval.runtime.any_session import OpenSession
from spark_eval.runtime.hadoop_files import HadoopFiles, files_at
from spark_eval.runtime.local_files import decoded, is_hidden, local_path, uri_of
from spark_eval.runtime.spark_errors import is_of_spark
from spark_eval.sources.snapshots import snapshots_in
from spark_eval.tables.catalog_tables import CatalogTables, is_place
from spark_eval.tables.listed import check_all_read, check_regular

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's own formats of files below a path that accept any schema.
FILE_FORMATS: Final = ("parquet", "orc", "csv", "json", "xml", "text")
# Options that change which files Spark lists in a folder.
LISTING_OPTIONS: Final = {"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"}
# Log of a stream that Spark wrote; it lists the files that count.
STREAM_LOG: Final = "_spark_metadata"
# Folders of logs that list the files of a table, and the format of such a table.
TABLE_FORMATS: Final = {"_delta_log": "delta", ".hoodie": "hudi"}
# A format of files that is not Spark's own, and the option that makes Spark read files in any folder.
AVRO: Final = "avro"
RECURSIVE: Final = "recursiveFileLookup"
ICEBERG: Final = "iceberg"


def files_of(source: Source, session: OpenSession) -> dict[str, str]:
    """Return the data files of a source: name below the source's path -> path.

    ``session`` is opened only if a walk could find other files than Spark does.
    """
    walked = list_plainly(source)
    return list_with_spark(session(), source) if walked is None else walked


def list_plainly(source: Source) -> dict[str, str] | None:
    """Return the files of a plain local path; None if only Spark can list them.

    Those are patterns, options that select files, links, folders that are not partitions, and other formats.
    """
    path = source.path_or_empty
    local = None if source.table is not None else local_path(path)
    options = {name.lower() for name in source.options}
    if local is None or source.format not in FILE_FORMATS or options & LISTING_OPTIONS:
        return None
    if not local.exists():
        return None if PATTERN.search(path) else {}
    if not local.is_dir():
        return {} if is_hidden(local.name) else {local.name: absolute(local)}
    top = absolute(local)
    paths = walk_folder(top)
    return None if paths is None else {name_below(file, top): file for file in sorted(paths)}


def walk_folder(folder: str) -> list[str] | None:
    """Return the data files of a folder and of its partitions; None if it contains anything else."""
    files, folders = [], [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name == STREAM_LOG:
                    return None
                if is_hidden(entry.name):
                    continue
                if entry.is_symlink():
                    return None
                if not entry.is_dir():
                    files.append(entry.path)
                elif "=" in entry.name:
                    folders.append(entry.path)
                else:
                    return None
    return files


def list_with_spark(spark: "SparkSession", source: Source) -> dict[str, str]:
    """Return the data files that Spark lists for a source."""
    if source.table is not None:
        paths = spark.read.table(source.table).inputFiles()
        return {file: decoded(file) for file in sorted(paths)}
    path = source.path_or_empty
    reader = spark.read.format(source.format).options(**source.options)
    if source.format in FILE_FORMATS:
        reader = reader.schema("listed long")  # with a schema Spark does not open files
    try:
        files = data_files(reader.load(spark_path(path)).inputFiles(), path)
    except Exception as error:
        if not (is_of_spark(error) and PATTERN.search(path) and "[PATH_NOT_FOUND]" in str(error)):
            raise
        return {}  # a pattern without matches
    return files if files or source.format in FILE_FORMATS else all_below(spark, path)


def all_below(spark: "SparkSession", path: str) -> dict[str, str]:
    """Return all files below a path, for a format that does not list its files."""
    uris = [file for file, *_ in HadoopFiles(spark, uri_of(path)).files_below(uri_of(path))]
    paths = [str(local_path(uri) or uri) for uri in uris]
    return {name_below(file, static_part(path)): file for file in paths}


def data_files(uris: Collection[str], path: str) -> dict[str, str]:
    """Return the files that Spark lists by URI and does not skip, by name."""
    top = static_part(path)
    paths = sorted(map(decoded, uris))
    return {name_below(file, top): file for file in paths if not is_hidden(file.rpartition("/")[2])}


def static_part(path: str) -> str:
    """Return a path up to its first component that is a pattern; for a file, its folder."""
    local = local_path(path)
    if local is not None and local.exists():
        return absolute(local if local.is_dir() else local.parent)
    steps = (path if local is None else absolute(local)).rstrip("/").split("/")
    count = next((index for index, step in enumerate(steps) if PATTERN.search(step)), len(steps))
    return "/".join(steps[:count])


def absolute(local: Path) -> str:
    """Return a path as Hadoop has it: ``..`` removes a component, even if that is a link."""
    return os.path.normpath(local.absolute())


def name_below(file: str, top: str) -> str:
    """Return a file's name below a folder; its whole path if it is elsewhere."""
    return file.removeprefix(f"{top.rstrip('/')}/")


def partitions_of(source: Source, paths: Collection[str]) -> set[str]:
    """Return the partition columns: names of folders below the folders that a path or pattern names."""
    folders = {folder for file in paths for folder in file.split("/")[depth_of(source) : -1]}
    return {unquote(folder.partition("=")[0]) for folder in folders if "=" in folder}


def depth_of(source: Source) -> int:
    """Return the number of folders above those that can be partitions."""
    local = local_path(source.path_or_empty)
    top = source.path_or_empty.rstrip("/") if local is None else absolute(local)
    return 0 if "basepath" in map(str.lower, source.options) else len(top.split("/"))


def every_file(source: Source, session: OpenSession) -> list[str] | None:
    """Return the paths of all data files at and below a path; None with the option recursiveFileLookup."""
    if str(source.options.get(RECURSIVE, "")).lower() == "true":
        return None
    walked = list_plainly(source)
    if walked is None:
        walked = list_with_spark(
            session(), source.model_copy(update={"options": {**source.options, RECURSIVE: True}})
        )
    return list(walked.values())


def spark_path(path: str) -> str:
    """Return a path for Spark's reader: a name that exists is escaped, any other may be a pattern."""
    local = local_path(path)
    if local is None:
        return path
    if local.exists():
        return f"file:{literal_path(absolute(local))}"
    return f"file:{local}" if local.is_absolute() else f"file:{literal_path(str(Path.cwd()))}/{local}"


def file_states(source: Source, files: Mapping[str, str], session: OpenSession) -> list[tuple[Any, ...]]:
    """Return name, size and time of each file; only the names for a catalog's table that is not local.

    A file that does not exist has no state.
    """
    local = {name: Path(file) for name, file in files.items() if file.startswith("/")}
    states: list[tuple[Any, ...]] = [state for name, file in local.items() for state in state_of(name, file)]
    others = {file: name for name, file in files.items() if name not in local}
    if source.table is not None:
        return states + [(name,) for name in others.values()]
    if others:
        store = HadoopFiles(session(), source.path_or_empty)
        states += [
            (others[file], n_bytes, moment)
            for top in store.matching(source.path_or_empty)
            for file, n_bytes, moment in sorted(store.files_below(top))
            if file in others
        ]
    return states


def state_of(name: str, path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the state of a local file; for a folder, which is a Hive table, those of its files."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield from state_of(f"{name}/{file.relative_to(path)}", file)
    elif path.exists():
        status = path.stat()
        yield name, status.st_size, status.st_mtime_ns


def fingerprint(source: Source, session: OpenSession) -> list[tuple[Any, ...]]:
    """Return the snapshot of a source, or names, sizes and times of its files, which identify its content.

    Empty if the source cannot be listed; reading it raises the reason.
    """
    if source.snapshot is not None:
        return [source.snapshot]
    if is_place(source.path_or_empty):
        place = CatalogTables.at(session(), source.path_or_empty)
        return [(place,)] if place.tables.record_of(place) is not None else []
    table: list[tuple[Any, ...]] = [] if source.table is None else [(source.table,)]
    table += snapshots_in(source, session)
    try:
        return table + file_states(source, files_of(source, session), session)
    except Exception as error:
        if not is_of_spark(error):
            raise
        return table


def check_listing(
    source: Source, name: str, before: Collection[str] | None, session: OpenSession
) -> dict[str, str]:
    """Return the files of a path that are to be read, after checking that they exist and are not empty.

    ``before`` are their names at the start of the run. Raises DataError MISSING_INPUT, EMPTY_INPUT,
    EMPTY_FILE, INPUT_CHANGED_DURING_RUN, NOT_A_FILE or UNREAD_FILES, and ConfigError TABLE_FORMAT.
    """
    path = source.path_or_empty
    local = local_path(path)
    if local is not None and not local.exists() and not PATTERN.search(path):
        start = "" if Path(path).is_absolute() or ":" in path else " (relative to the working folder)"
        fix = f"Fix `{name}.path`, or run the job that produces it"
        raise DataError("MISSING_INPUT", f"{name}: {path!r} not found{start}. {fix}")
    if local is not None and (dead := dead_links(local)):
        message = f"{name}: {str(dead[0])!r} leads to no file; remove the link, or run what writes its goal"
        raise DataError("MISSING_INPUT", message)
    files = files_of(source, session)
    if source.format in FILE_FORMATS:
        check_no_table(path, files.values(), name, session)
    check_regular((file for file in files.values() if file.startswith("/")), name)
    if source.format in (*FILE_FORMATS, AVRO) and (every := every_file(source, session)) is not None:
        check_all_read(files.values(), every, depth_of(source), name)
    if source.format in FILE_FORMATS and not files:
        raise DataError("EMPTY_INPUT", f"{name}: no data file at {path!r}; run what writes it")
    if before is not None and (others := sorted({*before} ^ {*files})):
        what = f"{name}: {len(others)} files were added or removed, such as {others[0]!r}"
        raise DataError("INPUT_CHANGED_DURING_RUN", f"{what}; rerun when they are stable")
    local_files = [file for file in files.values() if file.startswith("/")]
    empty = [file for file in local_files if Path(file).is_file() and not Path(file).stat().st_size]
    if empty:
        message = f"{name}: {len(empty)} files without a byte, such as {empty[0]!r}; write or remove them"
        raise DataError("EMPTY_FILE", message)
    return files


def dead_links(folder: Path) -> list[Path]:
    """Return the dead links below a local folder, which Spark silently skips."""
    dead = []
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        links = (Path(top, name) for name in files if not is_hidden(name))
        dead += [link for link in links if link.is_symlink() and not link.exists()]
    return sorted(dead)


def check_no_table(path: str, paths: Collection[str], name: str, session: OpenSession) -> None:
    """Raise ConfigError TABLE_FORMAT for files of a table with a log that lists its files."""
    folders = {base_folder(file) for file in paths}
    if local_path(path) is None or not PATTERN.search(path):
        folders.add(static_part(path))
    for folder in sorted(folders):
        if (kind := table_format(folder, session)) is not None:
            what = f"{name}: {folder!r} is a table of {kind.title()}, whose removed files would count"
            fix = f"set {name}.format: {kind}, or name it by {name}.table"
            raise ConfigError("TABLE_FORMAT", f"{what}; {fix}")


def base_folder(file: str) -> str:
    """Return the folder of a file, above the folders of its partitions."""
    folder = file.rpartition("/")[0]
    while "=" in folder.rpartition("/")[2]:
        folder = folder.rpartition("/")[0]
    return folder


def table_format(folder: str, session: OpenSession) -> str | None:
    """Return the format of the table at a folder, or of the table with this data folder; None if plain."""
    names = files_at(session, folder).names(folder)
    for marker, kind in TABLE_FORMATS.items():
        if marker in names:
            return kind
    is_data = folder.rpartition("/")[2] == "data"
    for top in (folder, *([folder.rpartition("/")[0]] if is_data else [])):
        metadata = f"{top}/metadata"
        if any(".metadata.json" in file for file in files_at(session, metadata).names(metadata)):
            return ICEBERG
    return None
