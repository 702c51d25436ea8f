"""Local files: paths, durable writes, atomic swaps, locks that end with their holder."""

import ctypes
import errno
import fcntl
import os
import shutil
import stat
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final
from urllib.parse import unquote, urlsplit

from spark_eval.errors import ConfigError, EnvironmentFault, SetupError
from spark_eval.schema import COMMITS, REPORT

# Allowed schemes of file systems. Schemes that query a server named in a config (http, ftp, jdbc) are not.
SCHEMES: Final = (
    *("file", "hdfs", "viewfs", "ofs", "o3fs", "s3", "s3a", "s3n", "gs"),
    *("abfs", "abfss", "wasb", "wasbs", "dbfs", "oss", "cosn", "obs"),
)
# Flag of renameat2 on Linux and renamex_np on macOS to swap two names; the number is the same.
SWAP: Final = 2
# Prefix of drafts of files that users name, and the maximum length of a name on common file systems.
DRAFT: Final = "_spark-eval-draft-"
LONGEST_NAME: Final = 255
# Maximum number of attempts to open a file in a folder that other processes create and remove.
MOST_TRIES: Final = 100
WORKING_FOLDER: Final = -100  # AT_FDCWD


def local_path(path: str) -> Path | None:
    """Return the path on this machine's file system, or None for another scheme.

    As in Hadoop, paths are not percent-encoded, and ``#`` and ``?`` are ordinary characters.
    """
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme or not (rest.startswith("//") or scheme.lower() in SCHEMES):
        return Path(path)
    if scheme.lower() != "file":
        return None
    host, slash, below = rest.removeprefix("//").partition("/")
    if not rest.startswith("//"):
        return Path(rest)
    return Path(slash + below) if host in ("", "localhost") else None


def decoded(uri: str) -> str:
    """Return the location of a file that Spark lists: its local path, or its URI in Hadoop's form."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" and not parts.netloc else unquote(uri)


def is_hidden(name: str) -> bool:
    """Return True if Spark skips files and folders with this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def special_files(top: Path) -> list[str]:
    """Return the paths of pipes, sockets and devices at or below a path, except hidden ones.

    Opening a named pipe would block forever.
    """
    if not top.is_dir():
        return [str(top)] if is_special(top) else []
    special = []
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        special += [str(path) for name in sorted(files) if is_special(path := Path(folder, name))]
    return [path for path in special if not is_hidden(Path(path).name)]


def is_special(path: Path) -> bool:
    """Return True if a path exists and is neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def uri_of(path: str) -> str:
    """Return the path in the form that Hadoop needs to find the store."""
    local = local_path(path)
    return path if local is None else f"file://{local.absolute()}"


class LocalFiles:
    """Files below a root, with the same methods as those of a store (``HadoopFiles``)."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def is_there(self, path: str) -> bool:
        """Return True if a file or folder exists at this path or URI."""
        return is_there(local_path(path) or Path(path))

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""
        try:
            return sorted(path.name for path in Path(folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        try:
            return Path(path).read_text(encoding="utf-8")
        except (FileNotFoundError, IsADirectoryError):
            return None

    def remove(self, path: str) -> None:
        """Remove a folder with its content; ignore files that cannot be removed."""
        shutil.rmtree(path, ignore_errors=True)


def check_working_folder() -> None:
    """Raise EnvironmentFault NO_WORKING_FOLDER if it was deleted: then neither paths nor Java work."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        message = "the working folder was deleted; change to one that exists"
        raise EnvironmentFault("NO_WORKING_FOLDER", message) from error


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's names, to disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_below(folder: Path) -> None:
    """Sync a folder and its content to disk."""
    for name, _, files in os.walk(folder, onerror=refuse):
        for file in files:
            sync(Path(name, file))
        sync(Path(name))


def refuse(error: OSError) -> None:
    """Raise the error that ``os.walk`` would ignore."""
    raise error


def share_below(folder: Path) -> None:
    """Give a folder and its content the permissions that this process gives to new files.

    Hadoop and workers have their own umask. Files of other users are left unchanged.
    """
    probe = folder / f"_{uuid.uuid4().hex}"
    probe.mkdir()
    (probe / "file").touch()
    of_folders, of_files = (stat.S_IMODE(path.stat().st_mode) for path in (probe, probe / "file"))
    shutil.rmtree(probe)
    for name, _, files in os.walk(folder, onerror=refuse):
        for path, mode in ((Path(name), of_folders), *((Path(name, file), of_files) for file in files)):
            if stat.S_IMODE(path.stat().st_mode) != mode:
                with suppress(PermissionError):
                    path.chmod(mode)


def is_there(path: Path) -> bool:
    """Return True if a path exists; unlike ``Path.exists``, raise OSError if this cannot be determined."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and sync their names to disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def write_whole(path: Path, text: str, draft: Path) -> None:
    """Write a file atomically through a draft: the path always has either the old or the new text."""
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        stream.write(text)
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def write_file(path: Path, text: str) -> None:
    """Write a file that a user names. A link is kept, and its target is written.

    Devices, pipes and stdout are written directly. Raises ConfigError like ``check_path``, and for a folder.
    """
    target = check_path(path)
    refuse_folder(target)
    if is_stdout(target):
        sys.stdout.flush()
        with os.fdopen(os.dup(1), "wb") as stream:
            stream.write(text.encode())
    elif is_stream(target):
        with target.open("wb") as stream:
            stream.write(text.encode())
    else:
        replace_file(target, text)


def refuse_folder(path: Path) -> None:
    """Raise ConfigError INVALID_PATH for a folder."""
    if path.is_dir():
        raise ConfigError("INVALID_PATH", f"{str(path)!r} is a folder; name a file")


def check_file(path: Path, output: Path | None = None) -> Path:
    """Return the path of a file to write later, with links resolved, after all checks and before any work.

    Raises ConfigError like ``check_path``, and for a folder; SetupError NO_PERMISSION for a file that may not
    be written, and for a folder that takes no file.
    """
    target = check_path(path, output)
    refuse_folder(target)
    if target.exists() and not os.access(target, os.W_OK):
        raise SetupError("NO_PERMISSION", f"{str(path)!r} may not be written; check its permissions")
    if not is_stream(target):
        check_makes_files(target.parent)
    return target


def check_makes_files(folder: Path) -> None:
    """Raise SetupError NO_PERMISSION if no file can be made in a folder, or in the nearest one above it.

    A full disk is left to the writer.
    """
    nearest = next(one for one in (folder, *folder.parents) if one.is_dir())
    try:
        with TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return
        message = f"no file can be made in {str(nearest)!r} ({error.strerror}); check permissions and mounts"
        raise SetupError("NO_PERMISSION", message) from error


def check_path(path: Path, output: Path | None = None) -> Path:
    """Return the path of a file or folder named by a user, with links resolved.

    Raises:
        ConfigError: INVALID_PATH for a path below an output root, unless in the folder ``report``, also
            below ``output``, which may still be empty; for a name that is too long; for a path through
            something that is not a folder.
    """
    if is_stream(path):
        return path
    target = Path(os.path.realpath(path))
    if any(len(os.fsencode(name)) > LONGEST_NAME for name in target.parts):
        message = f"{str(path)!r} has a name of more than {LONGEST_NAME} bytes; shorten it"
        raise ConfigError("INVALID_PATH", message)
    for folder in (target, *target.parents):
        if folder.is_symlink():
            raise ConfigError("INVALID_PATH", f"{str(path)!r}: {str(folder)!r} links to itself; remove it")
    for folder in target.parents:
        if folder.exists() and not folder.is_dir():
            raise ConfigError("INVALID_PATH", f"{str(path)!r}: {str(folder)!r} is not a folder; name another")
    known = None if output is None else Path(os.path.realpath(output))
    root = next(
        (folder for folder in (target, *target.parents) if folder == known or (folder / COMMITS).is_dir()),
        None,
    )
    if root is not None and root / REPORT not in target.parents:
        message = f"{str(path)!r} is below the output path {str(root)!r}, which holds published runs"
        hint = f"choose another path, or one in {str(root / REPORT)!r}"
        raise ConfigError("INVALID_PATH", f"{message}; {hint}")
    return target


def is_stream(path: Path) -> bool:
    """Return True for a device, a pipe, a socket or stdout, which are written directly."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or is_stdout(path)


def is_stdout(path: Path) -> bool:
    """Return True if this process's stdout goes to this file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def replace_file(path: Path, text: str) -> None:
    """Write a file atomically, in a folder that is created if needed; remove the drafts of dead processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{DRAFT}*"):
        remove_if_dead(left)
    draft = Lock(path.with_name(f"{DRAFT}{uuid.uuid4().hex}"))
    try:
        with suppress(OSError):  # file system without locks
            draft.acquire(wait=True)
        if path.exists():
            draft.path.chmod(stat.S_IMODE(path.stat().st_mode))
        write_whole(path, text, draft.path)
    finally:
        draft.path.unlink(missing_ok=True)
        draft.release()


def remove_if_dead(path: Path) -> None:
    """Remove the lock or draft of a dead process; a live process holds its lock.

    Links, pipes and what may not be opened stay: another user may have put them there.
    """
    with suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            left = Lock(path)
            left.acquire()
            left.release()


def swap(one: Path, other: Path) -> None:
    """Swap the names of two folders atomically; raise OSError if the system cannot."""
    system = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = system.renamex_np(*names, SWAP)
    else:
        failed = system.renameat2(WORKING_FOLDER, names[0], WORKING_FOLDER, names[1], SWAP)
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one), None, str(other))


class Lock:
    """Exclusive lock with a name. The operating system releases it when its holder dies.

    A link with that name is not followed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: int | None = None

    def acquire(self, *, wait: bool = False) -> bool:
        """Acquire the lock; return False if another process holds it. With ``wait``, wait for it."""
        while self.file is None:
            file = self.open()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                if self.is_at(file):
                    self.file, file = file, -1
            except BlockingIOError:
                return False
            finally:
                if file >= 0:
                    os.close(file)
        return True

    def open(self) -> int:
        """Open or create the lock file; retry, because a previous holder may remove the folder around it."""
        n_tries = 0
        while True:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            except (FileNotFoundError, FileExistsError):
                n_tries += 1
                if n_tries > MOST_TRIES:
                    raise

    def is_at(self, file: int) -> bool:
        """Return True if an open file still has this path; a previous holder may have removed it."""
        try:
            return os.path.samestat(os.fstat(file), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self.file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self.file)
            self.file = None
