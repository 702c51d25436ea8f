"""Plain Parquet files of a store: Spark brings their bytes, and workers read them like local files.

Spark's source ``binaryFile`` opens whole files with Spark's own clients and credentials. A file has to fit
the memory of an executor; Spark itself reads larger ones, and those that are not plain.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eval.arrow.files import FileState, MakeBatches, column_statistics, is_consistent
from spark_eval.arrow.footers import has_plain_columns, has_types
from spark_eval.arrow.sound_footers import EncryptedFile, footer_bytes, footer_in
from spark_eval.errors import DataError
from spark_eval.names import literal_path
from spark_eval.runtime import events
from spark_eval.runtime.any_session import heap_of_task
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.local_files import uri_of
from spark_eval.tables.file_parts import read_contents, read_rows
from spark_eval.tables.listed import ListedFiles
from spark_eval.tables.opened import partition_of
from spark_eval.tables.spec import NotPlain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Option of Spark's reader that chooses how its files travel, and the choices.
READ: Final = "spark_eval.read"
AUTO, AS_BYTES, BY_SPARK = "auto", "bytes", "spark"
# An option without effect; it marks frames that this package has created.
READING: Final = "spark_eval.reading"
# Copies of a file that a JVM has in memory while it brings its bytes.
COPIES: Final = 6
# Bytes of a row of ``binaryFile`` at most, far below the 2 GiB of an array in Java.
MOST_FILE_BYTES: Final = 1 << 30
# Spark's default bytes of a task that reads, and what it counts for opening a file.
TASK_BYTES: Final = 128 << 20
OPEN_BYTES: Final = 4 << 20
# Unions of Spark frames at most; the files beyond are read by Spark.
MOST_GROUPS: Final = 32
# Whole files travel only if the columns that are needed are this share of their bytes.
LEAST_SHARE: Final = 1 / 3
# Bytes at the end of a file that are read for its footer at first, of a footer at most, and footers that are
# read at once.
TAIL_BYTES: Final = 1 << 16
MOST_FOOTER_BYTES: Final = 1 << 26
FOOTERS_AT_ONCE: Final = 8
CONTENT: Final = ("path", "length", "modificationTime", "content")


@dataclass(frozen=True)
class StoredFiles:
    """Parquet files of a frame, read as bytes where they are plain and small enough, and by Spark otherwise.

    Attributes:
        groups: The frames with the bytes of files.
        states: States of the files that are read as bytes, by path.
        others: The frame of the files that Spark reads; None without any.
        footers: The footer of each file.
        columns: The columns (ours: theirs), in their required types.
        folders: Of each of their columns that folders name, the value in each file.
    """

    groups: Sequence["DataFrame"]
    states: Mapping[str, FileState]
    others: "DataFrame | None"
    footers: Mapping[str, pq.FileMetaData]
    columns: Mapping[str, str]
    folders: Mapping[str, Mapping[str, pa.Scalar]]

    @property
    def n_rows(self) -> int:
        """Number of rows according to the footers."""
        return sum(footer.num_rows for footer in self.footers.values())

    def are_filled(self, names: Sequence[str]) -> bool:
        """Return True if the footers guarantee that these columns have no nulls."""
        for theirs in (self.columns[name] for name in names):
            if theirs in self.folders:
                if not all(value.is_valid for value in self.folders[theirs].values()):
                    return False
                continue
            known = (one for footer in self.footers.values() for one in column_statistics(footer, theirs))
            if not all(one is not None and one.has_null_count and not one.null_count for one in known):
                return False
        return True

    def only(self, names: Iterable[str]) -> "StoredFiles":
        """Return the files with only these of our columns."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def without(self, name: str) -> "StoredFiles":
        """Return the files without one of our columns."""
        return self.only(ours for ours in self.columns if ours != name)

    def on_spark(
        self, _: "SparkSession", _n_tasks: int, *, coded: bool
    ) -> "list[tuple[DataFrame, MakeBatches]]":
        """Return the frames that bring the files, each with the function that reads its batches."""
        folders = {ours: self.folders[one] for ours, one in self.columns.items() if one in self.folders}
        in_files = {ours: one for ours, one in self.columns.items() if ours not in folders}
        read = partial(
            read_contents,
            states=self.states,
            columns=in_files,
            folders=folders,
            order=list(self.columns),
            coded=coded,
        )
        parts: list[tuple[DataFrame, MakeBatches]] = [(group, read) for group in self.groups]
        if self.others is not None:
            names = [self.others[one].alias(ours) for ours, one in self.columns.items()]
            parts.append((self.others.select(*names), read_rows))
        return parts


@dataclass(frozen=True)
class Listed:
    """Files of a frame that reads nothing else, as Spark lists them.

    Attributes:
        frame: The frame.
        states: State of each file with rows, with the time in milliseconds.
        roots: The paths that were given to the reader.
        options: Options of the reader.
        of_folders: Columns that folders name.
        choice: ``bytes``, ``spark`` or ``auto``, as the option READ says.
    """

    frame: "DataFrame"
    states: Mapping[str, FileState]
    roots: Sequence[str]
    options: Mapping[str, str]
    of_folders: Sequence[str]
    choice: str


def stored_files(
    listed: Listed, columns: Mapping[str, str], wanted: pa.Schema, *, is_input: bool = True
) -> StoredFiles | None:
    """Return files of a store with these columns (ours: theirs); None if Spark reads all.

    ``wanted`` are the types of their columns. By the choice ``auto`` whole files travel only if a large share
    of their bytes is needed. The log says how the files of inputs travel.
    """
    footers = footers_of(listed)
    in_files = pa.schema([one for one in wanted if one.name not in listed.of_folders])
    of_folders = pa.schema([one for one in wanted if one.name in listed.of_folders])
    if footers is None or not are_apart(footers.values(), listed.of_folders):
        return None
    try:
        folders = {one.name: values_of(listed.states, one) for one in of_folders}
    except NotPlain:
        return None
    plain = {path: footer for path, footer in footers.items() if is_plain_footer(footer, in_files)}
    if listed.choice == AUTO and needed_share(plain.values(), in_files.names) < LEAST_SHARE:
        plain = {}
    groups = grouped({path: listed.states[path] for path in plain}, *heap_of_task(listed.frame.sparkSession))
    states = {path: state for group in groups for path, state in group.items()}
    others = {path: state for path, state in listed.states.items() if path not in states}
    if others and listed.of_folders and len(listed.roots) > 1:
        others, states = dict(listed.states), {}  # Spark takes columns of folders below one root
    if is_input:
        say_read(len(states), others.values())
    if not states:
        return None
    return StoredFiles(
        groups=[contents_of(listed, group) for group in groups],
        states=states,
        others=rows_of(listed, others) if others else None,
        footers=footers,
        columns=columns,
        folders=folders,
    )


def footers_of(listed: Listed) -> dict[str, pq.FileMetaData] | None:
    """Return the footer of each file; None if one cannot be read, or disagrees with itself.

    Spark names what is wrong with such a file.
    """
    from py4j.protocol import Py4JError

    store = HadoopFiles(listed.frame.sparkSession, uri_of(next(iter(listed.states))))

    def footer(path: str) -> pq.FileMetaData:
        n_bytes, uri = listed.states[path].n_bytes, uri_of(path)
        end = store.tail(uri, n_bytes, TAIL_BYTES)
        if len(end) < (needed := footer_bytes(end)) <= min(n_bytes, MOST_FOOTER_BYTES):
            end = store.tail(uri, n_bytes, needed)
        return footer_in(path, pa.py_buffer(end))

    try:
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            footers = dict(zip(listed.states, pool.map(footer, listed.states), strict=True))
    except (OSError, EncryptedFile, pa.ArrowException, Py4JError):
        return None
    return footers if all(map(is_consistent, footers.values())) else None


def are_apart(footers: Iterable[pq.FileMetaData], of_folders: Sequence[str]) -> bool:
    """Return True if no file has a column that folders name, whatever its case."""
    names = {name.lower() for name in of_folders}
    return not names or all(
        names.isdisjoint(map(str.lower, footer.schema.to_arrow_schema().names)) for footer in footers
    )


def is_plain_footer(footer: pq.FileMetaData, wanted: pa.Schema) -> bool:
    """Return True if workers read these columns of a file, with these types, as Spark does."""
    try:
        return has_plain_columns(footer, wanted.names) and has_types(footer, wanted)
    except pa.ArrowException:
        return False


def values_of(paths: Iterable[str], column: pa.Field) -> dict[str, pa.Scalar]:
    """Return the value of a column that folders name, in each file; NotPlain if Spark might read another."""
    return {path: pa.scalar(value_of(path, column), column.type) for path in paths}


def value_of(path: str, column: pa.Field) -> str | int | None:
    """Return the value of a column in the folders above a file.

    >>> value_of("/lists/day=7/0.parquet", pa.field("day", pa.int32()))
    7
    """
    [*folders] = [one for one in path.split("/")[:-1] if one.startswith(f"{column.name}=")]
    _, value = partition_of(Path(folders[-1] if folders else path))
    if value is None or (pa.types.is_string(column.type) and value.isascii()):
        return value
    if not pa.types.is_integer(column.type) or str(int(value)) != value:
        raise NotPlain(f"{path} names a value of {column.name} that Spark may read otherwise")
    return int(value)


def needed_share(footers: Iterable[pq.FileMetaData], names: Sequence[str]) -> float:
    """Return the share of the bytes of all columns of files that these columns have."""
    n_needed, n_bytes = 0, 0
    for footer in footers:
        for index in range(footer.num_columns):
            groups = map(footer.row_group, range(footer.num_row_groups))
            size = sum(group.column(index).total_compressed_size for group in groups)
            n_bytes += size
            n_needed += size if footer.schema.column(index).path in names else 0
    return n_needed / max(1, n_bytes)


def grouped(states: Mapping[str, FileState], heap: int, n_tasks: int) -> list[dict[str, FileState]]:
    """Return the files that fit a task's share of the heap, in groups; a task gets no more of one than fits.

    Spark gives each of ``n_tasks`` tasks about as many bytes as a group has by task, but at most 128 MiB.

    >>> sizes = {"a": FileState(30 << 20, 0), "b": FileState(40 << 20, 0), "c": FileState(90 << 20, 0)}
    >>> [list(group) for group in grouped(sizes, heap=300 << 20, n_tasks=1)]
    [['a'], ['b']]
    >>> [list(group) for group in grouped(sizes, heap=900 << 20, n_tasks=1)]
    [['a', 'b', 'c']]
    """
    most = min(heap // COPIES, MOST_FILE_BYTES)
    most_of_group = most * n_tasks if most < TASK_BYTES else None
    groups: list[dict[str, FileState]] = []
    filled = 0
    for path, state in states.items():
        if state.n_bytes > most:
            continue
        n_bytes = state.n_bytes + OPEN_BYTES
        if not groups or (most_of_group is not None and filled + n_bytes > most_of_group):
            groups.append({})
            filled = 0
        groups[-1][path] = state
        filled += n_bytes
    return groups[:MOST_GROUPS]


def contents_of(listed: Listed, states: Mapping[str, FileState]) -> "DataFrame":
    """Return the frame of files with their bytes; DataError as ``check_same`` raises it."""
    reader = listed.frame.sparkSession.read.format("binaryFile").option("recursiveFileLookup", True)
    # A unique option: Spark could replace this frame by an equal one that a user has persisted.
    reader = reader.option(READING, uuid.uuid4().hex)
    frame = None
    if states.keys() == listed.states.keys():  # a listing of few folders is cheaper
        frame = reader.load(list(map(literal_path, listed.roots)))
    if frame is None or ListedFiles.of(frame).states != states:
        frame = reader.load([literal_path(uri_of(path)) for path in states])
    check_same(frame, states)
    return frame.select(*CONTENT)


def rows_of(listed: Listed, states: Mapping[str, FileState]) -> "DataFrame":
    """Return the frame of files as Spark reads them; DataError as ``check_same`` raises it."""
    reader = listed.frame.sparkSession.read.options(**listed.options).option(READING, uuid.uuid4().hex)
    if listed.of_folders:
        reader = reader.option("basePath", listed.roots[0])
    frame = reader.schema(listed.frame.schema).parquet(*(literal_path(uri_of(path)) for path in states))
    check_same(frame, states)
    return frame


def check_same(frame: "DataFrame", states: Mapping[str, FileState]) -> None:
    """Raise DataError INPUT_CHANGED_DURING_RUN unless Spark lists these files of a frame in these states."""
    if ListedFiles.of(frame).states != states:
        message = f"{len(states)} files, such as {next(iter(states))!r}, changed since the frame was made"
        raise DataError("INPUT_CHANGED_DURING_RUN", f"{message}; read them into a new one")


def say_read(n_as_bytes: int, others: Collection[FileState]) -> None:
    """Log how many files are read as bytes and by Spark."""
    parts = [f"{n_as_bytes} file{'s' * (n_as_bytes != 1)} as bytes"] if n_as_bytes else []
    n_bytes = sum(state.n_bytes for state in others)
    more = "" if parts else f" file{'s' * (len(others) != 1)}"
    parts += [f"{len(others)}{more} by Spark ({n_bytes / 1e6:,.0f} MB)"] if others else []
    facts = {"as_bytes": n_as_bytes, "by_spark": len(others), "bytes_by_spark": n_bytes}
    events.say("read", f"read: {', '.join(parts)}", **facts)
