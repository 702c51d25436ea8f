"""The files that Spark listed for a frame; they must be unchanged when Spark reads them later."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from spark_eval.arrow.files import FileState, named_read_errors
from spark_eval.arrow.footers import odd_columns
from spark_eval.errors import DataError, SparkEvalError
from spark_eval.names import literal_path
from spark_eval.runtime.any_session import is_remote
from spark_eval.runtime.local_files import is_hidden, local_path, special_files
from spark_eval.runtime.spark_errors import DEBUG, FIXES, named_spark_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Text form of Hadoop's file status.
STATUS: Final = re.compile(
    r"path=([^\n]*?); isDirectory=false; length=(\d+);[^\n]*? modification_time=(\d+);"
)
# Path in the text of a status that only stands for another one, as those of ViewFs do.
UNTOLD: Final = "null"
# Maximum number of files named in a message.
MOST_SHOWN: Final = 3
PATHS: Final = ("path", "paths")


@dataclass(frozen=True)
class ListedFiles:
    """States of the files that frames read, by path or URI, as Spark listed them."""

    states: Mapping[str, FileState]

    @classmethod
    def of(cls, *frames: "DataFrame") -> Self:
        """Return the files that Spark has listed; empty for frames that are resolved again at every use."""
        all_relations = (one for frame in frames for one in relations(frame))
        return cls({path: state for one in all_relations for path, state in listed(one.location())})

    @classmethod
    def now(cls, frame: "DataFrame") -> Self:
        """Return the files that Spark would list if the frame were created now."""
        spark = frame.sparkSession
        return cls({path: state for one in relations(frame) for path, state in listed_anew(spark, one)})

    def changed(self, other: "ListedFiles") -> list[str]:
        """Return the files that were added, removed or changed."""
        paths = self.states.keys() | other.states.keys()
        return sorted(path for path in paths if self.states.get(path) != other.states.get(path))

    def check(self, frame: "DataFrame", name: str) -> None:
        """Raise DataError INPUT_CHANGED_DURING_RUN if the files of a frame have changed."""
        check_regular((path for path in self.states if path.startswith("/")), name)
        if self.states and (changed := self.changed(ListedFiles.now(frame))):
            what = f"{name}: {len(changed)} files changed since the frame was made, such as {changed[0]!r}"
            raise DataError("INPUT_CHANGED_DURING_RUN", f"{what}; read them into a new one")

    def check_here(self) -> None:
        """Raise DataError INPUT_CHANGED_DURING_RUN if local files have changed."""
        for path, state in self.states.items():
            if path.startswith("/"):
                with named_read_errors(path):
                    is_same = FileState.of(path).in_milliseconds == state
                if not is_same:
                    message = f"{path!r} was written again since it was listed; read it into a new frame"
                    raise DataError("INPUT_CHANGED_DURING_RUN", message)


def check_regular(paths: Iterable[str], name: str) -> None:
    """Raise DataError NOT_A_FILE if pipes, sockets or devices are at or below these paths."""
    special = [one for path in paths for one in special_files(Path(path))]
    if special:
        what = f"{name}: {len(special)} are no files but pipes, sockets or devices, such as {special[0]!r}"
        raise DataError("NOT_A_FILE", f"{what}; remove them, or write their rows to files")


def named_type(error: Exception, paths: Iterable[str], name: str, more: str = DEBUG) -> SparkEvalError:
    """Return the named error of a Spark exception; for an unsupported type, name the column if possible."""
    fault = named_spark_error(error, name, more)
    local = [path for path in paths if path.startswith("/") and not is_hidden(path.rpartition("/")[2])]
    odd = odd_columns(local) if fault.code == "UNSUPPORTED_TYPE" else {}
    if not odd:
        return fault
    columns = ", ".join(f"{column!r} ({kind})" for column, kind in odd.items())
    return DataError("UNSUPPORTED_TYPE", f"{name}: Spark has no such type: {columns}; {FIXES[fault.code]}")


def check_all_read(listed: Collection[str], every: Collection[str], depth: int, name: str) -> None:
    """Raise DataError UNREAD_FILES for data files that Spark skips.

    Spark skips files in subfolders of a folder without partitions, and files outside the partitions of a
    partitioned folder. ``every`` are all files below, ``listed`` those that Spark lists, and ``depth`` is the
    number of folders above.
    """
    every = [path for path in every if not is_hidden(path.rpartition("/")[2])]
    in_partitions = [path for path in every if any("=" in folder for folder in path.split("/")[depth:-1])]
    if unread := sorted({*every} - {*(in_partitions or listed)}):
        shown = ", ".join(map(repr, unread[:MOST_SHOWN]))
        what = f"{name}: Spark would skip {len(unread)} of {len({*every, *listed})} files, such as {shown}"
        fix = "move them, or read all with options: {recursiveFileLookup: true}, folders without names then"
        raise DataError("UNREAD_FILES", f"{what}; {fix}")


def relations(frame: "DataFrame") -> Iterator[Any]:
    """Yield the relations of a frame that are files listed by Spark, in any format."""
    if is_remote(frame):
        return
    # Spark has no public method that returns more than the names.
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if (
            class_of(leaf) == "LogicalRelation"
            and class_of(leaf.relation()) == "HadoopFsRelation"
            and class_of(leaf.relation().location()) == "InMemoryFileIndex"
        ):
            yield leaf.relation()


def class_of(one: Any) -> str:
    """Return the class name of a JVM object."""
    return str(one.getClass().getSimpleName())


def listed(location: Any) -> Iterator[tuple[str, FileState]]:
    """Yield path and state of the files in a listing."""
    files = location.allFiles()
    found = STATUS.findall(files.mkString("\n"))
    if any(path == UNTOLD for path, *_ in found):
        every = (files.apply(index) for index in range(files.length()))
        found = [(one.getPath().toString(), one.getLen(), one.getModificationTime()) for one in every]
    for path, n_bytes, changed in found:
        yield str(local_path(path) or path), FileState(int(n_bytes), int(changed))


def listed_anew(spark: "SparkSession", relation: Any) -> Iterator[tuple[str, FileState]]:
    """Yield path and state of the files below the paths of a relation now; nothing if the paths are gone."""
    from pyspark.errors import PySparkException

    options = {name: relation.options().apply(name) for name in texts(relation.options().keys())}
    reader = spark.read.options(
        **{name: value for name, value in options.items() if name.lower() not in PATHS}
    )
    roots = [literal_path(root) for root in texts(relation.location().rootPaths())]
    try:
        frame = reader.schema("listed long").parquet(*roots)  # with a schema Spark does not open files
    except PySparkException:
        return
    for one in relations(frame):
        yield from listed(one.location())


def texts(sequence: Any) -> list[str]:
    """Return the elements of a Scala collection as text."""
    return [text for text in sequence.mkString("\n").split("\n") if text]
