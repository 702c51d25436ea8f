"""Driver access to the files of a store that Spark reaches through Hadoop.

Renames use ``FileContext`` and never overwrite; ``FileSystem.rename`` would move a folder into an existing
folder. On HDFS a rename is atomic. On an object store it copies each file of a folder, one by one.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from spark_eval.errors import ConfigError
from spark_eval.runtime.any_session import OpenSession, refuse_remote
from spark_eval.runtime.local_files import LocalFiles, local_path
from spark_eval.runtime.spark_errors import STORE_CODES, named_spark_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Capability of a store, and option of a file: create it only if the name is free, in one step.
CREATE_IF_FREE: Final = "fs.option.create.conditional.overwrite"
# Java exceptions for a path that already exists, and for one that does not exist.
TAKEN: Final = "FileAlreadyExistsException"
GONE: Final = "FileNotFoundException"
# Java exception of S3's client if a conditional write finds the name taken.
CHANGED: Final = "RemoteFileChangedException"


class HadoopFiles:
    """Files of the store of the URI ``root``.

    Raises ConfigError UNREACHABLE_STORE if Spark has no client for the store, EnvironmentFault STORE_DOWN if
    the client does not find it, ConfigError CONNECT_UNSUPPORTED in a session of Spark Connect.
    """

    def __init__(self, spark: "SparkSession", root: str) -> None:
        what = f"{root!r}: files of a store are listed, created and renamed in a JVM of this process"
        refuse_remote(spark, what, "name tables of a catalog")
        self.spark = spark
        self.root = root.rstrip("/")
        from py4j.protocol import Py4JJavaError

        java: Any = spark  # the JVM gateway is PySpark's only access to Hadoop
        self.fs = java._jvm.org.apache.hadoop.fs
        self.conf = java._jsc.hadoopConfiguration()
        try:
            self.context = self.fs.FileContext.getFileContext(self.fs.Path(root).toUri(), self.conf)
        except Py4JJavaError as error:
            fault = named_spark_error(error, repr(root))
            if fault.code in STORE_CODES:
                raise fault from error
            why = error.java_exception.getMessage()
            message = f"{root!r}: Spark cannot reach this store ({why}); add its client to the classpath"
            raise ConfigError("UNREACHABLE_STORE", message) from error
        new_array: Any = java.sparkContext._gateway.new_array
        rename = getattr(self.fs, "Options$Rename")
        self.never_over = new_array(rename, 1)
        self.never_over[0] = rename.NONE
        self.no_options = new_array(getattr(self.fs, "Options$CreateOpts"), 0)
        self.new_only = java._jvm.java.util.EnumSet.of(self.fs.CreateFlag.CREATE)

    def is_there(self, path: str) -> bool:
        """Return True if the path exists."""
        return bool(self.context.util().exists(self.fs.Path(path)))

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""
        path = self.fs.Path(folder)
        status = unless((GONE,), lambda: self.context.getFileStatus(path))
        if status is None or not status.isDirectory():
            return []
        return sorted(entry.getPath().getName() for entry in self.context.util().listStatus(path))

    def files_below(self, path: str) -> Iterator[tuple[str, int, int]]:
        """Yield path, bytes and milliseconds since 1970 of every file below a folder, or of the one file."""
        # A FileContext would ask S3 for each object alone.
        top = self.fs.Path(path)
        files = unless((GONE,), lambda: top.getFileSystem(self.conf).listFiles(top, True))
        while files is not None and files.hasNext():
            status = files.next()
            yield status.getPath().toString(), status.getLen(), status.getModificationTime()

    def matching(self, pattern: str) -> list[str]:
        """Return the sorted paths that match a path or glob pattern."""
        statuses = self.context.util().globStatus(self.fs.Path(pattern)) or ()
        return sorted(status.getPath().toString() for status in statuses)

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        stream = unless((GONE,), lambda: self.context.open(self.fs.Path(path)))
        if stream is None:
            return None
        with closing(stream):
            return bytes(stream.readAllBytes()).decode()

    def tail(self, path: str, n_bytes: int, most: int) -> bytes:
        """Return the last bytes of a file of ``n_bytes``, at most ``most``."""
        with closing(self.context.open(self.fs.Path(path))) as stream:
            stream.seek(max(0, n_bytes - most))
            return bytes(stream.readNBytes(min(n_bytes, most)))

    def write_new(self, path: str, text: str, draft: str) -> bool:
        """Write a file as ``draft``, then rename it to ``path``; return False if ``path`` exists.

        A store with conditional writes, which renames by copying, gets one such write instead. Its answer may
        be False for a write that it has made, if it was repeated: the caller looks at the content.
        """
        goal = self.fs.Path(path)
        store = goal.getFileSystem(self.conf)
        if store.hasPathCapability(goal, CREATE_IF_FREE):

            def create() -> bool:
                with closing(store.createFile(goal).create().must(CREATE_IF_FREE, "true").build()) as stream:
                    stream.write(bytearray(text.encode()))
                return True

            return bool(unless((TAKEN, CHANGED), create))
        self.make_folder_of(draft)
        with closing(self.context.create(self.fs.Path(draft), self.new_only, self.no_options)) as stream:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        return self.rename(draft, path)

    def rename(self, source: str, goal: str) -> bool:
        """Rename a file or folder; return False if the goal exists or the source does not."""
        self.make_folder_of(goal)

        def rename() -> bool:
            self.context.rename(self.fs.Path(source), self.fs.Path(goal), self.never_over)
            return True

        return bool(unless((TAKEN, GONE), rename))

    def make_folder_of(self, path: str) -> None:
        """Create the parent folder of a path."""
        folder = self.fs.Path(path).getParent()
        unless((TAKEN,), lambda: self.context.mkdir(folder, None, True))

    def remove(self, path: str) -> None:
        """Remove a file or a folder with its content, if it exists."""
        unless((GONE,), lambda: self.context.delete(self.fs.Path(path), True))


def files_at(session: OpenSession, path: str) -> LocalFiles | HadoopFiles:
    """Return the file access for a path: local files, or a store, which needs a session."""
    local = local_path(path)
    return HadoopFiles(session(), path) if local is None else LocalFiles(str(local))


def unless(names: Collection[str], call: Callable[[], Any]) -> Any:
    """Return the result of a call; None if Java raises an exception of one of these classes."""
    from py4j.protocol import Py4JJavaError

    try:
        return call()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() not in names:
            raise
        return None
