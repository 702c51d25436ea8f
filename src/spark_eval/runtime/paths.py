"""Paths of a config: on this machine or a mounted disk, or on a store that Spark reaches."""

from pathlib import Path
from typing import Final

# File systems to read from. Not among them: what asks a server that a config names (http, ftp, jdbc).
SCHEMES: Final = (
    *("file", "hdfs", "viewfs", "ofs", "o3fs", "s3", "s3a", "s3n", "gs"),
    *("abfs", "abfss", "wasb", "wasbs", "dbfs", "oss", "cosn", "obs"),
)


def local_path(path: str) -> Path | None:
    """Return the path on this machine's file system, or None for another scheme.

    As Hadoop takes a path: nothing in it is encoded, and ``#`` and ``?`` are letters.
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


def uri_of(path: str) -> str:
    """The path as Hadoop needs it to find the store."""
    local = local_path(path)
    return path if local is None else f"file://{local.absolute()}"
